//! The operations of an open file.

use std::any::Any;
use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use fdtable::{Access, FileRef, Rcu, ReleaseReason};
use fdtable_listing::{Describe, Description};

use crate::event::{Events, FileId, Pollee, async_io};
use crate::fs::locks::LockSet;
use crate::fs::{
    Credentials, FallocateFlags, Inode, LowerBytes, Seals, SeekTo, SharedMemory, VfsPath,
};
use crate::{DirEntry, Errno, FileKind, OpenFlags, Process, RwFlags, Stat, Status};

/// Open file: a pipe end, a socket, a regular file, a directory.
///
/// [`Process`] tries each transfer inside an RCU read-side section, where it holds no reference.
/// The object must not sleep there and must return soon ([`TransferMode::Section`]). If it cannot,
/// it returns `EAGAIN`; unless the file is non-blocking, `Process` then takes a reference, leaves
/// the section, and repeats the transfer, which may block.
///
/// A section keeps the memory alive, not the open file, so such a transfer may run after
/// [`release`](Self::release). It then returns `EBADF` if a caller could observe the difference.
pub trait Object: Any + Send + Sync {
    /// Returns the cell of the status flags, for an object that keeps them in one. Any other
    /// implements [`status`](Self::status), and perhaps [`set_status`](Self::set_status).
    fn status_cell(&self) -> Option<&Status> {
        None
    }

    /// Returns the access mode and the status flags (`O_APPEND`, `O_NONBLOCK`).
    /// In Linux: `F_GETFL`.
    ///
    /// Must not sleep: it is called inside read-side sections too. After [`release`](Self::release)
    /// any answer is correct, because the call races with a close.
    fn status(&self) -> OpenFlags {
        self.status_cell().map_or(OpenFlags::RDONLY, Status::get)
    }

    /// Sets the status flags that `fcntl` may change: `O_APPEND`, `O_NONBLOCK`. Other bits of
    /// `flags` are ignored. In Linux: `F_SETFL`.
    ///
    /// # Errors
    /// `EINVAL` if the object does not support it.
    fn set_status(&self, flags: OpenFlags) -> Result<(), Errno> {
        self.status_cell().ok_or(Errno::EINVAL)?.set(flags);
        Ok(())
    }

    /// Returns true if a call that would block returns `EAGAIN` instead.
    fn is_nonblocking(&self) -> bool {
        self.status().contains(OpenFlags::NONBLOCK)
    }

    /// Returns true if the file may be collected while references to it exist, as a socket is whose
    /// references are all in flight between sockets. False by default.
    fn is_collectable(&self) -> bool {
        false
    }

    /// Returns the path under which the file was opened; nothing for an object without a name, such
    /// as a pipe or a socket (the default). In Linux: `f_path`.
    fn path(&self) -> Option<VfsPath> {
        None
    }

    /// Returns the inode of an object without a path; nothing if it has none (the default).
    ///
    /// The inode does not hold the open file. `/proc/self/fd` leads to it.
    fn inode(&self) -> Option<Arc<dyn Inode>> {
        None
    }

    /// Returns the pollable part of the object; nothing if it is always ready, as a regular file is
    /// (the default). `epoll` refuses such an object.
    fn pollee(&self) -> Option<Arc<dyn Pollee>> {
        None
    }

    /// Notifies the watchers of this open file that it is released. Runs once, before
    /// [`release`](Self::release), so that they see no events of the release itself. An object
    /// whose [`pollee`](Self::pollee) allocates overrides it.
    fn forget(&self)
    where
        Self: Sized,
    {
        if let Some(pollee) = self.pollee() {
            pollee.forget(FileId::of(self));
        }
    }

    /// Returns the events that the object is ready for now. In Linux: `poll`.
    fn events(&self) -> Events {
        match self.pollee() {
            Some(pollee) => pollee.events(),
            None => Events::READABLE | Events::WRITABLE,
        }
    }

    /// Returns how many bytes a read would find. In Linux: `FIONREAD`.
    ///
    /// # Errors
    /// `ENOTTY` if the object has no such number (the default).
    fn readable_bytes(&self) -> Result<usize, Errno> {
        Err(Errno::ENOTTY)
    }

    /// Returns the file locks of the inode; nothing if it has none.
    fn locks(&self) -> Option<&LockSet> {
        None
    }

