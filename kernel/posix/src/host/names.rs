//! Host descriptors under which a host file is a member of epolls.

use std::mem;
use std::os::fd::RawFd;
use std::sync::{Arc, Weak};

use crossbeam_utils::atomic::AtomicCell;
use fdtable_shm::Mutex;
use fdtable_vfs::Errno;
use fdtable_vfs::event::HostSet;

use super::epoll::HostEpoll;
use super::fd::HostFd;
use crate::host;

/// Host descriptors under which a host file is a member of epolls.
#[derive(Debug)]
pub(crate) struct Names {
    /// Our descriptor that stands for the host descriptor itself, or [`NO_FD`].
    first: AtomicCell<RawFd>,
    others: Mutex<Others>,
}

#[derive(Debug, Default)]
struct Others {
    /// Our descriptors, each with a duplicate of the host descriptor.
    duplicates: Vec<(RawFd, HostFd)>,
    /// The host epolls of a file whose host descriptor stays open after its release.
    sets: Vec<Weak<dyn HostSet>>,
}

const NO_FD: RawFd = -1;

impl Names {
    pub(crate) fn new() -> Self {
        Names {
            first: AtomicCell::new(NO_FD),
            others: Mutex::default(),
        }
    }

    /// Returns the host descriptor that stands for descriptor `ours` of the file of `host_fd`. If
    /// the host descriptor stays open after the release of the file, notes that `set` has it.
    ///
    /// # Errors
    /// `EMFILE`.
    #[inline]
    pub(crate) fn get(
        &self,
        ours: RawFd,
        host_fd: RawFd,
        stays_open: Option<&Arc<dyn HostSet>>,
    ) -> Result<RawFd, Errno> {
        match stays_open {
            None if self.first.load() == ours => Ok(host_fd),
            _ => self.find(ours, host_fd, stays_open),
        }
    }

    fn find(
        &self,
        ours: RawFd,
        host_fd: RawFd,
        stays_open: Option<&Arc<dyn HostSet>>,
    ) -> Result<RawFd, Errno> {
        if let Some(set) = stays_open {
            let set = Arc::downgrade(set);
            let mut others = self.others.lock();
            if !others.sets.iter().any(|known| known.ptr_eq(&set)) {
                others.sets.retain(|known| known.strong_count() > 0);
                others.sets.push(set);
            }
        } else if self.first.compare_exchange(NO_FD, ours).is_ok() {
            return Ok(host_fd);
        }
        let mut others = self.others.lock();
        let known = others.duplicates.iter().find(|(name, _)| *name == ours);
        if let Some((_, duplicate)) = known {
            return Ok(duplicate.get());
        }
        let duplicate = host::fcntl(host_fd, libc::F_DUPFD_CLOEXEC, 0)?;
        others.duplicates.push((ours, HostFd::new(duplicate)));
        Ok(duplicate)
    }

    /// Closes the duplicates, when the file is released. Removes them from epolls first, if the
    /// host would keep them because a host descriptor of the file stays open.
    pub(crate) fn close(&self) {
        let others = mem::take(&mut *self.others.lock());
        for (_, duplicate) in &others.duplicates {
            for set in others.sets.iter().filter_map(Weak::upgrade) {
                if let Some(set) = HostEpoll::of(&*set) {
                    set.forget_file(duplicate.get());
                }
            }
            duplicate.close();
        }
    }

    /// Returns our descriptors that were used with epolls, each with the host descriptor for it.
    pub(crate) fn all(&self, host_fd: RawFd) -> Vec<(RawFd, RawFd)> {
        let first = self.first.load();
        let others = self.others.lock();
        let named = others.duplicates.iter();
        let mut all: Vec<_> = named
            .map(|(ours, host_fd)| (*ours, host_fd.get()))
            .collect();
        if first != NO_FD {
            all.push((first, host_fd));
        }
        all
    }
}
