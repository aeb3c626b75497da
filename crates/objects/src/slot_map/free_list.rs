//! The free entries of a CPU: a stack, linked through the entries, behind a lock.
//!
//! The lock is held for a few steps, or for those of a batch. A thread that may use another list as
//! well never waits for it: its holder may have been preempted. The data that the lock guards is
//! atomic, since the length is also read without it.

use fdtable_sync::lock::{LockTag, RawLock};
use fdtable_sync::percpu::PerCpu;
use fdtable_sync::platform::atomic::AtomicU32;
use fdtable_sync::platform::atomic::Ordering::Relaxed;

use super::segments::{Entry, OwnedEntry, Segments};

/// The end of a list. No entry has this index.
const END: u32 = u32::MAX;

/// Each lock is found by its place, so it needs no tag of its own.
const TAG: LockTag = LockTag::of(0);

/// The list of a CPU. Only the holder of the lock changes the other fields, and `Relaxed`: the lock
/// orders it.
pub(super) struct FreeList {
    lock: RawLock,
    first: AtomicU32,
    len: AtomicU32,
}

/// Exclusive access to one list.
pub(super) struct Locked<'p>(&'p FreeList);

/// Exclusive access to all lists of a map.
pub(super) struct AllLocked<'p>(&'p Lists);

/// Entries that are linked, and on no list.
pub(super) struct Chain<'p> {
    first: u32,
    last: &'p Entry,
    len: u32,
}

/// The lists of all CPUs.
pub(super) type Lists = PerCpu<FreeList>;

impl FreeList {
    pub(super) fn new() -> Self {
        Self {
            lock: RawLock::new(TAG),
            first: AtomicU32::new(END),
            len: AtomicU32::new(0),
        }
    }

    /// Takes the lock if it is free.
    #[inline(always)]
    pub(super) fn try_lock(&self) -> Option<Locked<'_>> {
        // The changes of earlier holders to the list, and before that to the entries on it, are
        // visible to the next one.
        // weaken: slot-map-list-without-its-lock
        let taken = self.lock.try_lock(TAG);
        // Constructed only after the lock is taken: dropping it unlocks.
        taken.then(|| Locked(self))
    }

    /// Waits for the lock and takes it.
    pub(super) fn lock(&self) -> Locked<'_> {
        self.lock.lock(TAG);
        Locked(self)
    }

    /// For the holder of the lock.
    #[inline(always)]
    fn unlock(&self) {
        // SAFETY: the caller has taken it, and does not use the list any more.
        unsafe { self.lock.unlock(TAG) };
    }

    /// Returns how many entries are on the list. A hint without the lock.
    pub(super) fn len(&self) -> u32 {
        self.len.load(Relaxed)
    }

    /// For the holder of the lock.
    #[inline(always)]
    fn pop<'p>(&self, segments: &'p Segments) -> Option<OwnedEntry<'p>> {
        // There is no entry of index `END`.
        let place = segments.place(self.first.load(Relaxed))?;
        self.first.store(place.entry.next.load(Relaxed), Relaxed);
        self.len.store(self.len() - 1, Relaxed);
        Some(place)
    }

    /// For the holder of the lock.
    #[inline(always)]
    fn push(&self, place: &OwnedEntry<'_>) {
        place.entry.next.store(self.first.load(Relaxed), Relaxed);
        self.first.store(place.index, Relaxed);
        self.len.store(self.len() + 1, Relaxed);
    }
}

impl Locked<'_> {
    /// Takes the entry that was put on the list last.
    #[inline(always)]
    pub(super) fn pop<'p>(&mut self, segments: &'p Segments) -> Option<OwnedEntry<'p>> {
        self.0.pop(segments)
    }

    /// Puts an entry on the list.
    #[inline(always)]
    pub(super) fn push(&mut self, place: &OwnedEntry<'_>) {
        self.0.push(place);
    }

    /// Takes half of the entries off the list, rounded down, and at most `most`.
    pub(super) fn take_half<'p>(&mut self, most: u32, segments: &'p Segments) -> Option<Chain<'p>> {
        let half = (self.0.len() / 2).min(most);
        if half == 0 {
            return None;
        }
        let first = self.0.first.load(Relaxed);
        let mut last = segments.entry(first)?;
        for _ in 1..half {
            last = segments.entry(last.next.load(Relaxed))?;
        }
        self.0.first.store(last.next.load(Relaxed), Relaxed);
        self.0.len.store(self.0.len() - half, Relaxed);
        Some(Chain {
            first,
            last,
            len: half,
        })
    }

    /// Puts all entries of a chain on the list.
    pub(super) fn put(&mut self, chain: &Chain<'_>) {
        chain.last.next.store(self.0.first.load(Relaxed), Relaxed);
        self.0.first.store(chain.first, Relaxed);
        self.0.len.store(self.0.len() + chain.len, Relaxed);
    }
}

impl Drop for Locked<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.unlock();
    }
}

impl<'p> AllLocked<'p> {
    /// Waits for the locks of all lists. Only for the holder of the map's lock: no other thread
    /// waits for the lock of a list while it holds another.
    pub(super) fn new(lists: &'p Lists) -> Self {
        for list in lists.iter() {
            core::mem::forget(list.lock());
        }
        Self(lists)
    }

    /// Takes an entry from any of the lists.
    pub(super) fn pop<'s>(&mut self, segments: &'s Segments) -> Option<OwnedEntry<'s>> {
        self.0.iter().find_map(|list| list.pop(segments))
    }

    /// Returns how many entries are on the lists.
    pub(super) fn len(&self) -> u32 {
        self.0.iter().map(FreeList::len).sum()
    }
}

impl Drop for AllLocked<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(FreeList::unlock);
    }
}
