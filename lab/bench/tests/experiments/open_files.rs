//! `open-files` end to end, alone in its process: it measures the resources of the process.

use fdtable_bench::experiment::{Experiment, Silent};
use fdtable_bench::machine::Machine;
use fdtable_bench::open_files::OpenFiles;
use fdtable_bench::report::Report;
use serde_json::Value;

use crate::alone::alone;

const PER_CPU: &str = "fdtable, a list for each CPU";
const ONE_LIST: &str = "fdtable, one list under one lock";
const NO_LIST: &str = "floor: on no list";

fn count(report: &Report, wanted: &[(&str, &str)]) -> usize {
    let is = |row: &&Value| wanted.iter().all(|(key, value)| row[key] == *value);
    report.rows.iter().filter(is).count()
}

#[test]
fn a_tiny_run_has_lists_layers_and_builds_of_every_subject() {
    if !alone("open_files::a_tiny_run_has_lists_layers_and_builds_of_every_subject") {
        return;
    }
    let tiny = OpenFiles {
        rounds: 1,
        turn_ms: 1,
        build_rounds: 1,
        build_ms: 20,
    };
    let report = tiny.measure(Machine::observe(), &Silent).unwrap();
    let slabs = ["slab under parking_lot's mutex", "slab under std's mutex"];
    for subject in [PER_CPU, ONE_LIST, NO_LIST].into_iter().chain(slabs) {
        for case in ["one_thread", "two_threads", "handover"] {
            let row = [("kind", "add_remove"), ("subject", subject), ("case", case)];
            assert_eq!(count(&report, &row), 1, "{subject}: {case}");
        }
    }
    for subject in [PER_CPU, ONE_LIST, NO_LIST] {
        for layer in ["table", "vfs"] {
            let row = [
                ("kind", "open_close"),
                ("subject", subject),
                ("layer", layer),
            ];
            assert_eq!(count(&report, &row), 1, "{subject}: {layer}");
        }
        let row = [("kind", "build"), ("subject", subject)];
        assert_eq!(count(&report, &row), 1, "{subject}");
    }
    let figures: Vec<_> = report
        .headline
        .iter()
        .map(|it| (it.key, it.value))
        .collect();
    let keys: Vec<_> = figures.iter().map(|(key, _)| *key).collect();
    let all = [
        "open_files.build_cpu_hits",
        "open_files.add_remove_2t_vs_global",
        "open_files.add_remove_2t_net_vs_global",
        "open_files.cross_cpu_vs_global",
        "open_files.one_thread_cost",
        "open_files.one_thread_cost_bare",
        "open_files.build_vs_global",
    ];
    assert_eq!(keys, all);
    for (key, value) in figures {
        let within = !key.ends_with("hits") || (0.0..=1.0).contains(&value);
        assert!(value.is_finite() && within, "{key} is {value}");
    }
}
