//! Requests of record locks, and the range of their offsets: `struct flock`.

use super::Range;
use crate::Errno;

/// Kind of a lock, with the values of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockKind {
    /// Shared: other owners may have read locks too. In Linux: `F_RDLCK`.
    Read = 0,
    /// Exclusive. In Linux: `F_WRLCK`.
    Write = 1,
    /// No lock: releases it. In Linux: `F_UNLCK`.
    Unlock = 2,
}

/// Owner of a record lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockOwner {
    /// The table of descriptors, usually that of one process (`F_SETLK`).
    Process,
    /// The open file, so all its descriptors in any table (`F_OFD_SETLK`).
    OpenFile,
}

/// Behaviour of a call that meets a conflicting lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockWait {
    /// It returns `EAGAIN`. In Linux: `F_SETLK`.
    No,
    /// It blocks. In Linux: `F_SETLKW`.
    Yes,
}

/// Base of the offset of a record lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockFrom {
    /// The start of the file (`SEEK_SET`).
    Start,
    /// The position of the open file (`SEEK_CUR`).
    Current,
    /// The end of the file (`SEEK_END`).
    End,
}

/// Record lock, as passed to and returned by `fcntl`. In Linux: `struct flock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLock {
    /// Kind of the lock. In Linux: `l_type`.
    pub kind: LockKind,
    /// Base of `start`. In Linux: `l_whence`.
    pub from: LockFrom,
    /// First byte of the lock; with a negative length, the byte after the last one.
    /// In Linux: `l_start`.
    pub start: i64,
    /// Length in bytes; 0 means up to the end of the file, however it grows. In Linux: `l_len`.
    pub length: i64,
    /// Process that holds a conflicting lock; -1 for a lock of an open file. In Linux: `l_pid`.
    pub pid: i32,
}

impl FileLock {
    /// Makes a request for `length` bytes at `start`, relative to the start of the file; length 0
    /// means up to its end.
    pub const fn new(kind: LockKind, start: i64, length: i64) -> Self {
        FileLock {
            kind,
            from: LockFrom::Start,
            start,
            length,
            pid: 0,
        }
    }

    /// Returns the range, for offsets relative to `base`, 0 to `i64::MAX`.
    ///
    /// # Errors
    /// `EINVAL` if it begins before the file; `EOVERFLOW` if an offset would be above `i64::MAX`.
    pub(crate) fn range(&self, base: i64) -> Result<Range, Errno> {
        let start = base.checked_add(self.start).ok_or(Errno::EOVERFLOW)?;
        let (first, last) = match self.length {
            0 => (start, i64::MAX),
            1.. => {
                let last = start.checked_add(self.length - 1);
                (start, last.ok_or(Errno::EOVERFLOW)?)
            }
            // The byte before the first may lie before the file, which the check below rejects.
            _ => (start.saturating_add(self.length), start.saturating_sub(1)),
        };
        match (u64::try_from(first), u64::try_from(last)) {
            (Ok(first), Ok(last)) => Ok(Range { first, last }),
            _ => Err(Errno::EINVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(base: i64, start: i64, length: i64) -> Result<(u64, u64), Errno> {
        let lock = FileLock::new(LockKind::Read, start, length);
        lock.range(base).map(|range| (range.first, range.last))
    }

    #[test]
    fn a_length_counts_in_both_directions_and_zero_is_to_the_end() {
        assert_eq!(range(0, 10, 5), Ok((10, 14)));
        assert_eq!(range(100, -10, 5), Ok((90, 94)));
        assert_eq!(range(0, 10, -10), Ok((0, 9)));
        assert_eq!(range(7, 0, 0), Ok((7, i64::MAX as u64)));
    }

    #[test]
    fn a_range_outside_of_all_files_is_refused() {
        assert_eq!(range(0, -1, 1), Err(Errno::EINVAL));
        assert_eq!(range(0, 10, -11), Err(Errno::EINVAL));
        assert_eq!(range(0, 0, -1), Err(Errno::EINVAL));
        assert_eq!(range(0, i64::MIN, -1), Err(Errno::EINVAL));
        assert_eq!(range(5, i64::MAX, 1), Err(Errno::EOVERFLOW));
        assert_eq!(range(0, i64::MAX, 2), Err(Errno::EOVERFLOW));
        assert_eq!(
            range(0, i64::MAX, 1),
            Ok((i64::MAX as u64, i64::MAX as u64))
        );
    }
}
