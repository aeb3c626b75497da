//! Messages through host sockets, with translation of the descriptors that they carry.
//!
//! A file is sent with its host descriptor, and a received file gets a descriptor of ours. A file
//! of ours cannot leave the process: `EINVAL`.

use std::ffi::{c_int, c_void};

use fdtable::FileRef;
use fdtable_vfs::{Errno, RcuObject};
use libc::{msghdr, ssize_t};

use crate::abi::system::System;
use crate::abi::uaccess;
use crate::fs::transfers::to_ssize;
use crate::host;
use crate::host::file::HostFile;
use crate::host::in_use::InUse;
use crate::ipc::sockets::descriptor_flags;

/// Bytes of a control message before its data.
const CMSG_HEADER: usize = size_of::<libc::cmsghdr>();

/// Bytes of a descriptor.
const FD_SIZE: usize = size_of::<c_int>();

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
    /// That of `sendmsg`.
    pub(crate) unsafe fn send_to_host(
        &self,
        host_fd: c_int,
        message: *const msghdr,
        flags: c_int,
    ) -> Result<ssize_t, Errno> {
        // SAFETY: as the caller promises.
        let mut head = unsafe { uaccess::get(message) }?;
        // SAFETY: as the caller promises.
        let mut control = unsafe { copy_control(head.msg_control, head.msg_controllen) }?;
        let mut files = Vec::new();
        if !control.is_empty() {
            each_fd(&mut control, &[libc::SCM_RIGHTS], |fd| {
                let file = self.file(fd)?;
                let used = HostFile::below(&**file).ok_or(Errno::EINVAL)?.fd();
                let below = used.get();
                // Keep it open while the host uses its descriptor.
                files.push((used, file));
                Ok(below)
            })?;
            head.msg_control = control.as_mut_ptr().cast();
        }
        // SAFETY: as the caller promises, with a copy of the control messages.
        let sent = unsafe { host::sendmsg(host_fd, &raw const head, flags) };
        drop::<Vec<(InUse, FileRef<RcuObject>)>>(files);
        to_ssize(sent)
    }

    /// Receives a message from a host socket.
    ///
    /// # Errors
    /// The host's; `EFAULT`.
    ///
    /// # Safety
    /// That of `recvmsg`.
    pub(crate) unsafe fn receive_from_host(
        &self,
        host_fd: c_int,
        message: *mut msghdr,
        flags: c_int,
    ) -> Result<ssize_t, Errno> {
        // SAFETY: as the caller promises.
        let mut head = unsafe { uaccess::get(message) }?;
        let with_flag = flags | libc::MSG_CMSG_CLOEXEC;
        // SAFETY: as the caller promises; the header is a copy of the caller's.
        let received = unsafe { host::recvmsg(host_fd, &raw mut head, with_flag) }?;
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
        to_ssize(Ok(received))
    }

    /// Gives the received files descriptors of ours. On failure closes the file and writes -1.
    fn adopt_files(&self, control: &mut [u8], flags: c_int) -> Result<(), Errno> {
        let mut lost = Ok(());
        each_fd(control, &[libc::SCM_RIGHTS, SCM_PIDFD], |host_fd| {
            let taken = self.adopt(host_fd, descriptor_flags(flags));
            Ok(taken.unwrap_or_else(|errno| {
                if host_fd >= 0 {
                    host::close(host_fd);
                }
                lost = Err(errno);
                -1
            }))
        })?;
        lost
    }
}

/// Copies the control messages of the caller.
///
/// # Safety
/// If `at` can be an address, `length` bytes are there.
unsafe fn copy_control(at: *const c_void, length: usize) -> Result<Vec<u8>, Errno> {
    if length > c_int::MAX as usize {
        return Err(Errno::ENOBUFS);
    }
    // SAFETY: as the caller promises.
    unsafe { uaccess::values(at.cast::<u8>(), length) }
}

/// Replaces each descriptor in messages of some types. Stops at a malformed message: the host
/// reports the error.
fn each_fd(
    mut control: &mut [u8],
    kinds: &[c_int],
    mut replaced: impl FnMut(c_int) -> Result<c_int, Errno>,
) -> Result<(), Errno> {
    while let Some((message, rest)) = first_message(control) {
        let (head, data) = message.split_at_mut(CMSG_HEADER);
        if word(&head[8..]) == libc::SOL_SOCKET && kinds.contains(&word(&head[12..])) {
            for fd in data.chunks_exact_mut(FD_SIZE) {
                fd.copy_from_slice(&replaced(word(fd))?.to_ne_bytes());
            }
        }
        control = rest;
    }
    Ok(())
}

/// Splits the first message from the rest.
fn first_message(control: &mut [u8]) -> Option<(&mut [u8], &mut [u8])> {
    let length = control
        .first_chunk::<8>()
        .map(|length| usize::from_ne_bytes(*length))?;
    if length < CMSG_HEADER || length > control.len() {
        return None;
    }
    let next = length
        .next_multiple_of(size_of::<usize>())
        .min(control.len());
    let (message, rest) = control.split_at_mut(next);
    Some((&mut message[..length], rest))
}

fn word(bytes: &[u8]) -> c_int {
    c_int::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}
