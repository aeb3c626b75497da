//! Services of an operating system, by way of `std`.

use core::ptr::NonNull;
use core::time::Duration;
use std::thread;
use std::time::Instant;

use super::YIELDS;
use super::kernel::{Defaults, Platform};

#[cfg(any(test, not(target_os = "linux")))]
#[path = "hosted/queues.rs"]
pub mod queues;

#[cfg(target_os = "linux")]
#[path = "hosted/linux.rs"]
mod os;
#[cfg(not(target_os = "linux"))]
#[path = "hosted/other.rs"]
mod os;

pub use os::*;

/// Does nothing: a thread that waits for a lock sleeps or yields its CPU.
#[inline(always)]
pub(crate) fn enter_lock() {}

/// Does nothing.
#[inline(always)]
pub(crate) unsafe fn leave_lock() {}

/// Lets others run: a busy-wait step. `attempts` counts the caller's steps so far. After a few, the
/// thread yields its CPU, since the thread that it waits for may need it.
pub fn relax(attempts: u32) {
    match attempts {
        ..YIELDS => core::hint::spin_loop(),
        YIELDS..1024 => thread::yield_now(),
        // A thread of a higher priority would not let the other run by yielding its CPU.
        1024.. => thread::sleep(Duration::from_micros(50)),
    }
}

/// Allocates a page from the global allocator: for a crate above that is built without `std`.
#[must_use]
pub fn allocate_page(node: u16) -> Option<NonNull<u8>> {
    Defaults::allocate_page(node)
}

/// Frees a page.
///
/// # Safety
/// [`allocate_page`] returned it; it is freed once, and no longer used.
pub unsafe fn free_page(page: NonNull<u8>) {
    // SAFETY: as the caller promises.
    unsafe { Defaults::free_page(page) };
}

/// Returns the time since the first call of the thread. For signal handlers too: it takes no lock.
pub(crate) fn nanoseconds() -> u64 {
    std::thread_local! {
        static START: Instant = Instant::now();
    }
    let since = START.try_with(|start| start.elapsed().as_nanos() as u64);
    since.unwrap_or(0)
}

/// Returns an index that the thread draws at its first call and keeps.
fn thread_index() -> usize {
    use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    /// How many different indexes there are.
    const MAX: usize = 1024;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! {
        // Relaxed: the indexes only have to differ, and nothing else depends on them.
        static INDEX: usize = NEXT.fetch_add(1, Relaxed) % MAX;
    }
    INDEX.try_with(|index| *index).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::thread_index;

    #[test]
    fn threads_draw_different_indexes() {
        let other = std::thread::spawn(thread_index)
            .join()
            .expect("the thread ends");
        assert_ne!(thread_index(), other);
    }
}
