//! `run` end to end: programs that are installed, on both sides.

use fdtable_bench::experiment::{Experiment, Silent};
use fdtable_bench::machine::Machine;
use fdtable_bench::run::{Programs, Run};

#[test]
fn a_tiny_run_has_each_program_on_both_sides() {
    let _turn = crate::turn();
    let tiny = Run {
        programs: Programs::Single,
        rounds: 2,
        work: 1,
        runner: env!("CARGO_BIN_EXE_fdtable").into(),
    };
    let report = tiny.measure(Machine::observe(), &Silent).unwrap();
    // Those need no more than a C compiler and coreutils.
    for program in [
        "fcntl(F_GETFD)",
        "create and unlink",
        "dd bs=1, zero to null",
    ] {
        for side in ["fdtable run", "host"] {
            let same = |it: &&serde_json::Value| it["program"] == program && it["side"] == side;
            let measured: Vec<_> = report.rows.iter().filter(same).collect();
            assert_eq!(measured.len(), 1, "{program}, {side}");
            assert_eq!(measured[0]["ns"]["samples"], 2, "{program}, {side}");
        }
    }
    let keys: Vec<_> = report.headline.iter().map(|figure| figure.key).collect();
    for key in [
        "run.call_ns",
        "run.dd_vs_host",
        "run.host_file_overhead",
        "run.start_ms",
    ] {
        assert!(keys.contains(&key), "{key} is missing from {keys:?}");
    }
}

#[test]
fn a_tiny_tree_has_a_figure_for_each_program() {
    let _turn = crate::turn();
    let tiny = Run {
        programs: Programs::Trees,
        rounds: 1,
        work: 1,
        runner: env!("CARGO_BIN_EXE_fdtable").into(),
    };
    let report = tiny.measure(Machine::observe(), &Silent).unwrap();
    let keys: Vec<_> = report.headline.iter().map(|figure| figure.key).collect();
    // Those need no more than a C compiler, a shell and coreutils.
    for key in [
        "tree.pipe_vs_host",
        "tree.spawn_vs_host",
        "tree.execl_vs_host",
        "tree.small_files_vs_memory",
        "tree.scripts_vs_host",
    ] {
        assert!(keys.contains(&key), "{key} is missing from {keys:?}");
    }
}

#[test]
fn a_runner_that_is_no_program_is_an_error() {
    let tiny = Run {
        programs: Programs::Single,
        rounds: 1,
        work: 1,
        runner: "/dev/null".into(),
    };
    assert!(tiny.measure(Machine::observe(), &Silent).is_err());
}
