//! How much memory is in use.
//!
//! The C library is asked what its heap has given out, so the program runs on the allocator that
//! programs have, and no allocation pays for being counted. What is given out has the size that
//! can be used, with the header of each block: a little more than was asked for. Blocks that a
//! thread keeps for itself after they were freed count as in use, a few kilobytes in all; who
//! measures small things measures many of them. Objects in slabs have their share of the slab, with
//! its header, colours and what is left at its end.

use fdtable::slab::{self, Info};

/// Returns the bytes of the heap and of slabs that are in use, or none where the C library is not glibc.
///
/// Runs callbacks that wait for readers first, so that what was freed is free. Blocks.
///
/// # Errors
/// If the C library refuses to tell.
pub fn bytes_in_use() -> anyhow::Result<Option<f64>> {
    // Twice: a callback may free something that waits for readers in its turn.
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

    /// Adds what the heap has from the system and what was mapped, without what is free in it.
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
