//! What a descriptor names: the operations of an open file.

use std::any::Any;
use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use fdtable::listing::{Describe, Description};
use fdtable::{Access, End, FileRef};

use crate::event::{Events, FileId, Pollee};
use crate::fs::locks::LockSet;
use crate::fs::{FallocateFlags, SeekTo, VfsPath};
use crate::vectored;
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
pub trait Object: Any + Send + Sync {
    /// Returns the access mode and the status flags (`O_APPEND`, `O_NONBLOCK`). Is called inside
    /// read-side sections too: it must not sleep, and after [`release`](Self::release) any answer
    /// will do, since it is that of a call that races with a close.
    #[doc(alias = "F_GETFL")]
    fn status(&self) -> OpenFlags;

    /// Sets the status flags that `fcntl` may change: `O_APPEND`, `O_NONBLOCK`. Others of `flags`
    /// mean nothing here.
    ///
    /// # Errors
    /// `EINVAL` if the object does not know how (as it is until this is written).
    #[doc(alias = "F_SETFL")]
    fn set_status(&self, _flags: OpenFlags) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    /// Tells whether a call that would wait is to answer `EAGAIN`.
    fn is_nonblocking(&self) -> bool {
        self.status().contains(OpenFlags::NONBLOCK)
    }

    /// Returns where in the tree of names it was opened; nothing if it was made without a name, as
    /// pipes and sockets (as it is until this is written).
    #[doc(alias = "f_path")]
    fn path(&self) -> Option<VfsPath> {
        None
    }

    /// Returns what can be watched of the object; nothing if it is always ready (as a regular file,
    /// and as it is until this is written), which `epoll` then refuses.
    fn pollee(&self) -> Option<Arc<dyn Pollee>> {
        None
    }

    /// Tells who watches this open file that it is gone. Runs once, after
    /// [`release`](Self::release). An object whose [`pollee`](Self::pollee) allocates writes its own.
    fn forget(&self)
    where
        Self: Sized,
    {
        if let Some(pollee) = self.pollee() {
            pollee.forget(FileId::of(self));
        }
    }

    /// Returns what the object is ready for now.
    #[doc(alias = "poll")]
    fn events(&self) -> Events {
        match self.pollee() {
            Some(pollee) => pollee.events(),
            None => Events::READABLE | Events::WRITABLE,
        }
    }

    /// Returns how many bytes a read would find.
    ///
    /// # Errors
    /// `ENOTTY` if the object has no such number (as it is until this is written).
    #[doc(alias = "FIONREAD")]
    fn readable_bytes(&self) -> Result<usize, Errno> {
        Err(Errno::ENOTTY)
    }

    /// Returns the locks of the inode; nothing if it has none (as pipes and sockets).
    fn locks(&self) -> Option<&LockSet> {
        None
    }

    /// Reads up to `buf.len()` bytes without sleeping, and returns how many; 0 is end of file.
    ///
    /// # Errors
    /// `EBADF` if not open for reading (as it is until this is written); `EAGAIN` if it must wait.
    fn try_read(&self, _buf: &mut [u8]) -> Result<usize, Errno> {
        Err(Errno::EBADF)
    }

    /// Writes up to `bytes.len()` bytes without sleeping, and returns how many. A file that may wait
    /// for room does not take a part: a blocking write goes on until all are written.
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

