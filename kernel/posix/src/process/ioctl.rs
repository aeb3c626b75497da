//! `ioctl`: readable bytes, blocking mode, signals, close-on-exec. Requests about network
//! interfaces are made on a socket of the host. Other requests are for host files only.

use std::ffi::{c_int, c_ulong};
use std::ptr;

use fdtable::FdFlags;
use fdtable_vfs::{Errno, FileKind, Object, OpenFlags, SeekTo};

use crate::abi::call::call;
use crate::abi::system::System;
use crate::abi::uaccess;
use crate::host;
use crate::host::file::HostFile;
use crate::process::io_signals::{owner_number, owner_of};

/// Runs a request on an open file: `ioctl(2)`. `argument` is the third argument in C, if the
/// request has one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_ioctl(fd: c_int, request: c_ulong, argument: c_ulong) -> c_int {
    call(|system| {
        let file = system.opened_file(fd)?;
        let place = ptr::with_exposed_provenance_mut::<c_int>(argument as usize);
        // These two act on the descriptor, whatever the file.
        match request {
            libc::FIOCLEX => {
                system.process.set_flags(fd, FdFlags::CLOEXEC)?;
                return Ok(0);
            }
            libc::FIONCLEX => {
                system.process.set_flags(fd, FdFlags::empty())?;
                return Ok(0);
            }
            _ => {}
        }
        if let Some(host_file) = HostFile::below(&**file) {
            // SAFETY: as the caller promises.
            return unsafe { system.host_ioctl(host_file.fd().get(), request, argument) };
        }
        match request {
            libc::FIONREAD => {
                let count = readable_bytes(&**file).map_err(|errno| not_known(&**file, errno))?;
                // SAFETY: as the caller promises.
                unsafe { uaccess::put(place, count) }?;
            }
            libc::TIOCOUTQ => {
                let count = system.process.unread_bytes(fd);
                let count = count.map_err(|_| not_known(&**file, Errno::ENOTTY))?;
                let count = c_int::try_from(count).unwrap_or(c_int::MAX);
                // SAFETY: as the caller promises.
                unsafe { uaccess::put(place, count) }?;
            }
            libc::FIONBIO => {
                // SAFETY: as the caller promises.
                let on = unsafe { uaccess::get(place) }? != 0;
                let mut status = file.status();
                status.set(OpenFlags::NONBLOCK, on);
                file.set_status(status)?;
            }
            libc::FIOASYNC => {
                // SAFETY: as the caller promises.
                let on = unsafe { uaccess::get(place) }? != 0;
                system.process.set_async(fd, on)?;
            }
            FIOSETOWN | SIOCSPGRP if is_socket(&**file) => {
                // SAFETY: as the caller promises.
                let number = unsafe { uaccess::get(place) }?;
                system.process.set_owner(fd, owner_of(number)?)?;
            }
            FIOGETOWN | SIOCGPGRP if is_socket(&**file) => {
                let number = owner_number(system.process.owner(fd)?);
                // SAFETY: as the caller promises.
                unsafe { uaccess::put(place, number) }?;
            }
            INTERFACES_FIRST..=INTERFACES_LAST if is_socket(&**file) => {
                let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
                let socket = host::socket(libc::AF_UNIX, kind, 0)?;
                // SAFETY: as the caller promises.
                return unsafe { host::ioctl(socket.0, request, argument) };
            }
            libc::FICLONE => return Err(system.clone_error(argument as c_int, fd)),
            libc::FICLONERANGE => {
                // SAFETY: as the caller promises.
                let [source, ..] = unsafe { uaccess::get(place.cast::<[i64; 4]>()) }?;
                return Err(system.clone_error(source as c_int, fd));
            }
            _ => return Err(not_known(&**file, Errno::ENOTTY)),
        }
        Ok(0)
    })
}

/// Requests about the owner of a socket, which the `libc` crate does not define.
const FIOSETOWN: c_ulong = 0x8901;
const SIOCSPGRP: c_ulong = 0x8902;
const FIOGETOWN: c_ulong = 0x8903;
const SIOCGPGRP: c_ulong = 0x8904;

