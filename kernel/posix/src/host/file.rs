//! Host files, at descriptors of ours.
//!
//! Every transfer calls the host, and may block. So nothing runs inside a read-side section: a call
//! takes a reference first, and has the [descriptor in use](super::in_use). The two keep the host
//! descriptor from being closed and reused for another file during the call. The host knows whether
//! the file is blocking.

use std::any::Any;
use std::ffi::c_int;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::RawFd;
use std::sync::Arc;

use crossbeam_utils::atomic::AtomicCell;
use fdtable::{FileRef, host_fork};
use fdtable_vfs::event::{FileId, HostSet, Pollee};
use fdtable_vfs::fs::VfsPath;
use fdtable_vfs::{
    Errno, FallocateFlags, FileKind, Object, OpenFlags, RcuObject, RwFlags, SeekTo, Stat, Transfer,
    TransferMode, file,
};
use libc::iovec;

use crate::host::direct::{Wait, words};
use crate::host::fd::{HostFd, has_descriptor, without_moves};
use crate::host::in_use::{InUse, Until};
use crate::host::names::Names;
use crate::host::watch::HostWatch;
use crate::host::{self, OwnedHostFd};
use crate::process::{supervisor, tree};

/// Open file of the host.
#[derive(Debug)]
pub(crate) struct HostFile {
    host_fd: HostFd,
    keep: Keep,
    /// `None` if the file is always ready.
    watch: Option<Arc<HostWatch>>,
    is_socket: bool,
    names: Names,
    /// Inode in memory that has the attributes, for a device in an overlay.
    inode: Option<VfsPath>,
    /// Set if no path leads from this directory to our side.
    is_aside: AtomicCell<bool>,
    /// The supervisor's descriptor of it, once it was sent in a message where processes share the
    /// kernel; else 0.
    pinned: AtomicCell<c_int>,
}

/// Treatment of the host descriptor when the open file is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// It is closed.
    No,
    /// It stays open: for 0, 1 and 2, which the C library's own streams use.
    Open,
}

impl HostFile {
    /// Wraps a host descriptor in an open file.
    ///
    /// # Errors
    /// `EBADF` if the host descriptor is not open; `ENOMEM`.
    pub(crate) fn of(fd: RawFd, keep: Keep) -> Result<FileRef<RcuObject>, Errno> {
        Self::with(fd, keep, None)
    }

    fn with(fd: RawFd, keep: Keep, inode: Option<VfsPath>) -> Result<FileRef<RcuObject>, Errno> {
        let kind = host::fstat(fd)?.st_mode & libc::S_IFMT;
        let is_always_ready = matches!(kind, libc::S_IFREG | libc::S_IFDIR | libc::S_IFBLK);
        let host_fd = HostFd::new(fd);
        let file = file(HostFile {
            host_fd,
            keep,
            watch: (!is_always_ready).then(|| HostWatch::new(host_fd)),
            is_socket: kind == libc::S_IFSOCK,
            names: Names::new(),
            inode,
            is_aside: AtomicCell::new(false),
            pinned: AtomicCell::new(0),
        })?;
        if let Some(host_file) = Self::below(&**file)
            && host_fork::shares_memory()
            && tree::shares_files()
        {
            // Another process finds it at its own descriptor. Without the supervisor's the host
            // answers `EBADF` there.
            let _ = host_file.send();
        }
        Ok(file)
    }

    pub(crate) fn is_socket(&self) -> bool {
        self.is_socket
    }

    /// Prepares the file for a message to a process that may not have its host descriptor: the
    /// supervisor pins that.
    ///
    /// # Errors
    /// `ETOOMANYREFS` if the supervisor has no descriptor left, or is gone; `EBADF` if this process
    /// does not have the host descriptor.
    pub(crate) fn send(&self) -> Result<(), Errno> {
        if !host_fork::shares_memory() || self.pinned.load() != 0 {
            return Ok(());
        }
        let used = self.host_fd.in_use();
        if used.get() < 0 {
            return Err(Errno::EBADF);
        }
        let pinned = supervisor::pin(used.get()).map_err(|_| Errno::ETOOMANYREFS)?;
        if self.pinned.compare_exchange(0, pinned).is_err() {
            // Another thread was first.
            supervisor::unpin(pinned);
        }
        Ok(())
    }

