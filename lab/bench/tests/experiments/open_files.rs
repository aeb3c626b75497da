//! `open-files` end to end, alone in its process: it measures the resources of the process.

use std::path::PathBuf;

use fdtable_bench::experiment::{Experiment, Silent};
use fdtable_bench::machine::Machine;
use fdtable_bench::open_files::OpenFiles;
use fdtable_bench::report::Report;
use serde_json::Value;

use crate::alone::alone;

const PER_CPU: &str = "fdtable, a list for each CPU";
const ONE_LIST: &str = "fdtable, one list under one lock";
const NO_LIST: &str = "floor: on no list";

/// A file that each client writes and deletes.
const MORNING: &str = r#"
Mkdir "\clients" NT_STATUS_OK
Mkdir "\clients\client1" NT_STATUS_OK
NTCreateX "\clients\client1\memo" 0x40 0x3 101 NT_STATUS_OK
WriteX 101 0 5000 5000 NT_STATUS_OK
Close 101 NT_STATUS_OK
Deltree "\clients\client1" NT_STATUS_OK
"#;

fn run(loadfile: PathBuf) -> anyhow::Result<Report> {
    let tiny = OpenFiles {
        rounds: 1,
        turn_ms: 1,
        workload_rounds: 1,
        workload_ms: 20,
        clients: 3,
        loadfile: Some(loadfile),
    };
    tiny.measure(Machine::observe(), &Silent)
}

fn count(report: &Report, wanted: &[(&str, &str)]) -> usize {
    let is = |row: &&Value| wanted.iter().all(|(key, value)| row[key] == *value);
    report.rows.iter().filter(is).count()
}

#[test]
fn a_tiny_run_has_lists_layers_and_workloads_of_every_subject() {
    if !alone("open_files::a_tiny_run_has_lists_layers_and_workloads_of_every_subject") {
        return;
    }
    let name = format!("fdtable-loadfile-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, MORNING).unwrap();
    let report = run(path.clone());
    std::fs::remove_file(&path).unwrap();
    let report = report.unwrap();
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
        for workload in ["dbench", "build"] {
            let row = [
                ("kind", "workload"),
                ("subject", subject),
                ("workload", workload),
            ];
            assert_eq!(count(&report, &row), 1, "{subject}: {workload}");
        }
    }
    let figures: Vec<_> = report
        .headline
        .iter()
        .map(|it| (it.key, it.value))
        .collect();
    let keys: Vec<_> = figures.iter().map(|(key, _)| *key).collect();
    let all = [
        "open_files.dbench_cpu_hits",
        "open_files.dbench_node_hits",
        "open_files.build_cpu_hits",
        "open_files.add_remove_2t_ns",
        "open_files.add_remove_2t_global_ns",
        "open_files.build_per_second",
        "open_files.build_global_per_second",
        "open_files.add_remove_2t_vs_global",
        "open_files.add_remove_2t_net_vs_global",
        "open_files.cross_cpu_vs_global",
        "open_files.one_thread_cost",
        "open_files.one_thread_cost_bare",
        "open_files.dbench_vs_global",
        "open_files.build_vs_global",
    ];
    assert_eq!(keys, all);
    for (key, value) in figures {
        let within = !key.ends_with("hits") || (0.0..=1.0).contains(&value);
        assert!(value.is_finite() && within, "{key} is {value}");
    }
}

#[test]
fn a_load_file_that_was_named_and_is_not_there_is_an_error() {
    let error = run("/nowhere/client.txt".into()).unwrap_err();
    assert!(format!("{error:#}").contains("/nowhere/client.txt"));
}
