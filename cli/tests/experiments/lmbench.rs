//! `lmbench` end to end: each configuration is the program in a process of its own.

use fdtable_bench::experiment::{Experiment, Silent};
use fdtable_bench::lmbench::Lmbench;
use fdtable_bench::machine::Machine;

const ROWS: [&str; 13] = [
    "null_call",
    "open_close",
    "select10",
    "select100",
    "select1000",
    "fork_exit",
    "fork_exec",
    "pipe_latency",
    "pipe_latency_apart",
    "pipe_bandwidth",
    "ring2",
    "ring8",
    "file_reread",
];

const CONFIGURATIONS: [&str; 4] = ["ours", "no_colours", "no_slabs", "plain"];

#[test]
fn a_tiny_run_has_every_row_in_every_configuration() {
    let _turn = crate::turn();
    let tiny = Lmbench {
        rounds: 2,
        renewed_after: 1,
        turn_ms: 1,
        program: Some(env!("CARGO_BIN_EXE_fdtable").into()),
    };
    let report = tiny.measure(Machine::observe(), &Silent).unwrap();
    for row in ROWS {
        for configuration in CONFIGURATIONS {
            let same =
                |it: &&serde_json::Value| it["row"] == row && it["configuration"] == configuration;
            let measured: Vec<_> = report.rows.iter().filter(same).collect();
            assert_eq!(measured.len(), 1, "{row}, {configuration}");
            assert_eq!(measured[0]["ns"]["samples"], 2, "{row}, {configuration}");
        }
    }
    let keys: Vec<_> = report.headline.iter().map(|figure| figure.key).collect();
    for key in ["lmbench.worst_vs_plain", "lmbench.rows_slower"] {
        assert!(keys.contains(&key), "{key} is missing from {keys:?}");
    }
    // And one of each row.
    assert_eq!(keys.len(), 2 + ROWS.len());
    assert_eq!(report.plots.len(), 3);
}

#[test]
fn a_file_that_is_no_program_is_an_error() {
    let tiny = Lmbench {
        rounds: 1,
        renewed_after: 1,
        turn_ms: 1,
        program: Some("/dev/null".into()),
    };
    assert!(tiny.measure(Machine::observe(), &Silent).is_err());
}
