//! A process for each test, one at a time.

use std::env;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Set in the processes that run one test.
const INSIDE: &str = "FDTABLE_TEST_ALONE";

/// Returns true in a process that runs the calling test alone. Elsewhere runs the test in such a
/// process, while no other test of this binary does the same, and returns false when it has passed.
/// `name` is the path of the test.
///
/// # Panics
/// If the test has failed there, or printed on the standard error; with all that it printed.
pub(crate) fn alone(name: &str) -> bool {
    static TURN: Mutex<()> = Mutex::new(());
    if env::var_os(INSIDE).is_some() {
        return true;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let program = env::current_exe().expect("the program has a path");
    let output = Command::new(program)
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .expect("the program starts again");
    let printed = String::from_utf8_lossy(&output.stdout);
    let passed = output.status.success() && printed.contains("test result: ok. 1 passed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(passed, "{name}: {}\n{printed}{errors}", output.status);
    assert_eq!(errors, "", "{name}");
    false
}
