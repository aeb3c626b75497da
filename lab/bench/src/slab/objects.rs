//! Allocators of objects: our cache, heaps, and slabs that return keys.

use std::mem::MaybeUninit;

use anyhow::Context;
use sharded_slab::Config;

#[cfg(feature = "jemalloc")]
use super::heaps::Jemalloc;
#[cfg(feature = "experiments")]
use super::heaps::{InHeap, MiMalloc};
use super::work::{Store, Subject};
use super::{FILE, SMALL};
use fdtable_slab::{Cache, Object};

pub(super) const OURS: &str = "fdtable::slab";
pub(super) const MIMALLOC: &str = "mimalloc";
pub(super) const JEMALLOC: &str = "jemalloc";
pub(super) const BOX: &str = "Box, the C library's heap";
pub(super) const SHARDED_SLAB: &str = "sharded-slab";
pub(super) const MUTEX_SLAB: &str = "slab under parking_lot's mutex";
pub(super) const NOTHING: &str = "floor: nothing is allocated";

/// An object of `N` words of 8 bytes, which need not be initialized.
pub(super) type Words<const N: usize> = MaybeUninit<[u64; N]>;

/// Allocator of objects of one type.
pub(super) trait Objects<T>: Sync + Sized + 'static {
    /// A live object.
    type Held<'a>: Send;
    /// Name in reports.
    const NAME: &'static str;

    /// Creates an allocator without objects.
    ///
    /// # Errors
    /// If there is no memory for it.
    fn new() -> anyhow::Result<Self>;

    /// Allocates an object, if there is memory.
    fn insert(&self, value: T) -> Option<Self::Held<'_>>;

    /// Frees the object.
    fn remove<'a>(&'a self, held: Self::Held<'a>);

    /// Returns the bytes that it has from the system, if it reports them.
    fn bytes_taken(&self) -> Option<usize> {
        None
    }
}

/// Lists every subject with objects of every size.
pub(super) fn all() -> anyhow::Result<Vec<Box<dyn Subject>>> {
    let mut subjects = of_size::<{ SMALL / 8 }>()?;
    subjects.extend(of_size::<{ FILE / 8 }>()?);
    Ok(subjects)
}

fn of_size<const N: usize>() -> anyhow::Result<Vec<Box<dyn Subject>>> {
    Ok(vec![
        Box::new(Store::<Ours<Words<N>>, N>::new()?),
        #[cfg(feature = "experiments")]
        Box::new(Store::<InHeap<MiMalloc>, N>::new()?),
        #[cfg(feature = "jemalloc")]
        Box::new(Store::<InHeap<Jemalloc>, N>::new()?),
        Box::new(Store::<Boxes, N>::new()?),
        Box::new(Store::<ShardedSlab<Words<N>>, N>::new()?),
        Box::new(Store::<MutexSlab<Words<N>>, N>::new()?),
        Box::new(Store::<Nothing, N>::new()?),
    ])
}

/// A cache of ours, with the default options.
pub(super) struct Ours<T>(Cache<T>);

impl<T: Send + Sync + 'static> Objects<T> for Ours<T> {
    type Held<'a> = Object<'a, T>;
    const NAME: &'static str = OURS;

    fn new() -> anyhow::Result<Self> {
        Ok(Ours(Cache::new("bench")?))
    }

    #[inline]
    fn insert(&self, value: T) -> Option<Object<'_, T>> {
        self.0.insert(value).ok()
    }

    #[inline]
    fn remove<'a>(&'a self, held: Object<'a, T>) {
        drop(held);
    }

    fn bytes_taken(&self) -> Option<usize> {
        Some(self.0.info().bytes)
    }
}

/// Boxes of the standard library, in the global heap.
pub(super) struct Boxes;

