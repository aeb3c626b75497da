//! `libmicro` end to end, with turns that are too short for significant results.

use fdtable_bench::experiment::{Experiment, Silent};
use fdtable_bench::libmicro::LibMicro;
use fdtable_bench::machine::Machine;

use crate::alone::alone;

#[test]
fn a_tiny_run_has_every_call_on_one_thread_and_on_many() {
    if !alone("libmicro::a_tiny_run_has_every_call_on_one_thread_and_on_many") {
        return;
    }
    let tiny = LibMicro {
        rounds: 1,
        turn_ms: 1,
        threads: 3,
    };
    let report = tiny.measure(Machine::observe(), &Silent).unwrap();
    let row = |name: &str, threads: u32, files: &str| {
        report
            .rows
            .iter()
            .any(|row| row["name"] == name && row["threads"] == threads && row["files"] == files)
    };
    for name in ["dup", "close_tmp", "fcntl_tmp", "read_t1k", "poll_100"] {
        assert!(row(name, 1, "private"), "{name}");
        assert!(row(name, 3, "shared"), "{name}");
        assert!(row(name, 3, "private"), "{name}");
    }
    assert!(row("close_bad", 3, "shared") && row("pipe_pst1", 3, "private"));
    for row in &report.rows {
        assert_eq!(row["locked"].as_array().unwrap().len(), 2);
        assert!(row["ns"]["median"].as_f64().unwrap() > 0.0, "{row}");
    }
    let keys: Vec<_> = report.headline.iter().map(|figure| figure.key).collect();
    for key in ["libmicro.best_vs_locked", "libmicro.worst_vs_locked"] {
        assert!(keys.contains(&key), "{key} is missing");
    }
    assert_eq!(report.plots.len(), 1);
}

#[test]
fn one_thread_is_not_many() {
    let alone = LibMicro {
        rounds: 1,
        turn_ms: 1,
        threads: 1,
    };
    assert!(alone.measure(Machine::observe(), &Silent).is_err());
}
