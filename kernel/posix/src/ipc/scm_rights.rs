//! Messages through host sockets, with translation of the descriptors that they carry.
//!
//! A file is sent with its host descriptor, and a received file gets a descriptor of ours. A file
//! of ours cannot leave the process: `EINVAL`.

use std::ffi::c_int;

use fdtable::Fd;
use fdtable_vfs::Errno;
use libc::msghdr;

use crate::abi::system::System;
use crate::abi::uaccess;
use crate::host;
use crate::host::direct::words;
use crate::host::file::OpenHostFd;
use crate::ipc::sockets::descriptor_flags;

/// Bytes of a control message before its data.
pub(super) const CMSG_HEADER: usize = size_of::<libc::cmsghdr>();

/// Bytes of a descriptor.
pub(super) const FD_SIZE: usize = size_of::<c_int>();

/// Control message with a descriptor of the peer's process.
const SCM_PIDFD: c_int = 4;

impl System {
    /// Sends a message through a host socket.
    ///
    /// # Errors
    /// The host's; `EFAULT`, `ENOMEM`; `EBADF` if a descriptor that is sent is not open; `EINVAL`
    /// if it is not a host file.
    ///
    /// # Safety
    /// As for `sendmsg`.
    pub(crate) unsafe fn send_to_host(
        &self,
        host_fd: c_int,
        message: *const msghdr,
        flags: c_int,
    ) -> Result<usize, Errno> {
        // SAFETY: as the caller promises.
        let mut head = unsafe { uaccess::get(message) }?;
        if head.msg_controllen > c_int::MAX as usize {
            return Err(Errno::ENOBUFS);
        }
        // SAFETY: as the caller promises.
        let control =
            unsafe { uaccess::values(head.msg_control.cast::<u8>(), head.msg_controllen) };
        let mut control = control?;
        let mut files = Vec::new();
        if !control.is_empty() {
            each_fd(&mut control, &[libc::SCM_RIGHTS], |fd| {
                // Keep it open while the host uses its descriptor.
                files.push(self.host_fd(fd)?.ok_or(Errno::EINVAL)?);
                Ok(files.last().map_or(-1, OpenHostFd::get))
            })?;
            head.msg_control = control.as_mut_ptr().cast();
        }
        let a = words!(host_fd, &raw const head, flags);
        // SAFETY: as the caller promises, with a copy of the control messages.
        let sent = unsafe { host::message(libc::SYS_sendmsg, flags, a) };
        drop::<Vec<OpenHostFd>>(files);
        sent
    }

    /// Receives a message from a host socket.
    ///
    /// # Errors
    /// The host's; `EFAULT`.
    ///
    /// # Safety
    /// As for `recvmsg`.
    pub(crate) unsafe fn receive_from_host(
        &self,
        host_fd: c_int,
        message: *mut msghdr,
        flags: c_int,
    ) -> Result<usize, Errno> {
        // SAFETY: as the caller promises.
        let mut head = unsafe { uaccess::get(message) }?;
        let with_flag = flags | libc::MSG_CMSG_CLOEXEC;
        let a = words!(host_fd, &raw mut head, with_flag);
        // SAFETY: as the caller promises; the header is a copy of the caller's.
        let received = unsafe { host::message(libc::SYS_recvmsg, with_flag, a) }?;
        head.msg_flags &= !libc::MSG_CMSG_CLOEXEC | flags;
        if head.msg_controllen > 0 {
            // SAFETY: the host wrote this many bytes there.
            let control = unsafe { uaccess::bytes_mut(head.msg_control, head.msg_controllen) }?;
            if self.adopt_files(control, flags).is_err() {
                head.msg_flags |= libc::MSG_CTRUNC;
            }
        }
        // SAFETY: as the caller promises.
        unsafe { uaccess::put(message, head) }?;
        Ok(received)
    }

    /// Gives the received files descriptors of ours. On failure closes the file and writes -1.
    fn adopt_files(&self, control: &mut [u8], flags: c_int) -> Result<(), Errno> {
        let mut lost = Ok(());
        each_fd(control, &[libc::SCM_RIGHTS, SCM_PIDFD], |host_fd| {
            let taken = self.adopt(host_fd, descriptor_flags(flags));
            let fail = |errno| {
                if host_fd >= 0 {
                    host::close(host_fd);
                }
                lost = Err(errno);
                -1
            };
            Ok(taken.map_or_else(fail, Fd::raw))
        })?;
        lost
    }
}

/// Replaces each descriptor in messages of some types. Stops at a malformed message: the host
/// reports the error.
fn each_fd(
    mut control: &mut [u8],
    kinds: &[c_int],
    mut replaced: impl FnMut(c_int) -> Result<c_int, Errno>,
) -> Result<(), Errno> {
    while let Some(head) = Head::of(control) {
        let (message, rest) = control.split_at_mut(head.next());
        if head.level == libc::SOL_SOCKET && kinds.contains(&head.kind) {
            for fd in message[CMSG_HEADER..head.length].chunks_exact_mut(FD_SIZE) {
                fd.copy_from_slice(&replaced(word(fd))?.to_ne_bytes());
            }
        }
        control = rest;
    }
    Ok(())
}

/// Head of the first of several control messages.
pub(super) struct Head {
    pub(super) level: c_int,
    pub(super) kind: c_int,
    /// Bytes of the message, with the head.
    pub(super) length: usize,
    /// Bytes of all messages.
    all: usize,
}

impl Head {
    /// Returns nothing if the length is larger than the bytes there are, or smaller than the head.
    pub(super) fn of(control: &[u8]) -> Option<Self> {
        let length = usize::from_ne_bytes(*control.first_chunk()?);
        (CMSG_HEADER..=control.len())
            .contains(&length)
            .then(|| Head {
                level: word(&control[8..]),
                kind: word(&control[12..]),
                length,
                all: control.len(),
            })
    }

    /// Returns where the next message begins, or the end.
    pub(super) fn next(&self) -> usize {
        aligned(self.length).min(self.all)
    }
}

pub(super) fn aligned(length: usize) -> usize {
    length.next_multiple_of(size_of::<usize>())
}

pub(super) fn word(bytes: &[u8]) -> c_int {
    c_int::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}
