//! Owned lookup: takes a reference to the object of a slot.
//!
//! The plain way is in [`Tree::get_in_section`]: enter a read-side section, borrow the object, add
//! to its count, leave the section. The store that leaves is between the locked add of the lookup
//! and the locked subtraction of the put that follows, and the second waits until it is done: a
//! third of the time of both.
//!
//! Where the machine has [restartable sequences](mod@fdtable_sync::sequence), the lookup is one,
//! and there is no section. The steps, with letters that stand at the same steps in the code:
//!
//! | | sequence | | close and free |
//! |---|---|---|---|
//! | (A) | begin | (X) | empty the slot, or unlink its leaf |
//! | (L) | walk from the root to the slot, and load the pointer | (P) | put the slot's reference; the last one makes the count dead |
//! | (V) | load the number of revocations | (Q) | restart all sequences: the heavy fence of a grace period |
//! | (N) | commit: add to the count | (T) | free nodes and block |
//! | (O) | outside: find out by the old count what the add was | | |
//!
//! *No sequence touches freed memory.* It reads and writes what it has reached from the root since
//! (A). (Q) comes between (X) and (T). A sequence that has not committed at (Q) begins
//! again after it, and does not find the node or the block; one that has committed does not use
//! them any more, unless it has a reference. That holds for each level of the walk, since every
//! node is freed after a grace period that begins after it was unlinked (see
//! [`radix`](mod@crate::radix)). So the walk from the root is a part of the sequence.
//!
//! *The add and the last put.* Both are atomic operations on the count. If the add comes first,
//! the lookup has a reference, and the put is not the last. If it comes later, the count is dead:
//! the lookup has nothing. (X) is before (P), so this thread, which has seen (P), finds the slot
//! empty or with its next object when it walks again. Between the two, the add revives the object
//! (see [`refcount`](mod@fdtable_sync::refcount)), and (O) has to complete that: it may, since
//! the lookup has a reference by then.
//!
//! *A dead count is left as it is.* The sequence is over at (O), and nothing keeps the block of a
//! dead count for it. [`RefCount::get`](fdtable_sync::refcount::RefCount::get) would move the count
//! back to the middle of its zone, in memory that may be free. Without that each lookup adds one
//! for each dead block at most, as it does not find the block again.
//!
//! *Hot slots.* A count that several CPUs want is counted by CPU, in *parts* (see
//! [`spread`](mod@fdtable_sync::refcount::spread)). The word that says so is beside the count,
//! and a load of it would wait for the put before this lookup, and the add for the load. So the
//! sequence reads a filter in the tree first: a bit for each 64th slot, set when a count is
//! spread by a lookup in such a slot. Without the bit it adds to the word of the count, which is
//! right in any case; if that has the bias, the lookup sets the bit. Lookups that find the bit and
//! counts that are not spread clear it when they come often.
//!
//! *Which threads.* [`sequence_area`](rcu::sequence_area) has an answer for a thread with a
//! record, whose rseq area is registered. Others take the plain way: first lookups, threads that
//! are ending, machines without sequences.

use core::ptr::NonNull;

use fdtable_sync::bitmap::BITS;
use fdtable_sync::hint::cold_path;
use fdtable_sync::percpu;
use fdtable_sync::platform::atomic::Ordering::Relaxed;
use fdtable_sync::platform::relax;
use fdtable_sync::rcu;
use fdtable_sync::refcount::RefCount;
use fdtable_sync::refcount::spread::pace;
use fdtable_sync::sequence::Area;

use super::Tree;
use super::leaf::LeafState;
use crate::object::header::{REVOCATIONS, RawObject};
use crate::object::{IN_PART, Ref};

#[cfg(not(any(
    loom,
    all(
        any(
            all(feature = "std", target_os = "linux"),
            all(feature = "platform", not(feature = "std"))
        ),
        target_arch = "x86_64",
        target_pointer_width = "64"
    )
)))]
#[path = "owned/missing.rs"]
mod sequence;
#[cfg(loom)]
#[path = "owned/model.rs"]
mod sequence;
#[cfg(all(
    any(
        all(feature = "std", target_os = "linux"),
        all(feature = "platform", not(feature = "std"))
    ),
    target_arch = "x86_64",
    target_pointer_width = "64",
    not(loom)
))]
#[path = "owned/x86_64.rs"]
mod sequence;

/// Why a lookup returns no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// The slot has none.
    Vacant,
    /// The object was [revoked](Ref::revoke).
    Revoked,
}

/// Result of a sequence.
struct Added {
    /// The block whose count it added to; null if the slot is empty. With
    /// [`IN_PART`] if it added to the part of a CPU.
    raw: *mut RawObject,
    /// The word of the count before, or that of the part. Only if there is a block.
    before: isize,
    /// The number of revoked objects in the process; and [`COLD`] if the slot is in the filter of
    /// hot slots, and the count of the block is not spread. Only if there is a block.
    noted: usize,
}

/// See [`Added::noted`].
const COLD: usize = 1 << (usize::BITS - 1);

impl<T: ?Sized + Send + Sync, S: LeafState, D> Tree<T, S, D> {
    /// Takes a reference to the object of a slot. One atomic add; neither blocks nor allocates,
    /// except in a thread's first section. May be called inside a section.
    #[inline(always)]
    pub fn get(&self, slot: usize) -> Option<Ref<T>> {
        Some(self.get_noting_revocations(slot)?.0)
    }

