//! The descriptors of this process, as the subject of a history.

use std::os::fd::{AsRawFd, IntoRawFd};

use fdtable::{FdFlags, RawFd};
use nix::errno::Errno;
use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::history::{Answer, Table};

/// The table that the kernel keeps for this process.
///
/// Where Linux ignores unknown flags of a descriptor or has no argument for them, the library
/// refuses them; the host is not called then.
///
/// A file is a memory file, and its number is its offset: descriptors of one open file have one
/// offset, so the offset identifies the file of a descriptor.
#[derive(Default)]
pub(crate) struct Host {
    opened: i32,
}

impl Host {
    /// Closes every descriptor of this process.
    pub(crate) fn clear() {
        assert_eq!(close_range(0, u32::MAX, 0), Ok(0));
    }

    /// The limit to which a process may raise its own.
    pub(crate) fn highest_limit() -> u64 {
        getrlimit(Resource::RLIMIT_NOFILE).expect("it is there").1
    }
}

impl Table for Host {
    fn open(&mut self, flags: FdFlags) -> Answer {
        let number = self.opened;
        self.opened += 1;
        refuse_unknown(flags)?;
        let file = memfd_create(c"", MFdFlags::from_bits_truncate(flags.bits()));
        let file = file.map_err(|errno| errno as i32)?;
        let offset = nix::unistd::lseek(&file, number.into(), nix::unistd::Whence::SeekSet);
        assert_eq!(offset, Ok(number.into()), "{}", file.as_raw_fd());
        Ok(file.into_raw_fd())
    }

    fn which(&mut self, fd: RawFd) -> Answer {
        // SAFETY: the call takes integers, and answers a bad descriptor with an errno.
        let offset = unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) };
        answer(offset.try_into().expect("offsets are small"))
    }

    fn dup(&mut self, old: RawFd) -> Answer {
        // SAFETY: as in `which`.
        answer(unsafe { libc::dup(old) })
    }

    fn dup_min(&mut self, old: RawFd, min: RawFd, flags: FdFlags) -> Answer {
        refuse_unknown(flags)?;
        let command = if flags.contains(FdFlags::CLOEXEC) {
            libc::F_DUPFD_CLOEXEC
        } else {
            libc::F_DUPFD
        };
        // SAFETY: as in `which`.
        answer(unsafe { libc::fcntl(old, command, min) })
    }

    fn dup3(&mut self, old: RawFd, new: RawFd, flags: FdFlags) -> Answer {
        let unknown = flags.difference(FdFlags::all()).bits().cast_signed();
        let flags = if flags.contains(FdFlags::CLOEXEC) {
            unknown | libc::O_CLOEXEC
        } else {
            unknown
        };
        // SAFETY: the call takes integers, and answers bad descriptors with an errno. Nothing of
        // this process relies on the descriptor that it may close.
        answer(unsafe { libc::dup3(old, new, flags) })
    }

    fn dup2(&mut self, old: RawFd, new: RawFd) -> Answer {
        // SAFETY: as in `dup3`.
        answer(unsafe { libc::dup2(old, new) })
    }

    fn close(&mut self, fd: RawFd) -> Answer {
        // SAFETY: as in `dup3`.
        answer(unsafe { libc::close(fd) })
    }

    fn close_range(&mut self, first: u32, last: u32) -> Answer {
        close_range(first, last, 0)
    }

    fn set_cloexec_range(&mut self, first: u32, last: u32) -> Answer {
        close_range(first, last, libc::CLOSE_RANGE_CLOEXEC)
    }

    fn flags(&mut self, fd: RawFd) -> Answer {
        // SAFETY: as in `which`.
        answer(unsafe { libc::fcntl(fd, libc::F_GETFD) })
    }

    fn set_flags(&mut self, fd: RawFd, flags: FdFlags) -> Answer {
        refuse_unknown(flags)?;
        // SAFETY: as in `which`.
        answer(unsafe { libc::fcntl(fd, libc::F_SETFD, flags.bits()) })
    }

    fn set_limit(&mut self, limit: u32) -> Answer {
        let set = setrlimit(Resource::RLIMIT_NOFILE, limit.into(), Self::highest_limit());
        set.map(|()| 0).map_err(|errno| errno as i32)
    }
}

/// Not every C library has a function for this call.
fn refuse_unknown(flags: FdFlags) -> Result<(), i32> {
    if FdFlags::all().contains(flags) {
        Ok(())
    } else {
        Err(libc::EINVAL)
    }
}

fn close_range(first: u32, last: u32, flags: u32) -> Answer {
    // SAFETY: as in `dup3`.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    answer(done.try_into().expect("0 or -1"))
}

fn answer(returned: i32) -> Answer {
    Errno::result(returned).map_err(|errno| errno as i32)
}
