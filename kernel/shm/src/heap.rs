//! The heap: blocks of some sizes in shared memory, and the program's own allocator for all else.
//!
//! Sizes up to half a [run](crate::mapping::RUN) are rounded up to a *class*: by 16 bytes up to
//! 128, and then by a quarter of the power of two below. A block with a larger alignment is of a
//! class that is a power of two. A run of pages is cut into blocks of one class, which stay in the
//! class; each class has a list of free blocks and a lock. Larger sizes are runs of their own. A
//! page is first touched when a block in it is taken.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::{self, NonNull};

use crate::lock::Mutex;
use crate::mapping::{ALIGN, RUN, contains, map_pages, unmap_pages};
use crate::thread::{enter, is_inside};

/// The largest block, in bytes.
const LARGEST: usize = RUN / 2;

/// The number of classes: eight up to 128 bytes, and four for each power of two above.
const CLASSES: usize = 8 + 4 * (LARGEST.ilog2() as usize - 7);

/// A global allocator: shared memory for a thread that is [inside](crate::enter), and that of `A`
/// for the others.
#[derive(Debug)]
pub struct Heap<A>(pub A);

/// The free blocks of a class: a list, and the end of a run that was not used yet.
pub(crate) struct Free {
    first: *mut u8,
    unused: *mut u8,
    /// How many blocks are there.
    left: usize,
}

// SAFETY: free blocks belong to no thread, and the lock of the class guards them.
unsafe impl Send for Free {}

impl Free {
    const NONE: Self = Self {
        first: ptr::null_mut(),
        unused: ptr::null_mut(),
        left: 0,
    };
}

/// The free blocks of all classes, on cache lines of their own.
#[repr(align(64))]
pub(crate) struct Lists([Mutex<Free>; CLASSES]);

fdtable_sync::global! {
    pub(crate) static FREE: Lists = Lists([const { Mutex::new(Free::NONE) }; CLASSES]);
}

/// Returns the class of a layout, if it has one.
fn class_of(layout: Layout) -> Option<usize> {
    let size = layout.size().max(1);
    let size = match layout.align() {
        ..=16 => size,
        align => size.max(align).checked_next_power_of_two()?,
    };
    match size {
        ..=128 => Some(size.div_ceil(16) - 1),
        129..=LARGEST => {
            // Of the power of two below, so that 128 itself is not among them.
            let below = (size - 1).ilog2() as usize;
            let step = 1 << (below - 2);
            let steps = (size - (1 << below)).div_ceil(step);
            Some(8 + 4 * (below - 7) + steps - 1)
        }
        _ => None,
    }
}

/// Returns the size of the blocks of a class.
fn size_of_class(class: usize) -> usize {
    match class.checked_sub(8) {
        None => 16 * (class + 1),
        Some(above) => {
            let below: usize = 1 << (7 + above / 4);
            below + (above % 4 + 1) * below / 4
        }
    }
}

/// Takes a block of shared memory. Only with shared memory.
fn take(layout: Layout) -> *mut u8 {
    let Some(class) = class_of(layout) else {
        // Aligned to its size, which is a power of two and no less than the alignment.
        let size = layout.size().max(layout.align());
        if layout.align() > ALIGN {
            return ptr::null_mut();
        }
        return map_pages(size).map_or(ptr::null_mut(), NonNull::as_ptr);
    };
    let mut free = FREE.0[class].lock();
    let block = free.first;
    if !block.is_null() {
        // SAFETY: a free block begins with the next one, and the lock is held.
        free.first = unsafe { block.cast::<*mut u8>().read() };
        return block;
    }
    let size = size_of_class(class);
    if free.left == 0 {
        let Some(run) = map_pages(RUN) else {
            return ptr::null_mut();
        };
        (free.unused, free.left) = (run.as_ptr(), RUN / size);
    }
    free.left -= 1;
    let block = free.unused;
    free.unused = block.wrapping_add(size);
    block
}

/// Gives a block back.
///
/// # Safety
/// [`take`] returned it for this layout; it is given back once, and no longer used.
unsafe fn give(block: NonNull<u8>, layout: Layout) {
    // The thread may be outside. The list of free blocks is shared.
    let _call = enter();
    let Some(class) = class_of(layout) else {
        let size = layout.size().max(layout.align());
        // SAFETY: as the caller promises.
        return unsafe { unmap_pages(block, size) };
    };
    let mut free = FREE.0[class].lock();
    // SAFETY: the block is free, so nothing else uses it, and the lock is held.
    unsafe { block.cast::<*mut u8>().write(free.first) };
    free.first = block.as_ptr();
}

// SAFETY: a block is not handed out again before it was given back, and has the size and the
// alignment of its class, or of its run; which allocator it belongs to is told by its address.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Heap<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_inside() {
            return take(layout);
        }
        // SAFETY: as the caller promises.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !is_inside() {
            // SAFETY: as the caller promises.
            return unsafe { self.0.alloc_zeroed(layout) };
        }
        let block = take(layout);
        if !block.is_null() {
            // SAFETY: the block has so many bytes.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match NonNull::new(block).filter(|_| contains(block)) {
            // SAFETY: as the caller promises; it is in shared memory, so `take` returned it.
            Some(block) => unsafe { give(block, layout) },
            // SAFETY: as the caller promises, and it is not.
            None => unsafe { self.0.dealloc(block, layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let is_shared = contains(block);
        if !is_shared && !is_inside() {
            // SAFETY: as the caller promises.
            return unsafe { self.0.realloc(block, layout, size) };
        }
        // A block stays on its side, whoever enlarges it.
        let Ok(larger) = Layout::from_size_align(size, layout.align()) else {
            return ptr::null_mut();
        };
        let new = match is_shared {
            true if class_of(layout).is_some() && class_of(layout) == class_of(larger) => {
                return block;
            }
            true => take(larger),
            // SAFETY: as the caller promises, the size is not 0.
            false => unsafe { self.0.alloc(larger) },
        };
        if !new.is_null() {
            // SAFETY: both have so many bytes, and one was just made.
            unsafe { new.copy_from_nonoverlapping(block, layout.size().min(size)) };
            // SAFETY: as the caller promises.
            unsafe { self.dealloc(block, layout) };
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_holds_its_sizes() {
        let mut before = 0;
        for class in 0..CLASSES {
            let size = size_of_class(class);
            assert!(size > before, "class {class}");
            for size in [before + 1, size] {
                let layout = Layout::from_size_align(size, 8).expect("a layout");
                assert_eq!(class_of(layout), Some(class), "{size} bytes");
            }
            before = size;
        }
        assert_eq!(before, LARGEST);
        let over = Layout::from_size_align(LARGEST + 1, 8).expect("a layout");
        assert_eq!(class_of(over), None);
    }

    #[test]
    fn a_class_has_the_alignment() {
        for shift in 5..=LARGEST.ilog2() {
            let align = 1 << shift;
            for size in [1, align - 1, align, align + 1] {
                let layout = Layout::from_size_align(size, align).expect("a layout");
                if let Some(class) = class_of(layout) {
                    let block = size_of_class(class);
                    assert!(block.is_multiple_of(align), "{size} bytes at {align}");
                    assert!(RUN.is_multiple_of(block));
                }
            }
        }
    }
}
