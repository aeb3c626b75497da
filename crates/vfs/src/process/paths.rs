//! System calls that take a path.

use fdtable::Fd;

use super::Process;
use crate::{Errno, OpenFlags, Stat};

impl Process {
    /// Opens what `path` names, at the lowest free number. Allocates.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM` from the table; those of [`MemFs::open`](crate::MemFs::open).
    pub fn open(&self, path: &str, flags: OpenFlags) -> Result<Fd, Errno> {
        let reservation = self.files.reserve(flags.descriptor())?;
        let opened = self.fs.open(path, flags)?;
        Ok(reservation.install(opened))
    }

    /// Makes an empty directory. Allocates.
    ///
    /// # Errors
    /// Those of [`MemFs::mkdir`](crate::MemFs::mkdir).
    pub fn mkdir(&self, path: &str) -> Result<(), Errno> {
        self.fs.mkdir(path)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Those of [`MemFs::rmdir`](crate::MemFs::rmdir).
    pub fn rmdir(&self, path: &str) -> Result<(), Errno> {
        self.fs.rmdir(path)
    }

    /// Removes the name of a file. Its bytes stay while somebody has it open.
    ///
    /// # Errors
    /// Those of [`MemFs::unlink`](crate::MemFs::unlink).
    pub fn unlink(&self, path: &str) -> Result<(), Errno> {
        self.fs.unlink(path)
    }

    /// Gives what `old` names the name `new`, in one step. Allocates.
    ///
    /// # Errors
    /// Those of [`MemFs::rename`](crate::MemFs::rename).
    pub fn rename(&self, old: &str, new: &str) -> Result<(), Errno> {
        self.fs.rename(old, new)
    }

    /// Takes what `path` names from all who have it open. Returns how many open files there were.
    ///
    /// # Errors
    /// Those of [`MemFs::revoke`](crate::MemFs::revoke).
    pub fn revoke(&self, path: &str) -> Result<usize, Errno> {
        self.fs.revoke(path)
    }

    /// Describes what `path` names. May wait for writers of the file.
    ///
    /// # Errors
    /// Those of [`MemFs::stat`](crate::MemFs::stat).
    pub fn stat(&self, path: &str) -> Result<Stat, Errno> {
        self.fs.stat(path)
    }
}
