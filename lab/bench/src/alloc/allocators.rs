//! The allocators of descriptors or keys: our table, the baselines, and slabs.

use std::rc::Rc;

use fdtable::{Files, Rcu};
use parking_lot::Mutex;
use sharded_slab::Slab;

use super::footprint::{Footprint, measure};
use super::pairs::{Filled, Pairs};
use crate::any_free::AnyFree;
use crate::baseline::{RwLockBitmap, RwLockVec};
use crate::lookup::Padded;
use crate::subject::locked::{Locked, Slots};
use crate::subject::{Object, Subject};

pub(super) const LOWEST: &str = "fdtable, lowest free number";
pub(super) const ANY: &str = "fdtable, any free number";
pub(super) const MUTEX_SLAB: &str = "slab under parking_lot's mutex";
pub(super) const SHARDED_SLAB: &str = "sharded-slab";
pub(super) const RWLOCK_VEC: &str = "RwLock<Vec<Option<Arc>>>";
pub(super) const FILES_STRUCT: &str = "files_struct under a rwlock";

/// Spare descriptors below the limit. CPUs that allocate in leaves of their own need some.
const SPARE: u32 = 4096;

/// One of the subjects, with its name in reports.
pub(super) struct Allocator {
    pub(super) name: &'static str,
    /// Creates one in which a number of descriptors is open, but for the middle one.
    pub(super) fill: fn(u32) -> anyhow::Result<Rc<dyn Pairs>>,
    /// Measures the memory with many descriptors and with few.
    pub(super) measure_memory: fn(u32, u32) -> anyhow::Result<Option<Footprint>>,
}

/// Lists every allocator, in the order of the tables.
pub(super) fn all() -> [Allocator; 6] {
    [
        allocator::<Files<Rcu<Padded>>>(LOWEST),
        allocator::<AnyFree<Padded>>(ANY),
        allocator::<Locked<Mutex<Slots>>>(MUTEX_SLAB),
        allocator::<Slab<Object>>(SHARDED_SLAB),
        allocator::<RwLockVec<Padded>>(RWLOCK_VEC),
        allocator::<RwLockBitmap<Padded>>(FILES_STRUCT),
    ]
}

fn allocator<S: Subject>(name: &'static str) -> Allocator {
    Allocator {
        name,
        fill: |open| Ok(Rc::new(Filled::<S>::new(open)?)),
        measure_memory: measure::<S>,
    }
}

/// Creates an allocator for at least `most` keys, all free.
pub(super) fn with_room<S: Subject>(most: u32) -> S {
    S::with_room(most.saturating_add(SPARE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::File;

    fn returns_the_object_that_it_holds_once<S: Subject>() {
        let allocator: S = with_room(10);
        let key = allocator.open(S::File::new(1)).unwrap();
        assert!(allocator.take(key).is_some());
        assert!(allocator.take(key).is_none());
    }

    #[test]
    fn every_allocator_returns_the_object_that_it_holds_once() {
        returns_the_object_that_it_holds_once::<Files<Rcu<Padded>>>();
        returns_the_object_that_it_holds_once::<AnyFree<Padded>>();
        returns_the_object_that_it_holds_once::<Locked<Mutex<Slots>>>();
        returns_the_object_that_it_holds_once::<Slab<Object>>();
        returns_the_object_that_it_holds_once::<RwLockVec<Padded>>();
        returns_the_object_that_it_holds_once::<RwLockBitmap<Padded>>();
    }
}