/// Requests about network interfaces: `SIOCGIFNAME` to `SIOCGIFMAP`, `netdevice(7)`.
const INTERFACES_FIRST: c_ulong = 0x8910;
const INTERFACES_LAST: c_ulong = 0x8970;

fn is_socket(file: &dyn Object) -> bool {
    matches!(file.stat(), Ok(stat) if stat.kind == FileKind::Socket)
}

/// Request with other host descriptors, which the `libc` crate does not define.
const FIDEDUPERANGE: c_ulong = 0xc018_9436;

impl System {
    /// Returns the error of a clone to a file of ours, which share no blocks: that of a copy, or
    /// `EOPNOTSUPP`.
    fn clone_error(&self, from: c_int, to: c_int) -> Errno {
        let (from_offset, to_offset) = (Some(&mut 0), Some(&mut 0));
        let copied = self
            .process
            .copy_file_range(from, from_offset, to, to_offset, 0);
        copied.err().unwrap_or(Errno::EOPNOTSUPP)
    }

    /// Runs a request on a host file. Translates descriptors in the requests that are known to
    /// contain them.
    ///
    /// # Errors
    /// The host's; `EBADF` if the other descriptor is not open; `EXDEV` if it is a file of ours;
    /// `EOPNOTSUPP` for the request that takes a list of descriptors.
    ///
    /// # Safety
    /// The argument is what the request expects.
    unsafe fn host_ioctl(
        &self,
        host_fd: c_int,
        request: c_ulong,
        argument: c_ulong,
    ) -> Result<c_int, Errno> {
        match request {
            libc::FICLONE => {
                let source = self.host_fd(argument as c_int)?.ok_or(Errno::EXDEV)?;
                // SAFETY: the argument is a descriptor.
                unsafe { host::ioctl(host_fd, request, source.get() as c_ulong) }
            }
            libc::FICLONERANGE => {
                let place = ptr::with_exposed_provenance::<[i64; 4]>(argument as usize);
                // SAFETY: as the caller promises.
                let mut range = unsafe { uaccess::get(place) }?;
                let source = self.host_fd(range[0] as c_int)?.ok_or(Errno::EXDEV)?;
                range[0] = source.get().into();
                let argument = (&raw const range).expose_provenance() as c_ulong;
                // SAFETY: the range exists during the call.
                unsafe { host::ioctl(host_fd, request, argument) }
            }
            FIDEDUPERANGE => Err(Errno::EOPNOTSUPP),
            libc::TIOCGPTPEER => {
                let flags = OpenFlags::from_bits_retain(argument as u32).descriptor();
                let argument = argument | libc::O_CLOEXEC as c_ulong;
                // SAFETY: the argument is a set of flags.
                let peer = unsafe { host::ioctl(host_fd, request, argument) }?;
                let fd = self.adopt(peer, flags).inspect_err(|_| host::close(peer))?;
                Ok(fd.raw())
            }
            // SAFETY: as the caller promises.
            _ => unsafe { host::ioctl(host_fd, request, argument) },
        }
    }
}

/// Returns the error of a request that a file does not have: an epoll has another one.
#[cold]
fn not_known(file: &dyn Object, errno: Errno) -> Errno {
    match errno {
        Errno::ENOTTY if file.label() == "anon_inode:[eventpoll]" => Errno::EINVAL,
        errno => errno,
    }
}

/// Returns the number of readable bytes; for a regular file, those after the position, which may be
/// negative. As on the host, the lower half of the number.
fn readable_bytes(file: &dyn Object) -> Result<c_int, Errno> {
    match file.stat() {
        Ok(stat) if stat.kind == FileKind::Regular => {
            let position = file.seek(SeekTo::Current(0))?;
            Ok(stat.size.wrapping_sub(position) as c_int)
        }
        _ => Ok(c_int::try_from(file.readable_bytes()?).unwrap_or(c_int::MAX)),
    }
}
