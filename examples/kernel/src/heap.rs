//! The heap: what is not in slabs.

use alloc::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};

use buddy_system_allocator::Heap;

use crate::lock::Lock;

/// How many bytes it has.
pub const SIZE: usize = 64 << 20;

struct Allocator(Lock<Heap<32>>);

#[global_allocator]
static HEAP: Allocator = Allocator(Lock::new(Heap::new()));

/// Gives the heap its memory. Once, before the first allocation.
///
/// # Safety
/// [`SIZE`] bytes are there, and nothing uses them.
pub unsafe fn prepare(start: usize) {
    // SAFETY: as the caller promises.
    unsafe { HEAP.0.lock().init(start, SIZE) };
}

// SAFETY: the heap hands out memory of its own, once, and its lock excludes other CPUs and
// interrupt handlers.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let place = self.0.lock().alloc(layout);
        place.map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if let Some(place) = NonNull::new(place) {
            // SAFETY: as the caller promises.
            unsafe { self.0.lock().dealloc(place, layout) };
        }
    }
}
