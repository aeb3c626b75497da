//! Panics that are not caught: without `std`.

/// Returns 0: without the feature `std` no panic is contained.
pub fn contained_panics() -> u64 {
    0
}

/// Runs `work`.
///
/// # Panics
/// If `work` does.
#[inline]
pub fn run(work: impl FnOnce()) {
    work();
}

/// Runs `work`, whose panic cannot be contained.
///
/// # Panics
/// If `work` does.
#[inline]
pub fn contain(work: impl FnOnce()) {
    work();
}
