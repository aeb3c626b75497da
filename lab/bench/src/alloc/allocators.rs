//! Allocators of descriptors or keys: our table, the baselines, and slabs.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fdtable::{Files, Rcu};

use crate::any_free::AnyFree;
use crate::baseline::{RwLockBitmap, RwLockVec};
use crate::table::{NewFile, Table};

pub(super) const LOWEST: &str = "fdtable, lowest free number";
pub(super) const ANY: &str = "fdtable, any free number";
pub(super) const MUTEX_SLAB: &str = "slab under parking_lot's mutex";
pub(super) const SHARDED_SLAB: &str = "sharded-slab";
pub(super) const RWLOCK_VEC: &str = "RwLock<Vec<Option<Arc>>>";
pub(super) const FILES_STRUCT: &str = "files_struct under a rwlock";
pub(super) const TWO_ADDS: &str = "floor: two atomic adds";

/// Spare descriptors below the limit. CPUs that allocate in leaves of their own need some.
const SPARE: u32 = 4096;

/// The referenced object. It has cache lines of its own, with the count in front, so that threads
/// with an object each write to no common line.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Apart(AtomicU64);

/// Allocator of descriptors or keys that holds a reference for each.
pub(super) trait Allocator: Send + Sync + Sized + 'static {
    /// Counted reference to an object.
    type Ref: Clone + Send + Sync;
    /// An allocated descriptor or key.
    type Key;
    /// Name in reports.
    const NAME: &'static str;

    /// Creates an allocator for at least `most` keys, all free.
    fn with_room(most: u32) -> Self;

    /// Creates an object.
    ///
    /// # Errors
    /// If the host refuses.
    fn object() -> anyhow::Result<Self::Ref>;

    /// Allocates a key for `object`, if there is one.
    fn open(&self, object: Self::Ref) -> Option<Self::Key>;

    /// Frees the key and returns the object, if the key was allocated.
    fn take(&self, key: Self::Key) -> Option<Self::Ref>;
}

/// Implements [`Allocator`] for a table.
macro_rules! allocator_of_table {
    ($table:ty, $name:expr) => {
        impl Allocator for $table {
            type Ref = <$table as Table<Apart>>::Ref;
            type Key = RawFd;
            const NAME: &'static str = $name;

            fn with_room(most: u32) -> Self {
                Table::with_limit(most.saturating_add(SPARE))
            }

            fn object() -> anyhow::Result<Self::Ref> {
                Ok(<Self as NewFile<Apart, Apart>>::new_file(Apart::default()))
            }

            #[inline]
            fn open(&self, object: Self::Ref) -> Option<RawFd> {
                Table::open(self, object).ok()
            }

            #[inline]
            fn take(&self, key: RawFd) -> Option<Self::Ref> {
                Table::take(self, key).ok()
            }
        }
    };
}

allocator_of_table!(Files<Rcu<Apart>>, LOWEST);
allocator_of_table!(AnyFree<Apart>, ANY);
allocator_of_table!(RwLockVec<Apart>, RWLOCK_VEC);
allocator_of_table!(RwLockBitmap<Apart>, FILES_STRUCT);

/// The usual choice where any key will do.
pub(super) struct MutexSlab(parking_lot::Mutex<slab::Slab<Arc<Apart>>>);

impl Allocator for MutexSlab {
    type Ref = Arc<Apart>;
    type Key = usize;
    const NAME: &'static str = MUTEX_SLAB;

    fn with_room(_most: u32) -> Self {
        MutexSlab(parking_lot::Mutex::default())
    }

    fn object() -> anyhow::Result<Arc<Apart>> {
        Ok(Arc::default())
    }

    #[inline]
    fn open(&self, object: Arc<Apart>) -> Option<usize> {
        Some(self.0.lock().insert(object))
    }

    #[inline]
    fn take(&self, key: usize) -> Option<Arc<Apart>> {
        self.0.lock().try_remove(key)
    }
}

/// A slab in which each thread inserts into a part of its own.
pub(super) struct ShardedSlab(sharded_slab::Slab<Arc<Apart>>);

impl Allocator for ShardedSlab {
    type Ref = Arc<Apart>;
    type Key = usize;
    const NAME: &'static str = SHARDED_SLAB;

    fn with_room(_most: u32) -> Self {
        ShardedSlab(sharded_slab::Slab::new())
    }

    fn object() -> anyhow::Result<Arc<Apart>> {
        Ok(Arc::default())
    }

    #[inline]
    fn open(&self, object: Arc<Apart>) -> Option<usize> {
        self.0.insert(object)
    }

    #[inline]
    fn take(&self, key: usize) -> Option<Arc<Apart>> {
        self.0.take(key)
    }
}

/// The cheapest possible pair of operations that other threads can observe.
pub(super) struct TwoAdds;

impl Allocator for TwoAdds {
    type Ref = Arc<Apart>;
    type Key = Arc<Apart>;
    const NAME: &'static str = TWO_ADDS;

    fn with_room(_most: u32) -> Self {
        TwoAdds
    }

    fn object() -> anyhow::Result<Arc<Apart>> {
        Ok(Arc::default())
    }

    #[inline]
    fn open(&self, object: Arc<Apart>) -> Option<Arc<Apart>> {
        object.0.fetch_add(1, Ordering::Acquire);
        Some(object)
    }

    #[inline]
    fn take(&self, key: Arc<Apart>) -> Option<Arc<Apart>> {
        key.0.fetch_sub(1, Ordering::Release);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocates_and_frees<N: Allocator>() {
        let allocator = N::with_room(10);
        let object = N::object().unwrap();
        let key = allocator.open(object).expect(N::NAME);
        assert!(allocator.take(key).is_some(), "{}", N::NAME);
    }

    fn refuses_a_key_that_was_taken<N: Allocator<Key: Copy>>() {
        let allocator = N::with_room(10);
        let key = allocator.open(N::object().unwrap()).expect(N::NAME);
        assert!(allocator.take(key).is_some(), "{}", N::NAME);
        assert!(allocator.take(key).is_none(), "{}", N::NAME);
    }

    #[test]
    fn every_allocator_returns_the_object_that_it_holds() {
        allocates_and_frees::<Files<Rcu<Apart>>>();
        allocates_and_frees::<AnyFree<Apart>>();
        allocates_and_frees::<RwLockVec<Apart>>();
        allocates_and_frees::<RwLockBitmap<Apart>>();
        allocates_and_frees::<MutexSlab>();
        allocates_and_frees::<ShardedSlab>();
        allocates_and_frees::<TwoAdds>();
    }

    #[test]
    fn a_key_is_taken_once() {
        refuses_a_key_that_was_taken::<Files<Rcu<Apart>>>();
        refuses_a_key_that_was_taken::<AnyFree<Apart>>();
        refuses_a_key_that_was_taken::<RwLockVec<Apart>>();
        refuses_a_key_that_was_taken::<RwLockBitmap<Apart>>();
        refuses_a_key_that_was_taken::<MutexSlab>();
        refuses_a_key_that_was_taken::<ShardedSlab>();
    }
}
