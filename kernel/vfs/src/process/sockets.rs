//! System calls of sockets.

use std::any::Any;
use std::io::IoSliceMut;
use std::sync::Arc;

use fdtable::{Fd, FdArg, FdFlags, FileRef};

use super::Process;
use crate::fs::Capabilities;
use crate::ipc::socket::{
    self, Bound, MsgFlags, OptionValue, Peer, Received, SendMessage, Shutdown, Socket,
    SocketAddress, SocketOption, SocketType, Ucred,
};
use crate::object::file;
use crate::{Errno, OpenFlags, RcuObject, fs};

/// Open file that is used as a socket.
struct SocketFile(FileRef<RcuObject>);

impl SocketFile {
    /// # Errors
    /// `ENOTSOCK` if it is not a socket; `EBADF` if it was opened with `PATH`.
    fn socket(&self) -> Result<&Socket, Errno> {
        let object = &**self.0 as &dyn Any;
        object
            .downcast_ref()
            .ok_or_else(|| match self.0.status().contains(OpenFlags::PATH) {
                true => Errno::EBADF,
                false => Errno::ENOTSOCK,
            })
    }
}

impl Process {
    /// Makes a connected pair of stream sockets, 212,992 bytes each way. Accepts `CLOEXEC` and
    /// `NONBLOCK`. Allocates.
    ///
    /// # Errors
    /// `EINVAL` if `flags` has other bits; `EMFILE`, `ENOMEM` from the table.
    pub fn socketpair(&self, flags: OpenFlags) -> Result<(Fd, Fd), Errno> {
        self.socketpair_of(SocketType::Stream, flags)
    }

    /// Makes a connected pair of sockets. Accepts `CLOEXEC` and `NONBLOCK`. Allocates.
    ///
    /// # Errors
    /// `EINVAL` if `flags` has other bits; `EMFILE`, `ENOMEM` from the table.
    pub fn socketpair_of(&self, kind: SocketType, flags: OpenFlags) -> Result<(Fd, Fd), Errno> {
        let credentials = self.ucred();
        self.pair(flags, |flags| {
            socket::pair_in(self.kernel.sockets(), kind, flags, credentials)
        })
    }

    /// Makes a socket that is not connected. Accepts `CLOEXEC` and `NONBLOCK`. Allocates.
    ///
    /// # Errors
    /// `EINVAL` if `flags` has other bits; `EMFILE`, `ENOMEM` from the table.
    pub fn socket(&self, kind: SocketType, flags: OpenFlags) -> Result<Fd, Errno> {
        let flags = flags.only(OpenFlags::CLOEXEC | OpenFlags::NONBLOCK)?;
        self.install(flags, || {
            file(Socket::new(
                kind,
                flags,
                self.kernel.sockets(),
                self.ucred(),
            ))
        })
    }

    /// Binds a socket to an address: to a path, at which an inode is made; to an abstract name; or
    /// with [`SocketAddress::Unnamed`] to a free abstract name of five hexadecimal digits.
    /// Allocates.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; `EADDRINUSE` if the address is in use; `EINVAL` if the socket has one,
    /// or it is too long; for a path, those of [`bind_name`](Self::bind_name); `EIO` if revoked.
    pub fn bind(&self, fd: impl FdArg, address: &SocketAddress) -> Result<(), Errno> {
        if let SocketAddress::Path(path) = address {
            return self.bind_path(fd, path, path);
        }
        let file = self.socket_file(fd)?;
        let socket = file.socket()?;
        match address {
            SocketAddress::Abstract(name) => socket.bind_abstract(Some(name)),
            _ => socket.bind_abstract(None),
        }
    }

    /// Binds a socket to a path like [`bind`](Self::bind). Its address is `name`, which another
    /// path may have led to, such as one through a symbolic link.
    ///
    /// # Errors
    /// As for [`bind`](Self::bind).
    pub fn bind_path(&self, fd: impl FdArg, path: &[u8], name: &[u8]) -> Result<(), Errno> {
        let file = self.socket_file(fd)?;
        let socket = file.socket()?;
        // The inode has the permissions of the socket itself, which `fchmod` changes.
        let mode = file.0.stat()?.mode;
        self.bind_name(path, Arc::new(socket.bound()?), mode)?;
        // As on Linux, an address that the socket has is found after the inode is made.
        socket.set_path(name).inspect_err(|_| {
            // Another thread may have removed or replaced it meanwhile.
            let _ = self.unlink(path);
        })
    }

    /// Starts to listen on a socket. Up to `backlog` connections and one more may wait to be
    /// accepted, and at most [`MAX_BACKLOG`](socket::MAX_BACKLOG). A further call changes the
    /// backlog.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; `EOPNOTSUPP` if it is a datagram socket; `EINVAL` if it has no address
    /// or is connected; `EIO` if revoked.
    pub fn listen(&self, fd: impl FdArg, backlog: usize) -> Result<(), Errno> {
        let file = self.socket_file(fd)?;
        file.socket()?.listen(backlog, self.ucred())
    }

