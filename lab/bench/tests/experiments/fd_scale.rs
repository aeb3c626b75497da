//! `fd-scale` end to end, alone in its process: it measures the host's own descriptors too, and a
//! concurrent test that opens a file would take the descriptor that was just closed.

use fdtable_bench::experiment::{Experiment, Silent};
use fdtable_bench::fd_scale::FdScale;
use fdtable_bench::machine::Machine;

use crate::alone::alone;

const SUBJECTS: [&str; 6] = [
    "fdtable",
    "fdtable, open of a file",
    "files_struct under a rwlock",
    "RwLock<Vec<Option<Arc>>>",
    "the host, dup",
    "the clock alone",
];

#[test]
fn a_tiny_run_has_hot_and_cold_rows_for_every_table() {
    if !alone("fd_scale::a_tiny_run_has_hot_and_cold_rows_for_every_table") {
        return;
    }
    let tiny = FdScale {
        most: 20,
        growth_percent: 300,
        hot_rounds: 1,
        batch: 2,
        cold_rounds: 1,
        last_step_times: 1,
    };
    let report = tiny.measure(Machine::observe(), &Silent).unwrap();
    let row = |subject: &str, open: u32, state: &str, place: &str| {
        report.rows.iter().any(|row| {
            row["subject"] == subject
                && row["open"] == open
                && row["state"] == state
                && row["place"] == place
        })
    };
    for subject in SUBJECTS {
        for (state, place) in [
            ("hot", "middle"),
            ("hot", "end"),
            ("cold", "middle"),
            ("cold", "end"),
            ("pair", "middle"),
        ] {
            for open in [1, 20] {
                assert!(
                    row(subject, open, state, place),
                    "{subject}: {state} {place} of {open}"
                );
            }
        }
    }
    let keys: Vec<_> = report.headline.iter().map(|figure| figure.key).collect();
    for key in [
        "fd_scale.hot_growth",
        "fd_scale.cold_growth",
        "fd_scale.vfs_hot_growth",
        "alloc.lowest_pair_ns_ratio_1M_vs_1",
    ] {
        assert!(keys.contains(&key), "{key} is missing");
    }
}
