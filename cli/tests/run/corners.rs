//! Rare forms of calls, beside the host: ends of processes, flags of `clone`, addresses and
//! arguments that are not valid.

use super::same_program;

#[test]
fn processes_and_threads_that_exit_by_the_system_call_end_as_on_the_host() {
    same_program("ends", &[]);
}

#[test]
fn an_address_that_cannot_be_accessed_is_reported_as_on_the_host() {
    same_program("faulty", &[]);
}

#[test]
fn what_is_cut_short_ends_as_on_the_host() {
    same_program("cut", &[]);
}

#[test]
fn flags_of_clone_are_served_or_refused_as_on_the_host() {
    same_program("clones", &[]);
}

#[test]
fn peers_of_sockets_are_those_of_the_host() {
    same_program("peers", &[]);
}
