//! Table of this process as the measured loops see it: they are generic over it, so that each has
//! its own copy of them with the table's operations inlined.

use std::sync::Arc;

use fdtable::FileRef;

use crate::lookup::Padded;

/// Lookups that share what a reader enters at some cost, where the authors of a table say that
/// this is how it is used: a pinned guard, a quiescent state.
pub(super) const BATCH: usize = 64;

/// Where a table has its memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// Where it can be counted.
    Heap,
    /// Mapped for the most descriptors that it was made for, and used page by page.
    Mapped,
}

/// Table that several threads use at once.
pub(super) trait Subject: Send + Sync + Sized + 'static {
    /// What is opened: a counted reference, or the object itself.
    type File: File;
    /// Number, or what stands for it.
    type Key: Copy + Send + Sync;
    /// What a thread has of its own as long as it works.
    type Reader;
    /// Where the table has its memory.
    const MEMORY: Memory = Memory::Heap;

    /// Makes an empty table for `most` descriptors at least.
    fn with_room(most: u32) -> Self;

    /// Makes the calling thread known.
    fn reader() -> Self::Reader;

    /// Gives out a number for `file`, if there is one.
    fn open(&self, file: Self::File) -> Option<Self::Key>;

    /// Takes the number back and hands over the file, if it is open. A table that cannot move it
    /// out hands over a reference of the caller's own and drops the other when it can.
    fn take(&self, key: Self::Key) -> Option<Self::File>;

    /// Takes the number back and drops the file, or has it dropped later.
    #[inline]
    fn close(&self, key: Self::Key) -> Option<()> {
        self.take(key).map(drop)
    }

    /// Reads the value of an open object without a reference of the caller's own; under the lock
    /// where the table has one.
    fn borrowed(&self, key: Self::Key) -> Option<u64>;

    /// Takes a reference, reads the value, and drops the reference.
    fn owned(&self, key: Self::Key) -> Option<u64>;

    /// Adds up the values of open objects, at most [`BATCH`] of them, without references.
    #[inline]
    fn sum_borrowed(&self, _reader: &mut Self::Reader, keys: &[Self::Key]) -> u64 {
        sum(keys, |key| self.borrowed(key))
    }

    /// Lets what was put off happen, so that the next table does not pay for it. May block.
    ///
    /// # Errors
    /// If that would wait for the caller.
    fn settle() -> anyhow::Result<()> {
        Ok(())
    }
}

/// Adds up what `look_up` finds, and nothing for what it does not.
#[inline]
pub(super) fn sum<K: Copy>(keys: &[K], look_up: impl Fn(K) -> Option<u64>) -> u64 {
    keys.iter().fold(0, |sum: u64, &key| {
        sum.wrapping_add(look_up(key).unwrap_or(0))
    })
}

/// What a table holds for each number.
pub(super) trait File: Send + Sync + 'static {
    /// Bytes of the object that are in the table itself.
    const IN_PLACE: usize;

    /// Makes an object and opens it.
    fn new(value: u64) -> Self;

    /// Makes a further reference, or a further object where there are none.
    fn another(&self) -> Self;
}

impl File for Arc<Padded> {
    const IN_PLACE: usize = 0;

    #[inline]
    fn new(value: u64) -> Self {
        Arc::new(Padded::new(value as usize))
    }

    fn another(&self) -> Self {
        Arc::clone(self)
    }
}

impl File for FileRef<Padded> {
    const IN_PLACE: usize = 0;

    #[inline]
    fn new(value: u64) -> Self {
        FileRef::new(Padded::new(value as usize))
    }

    fn another(&self) -> Self {
        self.clone()
    }
}

impl File for Padded {
    const IN_PLACE: usize = size_of::<Padded>();

    #[inline]
    fn new(value: u64) -> Self {
        Padded::new(value as usize)
    }

    fn another(&self) -> Self {
        Padded::new(self.value as usize)
    }
}