    /// Takes the host descriptor from the supervisor, if this process does not have it. Returns
    /// false if that fails, as where the process has no descriptor left: then the host answers
    /// `EBADF`.
    pub(crate) fn receive(&self) -> bool {
        if !self.host_fd.hold() {
            let given = self.ask_supervisor();
            return given.is_some_and(|fd| self.host_fd.give(fd, Until::Closed).is_some());
        }
        true
    }

    /// Wraps a host descriptor that nothing else uses. Closes it on failure.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn own(fd: OwnedHostFd) -> Result<FileRef<RcuObject>, Errno> {
        let file = Self::of(fd.0, Keep::No)?;
        fd.into_raw();
        Ok(file)
    }

    /// Wraps the host descriptor of a device whose attributes an inode in memory has. Closes it on
    /// failure.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn device(fd: OwnedHostFd, inode: VfsPath) -> Result<FileRef<RcuObject>, Errno> {
        let file = Self::with(fd.0, Keep::No, Some(inode))?;
        fd.into_raw();
        Ok(file)
    }

    /// Returns the host file behind an open file, if it is one.
    #[inline]
    pub(crate) fn below(file: &dyn Object) -> Option<&HostFile> {
        (file as &dyn Any).downcast_ref()
    }

    /// Returns the host file behind an open file, if the host has its attributes too. Calls that
    /// change them must not take the host's inode of a device in an overlay.
    pub(crate) fn with_inode_below(file: &dyn Object) -> Option<&HostFile> {
        Self::below(file).filter(|host_file| host_file.inode.is_none())
    }

    /// Returns the host descriptor, or -1 if this process does not have it, and the supervisor does
    /// not either.
    #[inline]
    pub(crate) fn fd(&self) -> InUse {
        let used = self.host_fd.in_use();
        match used.get() {
            -1 => self.fd_of_supervisor(),
            _ => used,
        }
    }

    #[cold]
    fn fd_of_supervisor(&self) -> InUse {
        let used = self.ask_supervisor().and_then(|fd| {
            let process = tree::current()?;
            let _alone = without_moves(process);
            let until = match has_descriptor(process, FileId::of(self)) {
                true => Until::Closed,
                // The last one was closed since this thread found the file.
                false => Until::EndOfCalls,
            };
            self.host_fd.give(fd, until)
        });
        used.unwrap_or(InUse::uncounted(-1))
    }

    fn ask_supervisor(&self) -> Option<RawFd> {
        match self.pinned.load() {
            0 => None,
            pinned => supervisor::ask_for(pinned).ok(),
        }
    }

    /// Returns the path in a directory that the host's `/proc` has of the descriptors of a process:
    /// of this one if it has the file, which is `used`, and otherwise of `process`, which has it.
    pub(crate) fn path_in_proc(&self, process: c_int, directory: &str, used: &InUse) -> String {
        match used.get() {
            // The process has opened it, or one above.
            -1 => format!("/proc/{process}/{directory}/{}", self.host_fd.of_opener()),
            fd => format!("/proc/self/{directory}/{fd}"),
        }
    }

    /// Returns the host descriptor, with what each process knows of it.
    pub(crate) fn host_fd(&self) -> &HostFd {
        &self.host_fd
    }

    /// Returns true if it is known that no path without links and `..` leads from this directory to
    /// our side. See [`Routes::is_aside`](crate::abi::routing::Routes::is_aside).
    pub(crate) fn is_aside(&self) -> bool {
        self.is_aside.load()
    }

    /// Has [`is_aside`](Self::is_aside) return true.
    pub(crate) fn set_aside(&self) {
        self.is_aside.store(true);
    }

    /// Returns whether a transfer may wait for another program.
    #[inline]
    pub(crate) fn wait(&self) -> Wait {
        match self.watch {
            Some(_) => Wait::Possible,
            None => Wait::Never,
        }
    }

    /// Reads into several buffers, which the host checks, at an offset or at the position.
    pub(crate) fn readv(&self, bufs: &[iovec], at: (Option<i64>, RwFlags)) -> Result<usize, Errno> {
        let call = (libc::POLLIN, libc::SYS_preadv2);
        host::vectored(self.fd().get(), self.wait(), call, bufs, at)
    }

    /// Writes from several buffers, which the host checks, at an offset or at the position.
    pub(crate) fn writev(
        &self,
        bufs: &[iovec],
        at: (Option<i64>, RwFlags),
    ) -> Result<usize, Errno> {
        let call = (libc::POLLOUT, libc::SYS_pwritev2);
        host::vectored(self.fd().get(), self.wait(), call, bufs, at)
    }

    /// Returns the host descriptor that stands for descriptor `ours` of this file, whose own is
    /// `used`, in a host epoll.
    ///
    /// # Errors
    /// `EMFILE`.
    #[inline]
    pub(crate) fn name_in(
        &self,
        set: &Arc<dyn HostSet>,
        ours: RawFd,
        used: &InUse,
    ) -> Result<RawFd, Errno> {
        let stays_open = (self.keep == Keep::Open).then_some(set);
        self.names.get(ours, used.get(), stays_open)
    }
}

