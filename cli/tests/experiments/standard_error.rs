//! A report names programs that are not installed, or not built in by default: without an error.

use std::process::Command;

/// Runs the shortest form of an experiment where no tool can be found by its name, and no rival was
/// built before. Asserts that the report has each text of `hints`.
fn assert_quiet(experiment: &[&str], hints: &[&str]) {
    let _turn = crate::turn();
    let nowhere = "/nonexistent";
    let output = Command::new(env!("CARGO_BIN_EXE_fdtable"))
        .arg("bench")
        .args(experiment)
        .args(["--quick", "--rounds", "1"])
        .env("PATH", nowhere)
        .env("XDG_CACHE_HOME", nowhere)
        // So that an error cannot hide its stack trace.
        .env("RUST_BACKTRACE", "1")
        .output()
        .expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{errors}", output.status);
    assert_eq!(errors, "");
    let report = String::from_utf8_lossy(&output.stdout);
    for hint in hints {
        assert!(report.contains(hint), "{hint} is missing from\n{report}");
    }
}

#[test]
fn a_chat_without_a_profiler_says_how_to_get_one() {
    let small = ["chat", "--rooms", "1", "--users", "2", "--messages", "2"];
    #[cfg(not(feature = "profile"))]
    assert_quiet(&small, &["--features profile -- bench chat"]);
    // So few messages may have no sample.
    #[cfg(feature = "profile")]
    assert_quiet(&small, &[]);
}

#[test]
fn a_slab_without_valgrind_and_jemalloc_says_how_to_get_them() {
    assert_quiet(
        &["slab"],
        &[
            "apt-get install valgrind",
            #[cfg(not(feature = "jemalloc"))]
            "--features jemalloc -- bench slab",
        ],
    );
}

#[test]
fn open_files_without_a_load_file_say_how_to_get_one() {
    let is_installed = std::path::Path::new("/usr/share/dbench/client.txt").exists();
    let hints: &[&str] = if is_installed {
        &[]
    } else {
        &["apt-get install dbench"]
    };
    assert_quiet(&["open-files"], hints);
}

#[test]
fn peers_without_rivals_in_c_and_go_say_how_to_get_them() {
    assert_quiet(&["peers"], &["apt-get install gcc", "https://go.dev/dl"]);
}
