//! Messages to the supervisor, and its answers.

use std::ffi::c_int;
use std::mem;
use std::os::fd::RawFd;

use fdtable_vfs::Errno;

use crate::host::{check, errno};

/// A message to the supervisor: what to do, a process or a descriptor, and the name of the process.
pub(super) type Message = [c_int; 3];

/// The process has begun, and is not traced.
pub(super) const WATCH: c_int = 1;

/// Pin the descriptor that comes with the message, under the given one.
pub(super) const PIN: c_int = 2;

/// Close the pinned descriptor.
pub(super) const UNPIN: c_int = 3;

/// Trace the process. The answer has 1 if it is traced, or 0.
pub(super) const TRACE: c_int = 4;

/// Do not trace the process any more: another one will.
pub(super) const RELEASE: c_int = 5;

/// Send the pinned descriptor to the socket that comes with the message.
pub(super) const GIVE: c_int = 6;

/// There are [wake-ups](WAKES).
pub(super) const WAKE: c_int = 7;

/// From the supervisor, which has begun: its id.
pub(super) const BEGUN: c_int = 8;

/// Makes two sockets for messages between processes.
pub(super) fn socket_pair() -> Result<[RawFd; 2], Errno> {
    let mut ends = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: there is room for two descriptors.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
    Ok(ends)
}

/// Room for a control message with a descriptor.
#[repr(C, align(8))]
pub(super) struct Control([u8; 24]);

/// Calls `act` with the head of a message that has these bytes and this room.
pub(super) fn with_head<R>(
    message: &mut Message,
    control: &mut Control,
    act: impl FnOnce(&mut libc::msghdr) -> R,
) -> R {
    let mut bytes = libc::iovec {
        iov_base: message.as_mut_ptr().cast(),
        iov_len: size_of::<Message>(),
    };
    // SAFETY: all zeroes is a valid value of this struct of integers and pointers.
    let mut head: libc::msghdr = unsafe { mem::zeroed() };
    head.msg_iov = &raw mut bytes;
    head.msg_iovlen = 1;
    head.msg_control = (&raw mut control.0).cast();
    head.msg_controllen = size_of::<Control>();
    act(&mut head)
}

pub(super) fn send_on(socket: RawFd, message: Message, fd: Option<RawFd>) -> bool {
    send_with(socket, message, fd, 0)
}

pub(super) fn send_with(
    socket: RawFd,
    mut message: Message,
    fd: Option<RawFd>,
    flags: c_int,
) -> bool {
    let mut control = Control([0; 24]);
    with_head(&mut message, &mut control, |head| {
        match fd {
            None => head.msg_controllen = 0,
            Some(fd) => {
                let first = head.msg_control.cast::<libc::cmsghdr>();
                let of_message = libc::cmsghdr {
                    cmsg_len: size_of::<libc::cmsghdr>() + size_of::<c_int>(),
                    cmsg_level: libc::SOL_SOCKET,
                    cmsg_type: libc::SCM_RIGHTS,
                };
                // SAFETY: there is room for it, and a descriptor behind it.
                unsafe { first.write(of_message) };
                // SAFETY: as above.
                unsafe { first.add(1).cast::<c_int>().write(fd) };
            }
        }
        loop {
            // SAFETY: the head is that of a message with these bytes and this control message.
            if unsafe { libc::sendmsg(socket, head, libc::MSG_NOSIGNAL | flags) } >= 0 {
                return true;
            }
            if errno() != Errno::EINTR {
                return false;
            }
        }
    })
}

/// Receives a message, and the descriptor that comes with it. `None` if no process can send one.
pub(super) fn receive(socket: RawFd) -> Option<(Message, Option<RawFd>)> {
    let (mut message, mut control) = ([0; 3], Control([0; 24]));
    with_head(&mut message, &mut control, |head| {
        let count = loop {
            // SAFETY: there is room for these bytes and this control message.
            let count = unsafe { libc::recvmsg(socket, head, libc::MSG_CMSG_CLOEXEC) };
            if count >= 0 || errno() != Errno::EINTR {
                break count;
            }
        };
        let has_fd = head.msg_controllen > size_of::<libc::cmsghdr>();
        // SAFETY: the host has written a descriptor there.
        let fd = has_fd.then(|| unsafe {
            head.msg_control
                .cast::<libc::cmsghdr>()
                .add(1)
                .cast::<RawFd>()
                .read()
        });
        (count > 0).then_some(fd)
    })
    .map(|fd| (message, fd))
}
