//! What a descriptor names: the operations of an open file.

use std::io::SeekFrom;

use fdtable::listing::{Describe, Description};
use fdtable::{Access, End, FileRef};

use crate::{DirEntry, Errno, FileKind, OpenFlags, Stat};

/// Open file: a pipe end, a socket, a regular file, a directory.
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

    /// Reads at `offset` as [`try_read`](Self::try_read) at the position, which stays where it is.
    ///
    /// # Errors
    /// `ESPIPE` if the object has no position; `EINVAL` if `offset` is above `i64::MAX`; those of
    /// `try_read`.
    #[doc(alias = "pread")]
    fn try_read_at(&self, _buf: &mut [u8], _offset: u64) -> Result<usize, Errno> {
        Err(Errno::ESPIPE)
    }

    /// Writes at `offset` as [`try_write`](Self::try_write) at the position, which stays where it
    /// is.
    ///
    /// # Errors
    /// `ESPIPE` if the object has no position; `EINVAL` if `offset` is above `i64::MAX`; those of
    /// `try_write`.
    #[doc(alias = "pwrite")]
    fn try_write_at(&self, _bytes: &[u8], _offset: u64) -> Result<usize, Errno> {
        Err(Errno::ESPIPE)
    }

    /// Reads as [`try_read_at`](Self::try_read_at), but waits instead of answering `EAGAIN`.
    ///
    /// # Errors
    /// Those of `try_read_at`, without `EAGAIN`.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.try_read_at(buf, offset)
    }

    /// Writes as [`try_write_at`](Self::try_write_at), but waits instead of answering `EAGAIN`.
    ///
    /// # Errors
    /// Those of `try_write_at`, without `EAGAIN`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        self.try_write_at(bytes, offset)
    }

    /// Makes the file `length` bytes long; what is new reads as zeros. May wait for transfers, and
    /// allocates.
    ///
    /// # Errors
    /// `EINVAL` if not a file that is open for writing (as it is until this is written); `EFBIG`
    /// above the size limit; `ENOMEM`.
    #[doc(alias = "ftruncate")]
    fn set_len(&self, _length: u64) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    /// Describes the inode. May wait for transfers.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if it has none (as pipes and sockets here).
    #[doc(alias = "fstat")]
    fn stat(&self) -> Result<Stat, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Returns all names of a directory as of one moment, in no order, without `.` and `..`.
    /// Allocates.
    ///
    /// # Errors
    /// `ENOTDIR` if it is none.
    #[doc(alias = "getdents")]
    fn entries(&self) -> Result<Vec<DirEntry>, Errno> {
        Err(Errno::ENOTDIR)
    }

    /// Waits until what was written would outlive a crash: in memory, nothing does.
    ///
    /// # Errors
    /// `EINVAL` if the object cannot (as pipes and sockets).
    #[doc(alias = "fsync")]
    fn sync(&self) -> Result<(), Errno> {
        Err(Errno::EINVAL)
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

    /// Ends the use of an open file that descriptors still name: who sleeps in it is woken, and
    /// its operations answer `EIO`. One that has begun may end as if it had come before.
    ///
    /// Runs once, instead of [`release`](Self::release), and does not sleep either. An object for
    /// which both are the same writes only that, and answers as after a release.
    fn revoke(&self) {
        self.release();
    }
}

/// Makes an open file of an object that is on no file system. Allocates.
///
/// # Errors
/// `ENOMEM`; the object is dropped.
pub fn file<O: Object>(object: O) -> Result<FileRef<dyn Object>, Errno> {
    Ok(FileRef::try_coerced_with_ends(object, as_dyn, end)?)
}

/// Sees an object as the tables do.
pub(crate) fn as_dyn<O: Object>(object: &O) -> &(dyn Object + 'static) {
    object
}

/// Tells an object which end it has come to.
pub(crate) fn end<O: Object>(object: &O, end: End) {
    match end {
        End::Released => object.release(),
        End::Revoked => object.revoke(),
    }
}

impl Describe for dyn Object {
    fn describe(&self) -> Description {
        let access = if self.status().can_write() {
            Access::Write
        } else {
            Access::Read
        };
        let Ok(stat) = self.stat() else {
            return Description::new("stream", "").access(access);
        };
        let kind = match stat.kind {
            FileKind::Regular => "REG",
            FileKind::Directory => "DIR",
        };
        Description::new(kind, format!("inode:[{}]", stat.inode))
            .access(access)
            .inode(stat.inode)
            .size(stat.size)
    }
}
