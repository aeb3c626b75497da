//! Sockets of `AF_UNIX` at paths of the host.
//!
//! A socket of ours becomes one of the host with the first call that has a path of the host: with
//! `bind`, `connect`, or a message to it. A socket of the host with the same type, status flags and
//! options takes its place at the descriptor, if the call succeeds.
//!
//! Only an unused socket of ours can be replaced: one without an address, a peer, waiting threads
//! and watchers, and with one descriptor alone. Otherwise the call fails with `EADDRNOTAVAIL`, so
//! no descriptor and no epoll keeps the one of ours. A copy of the descriptor that another thread
//! makes during the call does. A call of another thread looks like a copy of the descriptor until
//! it ends: so the first call waits for a tenth of a second. Where processes share the kernel, one
//! that was forked since the socket was made has a descriptor of it too, and keeps that of ours.
//!
//! The socket of the host is at the descriptor during the first call, so that other threads find it
//! while that waits. If the call fails, the one of ours comes back.

use std::any::Any;
use std::ffi::{CString, c_int};
use std::os::fd::RawFd;
use std::thread;
use std::time::Duration;

use fdtable::{FileRef, host_fork};
use fdtable_vfs::socket::{OptionValue, Socket, SocketAddress, SocketOption};
use fdtable_vfs::{Errno, OpenFlags, RcuObject};
use libc::{sockaddr, sockaddr_un, socklen_t};

use crate::abi::path::{HostPath, Target};
use crate::abi::pin::{LastLink, above_and_end};
use crate::abi::system::System;
use crate::host;
use crate::host::file::HostFile;
use crate::ipc::addresses::read_unix_address;

/// Most times that a call waits until other threads have no reference to the socket.
const MOST_ROUNDS: u32 = 100;

const ROUND: Duration = Duration::from_millis(1);

/// The socket of a descriptor, after it has become one of the host.
enum HostSocket {
    /// It was one before.
    Was(FileRef<RcuObject>),
    Made {
        ours: FileRef<RcuObject>,
        made: FileRef<RcuObject>,
    },
}

impl System {
    /// Runs a call of a socket with an address of the host that leads to the same file as the path
    /// in `address`, and returns its result; or nothing if that is no path of the host. Afterwards
    /// the socket is one of the host. The caller has no reference to the socket.
    ///
    /// # Errors
    /// `EADDRNOTAVAIL` if the socket is used on the other side than that of the path; `EISCONN` if
    /// it is connected there; `ENAMETOOLONG`; `EBADF`; those of the lookup and of `call`.
    ///
    /// # Safety
    /// If `address` can be an address in memory, `length` bytes are there.
    pub(crate) unsafe fn on_host_path<R>(
        &self,
        fd: c_int,
        (address, length): (*const sockaddr, socklen_t),
        last: LastLink,
        call: impl FnOnce(RawFd, *const sockaddr, socklen_t) -> Result<R, Errno>,
    ) -> Result<Option<R>, Errno> {
        // SAFETY: as the caller promises.
        let Ok(SocketAddress::Path(name)) = (unsafe { read_unix_address(address, length) }) else {
            return Ok(None);
        };
        let name = CString::new(name).map_err(|_| Errno::EINVAL)?;
        let path = match self.target_of(libc::AT_FDCWD, &name, last)? {
            Target::Host(path) => path,
            Target::Ours(..) => {
                return match HostFile::below(&**self.file(fd)?).map(HostFile::is_socket) {
                    None => Ok(None),
                    Some(true) => Err(Errno::EADDRNOTAVAIL),
                    Some(false) => Err(Errno::ENOTSOCK),
                };
            }
        };
        let address = host_address(&path, last)?;
        let (at, length) = (
            (&raw const address).cast(),
            size_of_val(&address) as socklen_t,
        );
        let made = self.make_host_socket(fd).map_err(|errno| match errno {
            // The host looks the path up first.
            Errno::EISCONN => lookup_error(&path, last).unwrap_or(errno),
            _ => errno,
        });
        let (file, made) = match made? {
            HostSocket::Was(file) => {
                let host_fd = HostFile::below(&**file).ok_or(Errno::EBADF)?.fd();
                return call(host_fd.get(), at, length).map(Some);
            }
            HostSocket::Made { ours, made } => (ours, made),
        };
        let host_fd = HostFile::below(&**made).ok_or(Errno::EBADF)?.fd();
        call(host_fd.get(), at, length).map(Some).inspect_err(|_| {
            // A call of another thread may need it.
            if FileRef::exact_strong_count(&made) == Some(2) {
                let files = self.process.files();
                let flags = files.fd_flags(fd).unwrap_or_default();
                // Another thread may have closed the descriptor.
                let _ = files.replace_if(fd, &made, file, flags);
            }
        })
    }

