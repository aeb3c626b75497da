//! Chunks that are allocations of the global allocator.

use alloc::alloc::{Layout, alloc, dealloc};
use core::ptr::NonNull;

use crate::chunk::CHUNK;
use fdtable_sync::fallible::OutOfMemory;

/// A chunk has no other data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin;

const LAYOUT: Layout = match Layout::from_size_align(CHUNK, CHUNK) {
    Ok(layout) => layout,
    Err(_) => panic!("the size is a power of two"),
};

pub(super) fn take() -> Result<(NonNull<u8>, Origin), OutOfMemory> {
    // SAFETY: the size is not zero.
    let start = NonNull::new(unsafe { alloc(LAYOUT) }).ok_or(OutOfMemory)?;
    Ok((start, Origin))
}

/// # Safety
/// As for [`Chunk::give_back`](super::Chunk::give_back).
pub(super) unsafe fn free(start: NonNull<u8>, _: Origin) {
    // SAFETY: `take` allocated it with this layout, and the caller gives it up.
    unsafe { dealloc(start.as_ptr(), LAYOUT) };
}
