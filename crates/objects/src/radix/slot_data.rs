//! Data of a slot besides its object: flags and a word.
//!
//! Most leaves need neither. A leaf gets a table of them with the first slot that does, and
//! keeps it. A leaf without a table costs one pointer, and every slot of it has the default data.
//!
//! # A consistent read
//!
//! A reader without the lock gets the object of a slot together with the slot's flags and word, all
//! of one moment. Each slot of a table has a *stamp* for that: a version, the flags, and a bit that
//! says that a change is under way. The steps, with letters that stand at the same steps in the
//! code. The writer holds the lock of the leaf:
//!
//! | | reader | | writer |
//! |---|---|---|---|
//! | (A) | load the stamp, acquire | (F) | to open: store the word, then the stamp with the flags |
//! | (B) | load the object, acquire | (G) | store the object, release |
//! | (C) | load the word, acquire | (H) | to close: empty the slot, release |
//! | (D) | load the stamp again | (I) | store the stamp with the next version; the word 0, release |
//! | (E) | if the two differ, or a change was under way: begin anew | (J) | to replace: set the bit, then word and object, both release; then (K) the stamp, release |
//!
//! *The object that was found at (B) is the one of the stamp.* It is in the slot at some time
//! between (A) and (D), or it was put there after (A). Then the acquire of (B) has synchronised
//! with the (G) or (J) that put it, so (D) sees the stamp that was stored before: if that is the
//! one of (A), the object belongs to it.
//!
//! *The word that was found at (C) belongs to the same stamp.* A word that was stored for another
//! use of the slot was stored after the version had changed (I), or while the bit was set (J). (C)
//! has synchronised with that store, so (D) sees the change. And a word of an earlier use is not
//! found: (A) has synchronised with the (I) or (K) that came after it, if its version is later. A
//! word that was set alone is current at some time between (A) and (D), with all the rest: flags
//! that are set alone have a version of their own.
//!
//! A version has 48 bits, so it does not come back while a reader looks.
//!
//! A reader that finds a change under way looks a few times, since the writer needs a few
//! instructions. Then it takes the lock of the leaf, as it does in a leaf without a table. It does
//! not write, so it may lock any leaf that it finds, also a shared one. A leaf that was replaced
//! meanwhile by its copy is not written any more, and has what was there when it was replaced.

use core::ptr::{self, NonNull};

use crate::memory::MemoryBox;
use fdtable_sync::bitmap::{BITS, bits_of};
use fdtable_sync::fallible::OutOfMemory;
use fdtable_sync::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use fdtable_sync::platform::atomic::{AtomicPtr, AtomicU64};

/// The flags and the word of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotData {
    /// Fifteen bits; the highest one is ignored. The lowest is close-on-exec, and has to be set as
    /// it is in the leaf's own word.
    pub flags: u16,
    /// Any value.
    pub word: u64,
}

/// The flag that leaves have a word for.
pub(super) const CLOEXEC: u16 = 1;

/// A lookup has to take the lock: the leaf has no table, or the slot is being changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeedsLock;

/// A table that no leaf has yet.
pub struct NewTable(MemoryBox<Table>);

impl NewTable {
    /// Makes a table in which every slot has the default data. Allocates.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_new() -> Result<Self, OutOfMemory> {
        Ok(Self(MemoryBox::try_new(Table::new())?))
    }
}

/// The data of all slots of a leaf. Written with the leaf locked, and read by any thread.
pub(super) struct Table([Cells; BITS]);

struct Cells {
    stamp: AtomicU64,
    word: AtomicU64,
}

/// The value of [`Cells::stamp`].
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp(u64);

impl Stamp {
    /// A change is under way.
    const CHANGING: u64 = 1 << 15;
    const FLAGS: u64 = Self::CHANGING - 1;
    const VERSION: u32 = 16;

    fn flags(self) -> u16 {
        (self.0 & Self::FLAGS) as u16
    }

    fn with_flags(self, flags: u16) -> Self {
        Self(self.0 & !Self::FLAGS | u64::from(flags) & Self::FLAGS)
    }

