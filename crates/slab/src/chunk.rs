//! The unit of memory that slabs are made of, and its size.

use core::ptr::NonNull;

use fdtable_sync::platform::kernel::PAGE;

/// How many bytes a chunk has: 64 KiB, and a page in a kernel, where runs of pages are scarce.
/// Models use less.
pub(super) const CHUNK: usize = if cfg!(loom) {
    2 * 1024
} else if cfg!(feature = "std") {
    64 * 1024
} else {
    PAGE
};

/// Returns the beginning of the chunk that an address is in.
#[inline]
pub(super) fn chunk_of(place: NonNull<u8>) -> *mut u8 {
    place.as_ptr().map_addr(|address| address & !(CHUNK - 1))
}
