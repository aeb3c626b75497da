//! The C interface, called from Rust.
//!
//! All tests share one process, so none depends on the value of a descriptor. Tests about the first
//! call of a process, its signal handlers or its cancelled threads are files of their own.

mod boundary;
mod misuse;
