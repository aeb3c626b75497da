//! A pool of counted objects under handles that are never mistaken for one another.
//!
//! A handle is an index with a *generation*. Who closes a handle and uses it again is told that
//! it names nothing, also when the same index has been given to somebody else meanwhile. There
//! is no lowest number, so there is no search and no bitmap: taking an index and giving it back
//! are one step each, on a list of the processor's own.
//!
//! # Entries
//!
//! An [`Entry`] has a word, the address of an object, and a link for the time in which it is
//! free. The word counts how often the entry was opened and closed: it is odd while the entry is
//! open, and then it is the generation of the handle. Entries stand in [segments] that
//! never move; free ones are on [lists](free_list), one for each processor.
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
//! The opener has the entry to itself from the moment that it takes it from a list until (J),
//! and the closer from (X) until (F); between the (F) of one opening and the (I) of the next is
//! the lock of a list. So all steps that change an entry are in one order: (I) (J) (X) (Y) (F),
//! and again.
//!
//! # What a lookup finds
//!
//! *(A) The handle names nothing.* Nobody has given it out, or it is closed: (L) loads another
//! word, and the address is not looked at. The generation of a handle must be odd, or the word of
//! a free entry could be taken for it. This covers every 64 bits that somebody makes up.
//!
//! *(B) (M) loads the address of an earlier opening.* It cannot: (L) has read from the (J) of
//! this opening, a release-acquire pair, and its (I) comes before. This is so also for a handle
//! that somebody guessed before it was given out.
//!
//! *(C) (M) loads the address of a later opening.* Then it has read from the (I) of that one, a
//! release-acquire pair. The (X) that ended *g* comes before it, so (N) loads a later word than
//! *g*, and the lookup finds nothing. The address has not been followed: what it leads to may be
//! gone.
//!
//! *(D) (M) loads the address of this opening.* That is the right object, complete by the pair
//! of (I) and (M). If (N) still loads *g*, the lookup found it before it was closed, or while.
//!
//! *Removal against a borrowed lookup.* In (D) the word was *g* at (L), inside a section. (X)
//! takes the handle away and comes before (P). So either the section is one for which a grace
//! period that follows (P) waits, or (L) would have seen (X): see [`rcu`](crate::rcu).
//!
//! *Removal against an owned lookup.* If (Q) comes before the burial in (P), the reader has a
//! reference. If it comes after, the count is dead: the handle was closed, for good, and there is
//! no need to look again, as there is in a [slot](crate::slot).
//!
//! *Two closers of one handle.* One of the two (X) succeeds. The other one finds another word,
//! and changes nothing. (X) has read from (J), a release-acquire pair, so (Y) loads the address
//! of this opening, and no later one: the entry is not on a list yet.
//!
//! # When the generations run out
//!
//! The closer of the last generation, 2^32 - 1, takes the word to 0 and keeps the entry from the
//! lists: it is *retired*, and never opened again. So a word that has moved on never comes back,
//! which (L), (N) and (X) rely on, and a handle means one opening, for the life of the pool. An
//! entry has 2^31 openings; then 64 bytes are lost.
//!
//! # The limit
//!
//! The pool makes as many entries as may be open at once, and no more; those that are retired do
//! not count. So nobody counts at an opening: it succeeds if there is a free entry somewhere. Only
//! who finds none on the list of its processor takes the lock of the pool, and looks, in this
//! order, on the other lists, for entries that were not made yet, and, with all lists locked, on
//! all of them once more. It is told that the pool is full if there is none then.
//!
//! That is exact. At no moment are more open than the limit says. And who is told that the pool is
//! full knows that at one moment of its call every entry was open, or in the hands of a call that
//! had taken it to open it, or had not given it back yet. A free entry that is on its way from one
//! list to another does not deceive it, since entries move under the lock of the pool.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use crossbeam_utils::CachePadded;

use self::free_list::{AllLocked, FreeList, Lists};
use self::segments::Segments;
use crate::counted::{Anchor, Borrowed, Ref};
use crate::fallible::OutOfMemory;
use crate::percpu;
use crate::rcu::{Guard, read_lock};
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicPtr, AtomicU32};
use crate::sync::{Mutex, relax};
use crate::unwind;