    /// Returns the stamp of the next version, without flags.
    fn next(self) -> Self {
        Self((self.0 >> Self::VERSION).wrapping_add(1) << Self::VERSION)
    }

    fn is_changing(self) -> bool {
        self.0 & Self::CHANGING != 0
    }
}

/// How many times a reader looks at a slot that is being changed.
const LOOKS: u32 = if cfg!(loom) { 1 } else { 16 };

impl Table {
    fn new() -> Self {
        Self(core::array::from_fn(|_| Cells {
            stamp: AtomicU64::new(0),
            word: AtomicU64::new(0),
        }))
    }

    /// Copies the data of the slots in `bits`. No thread writes the table meanwhile.
    fn copy_of(other: &Self, bits: u64) -> Self {
        let copy = Self::new();
        for bit in bits_of(bits) {
            copy.set(bit, other.get(bit));
        }
        copy
    }

    /// Returns the object that `find` finds in a slot, and the slot's data at that moment. Takes no
    /// lock. `find` loads the slot with acquire.
    #[inline(always)]
    pub(super) fn read<R>(
        &self,
        bit: usize,
        find: impl Fn() -> Option<R>,
    ) -> Result<Option<(R, SlotData)>, NeedsLock> {
        let cells = &self.0[bit];
        for _ in 0..LOOKS {
            // (A) Acquire: pairs with the releases of (I) and (K).
            let stamp = Stamp(cells.stamp.load(Acquire));
            // (B)
            let Some(found) = find() else {
                return Ok(None);
            };
            // (C) Acquire: pairs with the releases of every store of the word.
            let word = cells.word.load(Acquire);
            // (D) Relaxed: ordered by the acquires of (B) and (C).
            let after = Stamp(cells.stamp.load(Relaxed));
            // (E)
            // weaken: second-look-at-a-stamp
            // weaken: look-at-the-mark-of-an-exchange
            if stamp == after && !stamp.is_changing() {
                let flags = stamp.flags();
                return Ok(Some((found, SlotData { flags, word })));
            }
            core::hint::spin_loop();
        }
        Err(NeedsLock)
    }

    /// Returns the flags of a slot. A hint, unless the leaf is locked.
    pub(super) fn flags(&self, bit: usize) -> u16 {
        self.stamp(bit).flags()
    }

    fn stamp(&self, bit: usize) -> Stamp {
        // Relaxed: the caller has the lock, or asks for a hint.
        Stamp(self.0[bit].stamp.load(Relaxed))
    }

    /// Returns the data of a slot. No thread writes the table meanwhile.
    pub(super) fn get(&self, bit: usize) -> SlotData {
        // Relaxed: no thread writes it, and the caller has synchronised with the last one.
        let word = self.0[bit].word.load(Relaxed);
        let flags = self.flags(bit);
        SlotData { flags, word }
    }

    /// Sets the data of a slot that has no object, with the lock.
    pub(super) fn set(&self, bit: usize, data: SlotData) {
        let cells = &self.0[bit];
        // (F) Release, both: a reader that finds one of them, and not the object yet, sees that the
        // slot was emptied before, and with which version.
        cells.word.store(data.word, Release);
        let stamp = self.stamp(bit).with_flags(data.flags);
        cells.stamp.store(stamp.0, Release);
    }

    /// Clears the data of a slot, with the lock. Its object is removed already. A close that calls
    /// nothing needs no registers saved.
    #[inline(always)]
    pub(super) fn clear(&self, bit: usize) {
        let cells = &self.0[bit];
        // (I) Release: a reader that sees the new version sees the slot without the object.
        // weaken: version-of-a-closed-slot
        cells.stamp.store(self.stamp(bit).next().0, Release);
        // (I) Release: a reader that finds this word, or one that is stored later, sees the
        // version.
        // weaken: word-of-a-closed-slot
        cells.word.store(0, Release);
    }

