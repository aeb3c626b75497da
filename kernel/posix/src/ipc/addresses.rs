//! Addresses of sockets in memory of the program.

use std::ffi::c_int;

use fdtable_vfs::Errno;
use fdtable_vfs::socket::SocketAddress;
use libc::{sockaddr, sockaddr_un, socklen_t};

use crate::abi::uaccess;

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
/// As for [`read_unix_address`].
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
/// As for [`read_unix_address`].
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
/// As for [`read_unix_address`].
pub(super) unsafe fn read_address<'a>(
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
fn address_bytes(address: &SocketAddress) -> Vec<u8> {
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
