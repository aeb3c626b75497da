//! Regions: mappings of two mebibytes, each with a descriptor beside it.
//!
//! Regions that have a free chunk are on a list; a chunk remembers its region. A region whose
//! chunks are all free is unmapped, unless it is the only one on the list: its pages are freed by
//! then, and the next chunk needs no system call.
//!
//! The first regions are made of small pages, even where the system would rather use huge ones: a
//! small process pays for the pages that it touches, and no open waits for two mebibytes to be
//! cleared. For a process with many regions the kernel is asked for huge pages, which save most
//! page faults and TLB entries. If the kernel has none, nothing is lost.

use alloc::boxed::Box;
use core::cell::Cell;
use core::ops::Deref;
use core::ptr::{self, NonNull};

use crate::chunk::CHUNK;
use crate::list::{Element, Links, List};
use fdtable_sync::fallible::{OutOfMemory, try_box};
use fdtable_sync::platform::{Mutex, global, shared};

/// How many bytes a region has.
const REGION: usize = 2 * 1024 * 1024;

/// How many chunks a region has: the bits of a word.
const CHUNKS: usize = REGION / CHUNK;

/// How many regions of a process have small pages: 16 mebibytes.
const SMALL: usize = 8;

const ALL: u32 = u32::MAX >> (u32::BITS as usize - CHUNKS);

/// The region of a chunk, for the holder of the lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin(NonNull<Region>);

/// The state of a region. The lock of the list guards it, except for the address, which never
/// changes.
pub(super) struct Region {
    start: NonNull<u8>,
    /// A bit for each chunk: it is free.
    free: Cell<u32>,
    links: Links<Origin>,
}

struct Regions {
    /// Regions that have a free chunk.
    list: List<Origin>,
    /// How many there are, with and without a free chunk.
    count: usize,
}

impl Deref for Origin {
    type Target = Region;

    fn deref(&self) -> &Region {
        // SAFETY: a descriptor is alive while a chunk of its region is taken, or it is on the list.
        unsafe { self.0.as_ref() }
    }
}

impl Element for Origin {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

// SAFETY: regions belong to the process, and to no thread; the lock guards them.
unsafe impl Send for Regions {}

global! {
    pub(super) static REGIONS: Mutex<Regions> = Mutex::new(Regions {
        list: List::new(),
        count: 0,
    });
}

pub(super) fn take() -> Result<(NonNull<u8>, Origin), OutOfMemory> {
    let mut regions = REGIONS.lock();
    let region = match regions.list.first() {
        Some(region) => region,
        None => regions.grow()?,
    };
    let free = region.free.get();
    let number = free.trailing_zeros() as usize;
    region.free.set(free & (free - 1));
    // SAFETY: a region on the list has a free chunk, which begins inside it.
    let start = unsafe { region.start.add(number * CHUNK) };
    if region.free.get() == 0 {
        regions.list.remove(region);
    }
    Ok((start, region))
}

/// # Safety
/// As for [`Chunk::free`](super::Chunk::free), with the origin that `take` returned.
pub(super) unsafe fn free(start: NonNull<u8>, region: Origin) {
    // Before any other thread can take it. If the kernel refuses, the pages stay; nothing else
    // depends on it.
    // SAFETY: the caller gives up these pages, which are part of a mapping of this library.
    unsafe { libc::madvise(start.as_ptr().cast(), CHUNK, given_up()) };
    let mut regions = REGIONS.lock();
    if region.free.get() == 0 {
        regions.list.push(region);
    }
    let number = (start.addr().get() - region.start.addr().get()) / CHUNK;
    region.free.set(region.free.get() | 1 << number);
    if region.free.get() == ALL && regions.list.len() > 1 {
        regions.list.remove(region);
        if unmap(region.start) {
            regions.count -= 1;
            drop(regions);
            // SAFETY: `grow` leaked the box; without chunks and off the list no thread knows it.
            drop(unsafe { Box::from_raw(region.0.as_ptr()) });
        } else {
            // The kernel has no memory to split its own records: kept for the next chunk.
            regions.list.push(region);
        }
    }
}

/// The advice that frees pages: those of one process, or those that processes share.
fn given_up() -> libc::c_int {
    if shared::is_shared() {
        libc::MADV_REMOVE
    } else {
        libc::MADV_DONTNEED
    }
}

impl Regions {
    /// Makes a region and puts it on the list.
    fn grow(&mut self) -> Result<Origin, OutOfMemory> {
        let mut region = try_box(Region {
            start: NonNull::dangling(),
            free: Cell::new(ALL),
            links: Links::new(),
        })?;
        region.start = map()?;
        let advice = if self.count >= SMALL {
            libc::MADV_HUGEPAGE
        } else {
            libc::MADV_NOHUGEPAGE
        };
        // SAFETY: a mapping of this library. It is advice: the result does not matter.
        unsafe { libc::madvise(region.start.as_ptr().cast(), REGION, advice) };
        self.count += 1;
        let region = Origin(NonNull::from(Box::leak(region)));
        self.list.push(region);
        Ok(region)
    }
}

/// Maps a region: maps twice as much as needed, and unmaps the parts before and after it.
fn map() -> Result<NonNull<u8>, OutOfMemory> {
    if let Some(mapped) = shared::map(REGION) {
        return mapped.ok_or(OutOfMemory);
    }
    const LARGE: usize = 2 * REGION;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: an anonymous mapping at a place of the kernel's choice touches no other memory.
    let large = unsafe { libc::mmap(ptr::null_mut(), LARGE, protection, flags, -1, 0) };
    if large == libc::MAP_FAILED {
        return Err(OutOfMemory);
    }
    let large = large.cast::<u8>();
    let ahead = large.addr().next_multiple_of(REGION) - large.addr();
    let start = large.wrapping_add(ahead);
    let behind = LARGE - REGION - ahead;
    // A part that cannot be unmapped stays mapped, and costs only address space.
    if ahead > 0 {
        // SAFETY: the part before the region is part of this mapping, and no thread knows it.
        unsafe { libc::munmap(large.cast(), ahead) };
    }
    if behind > 0 {
        // SAFETY: as above, with the part after it.
        unsafe { libc::munmap(start.wrapping_add(REGION).cast(), behind) };
    }
    NonNull::new(start).ok_or(OutOfMemory)
}

/// Unmaps a region. Returns true if the kernel did.
fn unmap(start: NonNull<u8>) -> bool {
    // SAFETY: the caller found all chunks of the region free, so it is no longer used.
    if unsafe { shared::unmap(start, REGION) } {
        return true;
    }
    // SAFETY: as above.
    unsafe { libc::munmap(start.as_ptr().cast(), REGION) == 0 }
}
