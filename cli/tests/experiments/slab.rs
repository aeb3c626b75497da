//! `slab` end to end: the experiment runs the program for the parts that need a process of their
//! own.

use std::process::{Command, Output};

use fdtable_bench::experiment::{Experiment, Silent};
use fdtable_bench::machine::Machine;
use fdtable_bench::slab::Slab;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_fdtable");

const HEAPS: &[&str] = &[
    "fdtable::slab",
    "mimalloc",
    #[cfg(feature = "jemalloc")]
    "jemalloc",
    "Box, the C library's heap",
    "sharded-slab",
    "slab under parking_lot's mutex",
];

const CASES: [&str; 7] = [
    "pair",
    "pair_written",
    "pair_two_threads",
    "batch",
    "batch_shuffled",
    "handover",
    "handover_written",
];

#[test]
fn a_tiny_run_has_times_memory_and_colours() {
    let _turn = crate::turn();
    let tiny = Slab {
        rounds: 1,
        turn_ms: 1,
        live: 100_000,
        program: Some(PROGRAM.into()),
    };
    let report = tiny.measure(Machine::observe(), &Silent).unwrap();
    let rows = |kind: &'static str, subject: &'static str| {
        let of = move |row: &&Value| row["kind"] == kind && row["subject"] == subject;
        report.rows.iter().filter(of)
    };
    for &subject in HEAPS {
        for case in CASES {
            let of_case = rows("time", subject).filter(|row| row["case"] == case);
            assert_eq!(of_case.count(), 2, "{subject}: {case}");
        }
        for row in rows("memory", subject) {
            let object = row["bytes"].as_u64().unwrap();
            // The noise of the resident set is small beside so many objects.
            let taken = row["resident"].as_u64().unwrap() / 100_000;
            assert!((object / 2..object * 3).contains(&taken), "{row}");
        }
    }
    let keys: Vec<_> = report.headline.iter().map(|figure| figure.key).collect();
    for key in [
        "slab.pair_vs_mimalloc",
        "slab.cross_thread_vs_mimalloc",
        "slab.colour_time_ratio",
    ] {
        assert!(keys.contains(&key), "{key} is missing");
    }
    let counted = Command::new("valgrind").arg("--version").output().is_ok();
    assert_eq!(keys.contains(&"slab.colour_miss_ratio"), counted);
    let is_reported = std::fs::exists("/proc/self/smaps_rollup").unwrap();
    assert_eq!(keys.contains(&"slab.memory_overhead"), is_reported);
}

fn run(part: &Value) -> Output {
    Command::new(PROGRAM)
        .args(["part", &part.to_string()])
        .output()
        .expect("the program starts")
}

/// Returns the footprint that the process prints, if the system reports it.
fn footprint(subject: &str, live: usize) -> Option<[usize; 4]> {
    let part = json!({"footprint": {"subject": subject, "bytes": 104, "live": live}});
    let output = run(&part);
    assert!(output.status.success(), "{output:?}");
    let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let number = |key| printed[key].as_u64().unwrap_or(0) as usize;
    let numbers = ["bytes", "live", "resident", "taken"].map(number);
    (!printed.is_null()).then_some(numbers)
}

#[test]
fn a_footprint_is_what_the_process_prints() {
    let printed = footprint("fdtable::slab", 20_000);
    assert!(printed.is_none_or(|[bytes, live, ..]| (bytes, live) == (104, 20_000)));
    assert!(printed.is_none_or(|[bytes, live, _, taken]| taken >= bytes * live));
}

// In a process of its own: frees of other tests would be subtracted.
#[test]
fn many_boxes_are_resident() {
    let printed = footprint("Box, the C library's heap", 100_000);
    assert!(printed.is_none_or(|[bytes, live, resident, _]| resident >= bytes * live / 2));
}

#[test]
fn a_walk_prints_nothing() {
    let output = run(&json!({"walk": {"has_colours": true, "rounds": 1}}));
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn an_unknown_name_is_an_error() {
    let output = run(&json!({"footprint": {"subject": "nobody", "bytes": 64, "live": 1}}));
    assert!(!output.status.success());
}