mod free_list;
mod segments;

/// How many entries are made at once, and how many at most move from one list to another.
const BATCH: u32 = if cfg!(loom) { 2 } else { 32 };

/// What a handle names: an entry, and one of its openings. Any 64 bits are a handle; most name
/// nothing.
///
/// Neither 0 nor 2^64 - 1 is ever given out: generations of handles are odd, and no index is
/// 2^32 - 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Handle {
    index: u32,
    generation: u32,
}

/// A place for an object, on a cache line of its own: neighbours may be on the lists of different
/// processors, and each opening writes here. All zeroes: free, and never opened yet.
#[repr(align(64))]
struct Entry {
    /// How often it was opened and closed: odd while it is open.
    word: AtomicU32,
    /// The entry that follows on a free list.
    next: AtomicU32,
    /// The object of the latest opening, and with it, while that lasts, a reference.
    anchor: AtomicPtr<Anchor>,
}

/// An entry that its holder took from a list, and that nobody else opens or closes.
struct Place<'p> {
    index: u32,
    entry: &'p Entry,
}

/// How far the pool has grown.
struct Growth {
    /// Entries that were ever made: those below this index.
    made: u32,
    /// How many of them are retired.
    retired: u32,
}

/// Why there is no place for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// As many are open as the limit allows.
    Full,
    /// There is no memory for more entries.
    OutOfMemory,
}

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the pool is full"),
            Self::OutOfMemory => OutOfMemory.fmt(f),
        }
    }
}

impl core::error::Error for NoPlace {}

impl From<OutOfMemory> for NoPlace {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// A pool of counted objects under handles. It holds a reference to each.
///
/// ```
/// use fdtable_base::{counted::Ref, pool::Pool, rcu};
///
/// let pool = Pool::new(100);
/// let old = pool.insert(Ref::new("old")).expect("there is room");
/// assert_eq!(pool.get(old, &rcu::read_lock()).as_deref(), Some(&"old"));
/// drop(pool.remove(old));
///
/// let new = pool.insert(Ref::new("new")).expect("there is room");
/// assert_eq!(new.index(), old.index(), "the same entry");
/// assert!(pool.get(old, &rcu::read_lock()).is_none(), "and another handle");
/// ```
///
/// A pool for one type is not a pool for a more general one, since something else could be
/// inserted through the other view of it:
///
/// ```compile_fail
/// # use fdtable_base::pool::Pool;
/// fn generalise<'a>(pool: &'a Pool<&'static str>) -> &'a Pool<&'a str> {
///     pool
/// }
/// ```
pub struct Pool<T: ?Sized> {
    segments: Segments,
    limit: u32,
    lists: Lists,
    growth: CachePadded<Mutex<Growth>>,
    owns: PhantomData<Ref<T>>,
    /// Takes references and gives them: invariant in `T`.
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

    /// Returns the generation, 0 to 2^32 - 1. Odd in every handle that was given out.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

impl Entry {
    fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            next: AtomicU32::new(0),
            anchor: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

impl Place<'_> {
    /// Puts an object into the entry and opens it.
    #[inline(always)]
    fn open<T: ?Sized>(self, object: Ref<T>) -> Handle {
        // Relaxed: the entry is this thread's own. The word is even, so there is one above it.
        let generation = self.entry.word.load(Relaxed) + 1;
        // (I) Release: pairs with the acquire in (M). The object is complete, and who sees its
        // address sees that the opening before it has ended.
        self.entry.anchor.store(object.into_raw().as_ptr(), Release);
        // (J) Release: pairs with the acquire in (L) and in (X); the address comes before.
        self.entry.word.store(generation, Release);
        Handle {
            index: self.index,
            generation,
        }
    }
}

/// The public operations.
impl<T: ?Sized> Pool<T> {
    /// Makes an empty pool, in which at most `limit` objects are at once, 0 to 2^31; more counts
    /// as 2^31. Allocates a free list for each processor; entries are allocated as they are
    /// needed, not for the limit.
    #[must_use]
    pub fn new(limit: u32) -> Self {
        Self {
            segments: Segments::new(),
            limit: limit.min(1 << 31),
            lists: Lists::new(|_cpu| FreeList::new()),
            growth: CachePadded::new(Mutex::new(Growth {
                made: 0,
                retired: 0,
            })),
            owns: PhantomData,
            exchanges: PhantomData,
        }
    }

