//! A slot map: counted objects under handles that are never mistaken for one another.
//!
//! A handle is an index with a *generation*. A lookup of a closed handle finds nothing, even if the
//! same index has been assigned again meanwhile. There is no lowest index to find, so there is no
//! search and no bitmap: allocating an index and freeing it are one step each, on a list of the
//! CPU's own.
//!
//! # Entries
//!
//! An [`Entry`] has a word, the address of an object, and a link that is used while it is free. The
//! word counts how often the entry was opened and closed: it is odd while the entry is open, and
//! then it is the generation of the handle. Entries are in [segments] that never move. Free entries
//! are on [lists](free_list), one for each CPU.
//!
//! The steps, with letters that stand at the same steps in the code:
//!
//! | | reader, with a handle of generation *g* | | opener and closer |
//! |---|---|---|---|
//! | (L) | load the word, acquire: is it *g*? | (I) | store the address, release |
//! | (M) | load the address, acquire | (J) | store the word *g*, release |
//! | (N) | load the word again: is it still *g*? | (X) | compare-and-swap the word from *g* to *g* + 1, acquire |
//! | (O) | borrowed: use it until the section ends | (Y) | load the address: the reference is the closer's |
//! | (Q) | owned: add to the count | (F) | put the entry on a free list |
//! | | | (P) | put the reference; the last one queues the free |
//!
//! The opener owns the entry from its removal from a list until (J), and the closer from (X) until
//! (F). Between the (F) of one opening and the (I) of the next is the lock of a list. So all steps
//! that change an entry are in one order: (I) (J) (X) (Y) (F), and again.
//!
//! # What a lookup finds
//!
//! *(A) The handle names nothing.* It was never assigned, or it is closed: (L) loads another word,
//! and the address is not read. The generation of a handle must be odd, or the word of a free entry
//! could be taken for it. This covers every made-up 64-bit value.
//!
//! *(B) (M) loads the address of an earlier opening.* It cannot: (L) has read from the (J) of this
//! opening, a release-acquire pair, and its (I) comes before. This holds also for a handle that was
//! guessed before it was assigned.
//!
//! *(C) (M) loads the address of a later opening.* Then it has read from the (I) of that one, a
//! release-acquire pair. The (X) that ended *g* comes before it, so (N) loads a later word than
//! *g*, and the lookup finds nothing. The address has not been dereferenced: its object may have
//! been freed.
//!
//! *(D) (M) loads the address of this opening.* That is the right object, complete by the pair of
//! (I) and (M). If (N) still loads *g*, the lookup found it before it was closed, or during the
//! close.
//!
//! *Removal against a borrowed lookup.* In (D) the word was *g* at (L), inside a section. (X)
//! removes the handle and comes before (P). So either the section is one for which a grace period
//! that follows (P) waits, or (L) would have seen (X): see [`rcu`](fdtable_sync::rcu).
//!
//! *Removal against an owned lookup.* If (Q) comes before the burial in (P), the reader has a
//! reference. If it comes after, the count is dead: the handle was closed, permanently, and the
//! reader need not look again, unlike in a [slot of a leaf](crate::radix::leaf).
//!
//! *Two closers of one handle.* One of the two (X) succeeds. The other one finds another word, and
//! changes nothing. (X) has read from (J), a release-acquire pair, so (Y) loads the address of this
//! opening, and no later one: the entry is not on a list yet.
//!
//! # When the generations run out
//!
//! The closer of the last generation, 2^32 - 1, sets the word to 0 and does not put the entry on a
//! list: it is *retired*, and never opened again. So a word that has moved on never comes back.
//! (L), (N) and (X) rely on this, and a handle means one opening for the life of the map. After
//! 2^31 openings of an entry its 64 bytes are lost.
//!
//! # The limit
//!
//! The map makes as many entries as may be open at once, and no more; retired entries do not
//! count. So an opening counts nothing: it succeeds if there is a free entry anywhere. Only an
//! opener that finds no entry on the list of its CPU takes the lock of the map. Then it looks, in
//! this order, on the other lists, for entries that were not made yet, and, with all lists locked,
//! on all lists once more. If it finds none even then, the map is full.
//!
//! The limit is exact. At no time are more entries open than the limit. If the map is reported as
//! full, there was a point during the call when every entry was open, or was held by a call that
//! had taken it to open it or had not freed it yet. A free entry that moves from one list to
//! another does not cause a false report, since entries move under the lock of the map.

use alloc::alloc::{Layout, handle_alloc_error};
use core::marker::PhantomData;
use core::ptr::NonNull;

use crossbeam_utils::CachePadded;

