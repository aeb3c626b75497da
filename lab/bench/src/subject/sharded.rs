//! `sharded-slab`: each thread inserts into a part of its own. A lookup counts a reference in the
//! slot.
//!
//! Its authors hold objects in place; a program whose files outlive the table holds references.
//! Both variants take part.

use sharded_slab::Slab;

use super::{Object, Subject};
use crate::lookup::Padded;

impl Subject for Slab<Object> {
    type File = Object;
    type Key = usize;
    type Reader = ();

    fn with_room(_most: u32) -> Self {
        Slab::new()
    }

    fn reader() {}

    #[inline]
    fn open(&self, file: Object) -> Option<usize> {
        self.insert(file)
    }

    #[inline]
    fn take(&self, key: usize) -> Option<Object> {
        Slab::take(self, key)
    }

    #[inline]
    fn with<R>(&self, key: usize, read: impl FnOnce(&Padded) -> R) -> Option<R> {
        self.get(key).map(|object| read(&object))
    }

    #[inline]
    fn get(&self, key: usize) -> Option<Object> {
        self.get(key).map(|object| Object::clone(&object))
    }
}

impl Subject for Slab<Padded> {
    type File = Padded;
    type Key = usize;
    type Reader = ();

    fn with_room(_most: u32) -> Self {
        Slab::new()
    }

    fn reader() {}

    #[inline]
    fn open(&self, file: Padded) -> Option<usize> {
        self.insert(file)
    }

    #[inline]
    fn take(&self, key: usize) -> Option<Padded> {
        Slab::take(self, key)
    }

    #[inline]
    fn close(&self, key: usize) -> Option<()> {
        self.remove(key).then_some(())
    }

    #[inline]
    fn with<R>(&self, key: usize, read: impl FnOnce(&Padded) -> R) -> Option<R> {
        self.get(key).map(|object| read(&object))
    }

    #[inline]
    fn get(&self, key: usize) -> Option<Padded> {
        self.get(key).map(|object| object.clone())
    }

    /// The guard keeps the object after a close, as long as the slab exists.
    #[inline]
    fn owned(&self, key: usize) -> Option<u64> {
        self.borrowed(key)
    }
}