    /// Puts a socket of the host in the place of one of ours, unless it is one.
    ///
    /// # Errors
    /// `EADDRNOTAVAIL`, `EISCONN` and others of [`host_socket_like`](Self::host_socket_like);
    /// `EBADF`.
    fn make_host_socket(&self, fd: c_int) -> Result<HostSocket, Errno> {
        let mut rounds = 0;
        loop {
            let file = self.file(fd)?;
            if HostFile::below(&**file).is_some() {
                return Ok(HostSocket::Was(file));
            }
            let is_last = rounds == MOST_ROUNDS && host_fork::shares_memory();
            let is_alone = self.is_alone(&file) || is_last && self.has_one_descriptor(&file);
            if !is_alone && rounds < MOST_ROUNDS {
                // Another thread may be here too, with a reference of its own.
                drop(file);
                let _out = host_fork::blocking_section();
                thread::sleep(ROUND);
                rounds += 1;
                continue;
            }
            let made = match self.host_socket_like(fd, &file, is_alone) {
                // Another thread has put one there.
                Err(_) if !FileRef::ptr_eq(&self.file(fd)?, &file) => continue,
                made => made?,
            };
            let files = self.process.files();
            let flags = files.fd_flags(fd)?;
            match files.replace_if(fd, &file, FileRef::clone(&made), flags) {
                Ok(_) => return Ok(HostSocket::Made { ours: file, made }),
                Err(fdtable::Error::Stale) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns true if the only references to a file are that of one descriptor and that of the
    /// caller.
    fn is_alone(&self, file: &FileRef<RcuObject>) -> bool {
        match FileRef::exact_strong_count(file) {
            Some(count) => count == 2,
            // Several threads use it. A message that has it on its way is not found.
            None => self.has_one_descriptor(file),
        }
    }

    /// Returns true if this process has one descriptor of a file.
    fn has_one_descriptor(&self, file: &FileRef<RcuObject>) -> bool {
        let is_it = |other: &FileRef<RcuObject>| FileRef::ptr_eq(other, file);
        let files = self.process.files();
        files.iter().filter(|(_, other, _)| is_it(other)).count() == 1
    }

    /// Creates a socket of the host like one of ours that is unused. `is_alone` is true if no other
    /// descriptor and no call holds that.
    ///
    /// # Errors
    /// `EADDRNOTAVAIL` if it is used; `EISCONN`; those of `socket` and `setsockopt`.
    fn host_socket_like(
        &self,
        fd: c_int,
        file: &FileRef<RcuObject>,
        is_alone: bool,
    ) -> Result<FileRef<RcuObject>, Errno> {
        if self.process.getpeername(fd).is_ok() {
            return Err(Errno::EISCONN);
        }
        let socket = (&***file as &dyn Any).downcast_ref::<Socket>();
        if !is_alone || !socket.is_some_and(Socket::is_unused) {
            return Err(Errno::EADDRNOTAVAIL);
        }
        let OptionValue::Number(kind) = self.process.getsockopt(fd, SocketOption::Type)? else {
            return Err(Errno::EINVAL);
        };
        let status = (file.status() & OpenFlags::NONBLOCK).bits().cast_signed();
        let kind = kind | libc::SOCK_CLOEXEC | status;
        let made = HostFile::own(host::socket(libc::AF_UNIX, kind, 0)?)?;
        let host_fd = HostFile::below(&**made).ok_or(Errno::EBADF)?.fd();
        for (option, name) in [
            (SocketOption::PassCredentials, libc::SO_PASSCRED),
            (SocketOption::PeekOffset, libc::SO_PEEK_OFF),
            (SocketOption::SendBuffer, libc::SO_SNDBUF),
            (SocketOption::ReceiveTimeout, libc::SO_RCVTIMEO),
            (SocketOption::SendTimeout, libc::SO_SNDTIMEO),
        ] {
            match self.process.getsockopt(fd, option)? {
                // The host stores twice what is set.
                OptionValue::Number(bytes) if option == SocketOption::SendBuffer => {
                    host::set_option(host_fd.get(), name, &(bytes / 2))?;
                }
                OptionValue::Number(number) => host::set_option(host_fd.get(), name, &number)?,
                OptionValue::Time(Some(time)) => {
                    let time = libc::timeval {
                        tv_sec: time.as_secs().cast_signed(),
                        tv_usec: time.subsec_micros().into(),
                    };
                    host::set_option(host_fd.get(), name, &time)?;
                }
                // It waits forever, as a new socket does.
                _ => {}
            }
        }
        Ok(made)
    }
}

/// Returns the error of a lookup of a path: of its directory, or of the file itself.
fn lookup_error(path: &HostPath<'_>, last: LastLink) -> Option<Errno> {
    let (directory, text) = (path.directory(), path.as_given().to_bytes());
    let looked_up = match last {
        LastLink::Parent => [above_and_end(text).0, b"."].concat(),
        _ => text.to_vec(),
    };
    let looked_up = CString::new(looked_up).ok()?;
    host::fstatat(directory.get(), &looked_up, 0).err()
}

/// Returns the address of a path of the host.
///
/// # Errors
/// `ENAMETOOLONG` if the path does not fit.
fn host_address(path: &HostPath<'_>, last: LastLink) -> Result<sockaddr_un, Errno> {
    let text = match last {
        // It is the name of the socket, which other processes see.
        LastLink::Parent => path.as_given(),
        _ => path.path(),
    };
    let text = text.to_bytes();
    let mut address = sockaddr_un {
        sun_family: libc::AF_UNIX as libc::sa_family_t,
        sun_path: [0; 108],
    };
    // The host adds the null of a path that fills all of it.
    if text.len() > address.sun_path.len() {
        return Err(Errno::ENAMETOOLONG);
    }
    for (to, &byte) in address.sun_path.iter_mut().zip(text) {
        *to = byte.cast_signed();
    }
    Ok(address)
}
