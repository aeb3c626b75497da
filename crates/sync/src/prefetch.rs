//! Prefetching of cache lines, so that the waits for several lines overlap.

/// Prefetches the line at an address. Nothing is read, and the address need not be valid. Does
/// nothing where the language has no such operation.
#[inline(always)]
pub fn prefetch<T>(line: *const T) {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint to the CPU, which follows no address that is not valid.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
    let _ = line;
}
