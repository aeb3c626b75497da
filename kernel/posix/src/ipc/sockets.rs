//! Sockets: creation, addresses, connections, options.
//!
//! Sockets of `AF_UNIX` are ours, with abstract names of our own and with paths below mounts. All
//! other domains are the host's. A path of the host makes a [socket of the host](super::host_paths)
//! of one of ours. A host socket cannot have a path of ours: `EADDRNOTAVAIL`.

use std::ffi::{CString, c_int, c_void};
use std::os::fd::RawFd;

use fdtable::FdFlags;
use fdtable_vfs::socket::{OptionValue, Shutdown, SocketAddress, SocketOption, SocketType, Ucred};
use fdtable_vfs::{Errno, OpenFlags};
use libc::{sockaddr, socklen_t};

use crate::abi::call::call;
use crate::abi::path::Target;
use crate::abi::pin::LastLink;
use crate::abi::system::System;
use crate::abi::uaccess;
use crate::host::direct::words;
use crate::host::file::HostFile;
use crate::host::{self, OwnedHostFd};
use crate::ipc::addresses::{put_address, read_address, read_unix_address};
use crate::ipc::options::{option, option_value, put_option};
use crate::ipc::pipes::put_pair;

/// Creates a socket: `socket(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    call(|system| {
        let (kind, flags) = split(kind);
        if domain == libc::AF_UNIX {
            let kind = socket_type(kind, protocol)?;
            return system.process.socket(kind, flags);
        }
        let host_flags = kind | libc::SOCK_CLOEXEC | status_bits(flags);
        let make = || HostFile::own(host::socket(domain, host_flags, protocol)?);
        system.process.install(flags, make)
    })
}

/// Creates a connected pair of sockets: `socketpair(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_socketpair(
    domain: c_int,
    kind: c_int,
    protocol: c_int,
    fds: *mut c_int,
) -> c_int {
    call(|system| {
        let (plain, flags) = split(kind);
        if domain != libc::AF_UNIX {
            // No other domain has pairs: the host returns the error.
            let mut pair = [-1; 2];
            // SAFETY: there is room for two.
            host::check(unsafe { libc::socketpair(domain, kind, protocol, pair.as_mut_ptr()) })?;
            pair.iter().copied().for_each(host::close);
            return Err(Errno::EOPNOTSUPP);
        }
        let plain = socket_type(plain, protocol)?;
        uaccess::check(fds, 2)?;
        let pair = system.process.socketpair_of(plain, flags)?;
        // SAFETY: as the caller promises.
        unsafe { put_pair(system, fds, pair) }
    })
}

/// Binds a socket to an address: `bind(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    call(|system| {
        system.check_socket(fd)?;
        // SAFETY: the address is one of the host's, or as the caller promises.
        let bind = |fd, address, length| host::done(unsafe { libc::bind(fd, address, length) });
        let named = (address, length);
        // SAFETY: as the caller promises.
        let bound = unsafe { system.on_host_path(fd, named, LastLink::Parent, bind) }?;
        if bound.is_some() {
            return Ok(());
        }
        if let Some(host_fd) = system.host_fd(fd)? {
            return bind(host_fd.get(), address, length);
        }
        // SAFETY: as the caller promises.
        match unsafe { read_unix_address(address, length) }? {
            SocketAddress::Path(name) => {
                let path = system.socket_path(&name, LastLink::Parent)?;
                system.process.bind_path(fd, &path, &name)
            }
            other => system.process.bind(fd, &other),
        }
    })
}

/// Listens for connections: `listen(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_listen(fd: c_int, backlog: c_int) -> c_int {
    call(|system| {
        if let Some(host_fd) = system.host_fd(fd)? {
            // SAFETY: the call takes no pointer.
            return host::done(unsafe { libc::listen(host_fd.get(), backlog) });
        }
        // A negative backlog is the maximum.
        let backlog = usize::try_from(backlog).unwrap_or(usize::MAX);
        system.process.listen(fd, backlog)
    })
}

/// Accepts a connection: `accept(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_accept(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_accept4(fd, address, length, 0) }
}

/// Accepts a connection, with flags: `accept4(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_accept4(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    call(|system| {
        let file = system.opened_file(fd)?;
        let (rest, flags) = split(flags);
        if rest != 0 {
            return Err(Errno::EINVAL);
        }
        if let Some(host_file) = HostFile::below(&**file) {
            let reserved = system.process.reserve(flags)?;
            let host_flags = libc::SOCK_CLOEXEC | status_bits(flags);
            let host_fd = host_file.fd();
            let a = words!(host_fd.get(), address, length, host_flags);
            // SAFETY: as the caller promises.
            let accepted = unsafe { host::message(libc::SYS_accept4, 0, a) }?;
            let file = HostFile::own(OwnedHostFd(accepted as RawFd))?;
            return Ok(reserved.install(file));
        }
        let (accepted, from) = system.process.accept4(fd, flags)?;
        if !address.is_null() {
            let from = from.unwrap_or(SocketAddress::Unnamed);
            // SAFETY: as the caller promises.
            let written = unsafe { put_address(&from, address, length) };
            written.inspect_err(|_| {
                // The descriptor was not returned yet, so the program has not closed it.
                let _ = system.process.close(accepted);
            })?;
        }
        Ok(accepted)
    })
}

