//! `fork` end to end, alone in its process: it forks the process too.

use fdtable_bench::experiment::{Experiment, Silent};
use fdtable_bench::fork::Fork;
use fdtable_bench::machine::Machine;

use crate::alone::alone;

#[test]
fn a_tiny_run_has_rows_of_each_step_for_every_table() {
    if !alone("fork::a_tiny_run_has_rows_of_each_step_for_every_table") {
        return;
    }
    let tiny = Fork {
        rounds: 1,
        most: 300,
    };
    let report = tiny.measure(Machine::observe(), &Silent).unwrap();
    let row = |subject: &str, open: u32, step: &str| {
        report.rows.iter().any(|row| {
            row["subject"] == subject
                && row["open"] == open
                && row["step"] == step
                && row["ns"]["min"].as_f64() > Some(0.0)
        })
    };
    for subject in [
        "fdtable",
        "RwLock<Vec<Option<Arc>>>",
        "files_struct under a rwlock",
    ] {
        for step in ["fork", "first_close", "first_close_cold"] {
            for open in [10, 300] {
                assert!(row(subject, open, step), "{subject}: {step} of {open}");
            }
        }
    }
    let keys: Vec<_> = report.headline.iter().map(|figure| figure.key).collect();
    for key in [
        "fork.million_us",
        "fork.small_vs_copy",
        "fork.first_write_us",
        "fork.first_write_cold_us",
        "fork.rwlock_million_us",
    ] {
        assert!(keys.contains(&key), "{key} is missing");
    }
}
