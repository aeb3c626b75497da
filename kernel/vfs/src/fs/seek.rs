//! Targets of `lseek`.

use std::io::SeekFrom;

use crate::Errno;

/// New position of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTo {
    /// To this many bytes from the start. In Linux: `SEEK_SET`.
    Start(u64),
    /// By this many bytes. In Linux: `SEEK_CUR`.
    Current(i64),
    /// To this many bytes from the end. In Linux: `SEEK_END`.
    End(i64),
    /// To the first byte of data at or after this position. In Linux: `SEEK_DATA`.
    Data(u64),
    /// To the first hole at or after this position; every file has one at its end.
    /// In Linux: `SEEK_HOLE`.
    Hole(u64),
}

impl SeekTo {
    /// Returns the new position, given the one before, and the end of a file that has one. The
    /// caller resolves `Data` and `Hole`.
    ///
    /// # Errors
    /// `EINVAL` if the position would be negative or above `i64::MAX` (Linux `vfs_setpos`), or is
    /// relative to an end that the file lacks.
    pub(crate) fn resolve(
        self,
        before: u64,
        end: impl FnOnce() -> Option<u64>,
    ) -> Result<u64, Errno> {
        let position = match self {
            SeekTo::Start(position) => Some(position),
            SeekTo::Current(delta) => before.checked_add_signed(delta),
            SeekTo::End(delta) => end().and_then(|end| end.checked_add_signed(delta)),
            SeekTo::Data(_) | SeekTo::Hole(_) => None,
        };
        position
            .filter(|&position| position <= i64::MAX as u64)
            .ok_or(Errno::EINVAL)
    }
}

impl From<SeekFrom> for SeekTo {
    fn from(from: SeekFrom) -> Self {
        match from {
            SeekFrom::Start(position) => SeekTo::Start(position),
            SeekFrom::Current(delta) => SeekTo::Current(delta),
            SeekFrom::End(delta) => SeekTo::End(delta),
        }
    }
}
