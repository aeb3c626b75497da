//! `alloc` end to end, alone in its process: it reads how much of the heap is in use.

use fdtable_bench::alloc::Alloc;
use fdtable_bench::experiment::{Experiment, Silent};
use fdtable_bench::machine::Machine;

use crate::alone::alone;

const GROWN: [&str; 6] = [
    "fdtable, lowest free number",
    "fdtable, any free number",
    "slab under parking_lot's mutex",
    "sharded-slab",
    "RwLock<Vec<Option<Arc>>>",
    "files_struct under a rwlock",
];

#[test]
fn a_tiny_run_has_pairs_of_every_subject_and_memory_of_every_table() {
    if !alone("alloc::a_tiny_run_has_pairs_of_every_subject_and_memory_of_every_table") {
        return;
    }
    let tiny = Alloc {
        rounds: 1,
        turn_ms: 1,
        most: 20_000,
        remaining: 10,
    };
    let report = tiny.measure(Machine::observe(), &Silent).unwrap();
    let pair = |subject: &str, work: &str, open: u32, threads: u32| {
        report.rows.iter().any(|row| {
            row["kind"] == "pair"
                && row["subject"] == subject
                && row["work"] == work
                && row["open"] == open
                && row["threads"] == threads
        })
    };
    for work in ["move", "clone"] {
        for subject in GROWN {
            for (open, threads) in [(1, 1), (20_000, 1), (1, 2)] {
                assert!(
                    pair(subject, work, open, threads),
                    "{subject}: {work} {open} {threads}"
                );
            }
        }
    }
    let keys: Vec<_> = report.headline.iter().map(|figure| figure.key).collect();
    for key in [
        "alloc.lowest_pair_ns_ratio_1M_vs_1",
        "alloc.any_2t_scaling",
        "alloc.any_pair_vs_slab_1t",
        "alloc.any_pair_vs_slab_2t",
    ] {
        assert!(keys.contains(&key), "{key} is missing");
    }
    if cfg!(target_env = "gnu") {
        for key in ["alloc.bytes_per_slot", "alloc.kept_bytes"] {
            assert!(keys.contains(&key), "{key} is missing");
        }
        memory_is_that_of_the_slots(&report.rows);
    }
}

/// A slot holds at least a pointer, and 20,000 of them stand out from all noise.
fn memory_is_that_of_the_slots(rows: &[serde_json::Value]) {
    let footprints: Vec<f64> = rows
        .iter()
        .filter(|row| row["kind"] == "footprint")
        .map(|row| row["bytes_per_slot"].as_f64().unwrap())
        .collect();
    assert_eq!(footprints.len(), 6);
    assert!(
        footprints.iter().all(|bytes| (7.5..100.0).contains(bytes)),
        "{footprints:?}"
    );
}
