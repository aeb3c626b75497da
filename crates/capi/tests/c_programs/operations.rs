//! Runs programs of `tests/c_table`. Leak checkers agree, where they are installed.
//!
//! - `operations`: descriptors that the caller chooses, data of descriptors, private descriptors.
//! - `rarer`: the rarer operations, in C and C++.
//! - `intrusive`: a table of a kernel in C whose files count their references themselves.

use crate::compile::{try_run, with_table};
use crate::freed::{probe, valgrind};

const PROGRAMS: [&str; 3] = ["operations", "rarer", "intrusive"];

fn run(source: &str, arguments: &[&str]) {
    let program = with_table(source, arguments).unwrap_or_else(|said| panic!("{said}"));
    try_run(program.to_str().unwrap(), &[]).unwrap_or_else(|said| panic!("{said}"));
}

#[test]
fn a_table_has_data_and_operations_at_given_descriptors() {
    run("operations", &[]);
}

#[test]
fn a_table_has_the_rarer_operations() {
    run("rarer", &[]);
    run("rarer", &["-xc++"]);
}

#[test]
fn objects_may_count_their_references_themselves() {
    run("intrusive", &[]);
    run("intrusive", &["-xc++"]);
}

#[test]
fn the_sanitizers_find_nothing_in_them() {
    for option in ["-fsanitize=address", "-fsanitize=leak"] {
        match probe(option) {
            Ok(()) => PROGRAMS.iter().for_each(|source| run(source, &[option])),
            Err(said) => eprintln!("skipped: {option} does not work here: {said}"),
        }
    }
}

#[test]
fn valgrind_finds_no_leak_in_them() {
    for source in PROGRAMS {
        let program = with_table(source, &["-DROUNDS=50"]);
        valgrind(&program.unwrap_or_else(|said| panic!("{said}")), &[]);
    }
}
