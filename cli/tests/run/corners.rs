//! Rare forms of calls, beside the host: ends of processes, flags of `clone`, addresses and
//! arguments that are not valid.

use super::same_program;

#[test]
fn an_address_that_cannot_be_accessed_is_reported_as_on_the_host() {
    same_program("faulty", &[]);
}
