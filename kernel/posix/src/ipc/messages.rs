//! Send and receive calls: `send`, `recv` and their variants, with ancillary data.

use std::ffi::{c_int, c_uint, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::RawFd;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use fdtable::FileRef;
use fdtable_vfs::socket::{
    MessageTime, MsgFlags, OptionValue, Received, SendMessage, SocketAddress, SocketOption, Ucred,
};
use fdtable_vfs::{Errno, RcuObject};
use libc::{iovec, mmsghdr, msghdr, sockaddr, socklen_t, ssize_t};

use crate::abi::call::call;
use crate::abi::pin::LastLink;
use crate::abi::system::System;
use crate::abi::uaccess;
use crate::event::polling::duration;
use crate::fs::partial;
use crate::fs::vectored::{Buffers, import_iovec, import_iovec_mut};
use crate::host;
use crate::host::direct::words;
use crate::host::fd::without_moves;
use crate::host::file::HostFile;
use crate::ipc::addresses::{check_address, put_address};
use crate::ipc::scm_rights::{CMSG_HEADER, FD_SIZE, Head, aligned, word};
use crate::ipc::sockets::descriptor_flags;
use crate::process::closing::give_up_unless_open;

/// Sends bytes to an address: `sendto(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_sendto(
    fd: c_int,
    bytes: *const c_void,
    count: usize,
    flags: c_int,
    to: *const sockaddr,
    length: socklen_t,
) -> ssize_t {
    call(|system| {
        check_buffer_end(bytes, count)?;
        system.check_socket(fd)?;
        let send = |host_fd: RawFd, to: *const sockaddr, length: socklen_t| {
            let a = words!(host_fd, bytes, count, flags, to, length);
            // SAFETY: the address is one of the host's, or as the caller promises.
            unsafe { host::message(libc::SYS_sendto, flags, a) }
        };
        // SAFETY: as the caller promises.
        let sent = unsafe { to_host_path(system, fd, (to, length), send) }?;
        if let Some(sent) = sent {
            return Ok(sent);
        }
        if let Some(host_fd) = system.host_fd(fd)? {
            return send(host_fd.get(), to, length);
        }
        // SAFETY: as the caller promises.
        let bufs = unsafe { import_buffer(bytes, count) }?;
        // SAFETY: as the caller promises.
        let to = unsafe { destination(system, fd, to, length) }?;
        let message = SendMessage {
            to: to.as_ref(),
            ..SendMessage::default()
        };
        system.send(fd, &bufs, message, flags)
    })
}

/// Sends a message: `sendmsg(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    call(|system| {
        system.check_socket(fd)?;
        // SAFETY: as the caller promises.
        let head = unsafe { uaccess::get(message) }?;
        let to = (head.msg_name.cast_const().cast(), head.msg_namelen);
        let send = |host_fd, to: *const sockaddr, length| {
            let head = msghdr {
                msg_name: to.cast_mut().cast(),
                msg_namelen: length,
                ..head
            };
            // SAFETY: the address is one of the host's; the rest as the caller promises.
            unsafe { system.send_to_host(host_fd, &raw const head, flags) }
        };
        // SAFETY: as the caller promises.
        if let Some(sent) = unsafe { to_host_path(system, fd, to, send) }? {
            return Ok(sent);
        }
        if let Some(host_fd) = system.host_fd(fd)? {
            // SAFETY: as the caller promises.
            return unsafe { system.send_to_host(host_fd.get(), message, flags) };
        }
        // SAFETY: as the caller promises.
        let bufs = unsafe { import_iovec(head.msg_iov, buffers(&head)?) }?;
        // SAFETY: as the caller promises.
        let to = unsafe { destination(system, fd, head.msg_name.cast(), head.msg_namelen) }?;
        if head.msg_controllen > 0 && is_of(system, fd, libc::SOCK_SEQPACKET) {
            // A missing connection comes before errors of the control messages.
            system.process.getpeername(fd)?;
        }
        // SAFETY: as the caller promises.
        let outgoing = unsafe { system.read_control(&head) }?;
        let message = SendMessage {
            bytes: &[],
            to: to.as_ref(),
            rights: outgoing.files,
            credentials: outgoing.credentials,
            sender: None,
        };
        system.send(fd, &bufs, message, flags)
    })
}