impl<T: Send + 'static> Objects<T> for Boxes {
    type Held<'a> = Box<T>;
    const NAME: &'static str = BOX;

    fn new() -> anyhow::Result<Self> {
        Ok(Boxes)
    }

    #[inline]
    fn insert(&self, value: T) -> Option<Box<T>> {
        Some(Box::new(value))
    }

    #[inline]
    fn remove(&self, held: Box<T>) {
        drop(held);
    }
}

/// A first page that holds a batch, and enough pages for all requests.
struct LargePages;

impl Config for LargePages {
    const INITIAL_PAGE_SIZE: usize = 4096;
    const MAX_PAGES: usize = 16;
}

/// A slab in which each thread inserts into a part of its own.
pub(super) struct ShardedSlab<T>(sharded_slab::Slab<T, LargePages>);

impl<T: Send + Sync + 'static> Objects<T> for ShardedSlab<T> {
    type Held<'a> = usize;
    const NAME: &'static str = SHARDED_SLAB;

    fn new() -> anyhow::Result<Self> {
        Ok(ShardedSlab(sharded_slab::Slab::new_with_config()))
    }

    #[inline]
    fn insert(&self, value: T) -> Option<usize> {
        self.0.insert(value)
    }

    #[inline]
    fn remove(&self, held: usize) {
        self.0.remove(held);
    }
}

/// A slab under a lock.
pub(super) struct MutexSlab<T>(parking_lot::Mutex<slab::Slab<T>>);

impl<T: Send + 'static> Objects<T> for MutexSlab<T> {
    type Held<'a> = usize;
    const NAME: &'static str = MUTEX_SLAB;

    fn new() -> anyhow::Result<Self> {
        Ok(MutexSlab(parking_lot::Mutex::default()))
    }

    #[inline]
    fn insert(&self, value: T) -> Option<usize> {
        Some(self.0.lock().insert(value))
    }

    #[inline]
    fn remove(&self, held: usize) {
        self.0.lock().try_remove(held);
    }
}

/// The cost of the loops without an allocator.
pub(super) struct Nothing;

impl<T> Objects<T> for Nothing {
    type Held<'a> = usize;
    const NAME: &'static str = NOTHING;

    fn new() -> anyhow::Result<Self> {
        Ok(Nothing)
    }

    #[inline]
    fn insert(&self, _value: T) -> Option<usize> {
        Some(0)
    }

    #[inline]
    fn remove(&self, _held: usize) {}
}

/// Finds the subject with this name and size.
///
/// # Errors
/// If there is none.
pub(super) fn find(name: &str, bytes: usize) -> anyhow::Result<Box<dyn Subject>> {
    all()?
        .into_iter()
        .find(|subject| subject.name() == name && subject.bytes() == bytes)
        .with_context(|| format!("there is no subject {name} with objects of {bytes} bytes"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_subject_is_found_by_its_name_and_size() {
        let all = all().unwrap();
        let names: BTreeSet<_> = all.iter().map(|it| (it.name(), it.bytes())).collect();
        assert_eq!(names.len(), all.len());
        for (name, bytes) in names {
            let found = find(name, bytes).unwrap();
            assert_eq!((found.name(), found.bytes()), (name, bytes));
        }
        assert!(find("nobody", SMALL).is_err());
        assert!(find(OURS, 65).is_err());
    }

    fn holds_many<O: Objects<Words<8>>>() {
        let objects = O::new().unwrap();
        let make = |n| objects.insert(Words::new([n; 8])).expect(O::NAME);
        let held: Vec<_> = (0..5000).map(make).collect();
        held.into_iter().for_each(|held| objects.remove(held));
    }

    #[test]
    fn every_allocator_holds_more_than_a_batch() {
        holds_many::<Ours<Words<8>>>();
        #[cfg(feature = "experiments")]
        holds_many::<InHeap<MiMalloc>>();
        #[cfg(feature = "jemalloc")]
        holds_many::<InHeap<Jemalloc>>();
        holds_many::<Boxes>();
        holds_many::<ShardedSlab<Words<8>>>();
        holds_many::<MutexSlab<Words<8>>>();
        holds_many::<Nothing>();
    }
}
