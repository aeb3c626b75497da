//! Sockets of `AF_UNIX` that become the host's: those that are bound, connected or sent to a path
//! of the host.
//!
//! Which side a socket is on is not known when it is made. It is ours at first. When its first
//! address turns out to be a path of the host, a socket of the host is made like it, the call is
//! made on that, and if it succeeds, the host's socket takes the place at the descriptor.
//!
//! Only an unused socket can be replaced: one without an address, a peer, waiting threads and
//! watchers, and with one descriptor alone. The others keep `EADDRNOTAVAIL`. A descriptor that
//! another thread duplicates during the call keeps the unused socket. With an overlay, a thread
//! that renames a directory of the path during the call can lead it to the host's directory.

use std::any::Any;
use std::ffi::c_int;
use std::os::fd::RawFd;

use fdtable::FileRef;
use fdtable_vfs::socket::{OptionValue, Socket, SocketOption, SocketType};
use fdtable_vfs::{Errno, RcuObject};
use libc::{sockaddr, sockaddr_un, socklen_t, timeval};

use crate::abi::system::System;
use crate::abi::target::HostPath;
use crate::host;
use crate::host::file::HostFile;

/// The address of a path of the host.
pub(crate) struct HostAddress {
    address: sockaddr_un,
    length: socklen_t,
}

impl HostAddress {
    /// # Errors
    /// `ENAMETOOLONG` if the path does not fit, as one may that is absolute here, and was not in
    /// the call.
    pub(crate) fn of(path: &HostPath<'_>) -> Result<Self, Errno> {
        // SAFETY: all zeroes is a valid value of this struct of integers.
        let mut address: sockaddr_un = unsafe { std::mem::zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        // The name of a socket stays as it is, so it cannot lead through a pin.
        let path = path.as_given().to_bytes();
        let room = address.sun_path.get_mut(..path.len());
        let room = room.ok_or(Errno::ENAMETOOLONG)?;
        for (to, from) in room.iter_mut().zip(path) {
            *to = from.cast_signed();
        }
        let end = (path.len() + 1).min(address.sun_path.len());
        let length = std::mem::offset_of!(sockaddr_un, sun_path) + end;
        Ok(Self {
            address,
            length: length as socklen_t,
        })
    }

    pub(crate) fn as_ptr(&self) -> *const sockaddr {
        (&raw const self.address).cast()
    }

    pub(crate) fn len(&self) -> socklen_t {
        self.length
    }
}

impl System {
    /// Makes a call on a socket of the host that is like the unused one at `fd`, and puts it there
    /// if the call succeeds.
    ///
    /// # Errors
    /// Those of the call; `EADDRNOTAVAIL` if the socket is in use; `EBADF` if another file was put
    /// at `fd` meanwhile; those of `socket(2)`.
    pub(crate) fn on_the_host<R>(
        &self,
        fd: c_int,
        file: &FileRef<RcuObject>,
        make: impl FnOnce(RawFd) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let socket = (&***file as &dyn Any).downcast_ref::<Socket>();
        let socket = socket.ok_or(Errno::ENOTSOCK)?;
        // That of the descriptor, and that of this call.
        let is_alone = FileRef::exact_strong_count(file) == Some(2);
        if !socket.is_unused() || !is_alone {
            return Err(Errno::EADDRNOTAVAIL);
        }
        let files = self.process.files();
        let (_, data) = files.get_with_data(fd)?;
        let host_file = like(socket, file)?;
        let host_fd = HostFile::below(&**host_file).map_or(-1, HostFile::fd);
        let made = make(host_fd)?;
        let replaced = files.replace_if(fd, file, host_file, data);
        drop(replaced.map_err(|_| Errno::EBADF)?);
        Ok(made)
    }
}

/// Makes a socket of the host with the type, the status and the options of one of ours.
fn like(socket: &Socket, file: &FileRef<RcuObject>) -> Result<FileRef<RcuObject>, Errno> {
    let kind = match socket.kind() {
        SocketType::Stream => libc::SOCK_STREAM,
        SocketType::Datagram => libc::SOCK_DGRAM,
        SocketType::SeqPacket => libc::SOCK_SEQPACKET,
    };
    // SAFETY: the call takes no pointer.
    let made = host::done(unsafe { libc::socket(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0) });
    let host_fd = made?;
    let host_file = HostFile::own(host_fd)?;
    host_file.set_status(file.status())?;
    for (option, name) in [
        (SocketOption::PassCredentials, libc::SO_PASSCRED),
        (SocketOption::PeekOffset, libc::SO_PEEK_OFF),
        (SocketOption::SendBuffer, libc::SO_SNDBUF),
        (SocketOption::ReceiveTimeout, libc::SO_RCVTIMEO),
        (SocketOption::SendTimeout, libc::SO_SNDTIMEO),
    ] {
        match socket.option(option)? {
            // The host stores twice what is set.
            OptionValue::Number(bytes) if option == SocketOption::SendBuffer => {
                set(host_fd, name, &(bytes / 2))?;
            }
            OptionValue::Number(number) => set(host_fd, name, &number)?,
            OptionValue::Time(time) => {
                let time = time.unwrap_or_default();
                let time = timeval {
                    tv_sec: time.as_secs().cast_signed(),
                    tv_usec: time.subsec_micros().into(),
                };
                set(host_fd, name, &time)?;
            }
            _ => {}
        }
    }
    Ok(host_file)
}

/// Sets an option of a socket of the host.
fn set<T>(host_fd: RawFd, name: c_int, value: &T) -> Result<(), Errno> {
    let (value, length) = (std::ptr::from_ref(value).cast(), size_of::<T>());
    // SAFETY: so many bytes are there.
    let done =
        unsafe { libc::setsockopt(host_fd, libc::SOL_SOCKET, name, value, length as socklen_t) };
    host::done(done).map(drop)
}
