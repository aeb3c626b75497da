//! The working directory, on both sides and in the routes.

use fdtable::FileRef;
use fdtable_vfs::Errno;
use libc::AT_FDCWD;

use crate::abi::routing::Side;
use crate::abi::system::System;
use crate::host::file::HostFile;
use crate::host::{self, OwnedHostFd};

impl System {
    /// Changes the working directory to one of the host, and keeps it open: relative paths begin
    /// there, whatever other threads do.
    pub(crate) fn enter(&self, directory: OwnedHostFd) -> Result<(), Errno> {
        let directory = HostFile::own(directory)?;
        let host_file = HostFile::below(&**directory).ok_or(Errno::EBADF)?;
        let _alone = self.directory.lock();
        // SAFETY: the call takes no pointer.
        host::done(unsafe { libc::fchdir(host_file.fd().get()) })?;
        let path = host::current_directory();
        self.routes.rcu(|routes| {
            let here = Some(FileRef::clone(&directory));
            routes.with_directory(Side::Host, path.clone(), here)
        });
        Ok(())
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
        match host::open_directory(AT_FDCWD, c".") {
            Err(_) => Ok(()),
            Ok(directory) => self.enter(directory),
        }
    }

    /// Changes the working directory to one of a side.
    pub(crate) fn change_directory(
        &self,
        side: Side,
        change: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let _alone = self.directory.lock();
        change()?;
        self.record_directory(side)
    }

    /// Records the new working directory.
    pub(crate) fn record_directory(&self, side: Side) -> Result<(), Errno> {
        let path = match side {
            Side::Ours => match self.process.getcwd() {
                Err(Errno::ENOENT) => self.removed_directory()?,
                path => path?,
            },
            Side::Host => host::current_directory(),
        };
        self.routes
            .rcu(|routes| routes.with_directory(side, path.clone(), None));
        Ok(())
    }

    /// Returns the last path of our working directory, which is removed.
    fn removed_directory(&self) -> Result<Vec<u8>, Errno> {
        let shown = self.process.readlinkat(AT_FDCWD, "/proc/self/cwd")?;
        let path = shown.strip_suffix(b" (deleted)").unwrap_or(&shown);
        Ok(path.to_vec())
    }
}