    /// Like [`get`](Self::get), for objects that are not revoked.
    ///
    /// # Errors
    /// [`NotFound`] says why there is none.
    #[inline(always)]
    pub fn get_unless_revoked(&self, slot: usize) -> Result<Ref<T>, NotFound> {
        let (object, any_revoked) = self.get_noting_revocations(slot).ok_or(NotFound::Vacant)?;
        if any_revoked {
            cold_path();
            if Ref::is_revoked(&object) {
                return Err(NotFound::Revoked);
            }
        }
        Ok(object)
    }

    /// Spreads the count of the object of a slot, as many lookups by several CPUs do. Returns false
    /// if there is none. Neither blocks nor allocates.
    pub fn spread(&self, slot: usize) -> bool {
        let object = self.get(slot);
        if let Some(object) = &object {
            self.spread_found(slot, object);
        }
        object.is_some()
    }

    /// Spreads the count of an object that was found in a slot.
    #[cold]
    fn spread_found(&self, slot: usize, object: &Ref<T>) {
        Ref::spread(object, |raw| self.is_in_slot(slot, raw));
        // Relaxed: a hint.
        self.shared.hot.fetch_or(hot_bit(slot), Relaxed);
    }

    /// Takes a reference to the object of a slot. Also returns true if any object in the process
    /// may be revoked: if not, this one is not.
    #[inline(always)]
    fn get_noting_revocations(&self, slot: usize) -> Option<(Ref<T>, bool)> {
        let Some(area) = sequence::area() else {
            cold_path();
            return self.get_in_section(slot);
        };
        // A separate sequence for the first leaf, as for lookups in a section.
        if slot < BITS {
            return self.get_by(slot, || sequence::add_in_first(self, slot, area));
        }
        cold_path();
        self.get_below(slot, area)
    }

    /// Takes a reference to the object of a slot in a leaf that the root leads to.
    #[inline(never)]
    fn get_below(&self, slot: usize, area: Area) -> Option<(Ref<T>, bool)> {
        self.get_by(slot, || sequence::add(self, slot, area))
    }

    /// Takes a reference by a sequence, which may find objects that are ending.
    #[inline(always)]
    fn get_by(&self, slot: usize, add: impl Fn() -> Added) -> Option<(Ref<T>, bool)> {
        loop {
            // (A) to (N)
            let added = add();
            let raw = NonNull::new(added.raw)?;
            // SAFETY: the sequence has found the block in this slot, and added one to its count
            // when it still existed: see the head of this file.
            if let Some(found) = unsafe { self.complete(slot, raw, &added) } {
                return Some(found);
            }
            relax(0);
        }
    }

    /// (O) Makes the reference that a sequence has taken, if what it has added to gives references.
    ///
    /// # Safety
    /// The sequence has found the block of `raw` in a slot of this tree, and added one to its count
    /// when it still existed. The caller calls this once.
    #[inline(always)]
    unsafe fn complete(
        &self,
        slot: usize,
        raw: NonNull<RawObject>,
        added: &Added,
    ) -> Option<(Ref<T>, bool)> {
        // SAFETY: as the caller promises.
        let object = unsafe { Ref::of_add(raw, added.before) }?;
        if added.before != 0 {
            if RefCount::has_others(added.before) {
                if Ref::note_taker(&object, sequence::cpu) {
                    self.spread_found(slot, &object);
                }
            } else if raw.addr().get() & IN_PART == 0 && RefCount::is_biased(added.before) {
                cold_path();
                // Relaxed: a hint.
                self.shared.hot.fetch_or(hot_bit(slot), Relaxed);
            }
        }
        let mut any_revoked = false;
        if added.noted != 0 {
            cold_path();
            any_revoked = added.noted & !COLD != 0;
            if added.noted & COLD != 0 && pace::note_look() {
                // Relaxed: a hint.
                self.shared.hot.fetch_and(!hot_bit(slot), Relaxed);
            }
        }
        Some((object, any_revoked))
    }

    /// Returns true if a slot has the object of this block, by a new walk.
    #[cold]
    fn is_in_slot(&self, slot: usize, raw: NonNull<RawObject>) -> bool {
        let section = rcu::read_lock();
        let found = self.borrow(slot, &section);
        found.is_some_and(|found| found.is_of(raw))
    }

    /// Takes a reference where there are no sequences.
    #[inline(never)]
    fn get_in_section(&self, slot: usize) -> Option<(Ref<T>, bool)> {
        let section = rcu::read_lock();
        loop {
            // A dead count means that the slot was closed since, or that the leaf was released:
            // another walk finds the current object.
            if let Some((object, has_others)) = self.borrow(slot, &section)?.upgrade_noting_others()
            {
                if has_others && Ref::note_taker(&object, percpu::current) {
                    self.spread_found(slot, &object);
                }
                return Some((object, REVOCATIONS.any()));
            }
            relax(0);
        }
    }
}

/// Returns the bit of a slot in the filter of hot slots.
fn hot_bit(slot: usize) -> u64 {
    1 << (slot % 64)
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, target_os = "linux", target_arch = "x86_64", not(loom)))]
mod stress;
