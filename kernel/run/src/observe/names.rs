//! Names of open files, for reports.

use std::ffi::CString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fdtable_posix::{fdt_getpeername, fdt_getsockname, fdt_getsockopt, fdt_readlink, runner};

use super::call::Call;
use crate::memory::pointer;

/// The begin of the name of a socket.
const SOCKET: &str = "socket:";

/// Returns true if the name of an open file may have changed since it was opened, or is not known.
pub(super) fn changes(name: &str) -> bool {
    name.is_empty() || name.starts_with(SOCKET)
}

/// Returns the name of what a call has opened: the path that it has passed, if that is absolute.
pub(super) fn opened(call: &Call, fd: i32) -> Option<String> {
    let path = match call.number {
        libc::SYS_open | libc::SYS_creat => call.arguments[0],
        libc::SYS_openat | libc::SYS_openat2 => call.arguments[1],
        // It has no addresses yet.
        libc::SYS_socket | libc::SYS_accept | libc::SYS_accept4 => return Some(SOCKET.to_owned()),
        _ => return link(fd),
    };
    // SAFETY: the guest's string. It is copied at once; a guest that changes it meanwhile gets a
    // torn text in its own report.
    let path = unsafe { runner::string(pointer(path.cast_unsigned())) }?;
    match path.first() {
        Some(b'/') => Some(String::from_utf8_lossy(&path).into_owned()),
        _ => link(fd),
    }
}

/// Returns the name of an open file: its path or its kind, and the addresses of a socket.
pub(super) fn of(fd: i32) -> Option<String> {
    let mut name = link(fd)?;
    if name.starts_with(SOCKET) {
        for (before, call) in [(" ", fdt_getsockname as Ask), (" -> ", fdt_getpeername)] {
            if let Some(address) = address(fd, call) {
                name += before;
                name += &address;
            }
        }
    }
    Some(name)
}

/// Returns true for a socket that listens.
pub(super) fn is_listening(fd: i32) -> bool {
    let (mut listens, mut length) = (0_i32, 4 as libc::socklen_t);
    let at = (&raw mut listens).cast();
    // SAFETY: there is room for the answer.
    let result = unsafe {
        fdt_getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_ACCEPTCONN,
            at,
            &raw mut length,
        )
    };
    result == 0 && listens != 0
}

/// Returns what the link of a descriptor in `/proc` leads to.
pub(super) fn link(fd: i32) -> Option<String> {
    let path = CString::new(format!("/proc/self/fd/{fd}")).ok()?;
    let mut name = vec![0_u8; libc::PATH_MAX as usize];
    // SAFETY: the path is a C string, and there is room for the answer.
    let length = unsafe { fdt_readlink(path.as_ptr(), name.as_mut_ptr().cast(), name.len()) };
    name.truncate(usize::try_from(length).ok()?);
    Some(String::from_utf8_lossy(&name).into_owned())
}

/// Returns an address of a socket.
type Ask = unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut libc::socklen_t) -> i32;

fn address(fd: i32, ask: Ask) -> Option<String> {
    let mut bytes = [0_u8; size_of::<libc::sockaddr_un>()];
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: there is room for so many bytes.
    let result = unsafe { ask(fd, bytes.as_mut_ptr().cast(), &raw mut length) };
    let address = bytes.get(..length as usize).filter(|_| result == 0)?;
    let (family, rest) = address.split_first_chunk()?;
    // Without a port, it has no address yet.
    let with_port = |ip: IpAddr| {
        let port = u16::from_be_bytes(*rest.first_chunk()?);
        (port != 0).then(|| SocketAddr::from((ip, port)).to_string())
    };
    match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => {
            let ip = Ipv4Addr::from(*rest.get(2..)?.first_chunk::<4>()?);
            with_port(ip.into())
        }
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(*rest.get(6..)?.first_chunk::<16>()?);
            with_port(ip.into())
        }
        libc::AF_UNIX => {
            let (is_abstract, name) = match rest.split_first()? {
                (0, name) => ("@", name),
                _ => ("", rest),
            };
            let name = name.split(|&byte| byte == 0).next()?;
            Some(format!("{is_abstract}{}", String::from_utf8_lossy(name)))
        }
        _ => None,
    }
}