/// Host descriptor of an open file. Both stay open until this is dropped.
pub(crate) struct OpenHostFd {
    used: InUse,
    _file: FileRef<RcuObject>,
}

impl OpenHostFd {
    /// Returns nothing if it is no host file.
    #[inline]
    pub(crate) fn of(file: FileRef<RcuObject>) -> Option<Self> {
        let used = HostFile::below(&**file)?.fd();
        Some(OpenHostFd { used, _file: file })
    }

    /// Returns the host descriptor, or -1 if this process does not have it.
    #[inline]
    pub(crate) fn get(&self) -> RawFd {
        self.used.get()
    }
}

impl Object for HostFile {
    /// Never has `NONBLOCK`: the host applies that flag itself.
    fn status(&self) -> OpenFlags {
        let flags = host::fcntl(self.fd().get(), libc::F_GETFL, 0).unwrap_or(libc::O_RDWR);
        OpenFlags::from_bits_truncate(flags.cast_unsigned())
            & (OpenFlags::ACCMODE | OpenFlags::APPEND)
    }

    fn set_status(&self, flags: OpenFlags) -> Result<(), Errno> {
        host::fcntl(self.fd().get(), libc::F_SETFL, flags.bits().cast_signed()).map(drop)
    }

    /// False: each call uses the blocking form, which does not block if the host file is
    /// non-blocking.
    fn is_nonblocking(&self) -> bool {
        false
    }

    fn pollee(&self) -> Option<Arc<dyn Pollee>> {
        let watch = Arc::clone(self.watch.as_ref()?);
        Some(watch)
    }

    fn readable_bytes(&self) -> Result<usize, Errno> {
        host::readable_bytes(self.fd().get())
    }