/// Receives bytes, and the sender's address: `recvfrom(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_recvfrom(
    fd: c_int,
    buf: *mut c_void,
    count: usize,
    flags: c_int,
    from: *mut sockaddr,
    length: *mut socklen_t,
) -> ssize_t {
    call(|system| {
        check_buffer_end(buf, count)?;
        if let Some(host_fd) = system.host_fd(fd)? {
            let a = words!(host_fd.get(), buf, count, flags, from, length);
            // SAFETY: as the caller promises.
            return unsafe { host::message(libc::SYS_recvfrom, flags, a) };
        }
        system.process.getsockname(fd)?;
        let used = partial::receive_limit(system, fd, count, flags);
        // SAFETY: as the caller promises.
        let bufs = unsafe { import_buffer_mut(buf, count, used) }?;
        let received = system.receive(fd, bufs, flags)?;
        if !from.is_null() {
            let sender = received.from.unwrap_or(SocketAddress::Unnamed);
            // SAFETY: as the caller promises.
            unsafe { put_sender(&sender, from, length) }?;
        }
        Ok(received.count)
    })
}

/// Receives a message: `recvmsg(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    call(|system| {
        if let Some(host_fd) = system.host_fd(fd)? {
            // SAFETY: as the caller promises.
            return unsafe { system.receive_from_host(host_fd.get(), message, flags) };
        }
        system.process.getsockname(fd)?;
        // SAFETY: as the caller promises.
        let mut head = unsafe { uaccess::get(message) }?;
        let limit = |count| partial::receive_limit(system, fd, count, flags);
        // SAFETY: as the caller promises.
        let bufs = unsafe { import_iovec_mut(head.msg_iov, buffers(&head)?, limit) }?;
        let received = system.receive(fd, bufs, flags)?;
        let count = received.count;
        // SAFETY: as the caller promises.
        unsafe { system.write_received(&mut head, received, flags) }?;
        // SAFETY: as the caller promises.
        unsafe { uaccess::put(message, head) }?;
        Ok(count)
    })
}

/// Sends several messages: `sendmmsg(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    call(|system| {
        system.file(fd)?;
        // SAFETY: as the caller promises.
        let send = |message: *mut msghdr| unsafe { fdt_sendmsg(fd, message, flags) };
        // SAFETY: as the caller promises.
        unsafe { each_message(messages, count, send, || false) }
    })
}

/// Receives several messages: `recvmmsg(2)`. The timeout is checked after each message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut libc::timespec,
) -> c_int {
    call(|system| {
        system.file(fd)?;
        // SAFETY: as the caller promises.
        let limit = unsafe { duration(timeout) }?;
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut each = flags & !libc::MSG_WAITFORONE;
        let receive = |message| {
            // SAFETY: as the caller promises.
            let length = unsafe { fdt_recvmsg(fd, message, each) };
            if flags & libc::MSG_WAITFORONE != 0 {
                each |= libc::MSG_DONTWAIT;
            }
            length
        };
        let is_late = || deadline.is_some_and(|deadline| deadline <= Instant::now());
        // SAFETY: as the caller promises.
        unsafe { each_message(messages, count, receive, is_late) }
    })
}

/// Transfers each message of an array, at most 1,024 as on the host, and returns how many. After
/// each, asks whether it was the last.
///
/// # Errors
/// `EFAULT`; that of the first transfer.
///
/// # Safety
/// If `messages` can be an address, `count` headers are there.
unsafe fn each_message(
    messages: *mut mmsghdr,
    count: c_uint,
    mut transfer: impl FnMut(*mut msghdr) -> ssize_t,
    is_last: impl Fn() -> bool,
) -> Result<c_int, Errno> {
    let count = count.min(1024);
    if count > 0 {
        uaccess::check(messages, count as usize)?;
    }
    for index in 0..count {
        // SAFETY: as the caller promises; the index is below `count`.
        let message = unsafe { messages.add(index as usize) };
        // SAFETY: as above.
        let length = transfer(unsafe { &raw mut (*message).msg_hdr });
        if length < 0 {
            let done = (index > 0).then_some(index as c_int);
            return done.ok_or_else(host::errno);
        }
        // SAFETY: as above.
        unsafe { uaccess::put(&raw mut (*message).msg_len, length as c_uint) }?;
        if is_last() {
            return Ok(index as c_int + 1);
        }
    }
    Ok(count as c_int)
}