/// Connects a socket: `connect(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_connect(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    call(|system| {
        system.check_socket(fd)?;
        // SAFETY: the address is one of the host's, or as the caller promises.
        let connect = |fd, address, length| unsafe { host::connect(fd, address, length) };
        let named = (address, length);
        // SAFETY: as the caller promises.
        let connected = unsafe { system.on_host_path(fd, named, LastLink::Follow, connect) }?;
        if connected.is_some() {
            return Ok(());
        }
        if let Some(host_fd) = system.host_fd(fd)? {
            return connect(host_fd.get(), address, length);
        }
        // SAFETY: as the caller promises.
        let address = unsafe { system.peer_address(address, length) }?;
        system.process.connect(fd, &address)
    })
}

/// Shuts down receiving or sending: `shutdown(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_shutdown(fd: c_int, how: c_int) -> c_int {
    call(|system| {
        if let Some(host_fd) = system.host_fd(fd)? {
            // SAFETY: the call takes no pointer.
            return host::done(unsafe { libc::shutdown(host_fd.get(), how) });
        }
        system.process.getsockname(fd)?;
        let how = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(Errno::EINVAL),
        };
        system.process.shutdown(fd, how)
    })
}

/// Returns the address of a socket: `getsockname(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_getsockname(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    call(|system| {
        if let Some(host_fd) = system.host_fd(fd)? {
            // SAFETY: as the caller promises.
            return host::done(unsafe { libc::getsockname(host_fd.get(), address, length) });
        }
        let name = system.process.getsockname(fd)?;
        // SAFETY: as the caller promises.
        unsafe { put_address(&name, address, length) }
    })
}

/// Returns the address of the peer: `getpeername(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_getpeername(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    call(|system| {
        if let Some(host_fd) = system.host_fd(fd)? {
            // SAFETY: as the caller promises.
            return host::done(unsafe { libc::getpeername(host_fd.get(), address, length) });
        }
        let name = system.process.getpeername(fd)?;
        // SAFETY: as the caller promises.
        unsafe { put_address(&name, address, length) }
    })
}

/// Returns the value of an option: `getsockopt(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    call(|system| {
        if let Some(host_fd) = system.host_fd(fd)? {
            // SAFETY: as the caller promises.
            return host::done(unsafe {
                libc::getsockopt(host_fd.get(), level, name, value, length)
            });
        }
        system.process.getsockname(fd)?;
        // SAFETY: as the caller promises.
        let room = unsafe { uaccess::get(length) }?.cast_signed();
        let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
        if (level, name) == (libc::SOL_SOCKET, libc::SO_PEERGROUPS) {
            // SAFETY: as the caller promises.
            return unsafe { system.peer_groups(fd, value, room, length) };
        }
        let option = option(level, name)?;
        let found = system.process.getsockopt(fd, option)?;
        // SAFETY: as the caller promises.
        unsafe { put_option(&found, value, room, length) }
    })
}

/// Sets an option: `setsockopt(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    call(|system| {
        if let Some(host_fd) = system.host_fd(fd)? {
            // SAFETY: as the caller promises.
            return host::done(unsafe {
                libc::setsockopt(host_fd.get(), level, name, value, length)
            });
        }
        system.process.getsockname(fd)?;
        if length.cast_signed() < 0 {
            return Err(Errno::EINVAL);
        }
        if level == libc::SOL_SOCKET {
            // Checked before the option, as on the host.
            let least = size_of::<c_int>();
            if (length as usize) < least {
                return Err(Errno::EINVAL);
            }
            // SAFETY: as the caller promises.
            unsafe { uaccess::bytes(value, least) }?;
        }
        let option = option(level, name)?;
        // SAFETY: as the caller promises.
        let value = unsafe { option_value(option, value, length) }?;
        system.process.setsockopt(fd, option, value)
    })
}

impl System {
    /// Writes the groups of the peer's maker to the caller: `SO_PEERGROUPS`. All sockets of ours
    /// are made by this process.
    ///
    /// # Errors
    /// `ENODATA` without a peer; `ERANGE` if there is no room for all; `EFAULT`.
    ///
    /// # Safety
    /// As for `put_option`.
    unsafe fn peer_groups(
        &self,
        fd: c_int,
        to: *mut c_void,
        room: usize,
        length: *mut socklen_t,
    ) -> Result<(), Errno> {
        let peer = self.process.getsockopt(fd, SocketOption::PeerCredentials)?;
        if matches!(peer, OptionValue::Credentials(Ucred { pid: 0, .. })) {
            return Err(Errno::from_raw(libc::ENODATA));
        }
        let groups = host::groups()?;
        let bytes = size_of_val(&*groups);
        if room < bytes {
            // SAFETY: as the caller promises.
            unsafe { uaccess::put(length, bytes as socklen_t) }?;
            return Err(Errno::from_raw(libc::ERANGE));
        }
        let groups: Vec<u8> = groups
            .iter()
            .flat_map(|group| group.to_ne_bytes())
            .collect();
        // SAFETY: as the caller promises.
        unsafe { uaccess::bytes_mut(to, bytes) }?.copy_from_slice(&groups);
        // SAFETY: as the caller promises.
        unsafe { uaccess::put(length, bytes as socklen_t) }
    }

