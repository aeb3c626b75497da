//! Memory of an embedder that holds the bytes of a file, so that they can be mapped.

use std::any::Any;
use std::fmt::Debug;

use super::{Seals, Timestamp};
use crate::Errno;

/// Memory that holds the bytes of a file and can be mapped, such as a `memfd` of the host.
///
/// A file in memory has its bytes in memory of this library until the embedder asks to
/// [share](crate::Object::share_memory) them. Then they move into such memory, and stay there until
/// the file is freed. A program changes the bytes through its mappings, without a call. So only the
/// memory has the bytes, their length, and the pages that exist.
///
/// The operations are called with the lock of the file held, outside of read-side sections. They
/// must not call the file system, and must not block for long. Two reads may run at the same time.
pub trait SharedMemory: Any + Debug + Send + Sync {
    /// Returns the length, how many pages exist, and when the bytes were changed.
    fn usage(&self) -> MemoryUsage;

    /// Copies the bytes at `offset` into `buf`, and returns how many: 0 at the end and after it.
    ///
    /// # Errors
    /// As the embedder documents.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno>;

    /// Copies `bytes` to position `offset`, extends the length to their end, and returns how many
    /// it copied. The range from the old end to `offset` becomes a hole.
    ///
    /// # Errors
    /// `ENOSPC` or `ENOMEM` if it finds no memory.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno>;

    /// Sets the length. New bytes are a hole; an access to a mapping after the end is a fault.
    ///
    /// # Errors
    /// As the embedder documents.
    fn set_len(&self, len: u64) -> Result<(), Errno>;

    /// Takes memory for a range, and leaves the length as it is.
    ///
    /// # Errors
    /// `ENOSPC` if there is not enough.
    fn allocate(&self, from: u64, to: u64) -> Result<(), Errno>;

    /// Makes a range a hole, and leaves the length as it is.
    ///
    /// # Errors
    /// As the embedder documents.
    fn punch(&self, from: u64, to: u64) -> Result<(), Errno>;

    /// Returns the first position at or after `from` that is no hole; nothing if there is none.
    fn next_data(&self, from: u64) -> Option<u64>;

    /// Returns the first position at or after `from` that is a hole, or the end; nothing if that is
    /// before.
    fn next_hole(&self, from: u64) -> Option<u64>;

    /// Adds seals of [`Seals::CONTENTS`]: they hold for mappings too.
    ///
    /// # Errors
    /// `EBUSY` for [`Seals::WRITE`] if the memory is mapped shared and can be written there.
    fn add_seals(&self, seals: Seals) -> Result<(), Errno>;
}

/// Length, pages and time of the last change of a [`SharedMemory`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// Length in bytes.
    pub len: u64,
    /// Pages of 4,096 bytes that exist.
    pub pages: u64,
    /// Time of the last change of the bytes, by a call or through a mapping.
    pub modified: Timestamp,
}