/// Returns the one buffer of a call that reads from it.
///
/// # Errors
/// `EFAULT` if it is above the address space.
///
/// # Safety
/// As for [`uaccess::bytes`].
unsafe fn import_buffer<'a>(
    at: *const c_void,
    count: usize,
) -> Result<Buffers<[IoSlice<'a>; 1]>, Errno> {
    let buf = check_buffer_end(at, count)?;
    // SAFETY: as the caller promises.
    let bytes = unsafe { uaccess::bytes(at, buf.iov_len) };
    // SAFETY: as the caller promises.
    Ok(unsafe { Buffers::new(bytes.map(|bytes| [IoSlice::new(bytes)]), &[buf], false) })
}

/// Returns the one buffer of a call that writes to its first `used` bytes.
///
/// # Errors
/// `EFAULT` if it is above the address space.
///
/// # Safety
/// As for [`uaccess::bytes_mut`].
unsafe fn import_buffer_mut<'a>(
    at: *mut c_void,
    count: usize,
    used: usize,
) -> Result<Buffers<[IoSliceMut<'a>; 1]>, Errno> {
    let buf = check_buffer_end(at, count)?;
    // SAFETY: as the caller promises.
    let bytes = unsafe { uaccess::bytes_mut(at, buf.iov_len.min(used)) };
    // SAFETY: as the caller promises.
    Ok(unsafe { Buffers::new(bytes.map(|bytes| [IoSliceMut::new(bytes)]), &[buf], true) })
}

/// Returns what one message moves of a buffer.
///
/// # Errors
/// `EFAULT` if it is above the address space.
#[inline]
fn check_buffer_end(at: *const c_void, count: usize) -> Result<iovec, Errno> {
    let iov_len = count.min(uaccess::MAX_RW_COUNT);
    uaccess::check_range_end(at.cast::<u8>(), iov_len)?;
    let iov_base = at.cast_mut();
    Ok(iovec { iov_base, iov_len })
}

/// Returns true if a descriptor is a socket of this type.
fn is_of(system: &System, fd: c_int, kind: c_int) -> bool {
    let found = system.process.getsockopt(fd, SocketOption::Type);
    found == Ok(OptionValue::Number(kind))
}

/// Ancillary data to send.
#[derive(Default)]
struct Outgoing {
    files: Vec<FileRef<RcuObject>>,
    credentials: Option<Ucred>,
}