    /// Checks that a descriptor is a socket, of ours or a file of the host.
    ///
    /// # Errors
    /// `EBADF`; `ENOTSOCK`.
    pub(crate) fn check_socket(&self, fd: c_int) -> Result<(), Errno> {
        let of_host = || {
            self.file(fd)
                .map(|file| HostFile::below(&**file).map(HostFile::is_socket))
        };
        match of_host()? {
            Some(true) => return Ok(()),
            Some(false) => return Err(Errno::ENOTSOCK),
            None => {}
        }
        match self.process.getsockname(fd) {
            // Another thread may have made it one of the host meanwhile.
            Err(_) if of_host()?.is_some() => Ok(()),
            name => name.map(drop),
        }
    }

    /// Reads the address of another socket, with the path that leads to it on our side.
    ///
    /// # Errors
    /// `EFAULT`; `EINVAL` if it is malformed; those of [`socket_path`](Self::socket_path).
    ///
    /// # Safety
    /// As for [`read_unix_address`].
    pub(crate) unsafe fn address(
        &self,
        address: *const sockaddr,
        length: socklen_t,
    ) -> Result<SocketAddress, Errno> {
        // SAFETY: as the caller promises.
        match unsafe { read_unix_address(address, length) }? {
            SocketAddress::Path(name) => {
                let path = self.socket_path(&name, LastLink::Follow)?;
                Ok(SocketAddress::Path(path))
            }
            other => Ok(other),
        }
    }

    /// Returns the path on our side to which the path of a socket leads.
    ///
    /// # Errors
    /// `EADDRNOTAVAIL` if it is the host's; those of [`target_of`](Self::target_of).
    fn socket_path(&self, name: &[u8], last: LastLink) -> Result<Vec<u8>, Errno> {
        let path = CString::new(name).map_err(|_| Errno::EINVAL)?;
        match self.target_of(libc::AT_FDCWD, &path, last)? {
            Target::Ours(_, path) => Ok(path.into_owned()),
            Target::Host(_) => Err(Errno::EADDRNOTAVAIL),
        }
    }

    /// Reads the address of a peer. `AF_UNSPEC` means none.
    ///
    /// # Errors
    /// Errors of [`address`](Self::address), and `EINVAL` for an empty name.
    ///
    /// # Safety
    /// The condition of `address` holds.
    pub(crate) unsafe fn peer_address(
        &self,
        address: *const sockaddr,
        length: socklen_t,
    ) -> Result<SocketAddress, Errno> {
        // SAFETY: as the caller promises.
        let (family, _) = unsafe { read_address(address, length) }?;
        if c_int::from(family) == libc::AF_UNSPEC {
            return Ok(SocketAddress::Unnamed);
        }
        // SAFETY: as the caller promises.
        match unsafe { self.address(address, length) }? {
            SocketAddress::Unnamed => Err(Errno::EINVAL),
            named => Ok(named),
        }
    }
}

/// Splits a socket type and its flags.
fn split(kind: c_int) -> (c_int, OpenFlags) {
    let flags = kind & (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    let open_flags = OpenFlags::from_bits_retain(flags.cast_unsigned());
    (kind & !flags, open_flags)
}

fn socket_type(kind: c_int, protocol: c_int) -> Result<SocketType, Errno> {
    // Types are below 11 in every domain.
    if !(0..11).contains(&kind) {
        return Err(Errno::EINVAL);
    }
    if protocol != 0 && protocol != libc::PF_UNIX {
        return Err(Errno::EPROTONOSUPPORT);
    }
    match kind {
        libc::SOCK_STREAM => Ok(SocketType::Stream),
        libc::SOCK_DGRAM | libc::SOCK_RAW => Ok(SocketType::Datagram),
        libc::SOCK_SEQPACKET => Ok(SocketType::SeqPacket),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

fn status_bits(flags: OpenFlags) -> c_int {
    (flags & OpenFlags::NONBLOCK).bits().cast_signed()
}

/// Converts the flags of a message to those of the received descriptors.
pub(crate) fn descriptor_flags(flags: c_int) -> FdFlags {
    if flags & libc::MSG_CMSG_CLOEXEC != 0 {
        FdFlags::CLOEXEC
    } else {
        FdFlags::empty()
    }
}
