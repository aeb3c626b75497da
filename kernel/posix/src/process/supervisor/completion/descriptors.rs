//! The user and the descriptors of a process, which a completion process takes over.

use std::ffi::c_int;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use fdtable_vfs::Errno;

use crate::host::{self, OwnedHostFd};

/// The user of a process.
pub(super) struct User {
    pub(super) ids: [[u32; 4]; 2],
    pub(super) groups: Vec<u32>,
    pub(super) umask: u32,
}

impl User {
    pub(super) fn of(process: c_int) -> io::Result<Self> {
        let text = fs::read_to_string(format!("/proc/{process}/status"))?;
        let numbers = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let words = line.unwrap_or_default().split_ascii_whitespace();
            words
                .filter_map(|word| word.parse().ok())
                .collect::<Vec<u32>>()
        };
        let four =
            |name| <[u32; 4]>::try_from(numbers(name)).map_err(|_| io::ErrorKind::InvalidData);
        let mask = text.lines().find_map(|line| line.strip_prefix("Umask:"));
        Ok(Self {
            ids: [four("Uid:")?, four("Gid:")?],
            groups: numbers("Groups:"),
            umask: u32::from_str_radix(mask.unwrap_or("22").trim(), 8).unwrap_or(0o22),
        })
    }
}

/// The descriptors of a process, and what the completion process takes them by.
pub(super) struct Descriptors {
    /// In ascending order.
    fds: Vec<RawFd>,
    process: OwnedHostFd,
    memory: OwnedHostFd,
    directory: OwnedHostFd,
    /// The descriptors of `memory` and `process` in the completion process, in ascending order.
    /// The process uses neither.
    pub(super) own: [RawFd; 2],
    /// The limit of descriptors of the supervisor.
    limit: libc::rlimit,
}

/// Has a descriptor stand for a thread that is no leader, since Linux 6.9.
const PIDFD_THREAD: c_int = libc::O_EXCL;

impl Descriptors {
    /// # Errors
    /// Errors of the host's calls.
    pub(super) fn of(process: c_int) -> io::Result<Self> {
        let limit = host::limit(libc::RLIMIT_NOFILE)?;
        let memory = File::open(format!("/proc/{process}/mem"))?;
        let directory = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open(format!("/proc/{process}/cwd"))?;
        let open = |flags| host::pidfd_open(process, flags);
        let pidfd = open(0).or_else(|_| open(PIDFD_THREAD))?;
        let mut fds = Vec::new();
        for entry in fs::read_dir(format!("/proc/{process}/fd"))? {
            let name = entry?.file_name();
            fds.extend(name.to_str().and_then(|name| name.parse::<RawFd>().ok()));
        }
        fds.sort_unstable();
        Ok(Self {
            own: free(&fds, limit.rlim_cur as RawFd),
            fds,
            process: raised(pidfd.0)?,
            memory: raised(memory.as_raw_fd())?,
            directory: raised(directory.as_raw_fd())?,
            limit,
        })
    }

    /// Takes the working directory, and copies of the descriptors as the same descriptors, but for
    /// those above the limit. Returns false if one is missing.
    pub(super) fn take(&self) -> bool {
        let limit = self.raise_limit();
        // SAFETY: these take integers. This process uses three descriptors of the supervisor, which
        // are `raised`: neither copy replaces one.
        let is_ready = unsafe {
            libc::fchdir(self.directory.0) == 0
                && libc::dup2(self.memory.0, 0) == 0
                && libc::dup2(self.process.0, 1) == 1
                && libc::close_range(2, c_int::MAX.cast_unsigned(), 0) == 0
        };
        let [memory, process] = self.own;
        // In this order: that of `process` is the higher one, so it is not 0.
        if !is_ready || !moved(1, process) || !moved(0, memory) {
            return false;
        }
        let is_taken = |&fd: &RawFd| {
            // SAFETY: it takes integers.
            let copy = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process, fd, 0) } as RawFd;
            // They are taken in their order, so this one is free, and the copy is no higher.
            copy >= 0 && moved(copy, fd)
        };
        let mut fds = self.fds.iter().take_while(|&&fd| fd < limit);
        let are_taken = fds.all(is_taken);
        // SAFETY: as above.
        are_taken && unsafe { libc::close(process) } == 0
    }

    /// Allows this process all of these descriptors, unless the host refuses it: a descriptor can
    /// be older than a limit below it. Returns the limit.
    fn raise_limit(&self) -> RawFd {
        let end = self.own[1].max(self.fds.last().map_or(0, |&last| last)) + 1;
        let raised = libc::rlimit {
            rlim_cur: end as libc::rlim_t,
            rlim_max: self.limit.rlim_max.max(end as libc::rlim_t),
        };
        let limit = self.limit.rlim_cur as RawFd;
        // SAFETY: the limit is valid.
        if end > limit && unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            end
        } else {
            limit
        }
    }
}

/// Returns two descriptors in ascending order that are not among the given ones, which have the
/// same order: above all of these, if the limit allows it, else between them, else above the limit.
fn free(used: &[RawFd], limit: RawFd) -> [RawFd; 2] {
    let end = used.last().map_or(0, |&last| last + 1);
    let all = (end..limit).chain((0..end.min(limit)).rev()).chain(limit..);
    let mut free = all.filter(|fd| used.binary_search(fd).is_err());
    // No process can have all of them.
    let mut found = [0; 2].map(|_| free.next().unwrap_or(RawFd::MAX));
    found.sort_unstable();
    found
}

/// Moves a descriptor to one that is free, or to itself. Returns false if the host refuses it.
fn moved(fd: RawFd, to: RawFd) -> bool {
    // SAFETY: these take integers. The callers own the descriptor.
    fd == to || unsafe { libc::dup2(fd, to) == to && libc::close(fd) == 0 }
}

/// Returns a copy that is at least 2.
fn raised(fd: RawFd) -> Result<OwnedHostFd, Errno> {
    host::fcntl(fd, libc::F_DUPFD_CLOEXEC, 2).map(OwnedHostFd)
}

#[cfg(test)]
mod tests {
    use super::free;

    #[test]
    fn a_completion_process_has_descriptors_that_the_process_does_not_use() {
        assert_eq!(free(&[0, 1, 2], 64), [3, 4]);
        // One above the others, and one between them; both between them; and none is left.
        assert_eq!(free(&[0, 1, 4, 62], 64), [61, 63]);
        assert_eq!(free(&[0, 3, 4, 5], 6), [1, 2]);
        assert_eq!(free(&[0, 1, 2, 3], 4), [4, 5]);
        // One in use is above the limit.
        assert_eq!(free(&[0, 2, 9], 4), [1, 3]);
        assert_eq!(free(&[0, 1, 2, 4], 4), [3, 5]);
    }
}