    /// Reads into the buffers, one after another, as a single read. Returns how many bytes it has
    /// read; 0 is end of file. In Linux: `read_iter`.
    ///
    /// # Errors
    /// `EBADF` if not open for reading; `ESPIPE` at an offset of an object that is not seekable;
    /// `EAGAIN` if it would block, unless it [may](TransferMode); `EINVAL` if the offset is above
    /// `i64::MAX`; `ENOMEM`.
    fn read_to(&self, _bufs: &mut [IoSliceMut<'_>], _how: Transfer<'_>) -> Result<usize, Errno> {
        Err(Errno::EBADF)
    }

    /// Writes the buffers, one after another, as a single write. Returns how many bytes it has
    /// written. An object that may block does not write a part: its blocking form goes on until all
    /// bytes are written. In Linux: `write_iter`.
    ///
    /// # Errors
    /// `EBADF` if not open for writing; `ESPIPE`, `EAGAIN`, `EINVAL`, `ENOMEM` as for
    /// [`read_to`](Self::read_to); `EPIPE`, `EFBIG`, as the object documents.
    fn write_from(&self, _bufs: &[IoSlice<'_>], _how: Transfer<'_>) -> Result<usize, Errno> {
        Err(Errno::EBADF)
    }

    /// Reads into one buffer, and blocks if it must.
    ///
    /// # Errors
    /// Errors of [`read_to`](Self::read_to), without `EAGAIN`.
    fn read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        self.read_to(&mut [IoSliceMut::new(buf)], Transfer::WAIT)
    }

    /// Reads into one buffer at an offset, and blocks if it must.
    ///
    /// # Errors
    /// Errors of [`read_to`](Self::read_to), without `EAGAIN`.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.read_to(&mut [IoSliceMut::new(buf)], Transfer::at(offset))
    }