    fn read_to(&self, bufs: &mut [IoSliceMut<'_>], how: Transfer<'_>) -> Result<usize, Errno> {
        let (fd, at) = (self.fd().get(), how.at.map(signed).transpose()?);
        match (how.mode, &mut *bufs, at) {
            (TransferMode::Section, ..) => Err(Errno::EAGAIN),
            _ if how.is_vectored => self.readv(host::iovecs_mut(bufs), (at, how.flags)),
            // Of a socket.
            (TransferMode::Now, [buf], _) => {
                let (at, count) = (buf.as_mut_ptr(), buf.len());
                let flags = libc::MSG_DONTWAIT;
                // SAFETY: the pointer and the length are those of a slice; there is no address.
                unsafe { host::message(libc::SYS_recvfrom, flags, words!(fd, at, count, flags)) }
            }
            (_, [buf], None) => host::read(fd, self.wait(), buf),
            (_, [buf], Some(at)) => host::pread(fd, buf, at),
            (_, bufs, at) => self.readv(host::iovecs_mut(bufs), (at, how.flags)),
        }
    }

    fn write_from(&self, bufs: &[IoSlice<'_>], how: Transfer<'_>) -> Result<usize, Errno> {
        let (fd, at) = (self.fd().get(), how.at.map(signed).transpose()?);
        match (how.mode, bufs, at) {
            (TransferMode::Section, ..) => Err(Errno::EAGAIN),
            _ if how.is_vectored => self.writev(host::iovecs(bufs), (at, how.flags)),
            (_, [bytes], None) => host::write(fd, self.wait(), bytes),
            (_, [bytes], Some(at)) => host::pwrite(fd, bytes, at),
            (_, bufs, at) => self.writev(host::iovecs(bufs), (at, how.flags)),
        }
    }

    fn fallocate(&self, how: FallocateFlags, offset: u64, length: u64) -> Result<(), Errno> {
        let how = how.bits().cast_signed();
        host::fallocate(self.fd().get(), how, signed(offset)?, signed(length)?)
    }

    /// As of a file of ours, `EOPNOTSUPP` if it has no kind: a timer, for example.
    fn stat(&self) -> Result<Stat, Errno> {
        if let Some(path) = &self.inode {
            return Ok(path.inode.stat());
        }
        let stat = host::fstat(self.fd().get())?;
        match stat.st_mode & libc::S_IFMT {
            0 => Err(Errno::EOPNOTSUPP),
            _ => Ok(to_stat(&stat)),
        }
    }

    fn path(&self) -> Option<VfsPath> {
        self.inode.clone()
    }

    fn set_len(&self, length: u64) -> Result<(), Errno> {
        host::ftruncate(self.fd().get(), signed(length)?)
    }

    fn sync(&self) -> Result<(), Errno> {
        // SAFETY: the call takes no pointer.
        host::blocking(|| host::done(unsafe { libc::fsync(self.fd().get()) }))
    }

    fn seek(&self, to: SeekTo) -> Result<u64, Errno> {
        let (offset, whence) = match to {
            SeekTo::Start(offset) => (signed(offset)?, libc::SEEK_SET),
            SeekTo::Current(offset) => (offset, libc::SEEK_CUR),
            SeekTo::End(offset) => (offset, libc::SEEK_END),
            SeekTo::Data(offset) => (signed(offset)?, libc::SEEK_DATA),
            SeekTo::Hole(offset) => (signed(offset)?, libc::SEEK_HOLE),
        };
        host::lseek(self.fd().get(), offset, whence)
    }

    /// The host's text. There each descriptor has `O_CLOEXEC`.
    fn fdinfo(&self, process: i32, descriptor: OpenFlags) -> Option<Vec<u8>> {
        let used = self.fd();
        let path = self.path_in_proc(process, "fdinfo", &used);
        let text = std::fs::read_to_string(path).ok()?;
        let (position, rest) = text.split_once("flags:\t")?;
        let (flags, rest) = rest.split_once('\n')?;
        let flags = u32::from_str_radix(flags, 8).ok()? & !OpenFlags::CLOEXEC.bits();
        let flags = flags | descriptor.bits();
        Some(format!("{position}flags:\t0{flags:o}\n{rest}").into())
    }

    fn release(&self) {
        if let Some(watch) = &self.watch {
            watch.close();
        }
        self.names.close();
        if self.keep == Keep::No {
            self.host_fd.close();
        }
        match self.pinned.load() {
            0 => {}
            pinned => supervisor::unpin(pinned),
        }
    }

    /// Does nothing: this library cannot revoke a host file.
    fn revoke(&self) {}
}

/// Converts the fields of a status that calls between both sides need.
fn to_stat(stat: &libc::stat) -> Stat {
    Stat {
        // No file system of ours has a device number with this bit.
        device: stat.st_dev | 1 << 63,
        size: stat.st_size.cast_unsigned(),
        ..Stat::new(kind_of(stat.st_mode), stat.st_mode.into(), stat.st_ino)
    }
}

/// Returns the kind of a file with this mode.
pub(crate) fn kind_of(mode: libc::mode_t) -> FileKind {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => FileKind::Directory,
        libc::S_IFLNK => FileKind::Symlink,
        libc::S_IFIFO => FileKind::Fifo,
        libc::S_IFSOCK => FileKind::Socket,
        libc::S_IFCHR => FileKind::CharDevice,
        libc::S_IFBLK => FileKind::BlockDevice,
        _ => FileKind::Regular,
    }
}

/// Converts an offset to the host's type.
///
/// # Errors
/// `EINVAL` if it is above `i64::MAX`.
pub(crate) fn signed(offset: u64) -> Result<i64, Errno> {
    i64::try_from(offset).map_err(|_| Errno::EINVAL)
}

/// Returns the descriptors of this process that were used with epolls, each with the host
/// descriptor for it.
pub(crate) fn known_names() -> Vec<(RawFd, RawFd)> {
    let files = tree::current()
        .into_iter()
        .flat_map(|process| process.files().iter());
    let names = files.filter_map(|(_, file, _)| {
        let host_file = HostFile::below(&**file)?;
        Some(host_file.names.all(host_file.fd().get()))
    });
    names.flatten().collect()
}
