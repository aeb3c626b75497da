//! Runs the program of `tests/c_table/operations.c`: descriptors that the caller chooses, data of
//! descriptors, and private descriptors. Leak checkers agree, where they are installed.

use crate::compile::{try_run, with_table};
use crate::freed::{probe, valgrind};

fn run(arguments: &[&str]) {
    let program = with_table("operations", arguments).unwrap_or_else(|said| panic!("{said}"));
    try_run(program.to_str().unwrap(), &[]).unwrap_or_else(|said| panic!("{said}"));
}

#[test]
fn a_table_has_data_and_operations_at_given_descriptors() {
    run(&[]);
}

#[test]
fn the_sanitizers_find_nothing_in_them() {
    for option in ["-fsanitize=address", "-fsanitize=leak"] {
        match probe(option) {
            Ok(()) => run(&[option]),
            Err(said) => eprintln!("skipped: {option} does not work here: {said}"),
        }
    }
}

#[test]
fn valgrind_finds_no_leak_in_them() {
    let program = with_table("operations", &["-DROUNDS=50"]);
    valgrind(&program.unwrap_or_else(|said| panic!("{said}")), &[]);
}