    /// Writes one buffer, and blocks if it must.
    ///
    /// # Errors
    /// Errors of [`write_from`](Self::write_from), without `EAGAIN`.
    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.write_from(&[IoSlice::new(bytes)], Transfer::WAIT)
    }

    /// Writes one buffer at an offset, and blocks if it must.
    ///
    /// # Errors
    /// Errors of [`write_from`](Self::write_from), without `EAGAIN`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        self.write_from(&[IoSlice::new(bytes)], Transfer::at(offset))
    }

    /// Reads into one buffer, as inside a read-side section.
    ///
    /// # Errors
    /// Errors of [`read_to`](Self::read_to).
    fn try_read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        self.read_to(&mut [IoSliceMut::new(buf)], Transfer::SECTION)
    }

    /// Writes one buffer, as inside a read-side section.
    ///
    /// # Errors
    /// Errors of [`write_from`](Self::write_from).
    fn try_write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.write_from(&[IoSlice::new(bytes)], Transfer::SECTION)
    }

    /// Allocates or frees memory for a range of the file. May wait for transfers.
    ///
    /// # Errors
    /// `ENODEV` if it has none (the default).
    fn fallocate(&self, _how: FallocateFlags, _offset: u64, _length: u64) -> Result<(), Errno> {
        Err(Errno::ENODEV)
    }

    /// Sets the length of the file; new bytes read as zeros. Allocates, and may wait for transfers.
    /// In Linux: `ftruncate`.
    ///
    /// # Errors
    /// `EINVAL` if it is not a file that is open for writing (the default); `EFBIG` above the size
    /// limit; `ENOMEM`.
    fn set_len(&self, _length: u64) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    /// Clears the [set-ID bits](crate::fs::Permissions::without_set_ids) of the inode, because a
    /// user without privileges has changed the contents. Called inside read-side sections too. Does
    /// nothing by default. In Linux: `file_remove_privs`.
    fn clear_set_ids(&self, _by: Credentials) {}

    /// Returns the seals of the file. May wait for transfers. In Linux: `F_GET_SEALS`.
    ///
    /// # Errors
    /// `EINVAL` if it can have none (the default).
    fn seals(&self) -> Result<Seals, Errno> {
        Err(Errno::EINVAL)
    }

    /// Adds seals to a file that is open for writing. Permissions to execute that are sealed seal
    /// the bytes too, as on Linux. May wait for transfers. In Linux: `F_ADD_SEALS`.
    ///
    /// # Errors
    /// `EINVAL` if it can have none (the default); `EPERM` if it has [`Seals::SEAL`]; `EBUSY` for
    /// [`Seals::WRITE`] if a shared mapping can write.
    fn add_seals(&self, _seals: Seals) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    /// Returns the memory of the embedder with the bytes of the file, if they were
    /// [shared](Self::share_memory), and records a read. May wait for transfers.
    fn shared_memory(&self) -> Option<Arc<dyn SharedMemory>> {
        None
    }

    /// Returns the lower file that has the bytes, as long as the file was not changed, and records
    /// a read. May wait for transfers.
    fn lower_bytes(&self) -> Option<Arc<dyn LowerBytes>> {
        None
    }

    /// Returns memory of the embedder with the bytes of the file, which can be mapped.
    /// In Linux: `mmap`.
    ///
    /// The first call moves the bytes into the memory that `make` returns, which is empty; later
    /// ones return the same. From then on all transfers use it. Records a read. Allocates, and
    /// waits for transfers.
    ///
    /// # Errors
    /// `ENODEV` if the file has no such bytes (the default); those of `make` and of the memory.
    fn share_memory(
        &self,
        _make: &dyn Fn() -> Result<Arc<dyn SharedMemory>, Errno>,
    ) -> Result<Arc<dyn SharedMemory>, Errno> {
        Err(Errno::ENODEV)
    }

    /// Returns the attributes of the inode. May wait for transfers. In Linux: `fstat`.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if it has none (the default).
    fn stat(&self) -> Result<Stat, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Returns the next names of a directory, in the order of their cookies. Advances the position.
    /// In Linux: `getdents64`.
    ///
    /// Begins with `.` and `..`; an empty list is the end. Each entry costs `size` of it, and all
    /// together cost at most `max`. Allocates.
    ///
    /// # Errors
    /// `ENOTDIR` if it is not a directory (the default); `EINVAL` if the next name alone costs more
    /// than `max`; `ENOENT` if the directory is removed.
    fn read_dir(
        &self,
        _max: usize,
        _size: &dyn Fn(&DirEntry) -> usize,
    ) -> Result<Vec<DirEntry>, Errno> {
        Err(Errno::ENOTDIR)
    }

    /// Waits until written data would survive a crash: in memory, none does. In Linux: `fsync`.
    ///
    /// # Errors
    /// `EINVAL` if the object does not support it, as pipes and sockets.
    fn sync(&self) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    /// Moves the position, and returns the new one in bytes from the start. May wait for a transfer
    /// on the same open file.
    ///
    /// # Errors
    /// `ESPIPE` if the object is not seekable; `EINVAL` if the position would be before the start.
    fn seek(&self, _to: SeekTo) -> Result<u64, Errno> {
        Err(Errno::ESPIPE)
    }

    /// Moves the position like [`seek`](Self::seek), without blocking.
    ///
    /// # Errors
    /// `EAGAIN` if it would block, or if only `seek` is implemented (the default); those of `seek`.
    fn try_seek(&self, _to: SeekTo) -> Result<u64, Errno> {
        Err(Errno::EAGAIN)
    }

    /// Returns the name that `/proc` shows for an open file without a [path](Self::path).
    /// Allocates. In Linux: `d_dname`.
    fn label(&self) -> String {
        match self.stat() {
            Ok(stat) if stat.kind == FileKind::Fifo => format!("pipe:[{}]", stat.inode),
            Ok(stat) if stat.kind == FileKind::Socket => format!("socket:[{}]", stat.inode),
            _ => "anon_inode:[file]".to_string(),
        }
    }

    /// Returns the whole text of `fdinfo` for a file of another kernel, by a descriptor of a
    /// process, with `CLOEXEC` or no flag. Nothing by default.
    fn fdinfo(&self, _process: i32, _descriptor: OpenFlags) -> Option<Vec<u8>> {
        None
    }

    /// Appends the object's own lines of `/proc/self/fdinfo`, each with its newline: none by
    /// default.
    fn show_fdinfo(&self, _text: &mut String) {}

    /// Notifies the other side that the last descriptor was closed. In Linux: `f_op->release`.
    ///
    /// Runs once, on the thread that closed it, outside all locks of the table. It wakes sleepers
    /// and must not sleep: the caller may be inside a read-side section.
    fn release(&self) {}

    /// Ends the use of an open file that descriptors still refer to. Its sleepers wake, and its
    /// operations return `EIO`; one that has begun may complete as if it had come before.
    ///
    /// Runs once, instead of [`release`](Self::release), and must not sleep either. An object for
    /// which both are the same implements only `release`, and answers as after a release.
    fn revoke(&self) {
        self.release();
    }
}

