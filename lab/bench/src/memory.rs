//! Measurement of the memory in use.
//!
//! The C library reports the size of its heap, so the program runs on a common allocator, and no
//! allocation pays for being counted. The size of a block is its usable size, with its header:
//! slightly more than was requested. Freed blocks in a thread's cache count as in use, a few
//! kilobytes in all; a measurement of small objects therefore allocates many. Objects in slabs have
//! their share of the slab, with its header, its colours and the unused space at its end.

use fdtable_slab::{self as slab, Info};

/// Returns the bytes of the heap and of slabs that are in use. None if the C library is not glibc.
///
/// First runs callbacks that wait for readers, so that freed memory counts as free. Blocks.
///
/// # Errors
/// If the C library reports no size.
pub fn bytes_in_use() -> anyhow::Result<Option<f64>> {
    // Twice: a callback may free something that waits for readers itself.
    for _ in 0..2 {
        fdtable::rcu::barrier()?;
    }
    let in_slabs: usize = slab::infos().iter().map(Info::bytes_in_use).sum();
    let in_heap = heap::bytes_in_use()?;
    Ok(in_heap.map(|bytes| bytes + in_slabs as f64))
}

#[cfg(target_env = "gnu")]
mod heap {
    use malloc_info::info::{SystemType, TotalType};
    use malloc_info::malloc_info;

    /// Adds the heap's memory from the system and the mapped blocks, without the heap's free
    /// memory.
    pub(super) fn bytes_in_use() -> anyhow::Result<Option<f64>> {
        let info = malloc_info()?;
        let from_system = info
            .system
            .iter()
            .filter(|system| system.r#type == SystemType::Current)
            .map(|system| system.size as f64);
        let mapped_or_free = info.total.iter().map(|total| match total.r#type {
            TotalType::Mmap => total.size as f64,
            TotalType::Fast | TotalType::Rest => -(total.size as f64),
            TotalType::Other => 0.0,
        });
        Ok(Some(from_system.chain(mapped_or_free).sum()))
    }
}

#[cfg(not(target_env = "gnu"))]
mod heap {
    pub(super) fn bytes_in_use() -> anyhow::Result<Option<f64>> {
        Ok(None)
    }
}
