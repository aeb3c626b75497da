//! Maps with the fastest hash for integers: under a lock, and those that threads share.

use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use papaya::HashMap as PapayaMap;
use rustc_hash::{FxBuildHasher, FxHashMap};
use scc::{Guard, HashIndex, HashMap as SccMap};

use crate::lookup::Padded;
use crate::subject::locked::Container;
use crate::subject::{Object, Subject, sum};

/// A hash map, and the key after the last allocated one, if it is free: as in hosts of WASI.
#[derive(Default)]
pub(super) struct Hashed {
    map: FxHashMap<u32, Object>,
    next: u32,
}

impl Container for Hashed {
    type Key = u32;

    #[inline]
    fn insert(&mut self, file: Object) -> Option<u32> {
        while self.map.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.map.insert(number, file);
        Some(number)
    }

    #[inline]
    fn get(&self, key: u32) -> Option<&Object> {
        self.map.get(&key)
    }

    #[inline]
    fn remove(&mut self, key: u32) -> Option<Object> {
        self.map.remove(&key)
    }
}

/// A shared map whose keys are counted up, and never reused.
pub(crate) struct Counted<M> {
    map: M,
    next: Counter,
}

/// It has a cache line of its own: inserts do not invalidate the line of the map's readers.
#[derive(Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

/// Map that threads share.
pub(crate) trait Shared: Default + Send + Sync + 'static {
    fn insert(&self, key: u64, file: Object) -> Option<()>;
    fn remove(&self, key: u64) -> Option<Object>;
    fn with<R>(&self, key: u64, read: impl FnOnce(&Object) -> R) -> Option<R>;

    #[inline]
    fn delete(&self, key: u64) -> Option<()> {
        self.remove(key).map(drop)
    }

    #[inline]
    fn sum(&self, keys: &[u64]) -> u64 {
        sum(keys, |key| self.with(key, |object| object.value))
    }
}

impl<M> Counted<M> {
    /// Makes a table of an empty map.
    pub(crate) fn of(map: M) -> Self {
        let next = Counter::default();
        Counted { map, next }
    }
}

impl<M: Shared> Subject for Counted<M> {
    type File = Object;
    type Key = u64;
    type Reader = ();

    fn with_room(_most: u32) -> Self {
        Counted::of(M::default())
    }

    fn reader() {}

    #[inline]
    fn open(&self, file: Object) -> Option<u64> {
        // Only uniqueness matters.
        let key = self.next.0.fetch_add(1, Ordering::Relaxed);
        self.map.insert(key, file)?;
        Some(key)
    }

    #[inline]
    fn take(&self, key: u64) -> Option<Object> {
        self.map.remove(key)
    }

    #[inline]
    fn close(&self, key: u64) -> Option<()> {
        self.map.delete(key)
    }

    #[inline]
    fn with<R>(&self, key: u64, read: impl FnOnce(&Padded) -> R) -> Option<R> {
        self.map.with(key, |object| read(object))
    }

    #[inline]
    fn get(&self, key: u64) -> Option<Object> {
        self.map.with(key, Object::clone)
    }

    #[inline]
    fn sum_borrowed(&self, (): &mut (), keys: &[u64]) -> u64 {
        self.map.sum(keys)
    }
}

/// A lock for each of several shards, four for each CPU.
pub(crate) type Dash = DashMap<u64, Object, FxBuildHasher>;

impl Shared for Dash {
    #[inline]
    fn insert(&self, key: u64, file: Object) -> Option<()> {
        DashMap::insert(self, key, file).is_none().then_some(())
    }

    #[inline]
    fn remove(&self, key: u64) -> Option<Object> {
        DashMap::remove(self, &key).map(|(_, file)| file)
    }

    #[inline]
    fn with<R>(&self, key: u64, read: impl FnOnce(&Object) -> R) -> Option<R> {
        DashMap::get(self, &key).map(|object| read(&object))
    }
}

/// Readers are pinned: for each change, and for a batch of lookups.
pub(super) type Papaya = PapayaMap<u64, Object, FxBuildHasher>;

impl Shared for Papaya {
    #[inline]
    fn insert(&self, key: u64, file: Object) -> Option<()> {
        self.pin().insert(key, file).is_none().then_some(())
    }

    #[inline]
    fn remove(&self, key: u64) -> Option<Object> {
        self.pin().remove(&key).cloned()
    }

    #[inline]
    fn delete(&self, key: u64) -> Option<()> {
        self.pin().remove(&key).map(|_| ())
    }

    #[inline]
    fn with<R>(&self, key: u64, read: impl FnOnce(&Object) -> R) -> Option<R> {
        self.pin().get(&key).map(read)
    }

    #[inline]
    fn sum(&self, keys: &[u64]) -> u64 {
        let map = self.pin();
        sum(keys, |key| map.get(&key).map(|object| object.value))
    }
}

/// A lock for each bucket.
pub(super) type Scc = SccMap<u64, Object, FxBuildHasher>;

impl Shared for Scc {
    #[inline]
    fn insert(&self, key: u64, file: Object) -> Option<()> {
        self.insert_sync(key, file).ok()
    }

    #[inline]
    fn remove(&self, key: u64) -> Option<Object> {
        self.remove_sync(&key).map(|(_, file)| file)
    }

    #[inline]
    fn with<R>(&self, key: u64, read: impl FnOnce(&Object) -> R) -> Option<R> {
        self.read_sync(&key, |_, object| read(object))
    }
}

/// A lock for each bucket, which readers do not take. A guard is held for a batch of lookups.
pub(super) type Index = HashIndex<u64, Object, FxBuildHasher>;

impl Shared for Index {
    #[inline]
    fn insert(&self, key: u64, file: Object) -> Option<()> {
        self.insert_sync(key, file).ok()
    }

    /// Nothing can be moved out: a reference is taken first.
    #[inline]
    fn remove(&self, key: u64) -> Option<Object> {
        let entry = self.get_sync(&key)?;
        let file = Object::clone(entry.get());
        entry.remove_entry();
        Some(file)
    }

    #[inline]
    fn delete(&self, key: u64) -> Option<()> {
        self.remove_sync(&key).then_some(())
    }

    #[inline]
    fn with<R>(&self, key: u64, read: impl FnOnce(&Object) -> R) -> Option<R> {
        self.peek_with(&key, |_, object| read(object))
    }

    #[inline]
    fn sum(&self, keys: &[u64]) -> u64 {
        let guard = Guard::new();
        sum(keys, |key| {
            self.peek(&key, &guard).map(|object| object.value)
        })
    }
}
