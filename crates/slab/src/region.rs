//! The memory of slabs: chunks of one size, aligned to it, cut from larger regions.
//!
//! On Linux a region (`region/mapped.rs`) is a mapping of its own of two mebibytes, so that it can
//! be one huge page, and has room for 32 chunks. A freed chunk loses its pages at once; a region
//! whose chunks are all free is unmapped. In a kernel a chunk is a page that the kernel provides
//! (`region/page.rs`). Elsewhere, and in models, it is an allocation (`region/allocated.rs`).
//!
//! A chunk is aligned to its size, so any address in it leads to its beginning.

#[cfg(any(loom, all(feature = "std", not(target_os = "linux"))))]
#[path = "region/allocated.rs"]
mod source;
#[cfg(all(feature = "std", target_os = "linux", not(loom)))]
#[path = "region/mapped.rs"]
mod source;
#[cfg(all(not(feature = "std"), not(loom)))]
#[path = "region/page.rs"]
mod source;

use core::ptr::NonNull;

use fdtable_sync::fallible::OutOfMemory;

/// Ownership of the memory of one chunk, which begins at a multiple of
/// [`CHUNK`](super::chunk::CHUNK). Dropping it does not free the chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) start: NonNull<u8>,
    origin: source::Origin,
}

impl Chunk {
    /// Takes a chunk. Its contents are unspecified. May ask the system for memory.
    pub(super) fn take() -> Result<Self, OutOfMemory> {
        #[cfg(all(test, not(loom)))]
        if super::scarcity::refuses_chunk() {
            return Err(OutOfMemory);
        }
        let (start, origin) = source::take()?;
        Ok(Self { start, origin })
    }

    /// Frees the chunk.
    ///
    /// # Safety
    /// It was taken, and not freed yet; its memory is no longer used.
    pub(super) unsafe fn free(self) {
        // SAFETY: as the caller promises; the origin is the one that came with the chunk.
        unsafe { source::free(self.start, self.origin) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::chunk::{CHUNK, chunk_of};
    use super::*;
    use crate::scarcity;

    #[test]
    fn chunks_are_aligned_and_apart() {
        let chunks: Vec<Chunk> = (0..100)
            .map(|_| Chunk::take().expect("there is memory"))
            .collect();
        let mut starts: Vec<usize> = chunks.iter().map(|c| c.start.addr().get()).collect();
        starts.sort_unstable();
        assert!(starts.iter().all(|start| start.is_multiple_of(CHUNK)));
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= CHUNK));
        for (number, chunk) in chunks.iter().enumerate() {
            // SAFETY: this test has the chunk.
            unsafe { chunk.start.write_bytes(number as u8, CHUNK) };
        }
        for (number, chunk) in chunks.iter().enumerate() {
            // SAFETY: this test has the chunk, and has written it.
            let bytes = unsafe { core::slice::from_raw_parts(chunk.start.as_ptr(), CHUNK) };
            assert!(bytes.iter().all(|&byte| byte == number as u8));
        }
        for chunk in chunks {
            // SAFETY: taken above.
            unsafe { chunk.free() };
        }
    }

    #[test]
    fn every_address_of_a_chunk_leads_to_its_beginning() {
        let chunk = Chunk::take().expect("there is memory");
        for offset in [0, 1, CHUNK / 2, CHUNK - 1] {
            // SAFETY: the offset is inside the chunk.
            let place = unsafe { chunk.start.add(offset) };
            assert_eq!(chunk_of(place), chunk.start.as_ptr());
        }
        // SAFETY: taken above.
        unsafe { chunk.free() };
    }

    #[test]
    fn memory_runs_out_when_a_test_says_so() {
        scarcity::with_chunks(1, || {
            let chunk = Chunk::take().expect("one is left");
            assert!(Chunk::take().is_err());
            // SAFETY: taken above.
            unsafe { chunk.free() };
        });
    }
}
