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
//! *No sequence touches what is freed.* What it reads and writes, it has reached from the root
//! since (A). (Q) comes between (X) and (T). A sequence that has not committed at (Q) begins
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
//! *Which threads.* [`sequence_area`](rcu::sequence_area) has an answer for a thread with a
//! record, whose rseq area is registered. Others take the plain way: first lookups, threads that
//! are ending, machines without sequences.

use core::ptr::NonNull;

use fdtable_sync::hint::cold_path;
use fdtable_sync::platform::relax;
use fdtable_sync::rcu;

use super::Tree;
use super::leaf::LeafState;
use crate::object::{REVOCATIONS, RawObject, Ref};

#[cfg(not(any(
    loom,
    all(
        feature = "std",
        target_os = "linux",
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
    feature = "std",
    target_os = "linux",
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

/// What a sequence has done.
struct Added {
    /// The block whose count it added to; null if the slot is empty.
    raw: *mut RawObject,
    /// The word of the count before. Only if there is a block.
    before: isize,
    /// Set if any object in the process may be revoked. Only if there is a block.
    any_revoked: bool,
}

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

    /// Takes a reference to the object of a slot. Also returns true if any object in the process
    /// may be revoked: if not, this one is not.
    #[inline(always)]
    fn get_noting_revocations(&self, slot: usize) -> Option<(Ref<T>, bool)> {
        let Some(area) = sequence::area() else {
            cold_path();
            return self.get_in_section(slot);
        };
        loop {
            // (A) to (N)
            let added = sequence::add(self, slot, area);
            let raw = NonNull::new(added.raw)?;
            // (O)
            // SAFETY: the sequence has found the block in a slot of this tree, and added one to its
            // count when it still existed: see the head of this file.
            if let Some(object) = unsafe { Ref::of_add(raw, added.before) } {
                return Some((object, added.any_revoked));
            }
            relax(0);
        }
    }

    /// Takes a reference where there are no sequences.
    #[inline(never)]
    fn get_in_section(&self, slot: usize) -> Option<(Ref<T>, bool)> {
        let section = rcu::read_lock();
        loop {
            // A dead count means that the slot was closed since, or that the leaf was released:
            // another walk finds the current object.
            if let Some(object) = self.borrow(slot, &section)?.upgrade() {
                return Some((object, REVOCATIONS.any()));
            }
            relax(0);
        }
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, target_os = "linux", target_arch = "x86_64", not(loom)))]
mod stress;
