//! The host's descriptors, which some experiments measure too.

use std::thread;

use anyhow::{anyhow, ensure};
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Descriptors reserved for the rest of the process when an experiment uses all others.
const LEFT_TO_THE_PROCESS: u64 = 64;

/// Why a report has no row of the host.
#[cfg(feature = "experiments")]
pub(crate) const REFUSED: &str = "The host refused a table of its own, and has no row.";

/// Raises the limit of this process to the hard one. Returns how many descriptors an experiment may
/// open: at least 1.
///
/// # Errors
/// If the host refuses, or allows too few.
pub fn raise_limit() -> anyhow::Result<u32> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let most = hard.saturating_sub(LEFT_TO_THE_PROCESS);
    ensure!(most > 0, "the host allows {hard} descriptors");
    Ok(u32::try_from(most).unwrap_or(u32::MAX))
}

/// Runs `work` on a thread with a descriptor table of its own (`CLONE_FILES` of `unshare(2)`). The
/// table is as small as its open descriptors allow, and is freed when the thread ends. A table of
/// the host never shrinks, so growth can be measured only once in each. Threads that `work` starts
/// share it.
///
/// Returns none where the host refuses this, as some sandboxes do.
///
/// # Errors
/// Errors of `work`; another failure of the host; or a panic of the thread.
pub fn with_own_table<R: Send>(
    work: impl FnOnce() -> anyhow::Result<R> + Send,
) -> anyhow::Result<Option<R>> {
    let apart = || match unshare(CloneFlags::CLONE_FILES) {
        Ok(()) => work().map(Some),
        Err(Errno::EPERM | Errno::ENOSYS) => Ok(None),
        Err(errno) => Err(errno.into()),
    };
    thread::scope(|scope| scope.spawn(apart).join())
        .unwrap_or_else(|_| Err(anyhow!("the thread on the host's table panicked")))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use nix::fcntl::{FcntlArg, fcntl};

    use super::*;

    #[test]
    fn a_table_of_its_own_is_not_seen_outside() {
        let file = File::open("/dev/null").unwrap();
        let high = || Ok(fcntl(&file, FcntlArg::F_DUPFD(900))?);
        let inside = with_own_table(high).unwrap();
        let outside = std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| name.parse::<i32>().ok())
            .filter(|&fd| fd >= 900)
            .count();
        assert!(inside.is_none_or(|fd| fd >= 900 && outside == 0));
        assert!(file.as_raw_fd() >= 0);
    }
}
