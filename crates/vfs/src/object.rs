//! What a descriptor names: the operations of an open file.

use std::io::SeekFrom;

use fdtable::FileRef;

use crate::{Errno, OpenFlags};

/// Open file: a pipe end, a socket, a regular file.
///
/// Each direction has two forms. The `try_` form is called inside an RCU read-side section, where
/// the caller holds no reference: it must not sleep, and must come back soon. When it cannot, it
/// answers `EAGAIN`, and [`Process`](crate::Process) calls the other form with a reference and
/// outside the section, unless the file is non-blocking. An object that is never slow and never
/// sleeps writes only the `try_` forms.
///
/// Because a section keeps the memory and not the open file, a `try_` form may run after
/// [`release`](Self::release). It then answers `EBADF` if anybody could tell the difference.
pub trait Object: Send + Sync + 'static {
    /// Returns the access mode and the status flags (`O_APPEND`, `O_NONBLOCK`).
    #[doc(alias = "F_GETFL")]
    fn status(&self) -> OpenFlags;

    /// Reads up to `buf.len()` bytes without sleeping, and returns how many; 0 is end of file.
    ///
    /// # Errors
    /// `EBADF` if not open for reading (as it is until this is written); `EAGAIN` if it must wait.
    fn try_read(&self, _buf: &mut [u8]) -> Result<usize, Errno> {
        Err(Errno::EBADF)
    }

    /// Writes up to `bytes.len()` bytes without sleeping, and returns how many.
    ///
    /// # Errors
    /// `EBADF` if not open for writing (as it is until this is written); `EAGAIN` if it must wait;
    /// `EPIPE`, `EFBIG`, `ENOMEM` as the object says.
    fn try_write(&self, _bytes: &[u8]) -> Result<usize, Errno> {
        Err(Errno::EBADF)
    }

    /// Reads as [`try_read`](Self::try_read), but waits instead of answering `EAGAIN`.
    ///
    /// # Errors
    /// Those of `try_read`, without `EAGAIN`.
    fn read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        self.try_read(buf)
    }

    /// Writes as [`try_write`](Self::try_write), but waits instead of answering `EAGAIN`.
    ///
    /// # Errors
    /// Those of `try_write`, without `EAGAIN`.
    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.try_write(bytes)
    }

    /// Moves the position, and returns the new one in bytes from the start. May wait for a
    /// transfer on the same open file.
    ///
    /// # Errors
    /// `ESPIPE` if the object has no position; `EINVAL` if it would lie before the start.
    fn seek(&self, _to: SeekFrom) -> Result<u64, Errno> {
        Err(Errno::ESPIPE)
    }

    /// Tells the other side that the last descriptor went.
    ///
    /// Runs once, on the thread that closed it, outside all locks of the table. It wakes sleepers
    /// and does not sleep itself: the caller may be inside a read-side section.
    #[doc(alias = "f_op->release")]
    fn release(&self) {}
}

/// Makes an open file of an object, whose [`release`](Object::release) runs with the last
/// reference. Allocates.
pub fn file<O: Object>(object: O) -> FileRef<dyn Object> {
    FileRef::coerced_with_release(object, |object| object, O::release)
}