use self::free_list::{AllLocked, FreeList, Lists};
use self::segments::{Entry, OwnedEntry, Segments};
use crate::object::{Borrowed, Ref};
use fdtable_sync::fallible::OutOfMemory;
use fdtable_sync::percpu;
use fdtable_sync::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use fdtable_sync::platform::{Mutex, relax};
use fdtable_sync::rcu::Guard;
use fdtable_sync::unwind;

mod free_list;
mod segments;

/// How many entries are made at once, and the most that move from one list to another.
const BATCH: u32 = if cfg!(loom) { 2 } else { 32 };

/// Handle: an entry, and one of its openings. Any 64 bits are a handle; most name nothing.
///
/// Neither 0 nor 2^64 - 1 is ever assigned: generations of handles are odd, and no index is 2^32 -
/// 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Handle {
    index: u32,
    generation: u32,
}

/// How many entries the map has made.
struct Growth {
    /// Exclusive upper bound of the indexes of entries that were ever made.
    made: u32,
    /// How many of them are retired.
    retired: u32,
}

/// Why an insertion failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertError {
    /// As many entries are open as the limit allows.
    Full,
    /// There is no memory for more entries.
    OutOfMemory,
}

impl From<OutOfMemory> for InsertError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// A slot map of counted objects. It holds a reference to each.
///
/// ```
/// use fdtable_objects::{object::Ref, slot_map::SlotMap};
/// use fdtable_sync::rcu;
///
/// let map = SlotMap::new(100);
/// let old = map.insert(Ref::new("old")).expect("an entry is free");
/// assert_eq!(map.get(old, &rcu::read_lock()).as_deref(), Some(&"old"));
/// drop(map.remove(old));
///
/// let new = map.insert(Ref::new("new")).expect("an entry is free");
/// assert_eq!(new.index(), old.index(), "the same entry");
/// assert!(map.get(old, &rcu::read_lock()).is_none(), "and another handle");
/// ```
///
/// A `SlotMap` is invariant in its type, since otherwise an object of a more general type could be
/// inserted through another view of the map:
///
/// ```compile_fail
/// # use fdtable_objects::slot_map::SlotMap;
/// fn generalise<'a>(map: &'a SlotMap<&'static str>) -> &'a SlotMap<&'a str> {
///     map
/// }
/// ```
pub struct SlotMap<T: ?Sized> {
    segments: Segments,
    limit: u32,
    lists: Lists,
    growth: CachePadded<Mutex<Growth>>,
    owns: PhantomData<Ref<T>>,
    /// Both takes and returns references: invariant in `T`.
    exchanges: PhantomData<fn(Ref<T>) -> Ref<T>>,
}

impl Handle {
    /// Makes a handle of any 64 bits: those of [`to_bits`](Self::to_bits), or others.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            // The low half.
            index: bits as u32,
            generation: (bits >> 32) as u32,
        }
    }

    /// Returns the handle as 64 bits: the generation above, the index below.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// Returns the index of the entry, 0 to 2^32 - 1.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// Returns the generation, 0 to 2^32 - 1. Odd in every handle that was assigned.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

impl OwnedEntry<'_> {
    /// Puts an object into the entry and opens it.
    #[inline(always)]
    fn open<T: ?Sized>(self, object: Ref<T>) -> Handle {
        // Relaxed: this thread owns the entry. The word is even, so there is one above it.
        let generation = self.entry.word.load(Relaxed) + 1;
        // (I) Release: pairs with the acquire in (M), so the object is complete there, and a reader
        // of its address sees that the previous opening has ended.
        self.entry.raw.store(object.into_raw().as_ptr(), Release);
        // (J) Release: pairs with the acquire in (L) and in (X), so the address is visible there.
        self.entry.word.store(generation, Release);
        Handle {
            index: self.index,
            generation,
        }
    }
}

/// The public operations.
impl<T: ?Sized> SlotMap<T> {
    /// Makes an empty map for at most `limit` objects at once, 0 to 2^31. A larger limit counts as
    /// 2^31. Allocates a free list for each CPU; entries are allocated as they are needed, not for
    /// the limit.
    #[must_use]
    pub fn new(limit: u32) -> Self {
        // Models say which of two lists a thread uses.
        let lists = if cfg!(loom) { 2 } else { percpu::copies() };
        let lists = Lists::try_with_copies(lists, |_cpu| FreeList::new());
        Self {
            segments: Segments::new(),
            limit: limit.min(1 << 31),
            lists: lists
                .unwrap_or_else(|OutOfMemory| handle_alloc_error(Layout::new::<FreeList>())),
            growth: CachePadded::new(Mutex::new(Growth {
                made: 0,
                retired: 0,
            })),
            owns: PhantomData,
            exchanges: PhantomData,
        }
    }

