//! Chunks that are pages of a kernel.

use core::ptr::NonNull;

use crate::chunk::CHUNK;
use fdtable_sync::fallible::OutOfMemory;
use fdtable_sync::percpu;
use fdtable_sync::platform::{allocate_page, free_page, kernel};

const _: () = assert!(CHUNK == kernel::PAGE);

/// A chunk has no other data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin;

pub(super) fn take() -> Result<(NonNull<u8>, Origin), OutOfMemory> {
    let page = allocate_page(percpu::current_node()).ok_or(OutOfMemory)?;
    Ok((page, Origin))
}

/// # Safety
/// As for [`Chunk::free`](super::Chunk::free).
pub(super) unsafe fn free(start: NonNull<u8>, _: Origin) {
    // SAFETY: `take` got it from the kernel, and the caller gives it up.
    unsafe { free_page(start) };
}
