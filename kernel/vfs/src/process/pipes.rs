//! System calls that make and resize pipes.

use std::any::Any;

use fdtable::{Fd, FdArg};

use super::Process;
use crate::fs::Capabilities;
use crate::ipc::buffer::{Buffer, PIPE_BUF};
use crate::ipc::fifo::FifoEnd;
use crate::ipc::pipe::{self, MAX_CAPACITY};
use crate::{Errno, Object, OpenFlags};

impl Process {
    /// Makes a pipe of 65,536 bytes, and returns its reading and its writing end. Accepts
    /// `CLOEXEC`, `NONBLOCK`, and `DIRECT` for packets. Allocates.
    ///
    /// # Errors
    /// `EINVAL` if `flags` has other bits; `EMFILE`, `ENOMEM` from the table.
    pub fn pipe2(&self, flags: OpenFlags) -> Result<(Fd, Fd), Errno> {
        let maker = self.credentials();
        self.pair(flags - OpenFlags::DIRECT, |_| pipe::pipe_of(maker, flags))
    }

    /// Returns the capacity of a pipe or FIFO in bytes. In Linux: `F_GETPIPE_SZ`.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or not a pipe; `EIO` if revoked.
    pub fn pipe_size(&self, fd: impl FdArg) -> Result<usize, Errno> {
        let file = self.files.get(fd)?;
        Ok(buffer(&**file)?.capacity())
    }

    /// Sets the capacity of a pipe or FIFO to at least `bytes`, and returns it: the next power of
    /// two, and at least 4,096. In Linux: `F_SETPIPE_SZ`.
    ///
    /// # Errors
    /// `EBADF` if not an open descriptor, or not a pipe; `EBUSY` if more bytes are in the pipe;
    /// `EINVAL` if `bytes` is above 2^31; `EPERM` if the capacity grows above 1,048,576, without
    /// [`Capabilities::SYS_RESOURCE`]; `EIO` if revoked.
    pub fn set_pipe_size(&self, fd: impl FdArg, bytes: usize) -> Result<usize, Errno> {
        let file = self.files.get(fd)?;
        let buffer = buffer(&**file)?;
        if bytes > 1 << 31 {
            return Err(Errno::EINVAL);
        }
        let capacity = bytes.max(PIPE_BUF).next_power_of_two();
        if capacity > MAX_CAPACITY
            && capacity > buffer.capacity()
            && !self.credentials().has(Capabilities::SYS_RESOURCE)
        {
            return Err(Errno::EPERM);
        }
        buffer.set_capacity(capacity)?;
        Ok(capacity)
    }
}

/// Returns the buffer of an end of a pipe or FIFO.
pub(super) fn buffer(object: &dyn Object) -> Result<&Buffer, Errno> {
    let end = (object as &dyn Any).downcast_ref::<FifoEnd>();
    Ok(end.ok_or(Errno::EBADF)?.fifo().buffer())
}