    /// Returns how many objects may be in the map at once, 0 to 2^31.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Puts an object into the map and returns its handle. Waits only if the CPU's list has no
    /// free entry: then it may wait for a lock, and allocate. May be called inside a read-side
    /// section, since no holder of the lock waits for a grace period.
    ///
    /// # Errors
    /// Returns the object if [the map is full](InsertError::Full), or [there is no
    /// memory](InsertError::OutOfMemory).
    #[inline]
    pub fn insert(&self, object: Ref<T>) -> Result<Handle, (InsertError, Ref<T>)> {
        self.insert_at(percpu::current(), object)
    }

    /// Removes the object of a handle from the map, with its reference. The handle names nothing
    /// from then on. If several threads remove one handle concurrently, one of them gets the
    /// object. The caller decides when the reference is dropped: outside of its locks. Does not
    /// allocate, and waits for other threads for a few steps at most. May be called inside a
    /// read-side section.
    #[inline]
    #[must_use = "dropping the reference may run its release hook"]
    pub fn remove(&self, handle: Handle) -> Option<Ref<T>> {
        self.remove_at(percpu::current(), handle)
    }

    /// Looks up an object without taking a reference. Neither blocks nor allocates.
    #[inline(always)]
    pub fn borrow<'g>(&self, handle: Handle, guard: &'g Guard<'_>) -> Option<Borrowed<'g, T>> {
        let entry = self.entry_of(handle)?;
        // (L) Acquire: pairs with the release in (J), so that (M) loads the address of this
        // opening, or of a later one.
        // weaken: slot-map-no-first-look
        if entry.word.load(Acquire) != handle.generation {
            return None;
        }
        // (M) Acquire: pairs with the release in (I): the object is complete, and if it is that
        // of a later opening, (N) sees that this one is over.
        // weaken: slot-map-second-look-before-the-address
        let raw = NonNull::new(entry.raw.load(Acquire))?;
        // (N) Relaxed: it comes after (M) by the acquire there, and nothing depends on it.
        // weaken: slot-map-second-look-before-the-address
        // weaken: slot-map-no-second-look
        if entry.word.load(Relaxed) != handle.generation {
            return None;
        }
        // (O)
        // SAFETY: this is the address of the opening that the handle names: cases (B) to (D). At
        // (L), inside the section, the map had a reference that had not been taken out.
        Some(unsafe { Borrowed::new(raw, guard) })
    }

    /// Looks up an object and takes a reference. One atomic add; neither blocks nor allocates.
    #[inline(always)]
    pub fn get(&self, handle: Handle, guard: &Guard<'_>) -> Option<Ref<T>> {
        // (Q) A dead count means that the handle was removed.
        self.borrow(handle, guard)?.upgrade()
    }

    /// Returns how many objects are in the map, 0 to 2^31. The count is atomic, and includes
    /// objects that are just being inserted or removed. Waits for the lock of every list, and other
    /// threads wait meanwhile: meant for diagnostics, not for each request.
    pub fn count(&self) -> u32 {
        let growth = self.growth.lock();
        let free = AllLocked::new(&self.lists).len();
        growth.made - growth.retired - free
    }

    /// Iterates over the handles of all objects, by index. Objects that are inserted or removed
    /// meanwhile may be seen or not. May wait for a lock at its beginning.
    pub fn handles(&self) -> impl Iterator<Item = Handle> {
        let made = self.growth.lock().made;
        (0..made).filter_map(|index| {
            // Relaxed: a hint, for the caller to look up.
            let generation = self.segments.entry(index)?.word.load(Relaxed);
            (!generation.is_multiple_of(2)).then_some(Handle { index, generation })
        })
    }
}

/// The private steps. `home` is the number of the CPU of the list that is tried first.
impl<T: ?Sized> SlotMap<T> {
    #[inline(always)]
    fn insert_at(&self, home: usize, object: Ref<T>) -> Result<Handle, (InsertError, Ref<T>)> {
        let near = self.lists.of(home).try_lock();
        let place = match near.and_then(|mut list| list.pop(&self.segments)) {
            Some(place) => place,
            None => match self.find_place(home) {
                Ok(place) => place,
                Err(reason) => return Err((reason, object)),
            },
        };
        Ok(place.open(object))
    }