    /// Accepts a pending connection of a listening socket. Returns it with the address of the peer,
    /// if it has one. Blocks, unless the listening socket is non-blocking. Accepts `CLOEXEC` and
    /// `NONBLOCK` for the new one. Allocates.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; `EAGAIN` if there is none, and the socket is non-blocking or the
    /// timeout expires; `EOPNOTSUPP` if it is a datagram socket; `EINVAL` if it does not listen, or
    /// `flags` has other bits; `EMFILE`, `ENOMEM` from the table, which leave the connection
    /// pending; `EIO` if revoked.
    pub fn accept4(
        &self,
        fd: impl FdArg,
        flags: OpenFlags,
    ) -> Result<(Fd, Option<SocketAddress>), Errno> {
        let flags = flags.only(OpenFlags::CLOEXEC | OpenFlags::NONBLOCK)?;
        let file = self.socket_file(fd)?;
        let socket = file.socket()?;
        let reservation = self.reserve(flags)?;
        let (accepted, address) = socket.accept(flags)?;
        Ok((reservation.install(accepted), address))
    }

    /// Connects a socket to the listener at an address. Sets the peer of a datagram socket;
    /// [`SocketAddress::Unnamed`] removes it. Blocks while the listener's backlog is full, unless
    /// the socket is non-blocking. Allocates.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; `ECONNREFUSED` if no socket listens at the address; `EPROTOTYPE` if
    /// that has another type; `EAGAIN` if it would block, or the timeout expires; `EISCONN`,
    /// `EALREADY`; `EINVAL` if it listens; `EPERM` if the other datagram socket has another peer;
    /// for a path, those of path lookup, and `EACCES` if it is not writable; `EIO` if revoked.
    pub fn connect(&self, fd: impl FdArg, address: &SocketAddress) -> Result<(), Errno> {
        let file = self.socket_file(fd)?;
        let socket = file.socket()?;
        if *address == SocketAddress::Unnamed {
            return socket.disconnect();
        }
        socket.prepare_connect()?;
        let peer = self.peer_at(socket, address)?;
        socket.connect(&peer, self.ucred())
    }

    /// Shuts down receiving, sending, or both. Sleepers wake.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; `EIO` if revoked.
    pub fn shutdown(&self, fd: impl FdArg, how: Shutdown) -> Result<(), Errno> {
        self.socket_file(fd)?.socket()?.core().shut_down(how)
    }

    /// Returns the address of a socket.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; `EIO` if revoked.
    pub fn getsockname(&self, fd: impl FdArg) -> Result<SocketAddress, Errno> {
        Ok(self.socket_file(fd)?.socket()?.name())
    }

    /// Returns the address of the peer of a socket.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; `ENOTCONN` if there is none; `EIO` if revoked.
    pub fn getpeername(&self, fd: impl FdArg) -> Result<SocketAddress, Errno> {
        self.socket_file(fd)?.socket()?.peer_name()
    }

    /// Sends a message, and returns how many of its bytes were sent. Its files belong to the
    /// receiver then; on an error they are dropped. Allocates, and blocks while there is no room,
    /// unless the socket is non-blocking or `flags` say so.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; `EPERM` if the message has credentials other than the caller's, without
    /// the capability for each; those of [`Socket::send`], with `ETOOMANYREFS` if more files than
    /// the limit of the table would be in flight; with an address, those of
    /// [`connect`](Self::connect) that concern it.
    pub fn sendmsg(
        &self,
        fd: impl FdArg,
        message: SendMessage<'_>,
        flags: MsgFlags,
    ) -> Result<usize, Errno> {
        let file = self.socket_file(fd)?;
        let socket = file.socket()?;
        let to = match message.to {
            // For sequenced packets, Linux ignores it.
            Some(address) if socket.kind() == SocketType::Datagram => {
                socket.core().may_send()?;
                socket.prepare_connect()?;
                Some(self.peer_at(socket, address)?)
            }
            Some(_) if socket.kind() == SocketType::Stream => {
                let connected = socket.peer_name().is_ok();
                let errno = if connected {
                    Errno::EISCONN
                } else {
                    Errno::EOPNOTSUPP
                };
                return Err(errno);
            }
            _ => None,
        };
        let mut message = message;
        message.credentials = match message.credentials {
            Some(claimed) => Some(self.may_claim(claimed)?),
            None => None,
        };
        message.sender = message.sender.or_else(|| Some(self.sender()));
        socket.send(message, to, self.files.limit() as usize, flags)
    }

