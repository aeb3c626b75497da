//! `getrlimit(2)` and `setrlimit(2)`.

use crossbeam_utils::atomic::AtomicCell;
use fdtable::RawFd;
use fdtable_shm::Mutex;

use super::Process;
use crate::fs::{Capabilities, SeekTo};
use crate::{Errno, FileKind, RwFlags, Stat};

/// Resource that can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Upper bound for new descriptors, exclusive. The soft limit is that of the table: unlike on
    /// Linux, processes that share a table share it. In Linux: `RLIMIT_NOFILE`.
    NoFile,
    /// Length in bytes to which the process may write a file. Beyond it, writes return `EFBIG`,
    /// without a signal. In Linux: `RLIMIT_FSIZE`.
    FileSize,
}

/// Limit of a resource: a soft one, which a process may set up to the hard one. In Linux: `rlimit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// The limit in effect.
    pub soft: u64,
    /// Upper bound of the soft limit.
    pub hard: u64,
}

impl Limit {
    /// No limit. In Linux: `RLIM_INFINITY`.
    pub const INFINITY: u64 = u64::MAX;
}

/// Upper bound of the hard limit of descriptors: 2^31. In Linux: `nr_open`.
pub(super) const NR_OPEN_MAX: u64 = 1 << 31;

/// Limit of the length of files.
#[derive(Debug)]
pub(super) struct FileSize {
    both: Mutex<Limit>,
    /// Copy of the soft limit, which writes load without the lock. Stored under the lock.
    soft: AtomicCell<u64>,
}

impl FileSize {
    fn new(limit: Limit) -> Self {
        FileSize {
            both: Mutex::new(limit),
            soft: AtomicCell::new(limit.soft),
        }
    }

    fn get(&self) -> Limit {
        *self.both.lock()
    }

    fn set(&self, limit: Limit) {
        let mut both = self.both.lock();
        *both = limit;
        self.soft.store(limit.soft);
    }

    /// Returns the soft limit, if there is one.
    #[inline]
    fn soft(&self) -> Option<u64> {
        Some(self.soft.load()).filter(|&soft| soft != Limit::INFINITY)
    }
}

impl Default for FileSize {
    fn default() -> Self {
        Self::new(Limit {
            soft: Limit::INFINITY,
            hard: Limit::INFINITY,
        })
    }
}

impl Clone for FileSize {
    fn clone(&self) -> Self {
        Self::new(self.get())
    }
}

impl Process {
    /// Returns a limit.
    pub fn getrlimit(&self, resource: Resource) -> Limit {
        match resource {
            Resource::FileSize => self.group.file_size.get(),
            Resource::NoFile => Limit {
                soft: self.files.limit().into(),
                hard: self.group.hard_descriptors.load(),
            },
        }
    }

    /// Sets a limit. Existing descriptors and files above it stay.
    ///
    /// # Errors
    /// `EINVAL` if the soft limit is above the hard one; `EPERM` if the hard limit would be raised
    /// without [`Capabilities::SYS_RESOURCE`], or if that of descriptors would be above 2^31.
    pub fn setrlimit(&self, resource: Resource, limit: Limit) -> Result<(), Errno> {
        if limit.soft > limit.hard {
            return Err(Errno::EINVAL);
        }
        if limit.hard > self.getrlimit(resource).hard
            && !self.credentials().has(Capabilities::SYS_RESOURCE)
        {
            return Err(Errno::EPERM);
        }
        match resource {
            Resource::FileSize => self.group.file_size.set(limit),
            Resource::NoFile if limit.hard > NR_OPEN_MAX => return Err(Errno::EPERM),
            Resource::NoFile => {
                self.group.hard_descriptors.store(limit.hard);
                // At most 2^31.
                self.files.set_limit(limit.soft as u32);
            }
        }
        Ok(())
    }

    /// Sets both limits of descriptors without a check of rights, before a program starts.
    pub fn limit_descriptors(&self, limit: u32) {
        self.group.hard_descriptors.store(limit.into());
        self.files.set_limit(limit);
    }

    /// Returns how many of `count` bytes may be written under the size limit of this process. The
    /// write is at `offset`, or at the file position. A concurrent write through the same open file
    /// may move the position past the limit.
    ///
    /// # Errors
    /// `EFBIG` if none may; `EBADF` if not an open descriptor; `EIO` if revoked.
    #[inline]
    pub(super) fn writable_bytes(
        &self,
        fd: RawFd,
        offset: Option<u64>,
        flags: RwFlags,
        count: usize,
    ) -> Result<usize, Errno> {
        match self.group.file_size.soft() {
            None => Ok(count),
            Some(limit) => self.writable_bytes_below(limit, fd, offset, flags, count),
        }
    }

    #[cold]
    fn writable_bytes_below(
        &self,
        limit: u64,
        fd: RawFd,
        offset: Option<u64>,
        flags: RwFlags,
        count: usize,
    ) -> Result<usize, Errno> {
        let file = self.files.get(fd)?;
        let stat = file.stat().ok();
        let Some(stat) = stat.filter(|stat| stat.kind == FileKind::Regular && count > 0) else {
            return Ok(count);
        };
        let at = match offset {
            _ if flags.appends(file.status()) => stat.size,
            Some(offset) => offset,
            None => file.seek(SeekTo::Current(0))?,
        };
        if at > i64::MAX as u64 - count as u64 {
            // The write has an error that comes first.
            return Ok(count);
        }
        let room = limit.checked_sub(at).filter(|&room| room > 0);
        let room = room.ok_or(Errno::EFBIG)?;
        Ok(usize::try_from(room).map_or(count, |room| room.min(count)))
    }

    /// Checks that a file may get the length `length`.
    ///
    /// # Errors
    /// `EFBIG` if not.
    pub(super) fn check_length(&self, stat: &Stat, length: u64) -> Result<(), Errno> {
        let limit = self.group.file_size.soft().unwrap_or(Limit::INFINITY);
        if stat.kind == FileKind::Regular && length > stat.size && length > limit {
            return Err(Errno::EFBIG);
        }
        Ok(())
    }
}
