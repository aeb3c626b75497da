//! Limits of a file system in memory, and the count of its pages.

use std::sync::Arc;

use crossbeam_utils::atomic::AtomicCell;

use crate::Errno;

/// Size of a page in bytes. Memory is counted in pages, and a hole is a range of pages.
pub(super) const PAGE: u64 = 4096;

/// Limits of a file system in memory.
///
/// ```
/// use fdtable_vfs::{Errno, MemFs, MemFsLimits, OpenFlags, Process};
///
/// let memory = 1 << 20;
/// let fs = MemFs::with_limits(MemFsLimits { memory, ..MemFsLimits::NONE });
/// let process = Process::with(fdtable::Files::new(), fs);
/// let file = process.open("/sparse", OpenFlags::CREAT | OpenFlags::RDWR)?;
/// process.ftruncate(file, 1 << 40)?;
/// assert_eq!(process.write(file, &[1; 2 << 20]), Ok(1 << 20));
/// assert_eq!(process.write(file, b"more"), Err(Errno::ENOSPC));
/// # Ok::<(), fdtable_vfs::Errno>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemFsLimits {
    /// Size limit of a file in bytes, holes included: `EFBIG` above it. Values above `i64::MAX`,
    /// the limit of every file, have its effect.
    pub file_size: u64,
    /// Memory limit of the bytes of all files, in bytes, rounded down to pages of 4,096: `ENOSPC`
    /// above it. Holes, names and inodes do not count. [`u64::MAX`] is no limit.
    pub memory: u64,
}

impl MemFsLimits {
    /// No limits but that of every file: `i64::MAX` bytes.
    pub const NONE: Self = MemFsLimits {
        file_size: i64::MAX as u64,
        memory: u64::MAX,
    };
}

impl Default for MemFsLimits {
    /// Returns [`NONE`](Self::NONE).
    fn default() -> Self {
        Self::NONE
    }
}

/// Limits of a new file.
#[derive(Clone, Debug)]
pub(super) struct FileLimits {
    /// Size limit in bytes, at most `i64::MAX`.
    pub(super) size: u64,
    pub(super) space: Space,
}

impl FileLimits {
    pub(super) fn new(limits: MemFsLimits) -> Self {
        FileLimits {
            size: limits.file_size.min(i64::MAX as u64),
            space: Space::new(limits.memory),
        }
    }
}

/// Pages that the files of a file system may use together. A clone counts the same pages.
#[derive(Clone, Debug)]
pub(super) struct Space(
    /// `None`: there is no limit, and files share no counter.
    Option<Arc<Pages>>,
);

#[derive(Debug)]
struct Pages {
    limit: u64,
    used: AtomicCell<u64>,
}

impl Space {
    fn new(memory: u64) -> Self {
        Space((memory != u64::MAX).then(|| {
            Arc::new(Pages {
                limit: memory / PAGE,
                used: AtomicCell::new(0),
            })
        }))
    }

    /// Counts `pages` more.
    ///
    /// # Errors
    /// `ENOSPC` if they are not free; nothing has changed.
    pub(super) fn charge(&self, pages: u64) -> Result<(), Errno> {
        let Some(counted) = self.0.as_deref().filter(|_| pages > 0) else {
            return Ok(());
        };
        let used = counted.used.fetch_add(pages);
        if used
            .checked_add(pages)
            .is_none_or(|sum| sum > counted.limit)
        {
            counted.used.fetch_sub(pages);
            return Err(Errno::ENOSPC);
        }
        Ok(())
    }

    /// Counts up to `pages` more, and returns how many.
    #[inline]
    pub(super) fn charge_up_to(&self, pages: u64) -> u64 {
        match self.charge(pages) {
            Ok(()) => pages,
            Err(_) => self.charge_rest(pages),
        }
    }

    #[cold]
    fn charge_rest(&self, pages: u64) -> u64 {
        let (_, free) = self.pages().unwrap_or((0, pages));
        let some = free.min(pages);
        // Another thread may have taken them meanwhile.
        self.charge(some).map_or(0, |()| some)
    }

    /// Counts `pages` more, which exist already, even above the limit.
    pub(super) fn charge_existing(&self, pages: u64) {
        if let Some(counted) = self.0.as_deref().filter(|_| pages > 0) {
            counted.used.fetch_add(pages);
        }
    }

    /// Counts `pages` less.
    pub(super) fn uncharge(&self, pages: u64) {
        if let Some(counted) = self.0.as_deref().filter(|_| pages > 0) {
            counted.used.fetch_sub(pages);
        }
    }

    /// Returns the number of all pages and of free ones; nothing if there is no limit.
    pub(super) fn pages(&self) -> Option<(u64, u64)> {
        let counted = self.0.as_deref()?;
        let free = counted.limit.saturating_sub(counted.used.load());
        Some((counted.limit, free))
    }
}
