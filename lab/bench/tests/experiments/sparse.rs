//! `sparse` end to end, alone in its process: it reads how much of the heap is in use.

use fdtable_bench::experiment::{Experiment, Silent};
use fdtable_bench::machine::Machine;
use fdtable_bench::sparse::Sparse;

use crate::alone::alone;

#[test]
fn a_tiny_run_has_time_and_memory_of_every_table() {
    if !alone("sparse::a_tiny_run_has_time_and_memory_of_every_table") {
        return;
    }
    let tiny = Sparse {
        rounds: 1,
        tables: 100,
    };
    let report = tiny.measure(Machine::observe(), &Silent).unwrap();
    for (subject, rows) in [
        ("fdtable", 1),
        ("RwLock<HashMap<RawFd, Arc>>", 1),
        ("RwLock<BTreeMap<RawFd, Arc>>", 1),
        ("RwLock<Vec<Option<Arc>>>", 2),
        ("files_struct under a rwlock", 2),
    ] {
        let of = report.rows.iter().filter(|row| row["subject"] == subject);
        assert_eq!(of.count(), rows, "{subject}");
    }
    let value = |key: &str| {
        let figure = report.headline.iter().find(|figure| figure.key == key);
        figure.unwrap_or_else(|| panic!("{key} is missing")).value
    };
    assert!(value("sparse.open_max_fd_us") > 0.0);
    assert!(value("sparse.open_max_fd_worst_us") >= value("sparse.open_max_fd_us"));
    if cfg!(target_env = "gnu") {
        // At least a leaf of pointers, and a table that is not as long as its limit.
        assert!((512.0..1e6).contains(&value("sparse.bytes")));
        vectors_hold_all_slots_below(&report.rows);
    }
}

fn vectors_hold_all_slots_below(rows: &[serde_json::Value]) {
    for row in rows {
        if row["subject"] == "RwLock<Vec<Option<Arc>>>" {
            let slots = row["fd"].as_f64().unwrap() * 8.0;
            assert!(row["bytes"]["open"].as_f64().unwrap() > slots, "{row}");
        }
    }
}
