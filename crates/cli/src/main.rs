//! The program `fdtable`.
fn main() {}
