//! Sockets: creation, addresses, connections, options.
//!
//! Sockets of `AF_UNIX` are ours, with abstract names of our own and with paths below mounts. All
//! other domains are the host's. A path of the host makes a [socket of the host](super::host_paths)
//! of one of ours. A host socket cannot have a path of ours: `EADDRNOTAVAIL`.

use std::ffi::{CString, c_int, c_void};
use std::slice;
use std::time::Duration;

use fdtable::FdFlags;
use fdtable_vfs::socket::{
    KeptOption, OptionValue, Shutdown, SocketAddress, SocketOption, SocketType, Ucred,
};
use fdtable_vfs::{Errno, OpenFlags};
use libc::{sockaddr, sockaddr_un, socklen_t};

use crate::abi::call::call;
use crate::abi::path::Target;
use crate::abi::pin::LastLink;
use crate::abi::system::System;
use crate::abi::uaccess;
use crate::host;
use crate::host::file::HostFile;
use crate::ipc::pipes::put_pair;

/// Creates a socket: `socket(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    call(|system| {
        let (kind, flags) = split(kind);
        if domain == libc::AF_UNIX {
            let kind = socket_type(kind, protocol)?;
            return Ok(system.process.socket(kind, flags)?.raw());
        }
        let host_flags = kind | libc::SOCK_CLOEXEC | status_bits(flags);
        let make = || {
            // SAFETY: the call takes no pointer.
            HostFile::own(host::check(unsafe {
                libc::socket(domain, host_flags, protocol)
            })?)
        };
        let files = system.process.files();
        if system.process.takes_any_descriptor() {
            return Ok(files.open_any(make()?, flags.descriptor())?.raw());
        }
        let reserved = files.reserve(flags.descriptor())?;
        Ok(reserved.install(make()?).raw())
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
        let bind = |fd, address, length| host::check(unsafe { libc::bind(fd, address, length) });
        let named = (address, length);
        // SAFETY: as the caller promises.
        let bound = unsafe { system.on_host_path(fd, named, LastLink::Parent, bind) }?;
        if let Some(bound) = bound {
            return Ok(bound);
        }
        let file = system.file(fd)?;
        if let Some(host_file) = HostFile::below(&**file) {
            return bind(host_file.fd().get(), address, length);
        }
        // SAFETY: as the caller promises.
        match unsafe { read_unix_address(address, length) }? {
            SocketAddress::Path(name) => {
                let path = system.socket_path(&name, LastLink::Parent)?;
                system.process.bind_path(fd, &path, &name)?;
            }
            other => system.process.bind(fd, &other)?,
        }
        Ok(0)
    })
}

/// Listens for connections: `listen(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_listen(fd: c_int, backlog: c_int) -> c_int {
    call(|system| {
        let file = system.file(fd)?;
        if let Some(host_file) = HostFile::below(&**file) {
            // SAFETY: the call takes no pointer.
            return host::check(unsafe { libc::listen(host_file.fd().get(), backlog) });
        }
        // A negative backlog is the maximum.
        let backlog = usize::try_from(backlog).unwrap_or(usize::MAX);
        system.process.listen(fd, backlog)?;
        Ok(0)
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
            // SAFETY: as the caller promises.
            let accepted = unsafe { host::accept4(host_fd.get(), address, length, host_flags) }?;
            let file = HostFile::own(accepted)?;
            return Ok(reserved.install(file).raw());
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
        Ok(accepted.raw())
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
        if let Some(connected) = connected {
            return Ok(connected);
        }
        let file = system.file(fd)?;
        if let Some(host_file) = HostFile::below(&**file) {
            return connect(host_file.fd().get(), address, length);
        }
        // SAFETY: as the caller promises.
        let address = unsafe { system.peer_address(address, length) }?;
        system.process.connect(fd, &address)?;
        Ok(0)
    })
}

