//! Memory of the host that holds the bytes of a file of ours: a `memfd`.
//!
//! A call here never leaves the freezer: the caller holds the lock of the file, which a fork must
//! not copy. None of them blocks, because the bytes are in memory.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;
use std::sync::Arc;

use fdtable::host_fork;
use fdtable_vfs::fs::Timestamp;
use fdtable_vfs::{Errno, MemoryUsage, Seals, SharedMemory};

use super::fd::HostFd;
use super::file::signed;
use super::in_use::InUse;
use super::{check, errno, without_cancellation};
use crate::host;
use crate::process::supervisor;

/// Memory behind a host descriptor, which is closed at the end. Mappings keep the memory.
///
/// The [supervisor] has it too if processes share the kernel: a process that does not have the
/// descriptor opens the memory there, and keeps that open as long as it lives.
#[derive(Debug)]
pub(crate) struct Memfd {
    host_fd: HostFd,
    /// The supervisor's descriptor of it, where processes share the kernel.
    pinned: Option<c_int>,
}

/// Arguments of `mmap`, without the descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    pub(crate) at: *mut c_void,
    pub(crate) length: usize,
    pub(crate) protection: c_int,
    pub(crate) flags: c_int,
    pub(crate) offset: i64,
}

impl Mapping {
    /// Maps a host descriptor.
    ///
    /// # Errors
    /// Errors of the host's `mmap`.
    pub(crate) fn of(&self, fd: RawFd) -> Result<*mut c_void, Errno> {
        let &Mapping {
            at,
            length,
            protection,
            flags,
            offset,
        } = self;
        // SAFETY: the program chose the address, as with the host's own `mmap`.
        let place = unsafe { libc::mmap(at, length, protection, flags, fd, offset) };
        if place == libc::MAP_FAILED {
            return Err(errno());
        }
        Ok(place)
    }
}

impl Memfd {
    /// Makes empty memory, in the form that [`Object::share_memory`] takes.
    ///
    /// # Errors
    /// `ENFILE` if the host has no descriptor left; `ENOMEM`.
    ///
    /// [`Object::share_memory`]: fdtable_vfs::Object::share_memory
    pub(crate) fn make() -> Result<Arc<dyn SharedMemory>, Errno> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a C string.
        let fd = check(unsafe { libc::memfd_create(c"fdtable".as_ptr(), flags) });
        // The limit of the program's own descriptors is another one.
        let fd = fd.map_err(|errno| match errno {
            Errno::EMFILE => Errno::ENFILE,
            errno => errno,
        })?;
        let pinned = host_fork::shares_memory().then(|| supervisor::pin(fd));
        let pinned = pinned.transpose().inspect_err(|_| host::close(fd))?;
        let host_fd = HostFd::new(fd);
        Ok(Arc::new(Memfd { host_fd, pinned }))
    }

    /// Returns the host descriptor in this process, which is opened if it does not have it.
    ///
    /// # Errors
    /// Errors of [`open_pinned`](supervisor::open_pinned).
    fn fd(&self) -> Result<InUse, Errno> {
        let pinned = self.pinned.ok_or(Errno::EIO);
        self.host_fd
            .get_or_open(|| pinned.and_then(supervisor::open_pinned))
    }

    /// Returns the memory of the host that a file uses.
    pub(crate) fn below(memory: &dyn SharedMemory) -> Option<&Memfd> {
        (memory as &dyn Any).downcast_ref()
    }

    /// Maps the memory. `writable`: the open file is open for writing.
    ///
    /// # Errors
    /// Errors of the host's `mmap`.
    pub(crate) fn map(&self, mapping: &Mapping, writable: bool) -> Result<*mut c_void, Errno> {
        let fd = self.fd()?;
        if writable || mapping.flags & libc::MAP_TYPE == libc::MAP_PRIVATE {
            return mapping.of(fd.get());
        }
        // A descriptor for reading keeps `mprotect` from allowing writes later.
        let path = format!("/proc/self/fd/{}\0", fd.get());
        // SAFETY: the path ends with a zero byte.
        let reading = without_cancellation(|| unsafe {
            libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC)
        });
        if reading == -1 {
            return mapping.of(fd.get());
        }
        let place = mapping.of(reading);
        host::close(reading);
        place
    }

    fn seek(&self, from: u64, whence: c_int) -> Option<u64> {
        host::lseek(self.fd().ok()?.get(), signed(from).ok()?, whence).ok()
    }

    /// Calls `fallocate`, again if a signal interrupts it.
    fn fallocate(&self, how: c_int, from: u64, to: u64) -> Result<(), Errno> {
        let (offset, length) = (signed(from)?, signed(to - from)?);
        let fd = self.fd()?;
        loop {
            let done = without_cancellation(|| {
                // SAFETY: the call takes no pointer.
                check(unsafe { libc::fallocate(fd.get(), how, offset, length) })
            });
            match done {
                Err(Errno::EINTR) => {}
                done => return done.map(drop),
            }
        }
    }
}

impl SharedMemory for Memfd {
    fn usage(&self) -> MemoryUsage {
        let stat = self.fd().and_then(|fd| host::fstat(fd.get()));
        stat.map_or(MemoryUsage::default(), |stat| MemoryUsage {
            len: stat.st_size.cast_unsigned(),
            pages: stat.st_blocks.cast_unsigned() / (4096 / 512),
            modified: Timestamp {
                seconds: stat.st_mtime,
                nanos: stat.st_mtime_nsec as u32,
            },
        })
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        // The caller holds the lock of the file, so a fork waits for this call.
        host::pread_inside(self.fd()?.get(), buf, signed(offset)?)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        // As in `read_at`.
        host::pwrite_inside(self.fd()?.get(), bytes, signed(offset)?)
    }

    fn set_len(&self, len: u64) -> Result<(), Errno> {
        host::ftruncate(self.fd()?.get(), signed(len)?)
    }

    fn allocate(&self, from: u64, to: u64) -> Result<(), Errno> {
        // The host would take pages until there are no more, and end processes.
        let bytes = usize::try_from(to - from).map_err(|_| Errno::ENOSPC)?;
        let trial = Vec::<u8>::new().try_reserve_exact(bytes);
        trial.map_err(|_| Errno::ENOSPC)?;
        self.fallocate(libc::FALLOC_FL_KEEP_SIZE, from, to)
    }

    fn punch(&self, from: u64, to: u64) -> Result<(), Errno> {
        let how = libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE;
        self.fallocate(how, from, to)
    }

    fn next_data(&self, from: u64) -> Option<u64> {
        self.seek(from, libc::SEEK_DATA)
    }

    fn next_hole(&self, from: u64) -> Option<u64> {
        self.seek(from, libc::SEEK_HOLE)
    }

    fn add_seals(&self, seals: Seals) -> Result<(), Errno> {
        if seals.is_empty() {
            return Ok(());
        }
        host::fcntl(
            self.fd()?.get(),
            libc::F_ADD_SEALS,
            seals.bits().cast_signed(),
        )
        .map(drop)
    }
}

impl Drop for Memfd {
    fn drop(&mut self) {
        self.host_fd.close();
        self.pinned.into_iter().for_each(supervisor::unpin);
    }
}
