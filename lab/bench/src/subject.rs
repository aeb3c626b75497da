//! The `Subject` trait: a table of this process as the loops of `peers` see it.
//!
//! The loops are generic over it, so that each table has its own copy of them with its operations
//! inlined.

use std::borrow::Borrow;
use std::sync::Arc;

use fdtable::{FileRef, RawFd, rcu};

use crate::lookup::Padded;
use crate::table::{NewFile, RcuFile, Table};

pub(crate) mod locked;
mod sharded;

/// Object that most tables hold.
pub(crate) type Object = Arc<Padded>;

/// Lookups in one critical section, where the authors of a table recommend this: a pinned guard, a
/// quiescent state.
pub(crate) const BATCH: usize = 64;

/// Location of a table's memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// In the heap, where it can be counted.
    Heap,
    /// Mapped for the maximal number of descriptors, and touched page by page.
    Mapped,
}

/// Table that several threads use at once.
pub(crate) trait Subject: Send + Sync + Sized + 'static {
    /// The opened value: a counted reference, or the object itself.
    type File: File;
    /// Descriptor or key.
    type Key: Copy + Send + Sync;
    /// State of a thread while it works.
    type Reader;
    /// Location of the table's memory.
    const MEMORY: Memory = Memory::Heap;

    /// Creates an empty table for at least `most` descriptors.
    fn with_room(most: u32) -> Self;

    /// Registers the calling thread.
    fn reader() -> Self::Reader;

    /// Allocates a key for `file`, if there is one.
    fn open(&self, file: Self::File) -> Option<Self::Key>;

    /// Frees the key and returns the file, if it is open. A table that cannot move it out returns a
    /// reference of the caller's own and drops the other when it can.
    fn take(&self, key: Self::Key) -> Option<Self::File>;

    /// Frees the key and drops the file, possibly later.
    #[inline]
    fn close(&self, key: Self::Key) -> Option<()> {
        self.take(key).map(drop)
    }

    /// Reads an open object without a reference of the caller's own. Takes the lock if the table
    /// has one.
    fn with<R>(&self, key: Self::Key, read: impl FnOnce(&Padded) -> R) -> Option<R>;

    /// Takes a reference, or copies the object where there are no references.
    fn get(&self, key: Self::Key) -> Option<Self::File>;

    /// Reads the value of an open object without a reference of the caller's own.
    #[inline]
    fn borrowed(&self, key: Self::Key) -> Option<u64> {
        self.with(key, |object| object.value)
    }

    /// Takes a reference, reads the value, and drops the reference.
    #[inline]
    fn owned(&self, key: Self::Key) -> Option<u64> {
        self.get(key).map(|file| file.borrow().value)
    }

    /// Adds up the values of open objects, at most [`BATCH`] of them, without references.
    #[inline]
    fn sum_borrowed(&self, _reader: &mut Self::Reader, keys: &[Self::Key]) -> u64 {
        sum(keys, |key| self.borrowed(key))
    }

    /// Does the deferred work, so that the next table does not pay for it. May block.
    ///
    /// # Errors
    /// If that would wait for the caller.
    fn run_deferred() -> anyhow::Result<()> {
        Ok(())
    }
}

/// Every table that implements [`Table`].
impl<Tb> Subject for Tb
where
    Tb: NewFile<Padded, Padded> + Table<Padded, Ref: File>,
{
    type File = Tb::Ref;
    type Key = RawFd;
    type Reader = ();

    fn with_room(most: u32) -> Self {
        Tb::with_limit(most)
    }

    fn reader() {}

    #[inline]
    fn open(&self, file: Tb::Ref) -> Option<RawFd> {
        Table::open(self, file).ok()
    }

    #[inline]
    fn take(&self, key: RawFd) -> Option<Tb::Ref> {
        Table::take(self, key).ok()
    }

    #[inline]
    fn close(&self, key: RawFd) -> Option<()> {
        Table::close(self, key).ok()
    }

    #[inline]
    fn with<R>(&self, key: RawFd, read: impl FnOnce(&Padded) -> R) -> Option<R> {
        Table::with(self, key, read).ok()
    }

    #[inline]
    fn get(&self, key: RawFd) -> Option<Tb::Ref> {
        Table::get(self, key).ok()
    }

    fn run_deferred() -> anyhow::Result<()> {
        Ok(rcu::barrier()?)
    }
}

/// Adds up the values that `look_up` finds; a missing one counts as 0.
#[inline]
pub(crate) fn sum<K: Copy>(keys: &[K], look_up: impl Fn(K) -> Option<u64>) -> u64 {
    keys.iter().fold(0, |sum: u64, &key| {
        sum.wrapping_add(look_up(key).unwrap_or(0))
    })
}

/// Value that a table holds for each key. A clone is a further reference, or a further object where
/// there are no references.
pub(crate) trait File: Borrow<Padded> + Clone + Send + Sync + 'static {
    /// Bytes of the object that are in the table itself.
    const IN_PLACE: usize;

    /// Creates an object and its first reference.
    fn new(value: u64) -> Self;
}

impl File for Object {
    const IN_PLACE: usize = 0;

    #[inline]
    fn new(value: u64) -> Self {
        Arc::new(Padded::new(value as usize))
    }
}

impl Borrow<Padded> for RcuFile<Padded> {
    #[inline]
    fn borrow(&self) -> &Padded {
        self
    }
}

impl File for RcuFile<Padded> {
    const IN_PLACE: usize = 0;

    #[inline]
    fn new(value: u64) -> Self {
        RcuFile(FileRef::new_rcu(Padded::new(value as usize)))
    }
}

impl File for Padded {
    const IN_PLACE: usize = size_of::<Padded>();

    #[inline]
    fn new(value: u64) -> Self {
        Padded::new(value as usize)
    }
}
