//! The working directory, on both sides and in the routes.

use std::ffi::c_int;

use fdtable::FileRef;
use fdtable_vfs::{Errno, RcuObject};
use libc::AT_FDCWD;

use crate::abi::routing::Side;
use crate::abi::system::System;
use crate::host;
use crate::host::file::HostFile;

impl System {
    /// Changes the working directory to one of the host, and keeps it open: relative paths begin
    /// there, whatever other threads do.
    pub(crate) fn enter(&self, directory: &FileRef<RcuObject>) -> Result<c_int, Errno> {
        let host_file = HostFile::below(&***directory).ok_or(Errno::EBADF)?;
        let _alone = self.directory.lock();
        // SAFETY: the call takes no pointer.
        host::check(unsafe { libc::fchdir(host_file.fd().get()) })?;
        let path = host::current_directory();
        self.routes.rcu(|routes| {
            let here = Some(FileRef::clone(directory));
            routes.with_directory(Side::Host, path.clone(), here)
        });
        Ok(0)
    }

    /// Keeps the host's working directory open, if it is the one of the program. A directory that
    /// may not be searched is not kept.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn keep_directory(&self) -> Result<(), Errno> {
        if self.routes.load().side() == Side::Ours {
            return Ok(());
        }
        match host::openat(AT_FDCWD, c".", libc::O_PATH | libc::O_DIRECTORY, 0) {
            Err(_) => Ok(()),
            Ok(fd) => self.enter(&HostFile::own(fd)?).map(drop),
        }
    }

    /// Records the new working directory.
    pub(crate) fn record_directory(&self, side: Side) -> Result<c_int, Errno> {
        let path = match side {
            Side::Ours => match self.process.getcwd() {
                Err(Errno::ENOENT) => self.removed_directory()?,
                path => path?,
            },
            Side::Host => host::current_directory(),
        };
        self.routes
            .rcu(|routes| routes.with_directory(side, path.clone(), None));
        Ok(0)
    }

    /// Returns the last path of our working directory, which is removed.
    fn removed_directory(&self) -> Result<Vec<u8>, Errno> {
        let shown = self.process.readlinkat(AT_FDCWD, "/proc/self/cwd")?;
        let path = shown.strip_suffix(b" (deleted)").unwrap_or(&shown);
        Ok(path.to_vec())
    }
}