impl System {
    /// Sends a message with the bytes of the caller's buffers.
    fn send<'a>(
        &self,
        fd: c_int,
        bufs: &'a Buffers<impl AsRef<[IoSlice<'a>]>>,
        message: SendMessage<'a>,
        flags: c_int,
    ) -> Result<usize, Errno> {
        let known = MsgFlags::from_bits_truncate(flags.cast_unsigned());
        let sent = match bufs {
            Buffers::Whole(bytes) => {
                let bytes = bytes.as_ref();
                let message = SendMessage { bytes, ..message };
                self.process.sendmsg(fd, message, known)
            }
            Buffers::Partial(bufs) => partial::send(self, fd, bufs, message, known),
        };
        match known.contains(MsgFlags::NOSIGNAL) {
            true => sent,
            false => self.signal_on_error(fd, sent),
        }
    }

    fn receive<'a>(
        &self,
        fd: c_int,
        bufs: Buffers<impl AsMut<[IoSliceMut<'a>]>>,
        flags: c_int,
    ) -> Result<Received, Errno> {
        let known = MsgFlags::from_bits_truncate(flags.cast_unsigned()) - MsgFlags::CMSG_CLOEXEC;
        match bufs {
            Buffers::Whole(mut bufs) => self.process.recvmsg(fd, bufs.as_mut(), known),
            Buffers::Partial(bufs) => partial::receive(self, fd, &bufs, known),
        }
    }

    /// Reads the control messages of the caller: files and credentials.
    ///
    /// # Errors
    /// `EINVAL` if one is malformed or unknown; `EBADF` if a descriptor is not open; `EPERM` if the
    /// credentials are not the sender's.
    ///
    /// # Safety
    /// As for `sendmsg`.
    unsafe fn read_control(&self, head: &msghdr) -> Result<Outgoing, Errno> {
        let mut outgoing = Outgoing::default();
        if head.msg_controllen == 0 {
            return Ok(outgoing);
        }
        // SAFETY: as the caller promises.
        let control = unsafe { uaccess::bytes(head.msg_control, head.msg_controllen) }?;
        let mut rest = control;
        while rest.len() >= CMSG_HEADER {
            let head = Head::of(rest).ok_or(Errno::EINVAL)?;
            // Messages of other levels are ignored.
            if head.level == libc::SOL_SOCKET {
                self.add_control(head.kind, &rest[CMSG_HEADER..head.length], &mut outgoing)?;
            }
            rest = &rest[head.next()..];
        }
        Ok(outgoing)
    }

    fn add_control(&self, kind: c_int, data: &[u8], outgoing: &mut Outgoing) -> Result<(), Errno> {
        match kind {
            libc::SCM_RIGHTS => {
                let fds = data.chunks_exact(FD_SIZE);
                if outgoing.files.len() + fds.len() > SCM_MAX_FD {
                    return Err(Errno::EINVAL);
                }
                for fd in fds {
                    let file = self.file(word(fd))?;
                    if let Some(host_file) = HostFile::below(&**file) {
                        host_file.send()?;
                    }
                    outgoing.files.push(file);
                }
                Ok(())
            }
            libc::SCM_CREDENTIALS if data.len() == 12 => {
                let [pid, uid, gid] = [0, 4, 8].map(|at| word(&data[at..]));
                let (uid, gid) = (uid.cast_unsigned(), gid.cast_unsigned());
                let claimed = self.process.may_claim(Ucred { pid, uid, gid })?;
                if pid <= 0 || !host::is_alive(pid) {
                    return Err(Errno::ESRCH);
                }
                outgoing.credentials = Some(claimed);
                Ok(())
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Writes the address and the ancillary data of a received message to the caller.
    ///
    /// # Safety
    /// As for `recvmsg`.
    unsafe fn write_received(
        &self,
        head: &mut msghdr,
        received: Received,
        flags: c_int,
    ) -> Result<(), Errno> {
        head.msg_flags = received.flags.bits().cast_signed() | flags & libc::MSG_CMSG_CLOEXEC;
        let name = received.from.unwrap_or(SocketAddress::Unnamed);
        if head.msg_name.is_null() {
            head.msg_namelen = 0;
        } else {
            let length = &raw mut head.msg_namelen;
            // SAFETY: as the caller promises.
            unsafe { put_sender(&name, head.msg_name.cast(), length) }?;
        }
        let room = if head.msg_control.is_null() {
            0
        } else {
            head.msg_controllen
        };
        // SAFETY: as the caller promises.
        let room = unsafe { uaccess::bytes_mut(head.msg_control, room) }?;
        let mut writer = Writer {
            room,
            filled: 0,
            cut: false,
        };
        if let Some(time) = received.time {
            put_time(time, &mut writer);
        }
        if let Some(Ucred { pid, uid, gid }) = received.credentials {
            let words = [pid.cast_unsigned(), uid, gid].map(u32::to_ne_bytes);
            writer.put(libc::SCM_CREDENTIALS, words.as_flattened());
        }
        self.install_files(received.rights, flags, &mut writer)?;
        head.msg_controllen = writer.filled;
        if writer.cut {
            head.msg_flags |= libc::MSG_CTRUNC;
        }
        Ok(())
    }

    /// Installs received files, as many as the caller has room for.
    fn install_files(
        &self,
        mut files: Vec<FileRef<RcuObject>>,
        flags: c_int,
        writer: &mut Writer<'_>,
    ) -> Result<(), Errno> {
        if files.is_empty() {
            return Ok(());
        }
        let room = writer.left().saturating_sub(CMSG_HEADER) / size_of::<c_int>();
        if room < files.len() {
            files.truncate(room);
            writer.cut = true;
        }
        if files.is_empty() {
            return Ok(());
        }
        let (fds, lost) = {
            let _alone = without_moves(self.process);
            let is_hosts = |file: &&FileRef<RcuObject>| HostFile::below(&****file).is_some();
            // As on the host: those after one without a descriptor are lost.
            let is_here = |file: &&FileRef<RcuObject>| {
                HostFile::below(&****file).is_none_or(HostFile::receive)
            };
            let count = files.iter().take_while(is_here).count();
            writer.cut |= count < files.len();
            files.truncate(count);
            let received: Vec<_> = files.iter().filter(is_hosts).cloned().collect();
            let (fds, lost) = self
                .process
                .install_rights(files, descriptor_flags(flags))?;
            if !lost.is_empty() {
                received
                    .iter()
                    .for_each(|file| give_up_unless_open(self, file));
            }
            (fds, lost)
        };
        writer.cut |= !lost.is_empty();
        let raw: Vec<[u8; 4]> = fds.iter().map(|fd| fd.raw().to_ne_bytes()).collect();
        if !raw.is_empty() {
            writer.put(libc::SCM_RIGHTS, raw.as_flattened());
        }
        Ok(())
    }
}

/// Maximum number of files in one message.
const SCM_MAX_FD: usize = 253;

/// Writes control messages to the caller's buffer.
struct Writer<'a> {
    room: &'a mut [u8],
    filled: usize,
    /// True if something did not fit.
    cut: bool,
}

impl Writer<'_> {
    fn left(&self) -> usize {
        self.room.len() - self.filled
    }

    /// Writes a control message, truncated to the room there is.
    fn put(&mut self, kind: c_int, data: &[u8]) {
        let left = self.left();
        if left < CMSG_HEADER {
            self.cut = true;
            return;
        }
        let length = (CMSG_HEADER + data.len()).min(left);
        self.cut |= length < CMSG_HEADER + data.len();
        let place = &mut self.room[self.filled..self.filled + length];
        place[..8].copy_from_slice(&length.to_ne_bytes());
        place[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
        place[12..16].copy_from_slice(&kind.to_ne_bytes());
        place[CMSG_HEADER..].copy_from_slice(&data[..length - CMSG_HEADER]);
        self.filled = (self.filled + aligned(length)).min(self.room.len());
    }
}

/// Writes the current time: Linux stamps a message when it is received.
fn put_time(form: MessageTime, writer: &mut Writer<'_>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let (kind, fraction) = match form {
        MessageTime::Nanos => (libc::SCM_TIMESTAMPNS, now.subsec_nanos()),
        MessageTime::Micros => (libc::SO_TIMESTAMP, now.subsec_micros()),
    };
    let words = [now.as_secs(), fraction.into()].map(u64::to_ne_bytes);
    writer.put(kind, words.as_flattened());
}

