//! A container under a lock: the table of most programs.

use std::collections::BTreeMap;

use slab::Slab;

use super::{Object, Subject};
use crate::baseline::{State, Vector};
use crate::lookup::Padded;

/// Container under the lock `L`. A removed value is dropped after the lock is released.
pub(crate) struct Locked<L>(L);

/// Lock around a container. None if a thread panicked while it held the lock.
pub(crate) trait Lock: Send + Sync + 'static {
    type Container;

    fn new(container: Self::Container) -> Self;
    fn read<R>(&self, f: impl FnOnce(&Self::Container) -> R) -> Option<R>;
    fn write<R>(&self, f: impl FnOnce(&mut Self::Container) -> R) -> Option<R>;
}

/// Container that allocates keys.
pub(crate) trait Container: Default + 'static {
    type Key: Copy + Send + Sync;

    fn insert(&mut self, file: Object) -> Option<Self::Key>;
    fn get(&self, key: Self::Key) -> Option<&Object>;
    fn remove(&mut self, key: Self::Key) -> Option<Object>;
}

impl<L: Lock<Container: Container>> Subject for Locked<L> {
    type File = Object;
    type Key = <L::Container as Container>::Key;
    type Reader = ();

    fn with_room(_most: u32) -> Self {
        Locked(L::new(L::Container::default()))
    }

    fn reader() {}

    #[inline]
    fn open(&self, file: Object) -> Option<Self::Key> {
        self.0.write(|container| container.insert(file))?
    }

    #[inline]
    fn take(&self, key: Self::Key) -> Option<Object> {
        self.0.write(|container| container.remove(key))?
    }

    #[inline]
    fn with<R>(&self, key: Self::Key, read: impl FnOnce(&Padded) -> R) -> Option<R> {
        let look_up = |container: &L::Container| container.get(key).map(|object| read(object));
        self.0.read(look_up)?
    }

    #[inline]
    fn get(&self, key: Self::Key) -> Option<Object> {
        self.0.read(|container| container.get(key).cloned())?
    }
}

/// Implements [`Lock`] for a lock.
macro_rules! lock {
    ($lock:path, $read:ident, $write:ident, $($unpoisoned:ident)?) => {
        impl<C: Send + Sync + 'static> Lock for $lock {
            type Container = C;

            fn new(container: C) -> Self {
                Self::new(container)
            }

            #[inline]
            fn read<R>(&self, f: impl FnOnce(&C) -> R) -> Option<R> {
                Some(f(&*self.$read()$(.$unpoisoned()?)?))
            }

            #[inline]
            fn write<R>(&self, f: impl FnOnce(&mut C) -> R) -> Option<R> {
                Some(f(&mut *self.$write()$(.$unpoisoned()?)?))
            }
        }
    };
}

lock!(parking_lot::RwLock<C>, read, write,);
lock!(parking_lot::Mutex<C>, lock, lock,);
lock!(std::sync::RwLock<C>, read, write, ok);
lock!(std::sync::Mutex<C>, lock, lock, ok);

/// A vector, and a heap of free descriptors: the lowest is allocated.
pub(crate) struct Numbered(Vector<Object>);

impl Default for Numbered {
    fn default() -> Self {
        Numbered(State::new())
    }
}

impl Container for Numbered {
    type Key = i32;

    #[inline]
    fn insert(&mut self, file: Object) -> Option<i32> {
        self.0.open(file, u32::MAX).ok()
    }

    #[inline]
    fn get(&self, key: i32) -> Option<&Object> {
        self.0.file(key).ok()
    }

    #[inline]
    fn remove(&mut self, key: i32) -> Option<Object> {
        self.0.take(key).ok()
    }
}

/// A tree whose handles count up and are never reused, as in virtiofsd.
#[derive(Default)]
pub(crate) struct Handles {
    map: BTreeMap<u64, Object>,
    next: u64,
}

impl Container for Handles {
    type Key = u64;

    #[inline]
    fn insert(&mut self, file: Object) -> Option<u64> {
        let handle = self.next;
        self.next += 1;
        self.map.insert(handle, file);
        Some(handle)
    }

    #[inline]
    fn get(&self, key: u64) -> Option<&Object> {
        self.map.get(&key)
    }

    #[inline]
    fn remove(&mut self, key: u64) -> Option<Object> {
        self.map.remove(&key)
    }
}

/// A slab: the key that was freed last is allocated first.
#[derive(Default)]
pub(crate) struct Slots(Slab<Object>);

impl Container for Slots {
    type Key = usize;

    #[inline]
    fn insert(&mut self, file: Object) -> Option<usize> {
        Some(self.0.insert(file))
    }

    #[inline]
    fn get(&self, key: usize) -> Option<&Object> {
        self.0.get(key)
    }

    #[inline]
    fn remove(&mut self, key: usize) -> Option<Object> {
        self.0.try_remove(key)
    }
}
