//! Runs the example, which checks itself.

#![cfg(not(loom))]

#[path = "../examples/passing.rs"]
mod passing;

#[test]
fn passing() {
    passing::main();
}