    #[inline(always)]
    fn remove_at(&self, home: usize, handle: Handle) -> Option<Ref<T>> {
        let entry = self.entry_of(handle)?;
        let old = handle.generation;
        let new = old.wrapping_add(1);
        // (X) Acquire: pairs with the release in (J), so that (Y) loads the address of this
        // opening. Relaxed on failure: the handle names nothing.
        entry
            .word
            // weaken: slot-map-removal-in-two-steps
            .compare_exchange(old, new, Acquire, Relaxed)
            .ok()?;
        // (Y) Relaxed: ordered by (X). Never null, since (I) came before.
        let raw = NonNull::new(entry.raw.load(Relaxed))?;
        // SAFETY: (I) stored this reference, and (X) removed it, for this thread alone.
        let object = unsafe { Ref::from_raw(raw) };
        let index = handle.index;
        match new {
            0 => self.retire(),
            _ => self.free_entry(home, &OwnedEntry { index, entry }),
        }
        Some(object)
    }

    /// Returns the entry that a handle could name. The generation must be odd, so that the word of
    /// a free entry is not taken for it.
    #[inline(always)]
    fn entry_of(&self, handle: Handle) -> Option<&Entry> {
        if handle.generation.is_multiple_of(2) {
            return None;
        }
        self.segments.entry(handle.index)
    }

    /// (F) Puts a free entry on a list.
    #[inline(always)]
    fn free_entry(&self, home: usize, place: &OwnedEntry<'_>) {
        match self.lists.of(home).try_lock() {
            Some(mut list) => list.push(place),
            None => self.free_elsewhere(home, place),
        }
    }

    /// The holder of a list's lock may have been preempted, so another list will do.
    #[cold]
    fn free_elsewhere(&self, home: usize, place: &OwnedEntry<'_>) {
        let mut attempts = 0;
        loop {
            if let Some(mut list) = self.lists_from(home).find_map(FreeList::try_lock) {
                return list.push(place);
            }
            relax(attempts);
            attempts += 1;
        }
    }

    /// Keeps a free entry off the lists: it has no generation left. Another one may be made in its
    /// place.
    #[cold]
    fn retire(&self) {
        self.growth.lock().retired += 1;
    }

    /// Finds a free entry that is not on the list of `home`.
    #[cold]
    #[inline(never)]
    fn find_place(&self, home: usize) -> Result<OwnedEntry<'_>, InsertError> {
        let mut growth = self.growth.lock();
        if let Some(place) = self.steal(home) {
            return Ok(place);
        }
        match self.make(home, &mut growth) {
            Err(InsertError::Full) => self.last_place().ok_or(InsertError::Full),
            answer => answer,
        }
    }

    /// Takes a batch from a list that has free entries, but no more than half of them, and puts all
    /// but one on the list of `home`. Only for the holder of the map's lock.
    fn steal(&self, home: usize) -> Option<OwnedEntry<'_>> {
        for list in self.lists_from(home).filter(|list| list.len() > 0) {
            let mut victim = list.lock();
            let Some(place) = victim.pop(&self.segments) else {
                continue;
            };
            let chain = victim.take_half(BATCH - 1, &self.segments);
            drop(victim);
            if let Some(chain) = chain {
                self.lists.of(home).lock().put(&chain);
            }
            return Some(place);
        }
        None
    }

    /// Makes a batch of entries, and puts all but one on the list of `home`.
    fn make(&self, home: usize, growth: &mut Growth) -> Result<OwnedEntry<'_>, InsertError> {
        let first = growth.made;
        let free = self.limit - (first - growth.retired);
        if free == 0 {
            return Err(InsertError::Full);
        }
        let place = self.segments.grow(first)?;
        // Up to the end of a batch: none is in two segments.
        growth.made = first + free.min(BATCH - first % BATCH);
        let mut list = self.lists.of(home).lock();
        // The lowest on top.
        (first + 1..growth.made)
            .rev()
            .filter_map(|index| self.segments.place(index))
            .for_each(|other| list.push(&other));
        Ok(place)
    }

    /// Takes a free entry from any list, under the locks of all. Only for the holder of the map's
    /// lock.
    fn last_place(&self) -> Option<OwnedEntry<'_>> {
        // weaken: slot-map-full-list-by-list
        AllLocked::new(&self.lists).pop(&self.segments)
    }

    /// Iterates over all lists, beginning with that of `home`.
    fn lists_from(&self, home: usize) -> impl Iterator<Item = &FreeList> {
        let lists = self.lists.iter().count();
        (0..lists).map(move |step| self.lists.of(home.wrapping_add(step)))
    }
}

impl<T: ?Sized> Drop for SlotMap<T> {
    fn drop(&mut self) {
        let mut handles = self.handles();
        unwind::finish(|| {
            for handle in handles.by_ref() {
                drop(self.remove(handle));
            }
        });
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod tests;
