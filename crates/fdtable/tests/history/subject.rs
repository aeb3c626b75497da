//! The table of this crate, as the subject of a history.

use fdtable::{Error, FdFlags, FileRef, Files, RawFd, Rcu, rcu};

use super::{Answer, Table};

pub(crate) struct Subject<'t, T> {
    pub(crate) files: &'t Files<Rcu<T>>,
    /// Makes the next file.
    pub(crate) make: &'t mut dyn FnMut() -> FileRef<Rcu<T>>,
    /// Returns the number of a file.
    pub(crate) number: fn(&T) -> i32,
}

impl<T: Send + Sync> Table for Subject<'_, T> {
    fn open(&mut self, flags: FdFlags) -> Answer {
        let file = (self.make)();
        answer(self.files.open(file, flags))
    }

    fn which(&mut self, fd: RawFd) -> Answer {
        let section = rcu::read_lock();
        let owned = self.files.get(fd).map(|file| (self.number)(&file));
        let borrowed = self.files.get_rcu(fd, &section);
        let borrowed = borrowed.map(|file| (self.number)(&file));
        assert_eq!(owned, borrowed, "both lookups find the same file");
        answer(owned)
    }

    fn dup(&mut self, old: RawFd) -> Answer {
        answer(self.files.dup(old))
    }

    fn dup_min(&mut self, old: RawFd, min: RawFd, flags: FdFlags) -> Answer {
        answer(self.files.dup_min(old, min, flags))
    }

    fn dup3(&mut self, old: RawFd, new: RawFd, flags: FdFlags) -> Answer {
        nothing(self.files.dup3(old, new, flags).map(drop)).map(|_| new)
    }

    fn dup2(&mut self, old: RawFd, new: RawFd) -> Answer {
        nothing(self.files.dup2(old, new).map(drop)).map(|_| new)
    }

    fn close(&mut self, fd: RawFd) -> Answer {
        nothing(self.files.close(fd).map(drop))
    }

    fn close_range(&mut self, first: u32, last: u32) -> Answer {
        nothing(self.files.close_range(first, last, drop))
    }

    fn set_cloexec_range(&mut self, first: u32, last: u32) -> Answer {
        nothing(self.files.set_cloexec_range(first, last))
    }

    fn flags(&mut self, fd: RawFd) -> Answer {
        let flags = self.files.fd_flags(fd);
        answer(flags.map(|flags| flags.bits().cast_signed()))
    }

    fn set_flags(&mut self, fd: RawFd, flags: FdFlags) -> Answer {
        nothing(self.files.set_fd_flags(fd, flags))
    }

    fn set_limit(&mut self, limit: u32) -> Answer {
        self.files.set_limit(limit);
        Ok(0)
    }
}

pub(crate) fn answer<N: Into<i32>>(outcome: Result<N, Error>) -> Answer {
    outcome.map(N::into).map_err(Error::errno)
}

fn nothing(outcome: Result<(), Error>) -> Answer {
    answer(outcome.map(|()| 0))
}
