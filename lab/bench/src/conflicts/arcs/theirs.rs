//! Tables of other crates, whose descriptors are keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use dashmap::DashMap;
use fdtable::Error;
use parking_lot::Mutex;
use rustc_hash::FxBuildHasher;
use sharded_slab::Slab;

use super::{Container, Object};
use crate::lookup::Padded;

/// Each thread inserts into a part of its own; a lookup increments a count in the slot.
pub(in super::super) struct Sharded(Slab<Object>);

impl Container for Sharded {
    const NAME: &'static str = "sharded-slab";

    fn with_limit(_: u64) -> Self {
        Sharded(Slab::new())
    }

    #[inline]
    fn open(&self, file: Object) -> Result<u64, Error> {
        let key = self.0.insert(file).ok_or(Error::TooManyFiles)?;
        Ok(key as u64)
    }

    #[inline]
    fn get(&self, number: u64) -> Result<Object, Error> {
        let entry = self.0.get(number as usize).ok_or(Error::BadFd)?;
        Ok(Arc::clone(&entry))
    }

    #[inline]
    fn with<R>(&self, number: u64, look: impl FnOnce(&Padded) -> R) -> Result<R, Error> {
        let entry = self.0.get(number as usize).ok_or(Error::BadFd)?;
        Ok(look(&entry))
    }

    #[inline]
    fn close(&self, number: u64) -> Result<(), Error> {
        let file = self.0.take(number as usize).ok_or(Error::BadFd)?;
        drop(file);
        Ok(())
    }
}

/// Readers take no lock; the free keys are on a stack under one.
pub(in super::super) struct Swapped {
    slots: Box<[ArcSwapOption<Padded>]>,
    free: Mutex<Vec<u64>>,
}

impl Container for Swapped {
    const NAME: &'static str = "array of ArcSwapOption";
    /// A store scans the debt slots of every thread that ever borrowed: that takes very many steps.
    const OPENERS: usize = 8;

    fn with_limit(limit: u64) -> Self {
        let limit = limit.min(1024);
        Swapped {
            slots: (0..limit).map(|_| ArcSwapOption::empty()).collect(),
            free: Mutex::new((0..limit).rev().collect()),
        }
    }

    #[inline]
    fn open(&self, file: Object) -> Result<u64, Error> {
        let number = self.free.lock().pop().ok_or(Error::TooManyFiles)?;
        self.slots[number as usize].store(Some(file));
        Ok(number)
    }

    #[inline]
    fn get(&self, number: u64) -> Result<Object, Error> {
        let slot = self.slots.get(number as usize).ok_or(Error::BadFd)?;
        slot.load_full().ok_or(Error::BadFd)
    }

    #[inline]
    fn with<R>(&self, number: u64, look: impl FnOnce(&Padded) -> R) -> Result<R, Error> {
        let slot = self.slots.get(number as usize).ok_or(Error::BadFd)?;
        let file = slot.load();
        file.as_ref().map(|file| look(file)).ok_or(Error::BadFd)
    }

    #[inline]
    fn close(&self, number: u64) -> Result<(), Error> {
        let slot = self.slots.get(number as usize).ok_or(Error::BadFd)?;
        let file = slot.swap(None).ok_or(Error::BadFd)?;
        self.free.lock().push(number);
        drop(file);
        Ok(())
    }
}

/// A lock for each of many shards. There are as many as the map would have on a machine with 256
/// CPUs. Keys are counted up.
pub(in super::super) struct Dashed {
    map: DashMap<u64, Object, FxBuildHasher>,
    next: Counter,
}

/// On lines of its own.
#[repr(align(128))]
struct Counter(AtomicU64);

impl Container for Dashed {
    const NAME: &'static str = "dashmap";

    fn with_limit(_: u64) -> Self {
        Dashed {
            map: DashMap::with_hasher_and_shard_amount(FxBuildHasher, 1024),
            next: Counter(AtomicU64::new(0)),
        }
    }

    #[inline]
    fn open(&self, file: Object) -> Result<u64, Error> {
        // Only uniqueness matters.
        let key = self.next.0.fetch_add(1, Ordering::Relaxed);
        self.map.insert(key, file);
        Ok(key)
    }

    #[inline]
    fn get(&self, number: u64) -> Result<Object, Error> {
        let entry = self.map.get(&number).ok_or(Error::BadFd)?;
        Ok(Arc::clone(&entry))
    }

    #[inline]
    fn with<R>(&self, number: u64, look: impl FnOnce(&Padded) -> R) -> Result<R, Error> {
        let entry = self.map.get(&number).ok_or(Error::BadFd)?;
        Ok(look(&entry))
    }

    #[inline]
    fn close(&self, number: u64) -> Result<(), Error> {
        let (_, file) = self.map.remove(&number).ok_or(Error::BadFd)?;
        drop(file);
        Ok(())
    }
}