    /// Returns how many objects may be in the pool at once, 0 to 2^31.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Puts an object into the pool and returns its handle. Waits only if there is no free entry
    /// at hand: then it may wait for a lock, and allocate. May be called inside a read-side
    /// section, since nobody who has the lock waits for a grace period.
    ///
    /// # Errors
    /// Gives the object back if [the pool is full](NoPlace::Full), or
    /// [there is no memory](NoPlace::OutOfMemory).
    #[inline]
    pub fn insert(&self, object: Ref<T>) -> Result<Handle, (NoPlace, Ref<T>)> {
        self.insert_at(percpu::current(), object)
    }

    /// Takes the object of a handle out of the pool, and its reference with it. The handle names
    /// nothing from here on. Of those who remove one handle at the same time, one gets the
    /// object. The caller decides when the reference is dropped: outside of its locks. Does not
    /// allocate, and waits for other threads for a few steps at most. May be called inside a
    /// read-side section.
    #[inline]
    #[must_use = "dropping the reference may run its release hook"]
    pub fn remove(&self, handle: Handle) -> Option<Ref<T>> {
        self.remove_at(percpu::current(), handle)
    }

    /// Looks without taking a reference. Neither blocks nor allocates.
    #[inline(always)]
    pub fn borrow<'g>(&self, handle: Handle, guard: &'g Guard<'_>) -> Option<Borrowed<'g, T>> {
        let entry = self.named(handle)?;
        // (L) Acquire: pairs with the release in (J), so that (M) loads the address of this
        // opening, or of a later one.
        if entry.word.load(Acquire) != handle.generation {
            return None;
        }
        // (M) Acquire: pairs with the release in (I): the object is complete, and if it is that
        // of a later opening, (N) sees that this one is over.
        let anchor = NonNull::new(entry.anchor.load(Acquire))?;
        // (N) Relaxed: it comes after (M) by the acquire there, and nothing hangs on it.
        if entry.word.load(Relaxed) != handle.generation {
            return None;
        }
        // (O)
        // SAFETY: this is the address of the opening that the handle names: cases (B) to (D). At
        // (L), inside the section, the pool had a reference that had not been taken out.
        Some(unsafe { Borrowed::new(anchor, guard) })
    }

    /// Looks and takes a reference. One atomic add; neither blocks nor allocates.
    #[inline(always)]
    pub fn get(&self, handle: Handle, guard: &Guard<'_>) -> Option<Ref<T>> {
        // (Q) A dead count means that the handle was removed.
        self.borrow(handle, guard)?.upgrade()
    }

    /// Returns how many objects are in the pool, 0 to 2^31, at one moment; one that is just being
    /// put in or taken out counts. Waits for the lock of every list, and others wait meanwhile:
    /// for those who are curious, not for each request.
    pub fn count(&self) -> u32 {
        let growth = self.growth.lock();
        let free = AllLocked::new(&self.lists).len();
        growth.made - growth.retired - free
    }

    /// Iterates over the handles of all objects, by index. What is put in or taken out meanwhile
    /// may be seen or not. May wait for a lock at its beginning.
    pub fn handles(&self) -> impl Iterator<Item = Handle> {
        let made = self.growth.lock().made;
        (0..made).filter_map(|index| {
            // Relaxed: a hint, for the caller to look up.
            let generation = self.segments.entry(index)?.word.load(Relaxed);
            (!generation.is_multiple_of(2)).then_some(Handle { index, generation })
        })
    }
}

/// The private steps. `home` is the number of the processor whose list is tried first.
impl<T: ?Sized> Pool<T> {
    #[inline(always)]
    fn insert_at(&self, home: usize, object: Ref<T>) -> Result<Handle, (NoPlace, Ref<T>)> {
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
        let entry = self.named(handle)?;
        let old = handle.generation;
        let new = old.wrapping_add(1);
        // (X) Acquire: pairs with the release in (J), so that (Y) loads the address of this
        // opening. Relaxed on failure: the handle names nothing.
        entry
            .word
            .compare_exchange(old, new, Acquire, Relaxed)
            .ok()?;
        // (Y) Relaxed: ordered by (X). Never null, since (I) came before.
        let anchor = NonNull::new(entry.anchor.load(Relaxed))?;
        // SAFETY: (I) handed this reference over, and (X) took it out, for us alone.
        let object = unsafe { Ref::from_raw(anchor) };
        let index = handle.index;
        match new {
            0 => self.retire(),
            _ => self.give_back(home, &Place { index, entry }),
        }
        Some(object)
    }