    /// Sets the data of a slot and calls `exchange`, which stores another object there with
    /// release: one change for readers. With the lock.
    pub(super) fn replace<R>(&self, bit: usize, data: SlotData, exchange: impl FnOnce() -> R) -> R {
        let cells = &self.0[bit];
        // weaken: version-of-an-exchange
        let next = self.stamp(bit).next();
        // (J) Relaxed: the two stores that follow release it.
        // weaken: mark-of-an-exchange-under-way
        cells.stamp.store(next.0 | Stamp::CHANGING, Relaxed);
        // (J) Release: a reader that finds the new word sees that a change is under way.
        // weaken: word-that-is-stored-after-an-exchange
        cells.word.store(data.word, Release);
        let before = exchange();
        // (K) Release: a reader that sees the new version finds the new object and the new word.
        // weaken: version-of-an-exchange
        let stamp = next.next().with_flags(data.flags);
        cells.stamp.store(stamp.0, Release);
        // weaken: word-that-is-stored-after-an-exchange
        before
    }

    /// Sets the word of a slot alone, with the lock.
    pub(super) fn set_word(&self, bit: usize, word: u64) {
        // Release: a reader that finds it sees flags that were set before.
        self.0[bit].word.store(word, Release);
    }

    /// Sets the flags of a slot alone, with the lock. The version changes too: a reader that finds
    /// the same flags before and after would not see that there were others, with another word.
    pub(super) fn set_flags(&self, bit: usize, flags: u16) {
        let stamp = self.stamp(bit).next().with_flags(flags);
        // Release: a reader that sees it finds a word that was set before.
        self.0[bit].stamp.store(stamp.0, Release);
    }
}

/// The place of a table in a leaf. It is set once, and dropped with the leaf.
pub(super) struct TablePlace(AtomicPtr<Table>);

impl TablePlace {
    pub(super) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Returns true if there is a table. A hint, unless the leaf is locked.
    #[inline(always)]
    pub(super) fn is_set(&self) -> bool {
        // Relaxed: the pointer is not dereferenced.
        !self.0.load(Relaxed).is_null()
    }

    /// Returns the table, if there is one.
    #[inline(always)]
    pub(super) fn get(&self) -> Option<&Table> {
        // Acquire: pairs with the release in `set`, so the table is complete.
        let table = self.0.load(Acquire);
        // SAFETY: a table that was set stays until this is dropped.
        unsafe { table.as_ref() }
    }

    /// Sets the table if there is none. With the lock of the leaf, or before others know it.
    /// `cloexec` are the slots with that flag.
    pub(super) fn set(&self, new: &mut Option<NewTable>, cloexec: u64) {
        if !self.is_set()
            && let Some(NewTable(table)) = new.take()
        {
            for bit in bits_of(cloexec) {
                table.set_flags(bit, CLOEXEC);
            }
            // Release: pairs with the acquire in `get`.
            self.0.store(table.into_raw().as_ptr(), Release);
        }
    }

    /// Copies the table for the slots in `bits`, if there is one. No thread writes it meanwhile.
    pub(super) fn try_copy(&self, bits: u64) -> Result<Self, OutOfMemory> {
        let copy = Self::new();
        if let Some(table) = self.get() {
            let table = MemoryBox::try_new(Table::copy_of(table, bits))?;
            copy.set(&mut Some(NewTable(table)), 0);
        }
        Ok(copy)
    }
}

impl Drop for TablePlace {
    fn drop(&mut self) {
        // Relaxed: no other thread uses the leaf any more, and the caller has synchronised with
        // those that did.
        if let Some(table) = NonNull::new(self.0.load(Relaxed)) {
            // SAFETY: `set` has taken it out of a box, and it is not used after this.
            drop(unsafe { MemoryBox::from_raw(table) });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A reader between (A) and (D) would take the second word with the first flags: they were
    /// never there together.
    #[test]
    fn flags_that_return_are_not_taken_for_the_same() {
        let table = Table::new();
        let (first, second) = (
            SlotData { flags: 2, word: 1 },
            SlotData { flags: 4, word: 2 },
        );
        table.set(0, first);
        let stamp = table.stamp(0);
        table.set_flags(0, second.flags);
        table.set_word(0, second.word);
        table.set_word(0, 3);
        table.set_flags(0, first.flags);
        assert!(table.stamp(0) != stamp);
        assert_eq!(table.get(0), SlotData { word: 3, ..first });
    }
}
