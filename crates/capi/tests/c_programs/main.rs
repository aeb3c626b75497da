//! Compiles programs in C that use the table, and runs them.

mod compile;
mod freed;
mod manual;
#[cfg(feature = "debug")]
mod misuse;
mod operations;
mod symbols;
