//! Owned lookup: takes a reference to the object of a slot.
//!
//! The thread enters a read-side section, borrows the object, adds to its count, and leaves the
//! section: [`leaf`](super::leaf) shows why no count of a freed block is touched.
//!
//! *The add and the last put.* Both are atomic operations on the count. If the add comes first, the
//! lookup has a reference, and the put is not the last. If it comes later, the count is dead, and
//! the lookup has nothing. The closer empties the slot, or unlinks its leaf, before it puts the
//! slot's reference. So a later walk finds the slot empty or with its next object. The add orders
//! nothing, so one may come too early for that, and is repeated.
//!
//! *Hot slots.* A count that several CPUs want is counted by CPU: see
//! [`spread`](mod@fdtable_sync::refcount::spread).
//!
//! A restartable sequence that walks and adds needs no section. It was not faster on either of two
//! generations of CPUs, and slower with many descriptors.

use fdtable_sync::hint::cold_path;
use fdtable_sync::percpu;
use fdtable_sync::platform::relax;
use fdtable_sync::rcu;

use super::Tree;
use super::leaf::LeafState;
use crate::object::{Borrowed, Ref};

/// Why a lookup returns no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// The slot has none.
    Vacant,
    /// The object was [revoked](Ref::revoke).
    Revoked,
}

impl<T: ?Sized + Send + Sync, S: LeafState, D> Tree<T, S, D> {
    /// Takes a reference to the object of a slot. One atomic add; neither blocks nor allocates,
    /// except in a thread's first section. May be called inside a section.
    #[inline(always)]
    pub fn get(&self, slot: usize) -> Option<Ref<T>> {
        let section = rcu::read_lock();
        let found = self.borrow(slot, &section)?;
        self.upgrade(slot, found).or_else(|| self.get_again(slot))
    }

    /// Like [`get`](Self::get), for objects that are not revoked.
    ///
    /// # Errors
    /// [`NotFound`] says why there is none.
    #[inline(always)]
    pub fn get_unless_revoked(&self, slot: usize) -> Result<Ref<T>, NotFound> {
        // weaken: revocations-that-are-read-first
        let object = self.get(slot).ok_or(NotFound::Vacant)?;
        // weaken: revocations-that-are-read-first
        if Ref::is_revoked(&object) {
            cold_path();
            return Err(NotFound::Revoked);
        }
        Ok(object)
    }

    /// Takes a reference where a walk has found an object that was ending. A function of its own:
    /// a lookup without it needs no frame.
    #[cold]
    #[inline(never)]
    fn get_again(&self, slot: usize) -> Option<Ref<T>> {
        loop {
            relax(0);
            let section = rcu::read_lock();
            let found = self.borrow(slot, &section)?;
            if let Some(object) = self.upgrade(slot, found) {
                return Some(object);
            }
        }
    }

    /// Takes a reference to an object that was found in a slot, and spreads its count if many CPUs
    /// do. Returns nothing if the last reference has gone: then another walk finds what is there
    /// now.
    #[inline(always)]
    fn upgrade(&self, slot: usize, found: Borrowed<'_, T>) -> Option<Ref<T>> {
        let (object, has_others) = found.upgrade_noting_others()?;
        Some(match has_others {
            true => self.note_taker(slot, object),
            false => object,
        })
    }

    /// Spreads the count of an object that was found in a slot if many CPUs take references. A
    /// function of its own, with the reference by value: so a lookup without it needs no frame.
    #[inline(never)]
    fn note_taker(&self, slot: usize, object: Ref<T>) -> Ref<T> {
        if Ref::note_taker(&object, percpu::current()) {
            self.spread_found(slot, &object);
        }
        object
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
        Ref::spread(object, |raw| {
            let section = rcu::read_lock();
            let found = self.borrow(slot, &section);
            found.is_some_and(|found| found.is_of(raw))
        });
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod stress;