/// Shuts down receiving or sending: `shutdown(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_shutdown(fd: c_int, how: c_int) -> c_int {
    call(|system| {
        let file = system.file(fd)?;
        if let Some(host_file) = HostFile::below(&**file) {
            // SAFETY: the call takes no pointer.
            return host::check(unsafe { libc::shutdown(host_file.fd().get(), how) });
        }
        system.process.getsockname(fd)?;
        let how = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(Errno::EINVAL),
        };
        system.process.shutdown(fd, how)?;
        Ok(0)
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
        let file = system.file(fd)?;
        if let Some(host_file) = HostFile::below(&**file) {
            let host_fd = host_file.fd();
            // SAFETY: as the caller promises.
            return host::check(unsafe { libc::getsockname(host_fd.get(), address, length) });
        }
        let name = system.process.getsockname(fd)?;
        // SAFETY: as the caller promises.
        unsafe { put_address(&name, address, length) }?;
        Ok(0)
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
        let file = system.file(fd)?;
        if let Some(host_file) = HostFile::below(&**file) {
            let host_fd = host_file.fd();
            // SAFETY: as the caller promises.
            return host::check(unsafe { libc::getpeername(host_fd.get(), address, length) });
        }
        let name = system.process.getpeername(fd)?;
        // SAFETY: as the caller promises.
        unsafe { put_address(&name, address, length) }?;
        Ok(0)
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
        let file = system.file(fd)?;
        if let Some(host_file) = HostFile::below(&**file) {
            let host_fd = host_file.fd();
            // SAFETY: as the caller promises.
            return host::check(unsafe {
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
        let file = system.file(fd)?;
        if let Some(host_file) = HostFile::below(&**file) {
            let host_fd = host_file.fd();
            // SAFETY: as the caller promises.
            return host::check(unsafe {
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
        system.process.setsockopt(fd, option, value)?;
        Ok(0)
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
    /// That of `put_option`.
    unsafe fn peer_groups(
        &self,
        fd: c_int,
        to: *mut c_void,
        room: usize,
        length: *mut socklen_t,
    ) -> Result<c_int, Errno> {
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
        unsafe { uaccess::put(length, bytes as socklen_t) }?;
        Ok(0)
    }

    /// Checks that a descriptor is a socket, of ours or a file of the host.
    ///
    /// # Errors
    /// `EBADF`; `ENOTSOCK`.
    pub(crate) fn check_socket(&self, fd: c_int) -> Result<(), Errno> {
        let is_of_host = || self.file(fd).map(|file| HostFile::below(&**file).is_some());
        if is_of_host()? {
            return Ok(());
        }
        match self.process.getsockname(fd) {
            // Another thread may have made it one of the host meanwhile.
            Err(_) if is_of_host()? => Ok(()),
            name => name.map(drop),
        }
    }

    /// Reads the address of another socket, with the path that leads to it on our side.
    ///
    /// # Errors
    /// `EFAULT`; `EINVAL` if it is malformed; those of [`socket_path`](Self::socket_path).
    ///
    /// # Safety
    /// That of [`read_unix_address`].
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

/// Reads an address for a socket of ours.
///
/// # Errors
/// `EFAULT`; `EINVAL` if it is malformed, or of another family.
///
/// # Safety
/// If `address` can be an address in memory, `length` bytes are there.
pub(crate) unsafe fn read_unix_address(
    address: *const sockaddr,
    length: socklen_t,
) -> Result<SocketAddress, Errno> {
    // SAFETY: as the caller promises.
    let (family, name) = unsafe { read_address(address, length) }?;
    if c_int::from(family) != libc::AF_UNIX {
        return Err(Errno::EINVAL);
    }
    Ok(match name.split_first() {
        None => SocketAddress::Unnamed,
        Some((0, name)) => SocketAddress::Abstract(name.to_vec()),
        Some(_) => {
            let end = name.iter().position(|&byte| byte == 0);
            SocketAddress::Path(name[..end.unwrap_or(name.len())].to_vec())
        }
    })
}

/// Bytes of an address before the name.
const FAMILY: usize = size_of::<libc::sa_family_t>();

/// Checks the length of an address, and that it can be read.
///
/// # Errors
/// `EINVAL` if no address is so long; `EFAULT`.
///
/// # Safety
/// That of [`read_unix_address`].
pub(crate) unsafe fn check_address(
    address: *const sockaddr,
    length: socklen_t,
) -> Result<(), Errno> {
    // SAFETY: as the caller promises.
    unsafe { address_bytes_of(address, length) }.map(|_| ())
}

/// Returns the bytes of an address.
///
/// # Safety
/// That of [`read_unix_address`].
unsafe fn address_bytes_of<'a>(
    address: *const sockaddr,
    length: socklen_t,
) -> Result<&'a [u8], Errno> {
    let length = usize::try_from(length.cast_signed()).map_err(|_| Errno::EINVAL)?;
    if length > size_of::<libc::sockaddr_storage>() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: as the caller promises.
    unsafe { uaccess::bytes(address.cast(), length) }
}

/// Reads the family and the name of an address.
///
/// # Safety
/// That of [`read_unix_address`].
unsafe fn read_address<'a>(
    address: *const sockaddr,
    length: socklen_t,
) -> Result<(libc::sa_family_t, &'a [u8]), Errno> {
    // SAFETY: as the caller promises.
    let bytes = unsafe { address_bytes_of(address, length) }?;
    let length = bytes.len();
    if !(FAMILY..=size_of::<sockaddr_un>()).contains(&length) {
        return Err(Errno::EINVAL);
    }
    let (family, name) = bytes.split_at(FAMILY);
    Ok((
        libc::sa_family_t::from_ne_bytes([family[0], family[1]]),
        name,
    ))
}

/// Writes an address to the caller, truncated to the room there is, and its full length.
///
/// # Safety
/// If `length` can be an address in memory, a length is there, and that many bytes of room at `to`.
pub(crate) unsafe fn put_address(
    address: &SocketAddress,
    to: *mut sockaddr,
    length: *mut socklen_t,
) -> Result<(), Errno> {
    // SAFETY: as the caller promises.
    let room = unsafe { uaccess::get(length) }?.cast_signed();
    let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
    let bytes = address_bytes(address);
    let count = bytes.len().min(room);
    // SAFETY: as the caller promises.
    unsafe { uaccess::bytes_mut(to.cast(), count) }?.copy_from_slice(&bytes[..count]);
    // SAFETY: as the caller promises.
    unsafe { uaccess::put(length, bytes.len() as socklen_t) }
}

/// Converts an address to the C form.
pub(crate) fn address_bytes(address: &SocketAddress) -> Vec<u8> {
    let mut bytes = (libc::AF_UNIX as libc::sa_family_t).to_ne_bytes().to_vec();
    match address {
        SocketAddress::Unnamed => {}
        SocketAddress::Abstract(name) => {
            bytes.push(0);
            bytes.extend_from_slice(name);
        }
        SocketAddress::Path(path) => {
            bytes.extend_from_slice(path);
            // A path of full length has the zero byte after the end of the struct, as on the host.
            bytes.push(0);
        }
    }
    bytes
}

fn option(level: c_int, name: c_int) -> Result<SocketOption, Errno> {
    if level != libc::SOL_SOCKET {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(match name {
        libc::SO_TYPE => SocketOption::Type,
        libc::SO_DOMAIN => SocketOption::Domain,
        libc::SO_PROTOCOL => SocketOption::Protocol,
        libc::SO_ERROR => SocketOption::Error,
        libc::SO_ACCEPTCONN => SocketOption::AcceptConnections,
        libc::SO_SNDBUF => SocketOption::SendBuffer,
        libc::SO_RCVBUF => SocketOption::ReceiveBuffer,
        libc::SO_PASSCRED => SocketOption::PassCredentials,
        libc::SO_PEERCRED => SocketOption::PeerCredentials,
        libc::SO_RCVTIMEO => SocketOption::ReceiveTimeout,
        libc::SO_SNDTIMEO => SocketOption::SendTimeout,
        libc::SO_LINGER => SocketOption::Linger,
        libc::SO_COOKIE => SocketOption::Cookie,
        libc::SO_SNDBUFFORCE => SocketOption::SendBufferForce,
        libc::SO_RCVBUFFORCE => SocketOption::ReceiveBufferForce,
        libc::SO_PEEK_OFF => SocketOption::PeekOffset,
        libc::SO_SNDLOWAT => SocketOption::SendLowWater,
        libc::SO_REUSEPORT => SocketOption::ReusePort,
        name => SocketOption::Kept(kept_option(name)?),
    })
}

/// Returns the option of a number, of those without an effect.
///
/// # Errors
/// `ENOPROTOOPT`.
fn kept_option(name: c_int) -> Result<KeptOption, Errno> {
    Ok(match name {
        libc::SO_DEBUG => KeptOption::Debug,
        libc::SO_REUSEADDR => KeptOption::ReuseAddress,
        libc::SO_DONTROUTE => KeptOption::DontRoute,
        libc::SO_BROADCAST => KeptOption::Broadcast,
        libc::SO_KEEPALIVE => KeptOption::KeepAlive,
        libc::SO_OOBINLINE => KeptOption::OobInline,
        libc::SO_NO_CHECK => KeptOption::NoCheck,
        libc::SO_PRIORITY => KeptOption::Priority,
        libc::SO_RCVLOWAT => KeptOption::ReceiveLowWater,
        libc::SO_TIMESTAMP => KeptOption::Timestamp,
        libc::SO_TIMESTAMPNS => KeptOption::TimestampNanos,
        libc::SO_PASSSEC => KeptOption::PassSecurity,
        libc::SO_MARK => KeptOption::Mark,
        libc::SO_RXQ_OVFL => KeptOption::QueueOverflow,
        libc::SO_WIFI_STATUS => KeptOption::WifiStatus,
        libc::SO_NOFCS => KeptOption::NoChecksum,
        libc::SO_SELECT_ERR_QUEUE => KeptOption::SelectErrorQueue,
        libc::SO_BUSY_POLL => KeptOption::BusyPoll,
        libc::SO_INCOMING_CPU => KeptOption::IncomingCpu,
        libc::SO_PREFER_BUSY_POLL => KeptOption::PreferBusyPoll,
        SO_RCVMARK => KeptOption::ReceiveMark,
        _ => return Err(Errno::ENOPROTOOPT),
    })
}

/// Option that the `libc` crate does not define.
const SO_RCVMARK: c_int = 75;

/// Writes the value of an option to the caller, truncated to the room there is.
///
/// # Safety
/// If `to` can be an address, there is room for `room` bytes, and `length` points to a length.
unsafe fn put_option(
    value: &OptionValue,
    to: *mut c_void,
    room: usize,
    length: *mut socklen_t,
) -> Result<c_int, Errno> {
    let words: [u64; 2];
    let number: i32;
    let cookie: u64;
    let linger: [i32; 2];
    let credentials: [u32; 3];
    let bytes = match value {
        OptionValue::Number(value) => {
            number = *value;
            bytes_of(&number)
        }
        OptionValue::Cookie(value) => {
            cookie = *value;
            bytes_of(&cookie)
        }
        OptionValue::Linger(on, seconds) => {
            linger = [(*on).into(), *seconds];
            bytes_of(&linger)
        }
        OptionValue::Time(time) => {
            let time = time.unwrap_or_default();
            words = [time.as_secs(), time.subsec_micros().into()];
            bytes_of(&words)
        }
        OptionValue::Credentials(Ucred { pid, uid, gid }) => {
            credentials = [pid.cast_unsigned(), *uid, *gid];
            bytes_of(&credentials)
        }
    };
    if matches!(value, OptionValue::Cookie(_)) && room < bytes.len() {
        return Err(Errno::EINVAL);
    }
    let count = bytes.len().min(room);
    // SAFETY: as the caller promises.
    unsafe { uaccess::bytes_mut(to, count) }?.copy_from_slice(&bytes[..count]);
    // SAFETY: as the caller promises.
    unsafe { uaccess::put(length, count as socklen_t) }?;
    Ok(0)
}

/// Returns the bytes of a struct of integers.
fn bytes_of<T>(value: &T) -> &[u8] {
    // SAFETY: callers pass only types without padding.
    unsafe { slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// Reads the value of an option.
///
/// # Safety
/// If `at` can be an address, `length` bytes are there.
unsafe fn option_value(
    option: SocketOption,
    at: *const c_void,
    length: socklen_t,
) -> Result<OptionValue, Errno> {
    let is_time = matches!(
        option,
        SocketOption::ReceiveTimeout | SocketOption::SendTimeout
    );
    let needed = match option {
        _ if is_time => size_of::<libc::timeval>(),
        SocketOption::Linger => size_of::<libc::linger>(),
        _ => size_of::<c_int>(),
    };
    if (length as usize) < needed {
        return Err(Errno::EINVAL);
    }
    if option == SocketOption::Linger {
        // SAFETY: as the caller promises.
        let linger = unsafe { uaccess::get(at.cast::<libc::linger>()) }?;
        return Ok(OptionValue::Linger(linger.l_onoff != 0, linger.l_linger));
    }
    if !is_time {
        // SAFETY: as the caller promises.
        return unsafe { uaccess::get(at.cast::<c_int>()) }.map(OptionValue::Number);
    }
    // SAFETY: as the caller promises.
    let time = unsafe { uaccess::get(at.cast::<libc::timeval>()) }?;
    if !(0..1_000_000).contains(&time.tv_usec) {
        return Err(Errno::from_raw(libc::EDOM));
    }
    // A negative time expires at once.
    let micros = time.tv_usec as u32;
    let time = u64::try_from(time.tv_sec).map(|seconds| Duration::new(seconds, micros * 1000));
    let time = time.unwrap_or(Duration::from_nanos(1));
    Ok(OptionValue::Time((!time.is_zero()).then_some(time)))
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
