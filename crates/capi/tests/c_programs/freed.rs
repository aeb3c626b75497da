//! Runs the program of `tests/c_table/freed.c`: objects that a table released are freed.
//!
//! That happens at the latest when the table, the thread or the process ends. Leak checkers agree,
//! where they are installed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::compile::{try_run, with_table};

/// Each scenario of the program, and its output.
const SCENARIOS: &[(&str, &[&str])] = &[
    ("barrier", &["after the barrier: released 100, freed 100"]),
    ("table", &["after the table: released 200, freed 200"]),
    (
        "fork",
        &[
            "after the parent: released 0, freed 0",
            "after the child: released 200, freed 200",
        ],
    ),
    (
        "reference",
        &[
            "after the table: released 0, freed 0",
            "after the barrier: released 1, freed 1",
        ],
    ),
    ("thread", &["after the thread: released 100, freed 100"]),
    ("putter", &["after the thread: released 1, freed 1"]),
    (
        "section",
        &[
            "inside: released 100, freed 0",
            "barrier: -1, EDEADLK",
            "after the barrier: released 100, freed 100",
        ],
    ),
    (
        "callback",
        &[
            "barrier: -1, EDEADLK",
            "after the table: released 1, freed 1",
        ],
    ),
    (
        "reader",
        &[
            "inside: released 100, freed 0",
            "after the table: released 100, freed 100",
        ],
    ),
    (
        "cancel",
        &[
            "barrier: 0",
            "cancelled after it",
            "after the table: released 100, freed 100",
        ],
    ),
    ("chain", &["after the thread: released 4, freed 4"]),
    (
        "relays",
        &[
            "the barrier has returned",
            "the table is freed",
            "all freed: 1",
        ],
    ),
    (
        "join in fork",
        &["child: 0", "after the table: released 100, freed 100"],
    ),
];

/// Scenarios in which only the end of the process is certain to free everything.
const UNTIL_THE_END: &[&str] = &["main", "other"];

const ALL_AT_THE_END: &str = "at the end: released 100, freed 100";

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| with_table("freed", &[]).unwrap_or_else(|said| panic!("{said}")))
}

fn said(scenario: &str) -> Vec<String> {
    let program = program().to_str().unwrap();
    let said = try_run(program, &[scenario]).unwrap_or_else(|said| panic!("{said}"));
    said.lines().map(str::to_owned).collect()
}

#[test]
fn objects_are_freed_after_a_barrier_a_table_and_a_thread() {
    for (scenario, expected) in SCENARIOS {
        let mut said = said(scenario);
        said.pop();
        assert_eq!(said, *expected, "{scenario}");
    }
}

#[test]
fn objects_are_freed_when_the_process_ends() {
    for scenario in UNTIL_THE_END {
        let said = said(scenario);
        assert_eq!(said.last().unwrap(), ALL_AT_THE_END, "{scenario}");
    }
}

fn all() -> impl Iterator<Item = &'static str> {
    let scenarios = SCENARIOS.iter().map(|(scenario, _)| *scenario);
    scenarios.chain(UNTIL_THE_END.iter().copied())
}

/// Runs every scenario under a sanitizer, if the compiler supports it on this machine.
fn check_with(sanitizer: &str) {
    let option = format!("-fsanitize={sanitizer}");
    if let Err(said) = probe(&option) {
        eprintln!("skipped: {option} does not work here: {said}");
        return;
    }
    let program = with_table("freed", &[&option]).unwrap_or_else(|said| panic!("{said}"));
    for scenario in all() {
        let run = try_run(program.to_str().unwrap(), &[scenario]);
        assert!(run.is_ok(), "{scenario}: {run:?}");
    }
}

/// Compiles and runs an empty program.
pub(crate) fn probe(option: &str) -> Result<(), String> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = directory.join(format!("probe{}", option.replace(['-', '='], "_")));
    let source = program.with_extension("c");
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let [source, program] = [&source, &program].map(|path| path.to_str().unwrap());
    try_run("cc", &[option, source, "-o", program])?;
    try_run(program, &[]).map(drop)
}

#[test]
fn the_leak_sanitizer_finds_nothing() {
    check_with("leak");
}

#[test]
fn the_address_sanitizer_finds_nothing() {
    check_with("address");
}

/// Runs a program under Valgrind, if it is installed.
pub(crate) fn valgrind(program: &Path, arguments: &[&str]) {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    let options = [
        "-q",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite,indirect",
        "--error-exitcode=9",
        program.to_str().unwrap(),
    ];
    let run = try_run("valgrind", &[&options, arguments].concat());
    assert!(run.is_ok(), "{arguments:?}: {}", run.unwrap_err());
}

#[test]
fn valgrind_finds_no_leak() {
    // Valgrind is slow, and the sanitizers run the other scenarios.
    for scenario in ["table", "thread", "main", "other"] {
        valgrind(program(), &[scenario]);
    }
}