/// How an object moves bytes. In Linux: `kiocb`.
#[derive(Clone, Copy)]
pub struct Transfer<'p> {
    /// Offset of the first byte, for a transfer that leaves the file position alone. `None`: the
    /// transfer begins at the file position, and moves it.
    pub at: Option<u64>,
    /// Permission to block.
    pub mode: TransferMode,
    /// The calling process, whose credentials the receiver of a message may get.
    pub by: Option<&'p Process>,
    /// The call has several buffers: without any byte, some objects do nothing.
    pub is_vectored: bool,
    /// Flags of this call alone.
    pub flags: RwFlags,
}

/// Permission of a transfer to block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferMode {
    /// Inside a read-side section: it neither sleeps, nor takes long, nor allocates much, and
    /// returns `EAGAIN` instead.
    Section,
    /// It returns `EAGAIN` instead of blocking.
    Now,
    /// It blocks until there are bytes, or room for them.
    Wait,
}

impl<'p> Transfer<'p> {
    /// Transfer of no process at the file position, which may block.
    pub const WAIT: Transfer<'static> = Transfer {
        at: None,
        mode: TransferMode::Wait,
        by: None,
        is_vectored: false,
        flags: RwFlags::empty(),
    };

    /// Transfer of no process at the file position, inside a read-side section.
    pub const SECTION: Transfer<'static> = Transfer {
        mode: TransferMode::Section,
        ..Self::WAIT
    };

    /// Returns the transfer of no process at an offset, which may block.
    fn at(offset: u64) -> Transfer<'static> {
        Transfer {
            at: Some(offset),
            ..Transfer::WAIT
        }
    }

    /// Makes a transfer of a process that does not block if the file is
    /// [non-blocking](Object::is_nonblocking).
    pub fn of(file: &dyn Object, at: Option<u64>, by: &'p Process) -> Self {
        let mode = match file.is_nonblocking() {
            true => TransferMode::Now,
            false => TransferMode::Wait,
        };
        Transfer {
            at,
            mode,
            by: Some(by),
            ..Transfer::WAIT
        }
    }

    /// Returns true if it may block, for an object that is not seekable.
    ///
    /// # Errors
    /// `ESPIPE` if it is at an offset.
    #[inline]
    pub fn waits_in_stream(&self) -> Result<bool, Errno> {
        match self.at {
            None => Ok(self.mode == TransferMode::Wait),
            Some(_) => Err(Errno::ESPIPE),
        }
    }
}

/// Object that the tables of this kernel hold. Calls that neither sleep nor keep the file, such as
/// a poll or a transfer that need not wait, borrow it without a reference. So `Drop` of an object
/// runs late: an object does the work of its last close in [`Object::release`].
pub type RcuObject = Rcu<dyn Object>;

/// Makes an open file of an object that is on no file system. Allocates.
///
/// # Errors
/// `ENOMEM`; the object is dropped.
pub fn file<O: Object>(object: O) -> Result<FileRef<RcuObject>, Errno> {
    Ok(FileRef::builder(object)
        .rcu()
        .on_release(end)
        .try_build_dyn(as_dyn)?)
}

/// Coerces an object to the type that the tables hold.
pub(crate) fn as_dyn<O: Object>(object: &O) -> &(dyn Object + 'static) {
    object
}

/// Runs the hook of an object for the way in which it ended.
pub(crate) fn end<O: Object>(object: &O, end: ReleaseReason) {
    // First: a file sends no signal about its own end.
    async_io::release(FileId::of(object));
    match end {
        ReleaseReason::Released => {
            object.forget();
            object.release();
            if let Some(locks) = object.locks() {
                locks.release(FileId::of(object));
            }
        }
        // Watchers stay registered: they see the end as an error.
        ReleaseReason::Revoked => {
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