/// Reads the destination of a message, if there is one.
///
/// # Safety
/// If `to` can be an address in memory, `length` bytes are there.
unsafe fn destination(
    system: &System,
    fd: c_int,
    to: *const sockaddr,
    length: socklen_t,
) -> Result<Option<SocketAddress>, Errno> {
    if to.is_null() || length == 0 {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    unsafe { check_address(to, length) }?;
    if !is_of(system, fd, libc::SOCK_DGRAM) {
        // Whatever the address is, a stream has no destination, and a connection ignores it.
        return Ok(Some(SocketAddress::Unnamed));
    }
    // SAFETY: as the caller promises.
    match unsafe { system.address(to, length) }? {
        SocketAddress::Unnamed => Err(Errno::EINVAL),
        address => Ok(Some(address)),
    }
}

/// Sends a message to a path of the host, if the destination is one and the socket has messages
/// with destinations. See [`System::on_host_path`].
///
/// # Errors
/// Errors of [`System::on_host_path`].
///
/// # Safety
/// If `to` can be an address in memory, `length` bytes are there.
unsafe fn to_host_path<R>(
    system: &System,
    fd: c_int,
    (to, length): (*const sockaddr, socklen_t),
    send: impl FnOnce(RawFd, *const sockaddr, socklen_t) -> Result<R, Errno>,
) -> Result<Option<R>, Errno> {
    if to.is_null() || length == 0 {
        return Ok(None);
    }
    // In this order: another thread may make it one of the host meanwhile.
    let has_messages = is_of(system, fd, libc::SOCK_DGRAM);
    if !has_messages && HostFile::below(&**system.file(fd)?).is_none() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    unsafe { system.on_host_path(fd, (to, length), LastLink::Follow, send) }
}

/// Writes the sender's address of a message. A sender without a name has an empty address.
///
/// # Safety
/// As for [`put_address`].
unsafe fn put_sender(
    sender: &SocketAddress,
    to: *mut sockaddr,
    length: *mut socklen_t,
) -> Result<(), Errno> {
    if *sender == SocketAddress::Unnamed {
        // SAFETY: as the caller promises.
        return unsafe { uaccess::put(length, 0) };
    }
    // SAFETY: as the caller promises.
    unsafe { put_address(sender, to, length) }
}

/// Returns the number of buffers of a message.
fn buffers(head: &msghdr) -> Result<c_int, Errno> {
    // A message with too many buffers has another error than a transfer.
    if head.msg_iovlen > 1024 {
        return Err(Errno::EMSGSIZE);
    }
    Ok(head.msg_iovlen as c_int)
}