    /// Receives bytes, or a message. Blocks, unless the socket is non-blocking or `flags` say so.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; those of [`Socket::receive`].
    pub fn recvmsg(
        &self,
        fd: impl FdArg,
        bufs: &mut [IoSliceMut<'_>],
        flags: MsgFlags,
    ) -> Result<Received, Errno> {
        self.socket_file(fd)?.socket()?.receive(bufs, flags)
    }

    /// Installs received files at the lowest free descriptors, as many as there are. The rest are
    /// dropped, and [`MsgFlags::CTRUNC`] is returned. Accepts `CLOEXEC`.
    /// In Linux: `scm_detach_fds`.
    ///
    /// # Errors
    /// `EINVAL` if a flag is unknown; all files are dropped.
    pub fn install_rights(
        &self,
        rights: Vec<FileRef<RcuObject>>,
        flags: FdFlags,
    ) -> Result<(Vec<Fd>, MsgFlags), Errno> {
        if !FdFlags::all().contains(flags) {
            return Err(Errno::EINVAL);
        }
        let count = rights.len();
        let open = |file| self.files.open(file, flags).ok();
        let fds: Vec<Fd> = rights.into_iter().map_while(open).collect();
        let lost = if fds.len() < count {
            MsgFlags::CTRUNC
        } else {
            MsgFlags::empty()
        };
        Ok((fds, lost))
    }

    /// Returns the value of an option of a socket.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; `ENOPROTOOPT` if the option is write-only; `EIO` if revoked.
    pub fn getsockopt(&self, fd: impl FdArg, option: SocketOption) -> Result<OptionValue, Errno> {
        self.socket_file(fd)?.socket()?.core().option(option)
    }

    /// Sets an option of a socket.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; `EPERM`, for `SO_DEBUG` `EACCES`, if that needs a capability;
    /// `ENOPROTOOPT` if it is read-only; `EINVAL` if the value has the wrong type or is not
    /// possible; `EOPNOTSUPP` for `SO_REUSEPORT`, unless it is 0; `EIO` if revoked.
    pub fn setsockopt(
        &self,
        fd: impl FdArg,
        option: SocketOption,
        value: OptionValue,
    ) -> Result<(), Errno> {
        let file = self.socket_file(fd)?;
        let socket = file.socket()?;
        may_set(self.credentials(), option, value)?;
        socket.core().set_option(option, value)
    }

    /// Returns how many bytes the peer of a socket has not read. In Linux: `SIOCOUTQ`.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`; `EIO` if revoked.
    pub fn unread_bytes(&self, fd: impl FdArg) -> Result<usize, Errno> {
        Ok(self.socket_file(fd)?.socket()?.unread_bytes())
    }

    fn socket_file(&self, fd: impl FdArg) -> Result<SocketFile, Errno> {
        Ok(SocketFile(self.files.get(fd)?))
    }

    /// Checks the credentials of a message, and returns them. In Linux: `scm_check_creds`.
    ///
    /// # Errors
    /// `EINVAL` if the user or group is -1; `EPERM` if one is not the caller's, and the capability
    /// for it is missing: `SYS_ADMIN`, `SETUID`, `SETGID`.
    pub fn may_claim(&self, claimed: Ucred) -> Result<Ucred, Errno> {
        if [claimed.uid, claimed.gid].contains(&u32::MAX) {
            return Err(Errno::EINVAL);
        }
        let own = [self.credentials(), self.real_credentials()];
        let has = |capability| self.credentials().has(capability);
        let allowed = (claimed.pid == self.id() || has(Capabilities::SYS_ADMIN))
            && (own.iter().any(|own| own.uid == claimed.uid) || has(Capabilities::SETUID))
            && (own.iter().any(|own| own.gid == claimed.gid) || has(Capabilities::SETGID));
        if allowed {
            Ok(claimed)
        } else {
            Err(Errno::EPERM)
        }
    }

    /// Returns the sender of a message: with the real user and group, as on Linux.
    pub(crate) fn sender(&self) -> Ucred {
        self.ucred_of(self.real_credentials())
    }

    fn peer_at(&self, socket: &Socket, address: &SocketAddress) -> Result<Peer, Errno> {
        match address {
            SocketAddress::Unnamed => Err(Errno::EINVAL),
            SocketAddress::Abstract(name) => socket.find(name),
            SocketAddress::Path(path) => {
                let bound = self.bound_to(path)?;
                // Another file system may have bound another type of value.
                let bound: &Bound = (*bound).downcast_ref().ok_or(Errno::ECONNREFUSED)?;
                bound.peer()
            }
        }
    }

    fn ucred(&self) -> Ucred {
        self.ucred_of(self.credentials())
    }

    fn ucred_of(&self, fs::Credentials { uid, gid, .. }: fs::Credentials) -> Ucred {
        let pid = self.id();
        Ucred { pid, uid, gid }
    }
}

/// Checks that the caller may set an option.
fn may_set(caller: fs::Credentials, option: SocketOption, value: OptionValue) -> Result<(), Errno> {
    let (needed, errno) = match (option, value) {
        (SocketOption::Debug, OptionValue::Number(1..)) => (Capabilities::NET_ADMIN, Errno::EACCES),
        (SocketOption::Priority, OptionValue::Number(0..=6)) => return Ok(()),
        (SocketOption::Priority | SocketOption::Mark, _) => (
            Capabilities::NET_ADMIN | Capabilities::NET_RAW,
            Errno::EPERM,
        ),
        (SocketOption::SendBufferForce | SocketOption::ReceiveBufferForce, _) => {
            (Capabilities::NET_ADMIN, Errno::EPERM)
        }
        _ => return Ok(()),
    };
    if caller.capabilities.intersects(needed) {
        Ok(())
    } else {
        Err(errno)
    }
}