    /// Returns the entry that a handle could name: an odd word is needed, so that the word of a
    /// free entry is not taken for it.
    #[inline(always)]
    fn named(&self, handle: Handle) -> Option<&Entry> {
        if handle.generation.is_multiple_of(2) {
            return None;
        }
        self.segments.entry(handle.index)
    }

    /// (F) Puts a free entry on a list.
    #[inline(always)]
    fn give_back(&self, home: usize, place: &Place<'_>) {
        match self.lists.of(home).try_lock() {
            Some(mut list) => list.push(place),
            None => self.give_back_elsewhere(home, place),
        }
    }

    /// The holder of a list's lock may have been stopped, so another list will do.
    #[cold]
    fn give_back_elsewhere(&self, home: usize, place: &Place<'_>) {
        let mut attempts = 0;
        loop {
            if let Some(mut list) = self.lists_from(home).find_map(FreeList::try_lock) {
                return list.push(place);
            }
            relax(attempts);
            attempts += 1;
        }
    }

    /// Leaves a free entry out of the lists: it has no generation left. Another one may be made
    /// in its place.
    #[cold]
    fn retire(&self) {
        self.growth.lock().retired += 1;
    }

    /// Finds a free entry that is not on the list of `home`.
    #[cold]
    #[inline(never)]
    fn find_place(&self, home: usize) -> Result<Place<'_>, NoPlace> {
        let mut growth = self.growth.lock();
        if let Some(place) = self.steal(home) {
            return Ok(place);
        }
        match self.make(home, &mut growth) {
            Err(NoPlace::Full) => self.last_place().ok_or(NoPlace::Full),
            answer => answer,
        }
    }

    /// Takes a batch from a list that has free entries, but no more than half of them, and puts
    /// all but one on the list of `home`. Only for the holder of the pool's lock.
    fn steal(&self, home: usize) -> Option<Place<'_>> {
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
    fn make(&self, home: usize, growth: &mut Growth) -> Result<Place<'_>, NoPlace> {
        let first = growth.made;
        let room = self.limit - (first - growth.retired);
        if room == 0 {
            return Err(NoPlace::Full);
        }
        let place = self.segments.grow(first)?;
        // Up to the end of a batch: none is in two segments.
        growth.made = first + room.min(BATCH - first % BATCH);
        let mut list = self.lists.of(home).lock();
        // The lowest on top.
        (first + 1..growth.made)
            .rev()
            .filter_map(|index| self.segments.place(index))
            .for_each(|other| list.push(&other));
        Ok(place)
    }

    /// Looks for a free entry on all lists at one moment. Only for the holder of the pool's lock.
    fn last_place(&self) -> Option<Place<'_>> {
        AllLocked::new(&self.lists).pop(&self.segments)
    }

    /// Iterates over all lists, beginning with that of `home`.
    fn lists_from(&self, home: usize) -> impl Iterator<Item = &FreeList> {
        let lists = self.lists.iter().count();
        (0..lists).map(move |step| self.lists.of(home.wrapping_add(step)))
    }
}

impl<T: ?Sized> Drop for Pool<T> {
    fn drop(&mut self) {
        let mut handles = self.handles();
        unwind::finish(|| {
            for handle in handles.by_ref() {
                drop(self.remove(handle));
            }
        });
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objects = self.handles().filter_map(|handle| {
            let guard = read_lock();
            Some((handle, self.get(handle, &guard)?))
        });
        f.debug_map().entries(objects).finish()
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests;
