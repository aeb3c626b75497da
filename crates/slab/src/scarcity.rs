//! Simulated memory exhaustion for tests.

use std::cell::Cell;

thread_local! {
    /// How many chunks this thread may still take.
    static CHUNKS: Cell<usize> = const { Cell::new(usize::MAX) };
    static HAS_MAGAZINES: Cell<bool> = const { Cell::new(true) };
}

/// Runs `f`, in which this thread may take so many chunks.
pub(super) fn with_chunks<R>(chunks: usize, f: impl FnOnce() -> R) -> R {
    CHUNKS.set(chunks);
    let result = f();
    CHUNKS.set(usize::MAX);
    result
}

/// Runs `f`, in which this thread gets no magazines.
pub(super) fn without_magazines<R>(f: impl FnOnce() -> R) -> R {
    HAS_MAGAZINES.set(false);
    let result = f();
    HAS_MAGAZINES.set(true);
    result
}

/// Returns true if there is no chunk for this thread.
pub(super) fn refuses_chunk() -> bool {
    match CHUNKS.get() {
        usize::MAX => false,
        0 => true,
        left => {
            CHUNKS.set(left - 1);
            false
        }
    }
}

/// Returns true if there is no magazine for this thread.
pub(super) fn refuses_magazine() -> bool {
    !HAS_MAGAZINES.get()
}
