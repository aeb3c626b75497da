//! A hint for the compiler that the standard library has only from Rust 1.95 on.

/// Marks the path of code that calls it as rarely taken, like `crate::hint::cold_path`.
///
/// The compiler treats a block that calls a cold function as cold, and this one is empty: the code
/// is the same as with the standard library's, without an instruction for the call.
#[inline]
#[cold]
pub const fn cold_path() {}
