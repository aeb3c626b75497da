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
    fn borrowed(&self, key: usize) -> Option<u64> {
        self.get(key).map(|object| object.value)
    }

    #[inline]
    fn owned(&self, key: usize) -> Option<u64> {
        let object = Object::clone(&*self.get(key)?);
        Some(object.value)
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
    fn borrowed(&self, key: usize) -> Option<u64> {
        self.get(key).map(|object| object.value)
    }

    /// The guard keeps the object after a close, as long as the slab exists.
    #[inline]
    fn owned(&self, key: usize) -> Option<u64> {
        self.borrowed(key)
    }
}
