//! System calls about signals of open files: `F_SETOWN`, `F_SETSIG`, `FIOASYNC`.

use fdtable::{FdArg, RawFd};

use super::Process;
use crate::event::{Events, FileId, Owner, async_io};
use crate::{Errno, FileKind, Object, OpenFlags};

impl Process {
    /// Returns the owner of an open file, which receives its signals. Its ID is 0 if the owner does
    /// not exist any more. In Linux: `F_GETOWN`, `F_GETOWN_EX`.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or opened with `PATH`.
    pub fn owner(&self, fd: impl FdArg) -> Result<Owner, Errno> {
        let owner = self.with_file_id(fd, async_io::owner)?;
        match self.owner_exists(owner) {
            true => Ok(owner),
            false => Ok(Owner { id: 0, ..owner }),
        }
    }

    /// Sets the owner of an open file. ID 0 removes it. Allocates.
    /// In Linux: `F_SETOWN`, `F_SETOWN_EX`.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or opened with `PATH`; `ESRCH` if the owner does not
    /// exist.
    pub fn set_owner(&self, fd: impl FdArg, owner: Owner) -> Result<(), Errno> {
        self.with_file_id(fd, |file| {
            if owner.id < 0 || !self.owner_exists(owner) {
                return Err(Errno::ESRCH);
            }
            async_io::set_owner(file, owner);
            Ok(())
        })?
    }

    /// Returns the number of the signal of an open file, or 0 if it is the default: `SIGIO`.
    /// In Linux: `F_GETSIG`.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or opened with `PATH`.
    pub fn io_signal(&self, fd: impl FdArg) -> Result<i32, Errno> {
        self.with_file_id(fd, async_io::signal)
    }

    /// Sets the number of the signal of an open file. 0 means `SIGIO`, without the descriptor and
    /// the reason. Allocates. In Linux: `F_SETSIG`.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or opened with `PATH`; `EINVAL` if there is no such
    /// signal.
    pub fn set_io_signal(&self, fd: impl FdArg, signal: i32) -> Result<(), Errno> {
        self.with_file_id(fd, |file| async_io::set_signal(file, signal))?
    }

    /// Starts or stops the signals of a pipe, FIFO or socket, like `ASYNC` in
    /// [`set_status`](Self::set_status). They have this descriptor until they are stopped.
    /// Allocates. In Linux: `FIOASYNC`.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor; `ENOTTY` if it is another file.
    pub fn set_async(&self, fd: impl FdArg, on: bool) -> Result<(), Errno> {
        let fd = fd.to_raw();
        self.set_async_of(&**self.files.get(fd)?, fd, on)
    }

    pub(super) fn set_async_of(
        &self,
        object: &dyn Object,
        fd: RawFd,
        on: bool,
    ) -> Result<(), Errno> {
        let file = FileId::of(object);
        if on == is_async(object) {
            return Ok(());
        }
        let interest = match object.stat().map(|stat| stat.kind) {
            Ok(FileKind::Fifo) => Events::SIGNAL_IN | Events::SIGNAL_TAKEN,
            Ok(FileKind::Socket) => Events::SIGNAL_IN | Events::SIGNAL_ROOM | Events::SIGNAL_HUP,
            _ => return Err(Errno::ENOTTY),
        };
        if !on {
            async_io::stop(file);
        } else if let Some(sender) = self.kernel.signal_sender() {
            let pollee = object.pollee().ok_or(Errno::ENOTTY)?;
            async_io::start(file, pollee, interest, fd, sender);
        }
        Ok(())
    }

    fn owner_exists(&self, owner: Owner) -> bool {
        let sender = self.kernel.signal_sender();
        owner.id == 0 || sender.is_none_or(|sender| sender.exists(owner))
    }

    fn with_file_id<R>(&self, fd: impl FdArg, body: impl FnOnce(FileId) -> R) -> Result<R, Errno> {
        let file = self.get_opened(fd)?;
        Ok(body(FileId::of(&**file)))
    }
}

/// Returns true if an open file has `ASYNC`, also from its open, which starts no signals.
#[inline]
pub(super) fn is_async(object: &dyn Object) -> bool {
    async_io::is_on(FileId::of(object)) || object.status().contains(OpenFlags::ASYNC)
}
