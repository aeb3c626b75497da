//! `posix` end to end, alone in its process: it creates the process's only instance of the C
//! interface.

use fdtable_bench::experiment::{Experiment, Silent};
use fdtable_bench::machine::Machine;
use fdtable_bench::posix::Posix;

use crate::alone::alone;

#[test]
fn a_tiny_run_has_every_call_on_both_sides() {
    if !alone("posix::a_tiny_run_has_every_call_on_both_sides") {
        return;
    }
    let tiny = Posix {
        rounds: 1,
        calls: 10,
    };
    let cpus = std::thread::available_parallelism().unwrap();
    let report = tiny.measure(Machine::observe(), &Silent).unwrap();
    // The next experiment runs on this thread.
    assert_eq!(std::thread::available_parallelism().unwrap(), cpus);
    let sides = |side: &str| report.rows.iter().filter(|row| row["side"] == side).count();
    // The calls and lookups, opens by one thread and by two, and the event loops.
    assert_eq!((sides("fdtable"), sides("host"), sides("Rust")), (8, 6, 2));
    let keys: Vec<_> = report.headline.iter().map(|figure| figure.key).collect();
    for key in [
        "posix.getfd_ns",
        "posix.read_zero_ns",
        "posix.dup_close_ns",
        "posix.open_2t_scaling",
        "posix.host_epoll_vs_host",
    ] {
        assert!(keys.contains(&key), "{key} is missing");
    }
}
