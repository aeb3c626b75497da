//! A tiny run of `peers`: every table is present and does the work.

use fdtable_bench::experiment::{Experiment, Silent};
use fdtable_bench::machine::Machine;
use fdtable_bench::peers::{Peers, SlowBuilds};

use crate::alone::alone;

const TINY: Peers = Peers {
    rounds: 2,
    turn_ms: 1,
    most: 300,
    growths: 1,
    slow_builds: SlowBuilds::Skip,
};

#[test]
fn a_tiny_run_has_every_table_and_every_figure() {
    if !alone("peers::a_tiny_run_has_every_table_and_every_figure") {
        return;
    }
    let report = TINY.measure(Machine::observe(), &Silent).unwrap();
    let of_side = |side| {
        let rows = report.rows.iter().filter(move |row| row["side"] == side);
        rows.count()
    };
    assert_eq!(of_side("ours"), 4);
    assert!(of_side("theirs") >= 9, "{}", of_side("theirs"));
    for row in &report.rows {
        let timings = row["timings"].as_array().unwrap();
        // No rival lacks more than the two cases of owned lookups.
        assert!(timings.len() >= 7, "{row}");
        for timing in timings {
            assert!(timing["ns"]["min"].as_f64().unwrap() > 0.0, "{row}");
        }
        for growth in row["growths"].as_array().unwrap() {
            assert_eq!(growth["count"], 300, "{row}");
        }
    }
    let keys: Vec<_> = report.headline.iter().map(|figure| figure.key).collect();
    let expected = [
        "peers.borrowed_1t",
        "peers.borrowed_2t",
        "peers.owned_1t",
        "peers.owned_2t",
        "peers.open_close_1t",
        "peers.open_close_2t",
        "peers.mixed_2t",
        "alloc.any_2t_scaling",
        "alloc.any_pair_vs_slab_1t",
        "alloc.any_pair_vs_slab_2t",
        "alloc.any_pair_vs_sharded_slab_2t",
        "alloc.clone_pair_vs_slab_1t",
    ];
    assert_eq!(keys[..expected.len()], expected);
    assert_eq!(
        keys.contains(&"alloc.bytes_per_slot"),
        cfg!(target_env = "gnu")
    );
    let finite = |figure: &fdtable_bench::report::Figure| figure.value.is_finite();
    assert!(report.headline.iter().all(finite));
}
