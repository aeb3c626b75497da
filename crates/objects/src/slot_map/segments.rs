//! Entries that never move: segments of doubling size, behind an array of pointers.
//!
//! Segment *k* has [`FIRST`] · 2^*k* entries, so the highest bit of an index selects its segment,
//! and a few pointers lead to all of them. A map that grows gets one more segment. Nothing is
//! copied, and a reader needs no lock to find an entry.
//!
//! The memory comes zeroed from the allocator, and zeroes are a free entry. So the pages of a large
//! segment are touched only when its entries are made.

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::ptr::{self, NonNull};

use crate::object::header::RawObject;
use fdtable_sync::fallible::OutOfMemory;
use fdtable_sync::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use fdtable_sync::platform::atomic::{AtomicPtr, AtomicU32};

/// How many entries the first segment has. A multiple of a batch, so that no batch is in two.
const FIRST: u64 = if cfg!(loom) { 2 } else { 64 };

const FIRST_BITS: u32 = FIRST.trailing_zeros();

/// How many segments there can be. Together they have 2^32 - [`FIRST`] entries.
const SEGMENTS: usize = 32 - FIRST_BITS as usize;

/// Entry for an object, on a cache line of its own. Neighbours may be on the lists of different
/// CPUs, and each opening writes here. All zeroes: free, and never opened yet.
#[repr(align(64))]
pub(super) struct Entry {
    /// How often it was opened and closed: odd while it is open.
    pub(super) word: AtomicU32,
    /// The next entry on a free list.
    pub(super) next: AtomicU32,
    /// The object of the latest opening. While that lasts, it holds a reference.
    pub(super) raw: AtomicPtr<RawObject>,
}

/// Exclusively owned entry: no other thread opens or closes it.
pub(super) struct OwnedEntry<'p> {
    pub(super) index: u32,
    pub(super) entry: &'p Entry,
}

/// The entries of a map.
pub(super) struct Segments {
    /// Null until the segment is needed; then set once.
    first_entries: [AtomicPtr<Entry>; SEGMENTS],
}

/// Returns the segment of an index, and where the entry is in it.
#[inline(always)]
fn locate(index: u32) -> (usize, usize) {
    let shifted = u64::from(index) + FIRST;
    let segment = 63 - shifted.leading_zeros() - FIRST_BITS;
    let offset = shifted - (FIRST << segment);
    // Less than 2^32.
    (segment as usize, offset as usize)
}

/// Returns how many entries a segment has.
fn len(segment: usize) -> usize {
    (FIRST << segment) as usize
}

fn layout(segment: usize) -> Result<Layout, OutOfMemory> {
    Layout::array::<Entry>(len(segment)).map_err(|_too_large| OutOfMemory)
}

impl Entry {
    fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            next: AtomicU32::new(0),
            raw: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

impl Segments {
    pub(super) fn new() -> Self {
        Self {
            first_entries: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// Finds the entry of an index, if its segment is there. Neither blocks nor allocates.
    #[inline(always)]
    pub(super) fn entry(&self, index: u32) -> Option<&Entry> {
        let (segment, offset) = locate(index);
        // Acquire: pairs with the release in `grow`, so the entries are visible as they were made.
        let first = NonNull::new(self.first_entries.get(segment)?.load(Acquire))?;
        // SAFETY: `locate` gives an offset that is less than the length of the segment.
        let entry = unsafe { first.add(offset) };
        // SAFETY: `grow` made all entries of the segment. They stay where they are, and only
        // shared, until the map is dropped.
        Some(unsafe { entry.as_ref() })
    }

    /// Finds the entry of an index as a place, for the caller that owns it.
    #[inline(always)]
    pub(super) fn place(&self, index: u32) -> Option<OwnedEntry<'_>> {
        let entry = self.entry(index)?;
        Some(OwnedEntry { index, entry })
    }

    /// Makes the segment of an index, unless it is there, and returns the entry of the index. Only
    /// for the holder of the map's lock.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is none, or the index is past the last segment.
    pub(super) fn grow(&self, index: u32) -> Result<OwnedEntry<'_>, OutOfMemory> {
        let (segment, _) = locate(index);
        let place = self.first_entries.get(segment).ok_or(OutOfMemory)?;
        // Relaxed: stored only under the lock that the caller holds; not dereferenced.
        if place.load(Relaxed).is_null() {
            let first = allocate(segment)?;
            // Release: pairs with the acquire in `entry`.
            place.store(first.as_ptr(), Release);
        }
        self.place(index).ok_or(OutOfMemory)
    }
}

/// Makes the entries of a segment.
fn allocate(segment: usize) -> Result<NonNull<Entry>, OutOfMemory> {
    // SAFETY: a segment has entries, so the size is not zero.
    let memory = unsafe { alloc_zeroed(layout(segment)?) };
    let first = NonNull::new(memory.cast::<Entry>()).ok_or(OutOfMemory)?;
    // Zeroes are entries, except for the model checker, whose atomics keep more than their words.
    if cfg!(loom) {
        for offset in 0..len(segment) {
            // SAFETY: the memory has room for this many.
            let entry = unsafe { first.add(offset) };
            // SAFETY: the memory is aligned, and no other thread has it yet.
            unsafe { entry.write(Entry::new()) };
        }
    }
    Ok(first)
}

impl Drop for Segments {
    fn drop(&mut self) {
        for (segment, place) in self.first_entries.iter().enumerate() {
            // Relaxed: the map is borrowed mutably.
            let Some(first) = NonNull::new(place.load(Relaxed)) else {
                continue;
            };
            let Ok(layout) = layout(segment) else {
                continue;
            };
            let entries = NonNull::slice_from_raw_parts(first, len(segment));
            // SAFETY: `allocate` made them all, and no other thread has the map.
            unsafe { entries.drop_in_place() };
            // SAFETY: `allocate` took the memory with the same layout.
            unsafe { dealloc(first.as_ptr().cast(), layout) };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// How many entries there can be.
    const ENTRIES: u32 = u32::MAX - 63;

    #[test]
    fn every_index_has_its_own_place() {
        let mut expected = (0, 0);
        for index in 0..100_000 {
            assert_eq!(locate(index), expected);
            expected.1 += 1;
            if expected.1 == len(expected.0) {
                expected = (expected.0 + 1, 0);
            }
        }
    }

    #[test]
    fn the_last_entry_is_the_last_of_the_last_segment() {
        let last = SEGMENTS - 1;
        assert_eq!(locate(ENTRIES - 1), (last, len(last) - 1));
        assert_eq!(locate(ENTRIES), (SEGMENTS, 0));
        assert_eq!(locate(u32::MAX).0, SEGMENTS);
    }

    #[test]
    fn what_cannot_be_is_not_there() {
        let segments = Segments::new();
        assert!(segments.entry(0).is_none());
        assert!(segments.entry(u32::MAX).is_none());
        assert!(segments.grow(ENTRIES).is_err());
    }

    #[test]
    fn entries_stay_where_they_are_each_on_its_cache_line() {
        let segments = Segments::new();
        segments.grow(0).map(drop).expect("there is memory");
        let first = segments.entry(0).map(ptr::from_ref);
        segments.grow(1000).map(drop).expect("there is memory");
        assert_eq!(segments.entry(0).map(ptr::from_ref), first);
        for index in [0, 1, 1000] {
            let entry = segments.entry(index).expect("made");
            assert_eq!(ptr::from_ref(entry).addr() % 64, 0);
        }
        assert!(segments.entry(64).is_none(), "segments are made one by one");
    }
}
