//! `grow` end to end, alone in its process: it opens descriptors of the host, and other work on the
//! machine makes its opens slower.

use fdtable_bench::experiment::{Experiment, Silent};
use fdtable_bench::grow::Grow;
use fdtable_bench::machine::Machine;

use crate::alone::alone;

#[test]
fn a_tiny_run_has_a_tail_of_every_subject_in_every_run() {
    if !alone("grow::a_tiny_run_has_a_tail_of_every_subject_in_every_run") {
        return;
    }
    let tiny = Grow {
        rounds: 2,
        most: 300,
    };
    let report = tiny.measure(Machine::observe(), &Silent).unwrap();
    for subject in [
        "fdtable",
        "fdtable, any free number",
        "RwLock<Vec<Option<Arc>>>",
        "files_struct under a rwlock",
        "the clock alone",
    ] {
        let row = report.rows.iter().find(|row| row["subject"] == subject);
        let row = row.unwrap_or_else(|| panic!("{subject} is missing"));
        for tails in ["open", "look_up", "idle"] {
            assert_eq!(row[tails].as_array().map(Vec::len), Some(2), "{row}");
        }
        assert_eq!(row["open"][0]["count"], 300);
    }
    let keys: Vec<_> = report.headline.iter().map(|figure| figure.key).collect();
    for key in [
        "grow.max_us",
        "grow.lookup_max_us",
        "grow.idle_max_us",
        "grow.lookup_excess_us",
        "grow.far_us",
        "grow.far_worst_us",
    ] {
        assert!(keys.contains(&key), "{key} is missing");
    }
    if cfg!(target_env = "gnu") {
        let bytes = report
            .headline
            .iter()
            .find(|figure| figure.key == "grow.far_bytes");
        // At least a leaf of pointers, and a table that is not as long as its limit.
        assert!((512.0..1e6).contains(&bytes.expect("memory is reported").value));
    }
}