    /// Reads into several buffers, one after another, as one read. Waits unless the file is
    /// [non-blocking](Self::is_nonblocking), and allocates.
    ///
    /// # Errors
    /// Those of `read`; `ENOMEM`.
    #[doc(alias = "readv")]
    fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        vectored::scatter(bufs, |buf| match self.is_nonblocking() {
            true => self.try_read(buf),
            false => self.read(buf),
        })
    }

    /// Writes several buffers, one after another, as one write. Waits unless the file is
    /// [non-blocking](Self::is_nonblocking), and allocates.
    ///
    /// # Errors
    /// Those of `write`; `ENOMEM`.
    #[doc(alias = "writev")]
    fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> Result<usize, Errno> {
        vectored::gather(bufs, |bytes| match self.is_nonblocking() {
            true => self.try_write(bytes),
            false => self.write(bytes),
        })
    }

    /// Reads at `offset` as [`read_vectored`](Self::read_vectored) at the position, which stays
    /// where it is.
    ///
    /// # Errors
    /// Those of `read_at`; `ENOMEM`.
    #[doc(alias = "preadv")]
    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize, Errno> {
        vectored::scatter(bufs, |buf| match self.is_nonblocking() {
            true => self.try_read_at(buf, offset),
            false => self.read_at(buf, offset),
        })
    }

    /// Writes at `offset` as [`write_vectored`](Self::write_vectored) at the position, which stays
    /// where it is.
    ///
    /// # Errors
    /// Those of `write_at`; `ENOMEM`.
    #[doc(alias = "pwritev")]
    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<usize, Errno> {
        vectored::gather(bufs, |bytes| match self.is_nonblocking() {
            true => self.try_write_at(bytes, offset),
            false => self.write_at(bytes, offset),
        })
    }

    /// Gets memory for a part of the file, or gives it back. May wait for transfers.
    ///
    /// # Errors
    /// `ENODEV` if it has none (as it is until this is written).
    fn fallocate(&self, _how: FallocateFlags, _offset: u64, _length: u64) -> Result<(), Errno> {
        Err(Errno::ENODEV)
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
    /// `EOPNOTSUPP` if it has none (as it is until this is written).
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

    /// Returns the next names of a directory in the order of their cookies, beginning with `.` and
    /// `..`, and moves the position after the last of them. Each costs `size` of it, and they cost
    /// `most` at most in all. Nothing is the end. Allocates.
    ///
    /// # Errors
    /// `ENOTDIR` if it is none (as it is until this is written); `EINVAL` if the next name alone
    /// costs more than `most`; `ENOENT` if the directory is removed.
    #[doc(alias = "getdents64")]
    fn read_dir(
        &self,
        _most: usize,
        _size: &dyn Fn(&DirEntry) -> usize,
    ) -> Result<Vec<DirEntry>, Errno> {
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
    fn seek(&self, _to: SeekTo) -> Result<u64, Errno> {
        Err(Errno::ESPIPE)
    }

    /// Moves the position as [`seek`](Self::seek), without waiting.
    ///
    /// # Errors
    /// `EAGAIN` if it must wait, or if only `seek` knows (as it is until this is written); those of
    /// `seek`.
    fn try_seek(&self, _to: SeekTo) -> Result<u64, Errno> {
        Err(Errno::EAGAIN)
    }

    /// Returns what people are shown of an open file without a [path](Self::path), where others
    /// have a path. Allocates.
    #[doc(alias = "d_dname")]
    fn label(&self) -> String {
        match self.stat() {
            Ok(stat) if stat.kind == FileKind::Fifo => format!("pipe:[{}]", stat.inode),
            Ok(stat) if stat.kind == FileKind::Socket => format!("socket:[{}]", stat.inode),
            _ => "anon_inode:[file]".to_string(),
        }
    }

    /// Adds lines to what `/proc/self/fdinfo` tells of the open file: nothing, until this is
    /// written. Each line has its end.
    fn show_fdinfo(&self, _text: &mut String) {}

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
        End::Released => {
            object.release();
            if let Some(locks) = object.locks() {
                locks.release(FileId::of(object));
            }
            object.forget();
        }
        // Who watches stays, and is told of the end as of an error.
        End::Revoked => {
            object.revoke();
            if let Some(locks) = object.locks() {
                locks.revoke(FileId::of(object));
            }
        }
    }
}

impl fmt::Debug for dyn Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({:?})", self.status())
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
            FileKind::Symlink => "LINK",
            FileKind::Fifo => "FIFO",
            FileKind::Socket => "sock",
            FileKind::CharDevice => "CHR",
            FileKind::BlockDevice => "BLK",
        };
        Description::new(kind, format!("inode:[{}]", stat.inode))
            .access(access)
            .inode(stat.inode)
            .size(stat.size)
    }
}
