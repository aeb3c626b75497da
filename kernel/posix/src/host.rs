//! Calls of the host's kernel, with errors as values. The modules have the files of the host.
//!
//! A call that may block leaves the freezer while it blocks, so a fork by another thread does not
//! wait for it.

pub(crate) mod calls;
pub(crate) mod direct;
pub(crate) mod epoll;
pub(crate) mod file;
pub(crate) mod in_use;
pub(crate) mod lower;
pub(crate) mod memfd;
pub(crate) mod number;
pub(crate) mod other_files;
mod scm_rights;
pub(crate) mod watch;

use std::ffi::{CStr, CString, c_int, c_long, c_uint, c_ulong, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::time::Duration;

use fdtable::host_fork;
use fdtable_vfs::Errno;

use crate::abi::call::errno;
use crate::abi::target::HostPath;
use direct::{Wait, direct, transfer};

pub use calls::{
    fdt_name_to_handle_at, fdt_open_by_handle_at, fdt_pidfd_getfd, fdt_pidfd_open,
    fdt_pidfd_send_signal,
};
pub use other_files::*;

/// Host descriptor, which is closed at the end.
#[derive(Debug)]
pub(crate) struct HostFd(pub(crate) RawFd);

impl HostFd {
    /// Returns the descriptor, which stays open.
    pub(crate) fn into_raw(self) -> RawFd {
        std::mem::ManuallyDrop::new(self).0
    }
}

impl Drop for HostFd {
    fn drop(&mut self) {
        close(self.0);
    }
}

/// Converts a return value of the C library to a result.
pub(crate) fn check<N: Copy + PartialEq + From<i8>>(result: N) -> Result<N, Errno> {
    if result == N::from(-1) {
        return Err(errno());
    }
    Ok(result)
}

/// Runs a call that may block. Reads errno before entering the freezer again, which may change
/// errno.
pub(crate) fn blocking<R>(call: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
    let _out = host_fork::blocking_section();
    without_cancellation(call)
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// State that the `libc` crate does not define.
const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// Runs a call of the C library with thread cancellation disabled. A thread that is cancelled in
/// the call would unwind through functions of this library, which aborts the process.
fn without_cancellation<R>(call: impl FnOnce() -> R) -> R {
    let mut before = 0;
    // SAFETY: there is room for the previous state.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
    let result = call();
    // SAFETY: it restores the previous state.
    unsafe { pthread_setcancelstate(before, &raw mut before) };
    result
}

/// Opens a path relative to `directory`.
pub(crate) fn openat(
    directory: RawFd,
    path: &CStr,
    flags: c_int,
    mode: libc::mode_t,
) -> Result<RawFd, Errno> {
    let _out = host_fork::blocking_section();
    openat_inside(directory, path, flags, mode)
}

/// Opens a path relative to `directory`. Does not leave the freezer.
pub(crate) fn openat_inside(
    directory: RawFd,
    path: &CStr,
    flags: c_int,
    mode: libc::mode_t,
) -> Result<RawFd, Errno> {
    // A host descriptor must never survive the host's `exec`, whatever the flags of our descriptor.
    let flags = flags | libc::O_CLOEXEC;
    // SAFETY: the path is a C string.
    let fd = unsafe {
        direct!(
            Wait::Never,
            libc::SYS_openat,
            directory,
            path.as_ptr(),
            flags,
            mode
        )
    };
    fd.map(|fd| fd as RawFd)
}

/// Argument of `openat2` (`struct open_how`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct OpenHow {
    pub(crate) flags: u64,
    pub(crate) mode: u64,
    pub(crate) resolve: u64,
}

/// Opens a path relative to `directory` by a struct. Does not leave the freezer.
pub(crate) fn openat2_inside(directory: RawFd, path: &CStr, how: OpenHow) -> Result<HostFd, Errno> {
    let how = OpenHow {
        flags: how.flags | libc::O_CLOEXEC as u64,
        ..how
    };
    // SAFETY: the path is a C string, and the struct has the layout of the call.
    let fd = unsafe {
        direct!(
            Wait::Never,
            libc::SYS_openat2,
            directory,
            path.as_ptr(),
            &raw const how,
            size_of::<OpenHow>()
        )
    };
    fd.map(|fd| HostFd(fd as RawFd))
}

/// Opens a path relative to `directory` as `openat` does, but fails with `ELOOP` if there is a
/// symbolic link on it.
pub(crate) fn open_without_links(
    directory: RawFd,
    path: &CStr,
    flags: c_int,
    mode: libc::mode_t,
) -> Result<HostFd, Errno> {
    // `openat2` checks what `openat` ignores.
    let flags = match flags & libc::O_PATH {
        0 => flags & OPEN_FLAGS,
        _ => flags & (libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW),
    };
    let makes = libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY);
    let mode = match flags & makes {
        0 => 0,
        _ => mode & 0o7777,
    };
    let how = OpenHow {
        flags: flags.cast_unsigned().into(),
        mode: mode.into(),
        resolve: libc::RESOLVE_NO_SYMLINKS,
    };
    let _out = host_fork::blocking_section();
    openat2_inside(directory, path, how)
}

/// Flags of an open that the host knows, and no others.
pub(crate) const OPEN_FLAGS: c_int = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_NOCTTY
    | libc::O_TRUNC
    | libc::O_APPEND
    | libc::O_NONBLOCK
    | libc::O_SYNC
    | libc::O_ASYNC
    | libc::O_DIRECT
    | libc::O_DIRECTORY
    | libc::O_NOFOLLOW
    | libc::O_NOATIME
    | libc::O_CLOEXEC
    | libc::O_PATH
    | libc::O_TMPFILE
    | O_LARGEFILE;

/// The kernel's flag, which is 0 in the C library on 64-bit machines.
#[cfg(target_arch = "x86_64")]
const O_LARGEFILE: c_int = 0o100_000;
#[cfg(not(target_arch = "x86_64"))]
const O_LARGEFILE: c_int = 0o400_000;

/// Reads from a position. Does not leave the freezer.
pub(crate) fn pread_inside(fd: RawFd, buf: &mut [u8], offset: i64) -> Result<usize, Errno> {
    // SAFETY: the pointer and the length are those of a slice.
    let count = unsafe {
        direct!(
            Wait::Never,
            libc::SYS_pread64,
            fd,
            buf.as_mut_ptr(),
            buf.len(),
            offset
        )
    };
    count.map(|count| count as usize)
}

/// Returns the target of a symbolic link.
pub(crate) fn readlink(path: &CStr) -> Result<Vec<u8>, Errno> {
    readlinkat(libc::AT_FDCWD, path)
}

/// Returns the target of a symbolic link, with a path relative to `directory`. Does not leave the
/// freezer.
pub(crate) fn readlinkat(directory: RawFd, path: &CStr) -> Result<Vec<u8>, Errno> {
    let mut target = vec![0; libc::PATH_MAX as usize];
    // SAFETY: the path is a C string, and the buffer has this length.
    let length = unsafe {
        direct!(
            Wait::Never,
            libc::SYS_readlinkat,
            directory,
            path.as_ptr(),
            target.as_mut_ptr(),
            target.len()
        )
    }?;
    target.truncate(length as usize);
    Ok(target)
}

/// Returns the absolute path without symbolic links.
pub(crate) fn real_path(path: &CStr) -> Result<CString, Errno> {
    // SAFETY: the path is a C string, and the result is allocated.
    let found = check_pointer(unsafe { libc::realpath(path.as_ptr(), std::ptr::null_mut()) })?;
    // SAFETY: the call returned a C string.
    let path = unsafe { CStr::from_ptr(found) }.to_owned();
    free(found.cast());
    Ok(path)
}

/// Closes a host descriptor.
pub(crate) fn close(fd: RawFd) {
    // SAFETY: the call takes no pointer. An error has no receiver.
    without_cancellation(|| unsafe { libc::close(fd) });
}

/// Reads. May block.
#[inline]
pub(crate) fn read(fd: RawFd, wait: Wait, buf: &mut [u8]) -> Result<usize, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: the pointer and the length are those of a slice.
    transferred(unsafe {
        transfer!(
            wait,
            (fd, libc::POLLIN),
            libc::SYS_read,
            fd,
            buf.as_mut_ptr(),
            buf.len()
        )
    })
}

/// Writes. May block.
#[inline]
pub(crate) fn write(fd: RawFd, wait: Wait, bytes: &[u8]) -> Result<usize, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: as in `read`.
    transferred(unsafe {
        transfer!(
            wait,
            (fd, libc::POLLOUT),
            libc::SYS_write,
            fd,
            bytes.as_ptr(),
            bytes.len()
        )
    })
}

/// Sends to an address, or to the peer. May block.
///
/// # Safety
/// That of `sendto(2)`.
#[inline]
pub(crate) unsafe fn sendto(
    fd: RawFd,
    bytes: *const c_void,
    count: usize,
    flags: c_int,
    to: *const libc::sockaddr,
    length: libc::socklen_t,
) -> Result<usize, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    transferred(unsafe {
        transfer!(
            Wait::of(flags),
            (fd, libc::POLLOUT),
            libc::SYS_sendto,
            fd,
            bytes,
            count,
            flags,
            to,
            length
        )
    })
}

/// Receives, with the address of the sender. May block.
///
/// # Safety
/// That of `recvfrom(2)`.
#[inline]
pub(crate) unsafe fn recvfrom(
    fd: RawFd,
    buf: *mut c_void,
    count: usize,
    flags: c_int,
    from: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
) -> Result<usize, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    transferred(unsafe {
        transfer!(
            Wait::of(flags),
            (fd, libc::POLLIN),
            libc::SYS_recvfrom,
            fd,
            buf,
            count,
            flags,
            from,
            length
        )
    })
}

/// Accepts a connection. May block.
///
/// # Safety
/// That of `accept4(2)`.
pub(crate) unsafe fn accept4(
    fd: RawFd,
    address: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
    flags: c_int,
) -> Result<RawFd, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    let accepted = unsafe {
        transfer!(
            Wait::Possible,
            (fd, libc::POLLIN),
            libc::SYS_accept4,
            fd,
            address,
            length,
            flags
        )
    };
    accepted.map(|accepted| accepted as RawFd)
}

/// Connects a socket. May block.
///
/// # Safety
/// That of `connect(2)`.
pub(crate) unsafe fn connect(
    fd: RawFd,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> Result<c_int, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    unsafe { direct!(Wait::Never, libc::SYS_connect, fd, address, length) }.map(|_| 0)
}

/// Sets an option of a socket.
pub(crate) fn set_option<T>(fd: RawFd, name: c_int, value: &T) -> Result<(), Errno> {
    let (at, length) = (std::ptr::from_ref(value).cast(), size_of::<T>());
    // SAFETY: the pointer and the length are those of a value, which the host checks.
    done(unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, name, at, length as libc::socklen_t) })
        .map(drop)
}

/// Sends a message. May block.
///
/// # Safety
/// That of `sendmsg(2)`.
pub(crate) unsafe fn sendmsg(
    fd: RawFd,
    message: *const libc::msghdr,
    flags: c_int,
) -> Result<isize, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    let sent = unsafe {
        transfer!(
            Wait::of(flags),
            (fd, libc::POLLOUT),
            libc::SYS_sendmsg,
            fd,
            message,
            flags
        )
    };
    sent.map(|sent| sent as isize)
}

/// Receives a message. May block.
///
/// # Safety
/// That of `recvmsg(2)`.
pub(crate) unsafe fn recvmsg(
    fd: RawFd,
    message: *mut libc::msghdr,
    flags: c_int,
) -> Result<isize, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    let received = unsafe {
        transfer!(
            Wait::of(flags),
            (fd, libc::POLLIN),
            libc::SYS_recvmsg,
            fd,
            message,
            flags
        )
    };
    received.map(|received| received as isize)
}

fn transferred(result: Result<c_long, Errno>) -> Result<usize, Errno> {
    result.map(|count| count as usize)
}

/// Reads at an offset. May block.
pub(crate) fn pread(fd: RawFd, buf: &mut [u8], offset: i64) -> Result<usize, Errno> {
    let _out = host_fork::blocking_section();
    pread_inside(fd, buf, offset)
}

/// Writes at an offset. May block.
pub(crate) fn pwrite(fd: RawFd, bytes: &[u8], offset: i64) -> Result<usize, Errno> {
    let _out = host_fork::blocking_section();
    // SAFETY: the pointer and the length are those of a slice.
    transferred(unsafe {
        direct!(
            Wait::Never,
            libc::SYS_pwrite64,
            fd,
            bytes.as_ptr(),
            bytes.len(),
            offset
        )
    })
}

/// Moves the position.
pub(crate) fn lseek(fd: RawFd, offset: i64, whence: c_int) -> Result<u64, Errno> {
    // SAFETY: the call takes no pointer.
    check(unsafe { libc::lseek(fd, offset, whence) }).map(|position| position as u64)
}

/// Runs a command of `fcntl` whose argument is an integer.
pub(crate) fn fcntl(fd: RawFd, command: c_int, argument: c_int) -> Result<c_int, Errno> {
    // SAFETY: callers pass only commands with an integer or no argument.
    check(unsafe { libc::fcntl(fd, command, argument) })
}

/// Runs a command of `fcntl` whose argument may be a pointer. May block.
///
/// # Safety
/// The argument is what `fcntl(2)` expects.
pub(crate) unsafe fn fcntl_pointer(
    fd: RawFd,
    command: c_int,
    argument: c_ulong,
) -> Result<c_int, Errno> {
    let wait = match command {
        libc::F_SETLKW | libc::F_OFD_SETLKW => Wait::Possible,
        _ => Wait::Never,
    };
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    let result = unsafe { direct!(wait, libc::SYS_fcntl, fd, command, argument as usize) };
    result.map(|result| result as c_int)
}

/// Returns the status of an open file.
pub(crate) fn fstat(fd: RawFd) -> Result<libc::stat, Errno> {
    let mut stat = MaybeUninit::uninit();
    // SAFETY: there is room for the result.
    check(unsafe { libc::fstat(fd, stat.as_mut_ptr()) })?;
    // SAFETY: the call has initialized it.
    Ok(unsafe { stat.assume_init() })
}

/// Sets the size of a file.
pub(crate) fn ftruncate(fd: RawFd, length: i64) -> Result<(), Errno> {
    // SAFETY: the call takes no pointer.
    check(unsafe { libc::ftruncate(fd, length) }).map(drop)
}

/// Waits until the file is on stable storage.
pub(crate) fn fsync(fd: RawFd) -> Result<(), Errno> {
    // SAFETY: the call takes no pointer.
    blocking(|| check(unsafe { libc::fsync(fd) })).map(drop)
}

/// Returns the number of readable bytes.
pub(crate) fn readable_bytes(fd: RawFd) -> Result<usize, Errno> {
    let mut bytes: c_int = 0;
    // SAFETY: the request writes one `int`.
    check(unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut bytes) })?;
    Ok(bytes.max(0) as usize)
}

/// Returns the events that a descriptor is ready for, without blocking.
pub(crate) fn ready(fd: RawFd, events: i16) -> Result<i16, Errno> {
    let mut entry = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: the pointer is to one entry.
    without_cancellation(|| check(unsafe { libc::poll(&raw mut entry, 1, 0) }))?;
    Ok(entry.revents)
}

/// Returns the working directory, or the root if it has no path.
pub(crate) fn current_directory() -> Vec<u8> {
    use std::os::unix::ffi::OsStringExt;
    std::env::current_dir().map_or_else(|_| b"/".to_vec(), |path| path.into_os_string().into_vec())
}

/// Returns a limit of the process.
pub(crate) fn limit(resource: libc::__rlimit_resource_t) -> Result<libc::rlimit, Errno> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: there is room for the result.
    check(unsafe { libc::getrlimit(resource, &raw mut limit) })?;
    Ok(limit)
}

/// Makes a system call that this library does not implement. May block.
///
/// # Safety
/// The arguments are those that the system call expects.
pub(crate) unsafe fn syscall(number: c_long, arguments: [c_long; 6]) -> Result<c_long, Errno> {
    let wait = match number {
        libc::SYS_wait4 | libc::SYS_waitid | libc::SYS_mq_timedreceive | libc::SYS_mq_timedsend => {
            Wait::Possible
        }
        libc::SYS_io_getevents | libc::SYS_rt_sigtimedwait | libc::SYS_pause => Wait::Possible,
        _ => Wait::Never,
    };
    let _out = host_fork::blocking_section();
    // SAFETY: as the caller promises.
    unsafe { direct::call(wait, number, arguments) }
}

/// Returns the supplementary groups of the host process.
pub(crate) fn groups() -> Result<Vec<libc::gid_t>, Errno> {
    // SAFETY: without room, the call returns the number of groups.
    let count = done(unsafe { libc::getgroups(0, std::ptr::null_mut()) })?;
    let mut groups = vec![0; count as usize];
    // SAFETY: there is room for `count` groups.
    let count = done(unsafe { libc::getgroups(count, groups.as_mut_ptr()) })?;
    groups.truncate(count as usize);
    Ok(groups)
}

/// Sends a signal to the calling thread, as the host does on a write without a reader. The handler
/// runs outside the freezer, because it may leave by `siglongjmp`.
pub(crate) fn raise(signal: c_int) {
    let _out = host_fork::blocking_section();
    // SAFETY: the call takes no pointer.
    unsafe { libc::raise(signal) };
}

/// Maps anonymous memory.
pub(crate) fn map_anonymous(
    at: *mut c_void,
    length: usize,
    flags: c_int,
) -> Result<*mut c_void, Errno> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = flags & !libc::MAP_SHARED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the program chose the address, as with the host's own `mmap`.
    let place = unsafe { libc::mmap(at, length, protection, flags, -1, 0) };
    if place == libc::MAP_FAILED {
        return Err(errno());
    }
    Ok(place)
}

/// Renames a file.
pub(crate) fn renameat2(old: &HostPath<'_>, new: &HostPath<'_>, flags: u32) -> Result<(), Errno> {
    // SAFETY: the paths are C strings.
    check(unsafe {
        libc::renameat2(
            old.directory().get(),
            old.as_ptr(),
            new.directory().get(),
            new.as_ptr(),
            flags,
        )
    })
    .map(drop)
}

/// Returns the status of a path.
pub(crate) fn fstatat(directory: RawFd, path: &CStr, flags: c_int) -> Result<libc::stat, Errno> {
    let mut stat = MaybeUninit::uninit();
    // SAFETY: the path is a C string, and there is room for the result.
    check(unsafe { libc::fstatat(directory, path.as_ptr(), stat.as_mut_ptr(), flags) })?;
    // SAFETY: the call has initialized it.
    Ok(unsafe { stat.assume_init() })
}

/// Checks permissions on a path.
pub(crate) fn faccessat(
    directory: RawFd,
    path: &CStr,
    mode: c_int,
    flags: c_int,
) -> Result<(), Errno> {
    let path = path.as_ptr();
    let call = match flags & libc::AT_EMPTY_PATH {
        // SAFETY: the path is a C string.
        0 => check(unsafe { libc::faccessat(directory, path, mode, flags) }.into()),
        // Not every C library passes this flag on.
        // SAFETY: as above.
        _ => unsafe {
            direct!(
                Wait::Never,
                libc::SYS_faccessat2,
                directory,
                path,
                mode,
                flags
            )
        },
    };
    call.map(drop)
}

/// Creates an epoll.
pub(crate) fn epoll_create() -> Result<RawFd, Errno> {
    // SAFETY: the call takes no pointer.
    check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
}

/// Adds, changes or removes a file of an epoll.
pub(crate) fn epoll_control(
    epoll: RawFd,
    operation: c_int,
    fd: RawFd,
    event: Option<libc::epoll_event>,
) -> Result<(), Errno> {
    let mut event = event.unwrap_or(libc::epoll_event { events: 0, u64: 0 });
    // SAFETY: the entry is valid during the call.
    check(unsafe { libc::epoll_ctl(epoll, operation, fd, &raw mut event) }).map(drop)
}

/// Waits for events of an epoll, at most `most`. A signal mask applies while it waits. May block.
///
/// # Safety
/// If `events` can be an address, there is room for `most` events.
pub(crate) unsafe fn epoll_wait_in(
    epoll: RawFd,
    events: *mut libc::epoll_event,
    most: usize,
    timeout: Option<Duration>,
    mask: Option<&libc::sigset_t>,
) -> Result<usize, Errno> {
    let mask = mask.map_or(std::ptr::null(), std::ptr::from_ref);
    let in_milliseconds = |possible: Wait, milliseconds: c_int| {
        // SAFETY: as the caller promises.
        unsafe {
            direct!(
                possible,
                libc::SYS_epoll_pwait,
                epoll,
                events,
                most,
                milliseconds,
                mask,
                SIGNAL_MASK_SIZE,
            )
        }
    };
    let wait = |timeout: Option<Duration>| {
        let possible = Wait::within(timeout);
        if let Some(milliseconds) = timeout.map_or(Some(-1), whole_milliseconds) {
            return in_milliseconds(possible, milliseconds);
        }
        let timeout = timespec(timeout.unwrap_or(Duration::MAX));
        // SAFETY: as above.
        let waited = unsafe {
            direct!(
                possible,
                libc::SYS_epoll_pwait2,
                epoll,
                events,
                most,
                &raw const timeout,
                mask,
                SIGNAL_MASK_SIZE,
            )
        };
        match waited {
            // Before Linux 5.11.
            Err(Errno::ENOSYS) => in_milliseconds(possible, rounded_milliseconds(&timeout)),
            waited => waited,
        }
    };
    let _out = may_run_handlers(timeout, mask.is_null()).then(host_fork::blocking_section);
    direct::wait_for_events(timeout, wait)
}

/// Bytes of a signal mask that the host's kernel reads.
const SIGNAL_MASK_SIZE: usize = 8;

/// Returns a time as milliseconds, if it is a whole number of them that fits.
fn whole_milliseconds(time: Duration) -> Option<c_int> {
    let milliseconds = c_int::try_from(time.as_millis()).ok()?;
    time.subsec_nanos()
        .is_multiple_of(1_000_000)
        .then_some(milliseconds)
}

fn rounded_milliseconds(time: &libc::timespec) -> c_int {
    let more = (time.tv_nsec + 999_999) / 1_000_000;
    let milliseconds = time.tv_sec.saturating_mul(1000).saturating_add(more);
    c_int::try_from(milliseconds).unwrap_or(c_int::MAX)
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// Waits for events of files. A signal mask applies while it waits. May block.
pub(crate) fn ppoll(
    entries: &mut [libc::pollfd],
    timeout: Option<Duration>,
    mask: Option<&libc::sigset_t>,
) -> Result<usize, Errno> {
    let mask = mask.map_or(std::ptr::null(), std::ptr::from_ref);
    let (place, count) = (entries.as_mut_ptr(), entries.len());
    let wait = |timeout: Option<Duration>| {
        let mut left = timeout.map(timespec);
        let left = left
            .as_mut()
            .map_or(std::ptr::null_mut(), std::ptr::from_mut);
        let possible = Wait::within(timeout);
        // SAFETY: the pointers are to values or null.
        unsafe {
            direct!(
                possible,
                libc::SYS_ppoll,
                place,
                count,
                left,
                mask,
                SIGNAL_MASK_SIZE,
            )
        }
    };
    let _out = may_run_handlers(timeout, mask.is_null()).then(host_fork::blocking_section);
    direct::wait_for_events(timeout, wait)
}

/// Returns true if a wait may block, or let signals in that its mask unblocks. A handler that runs
/// in such a wait must find the thread outside: after the wait, its signal is blocked again.
fn may_run_handlers(timeout: Option<Duration>, has_no_mask: bool) -> bool {
    timeout != Some(Duration::ZERO) || !has_no_mask
}

/// Creates a counter that never blocks.
pub(crate) fn eventfd() -> Result<RawFd, Errno> {
    // SAFETY: the call takes no pointer.
    check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
}

/// Makes a counter readable. Returns false if there is none with this number.
pub(crate) fn eventfd_set(eventfd: RawFd) -> bool {
    let one = 1_u64;
    // SAFETY: the value is there.
    let written =
        without_cancellation(|| unsafe { libc::write(eventfd, (&raw const one).cast(), 8) });
    // At the maximum, the counter is readable already.
    written == 8 || errno() != Errno::EBADF
}

/// Makes a counter unreadable.
pub(crate) fn eventfd_reset(eventfd: RawFd) {
    let mut count = 0_u64;
    // SAFETY: there is room. An error means that it is unreadable.
    without_cancellation(|| unsafe { libc::read(eventfd, (&raw mut count).cast(), 8) });
}

/// Adds a file to an epoll, edge-triggered and for all events. One that was added under this
/// descriptor, and closed while others have it, is there still: it gets the key.
pub(crate) fn epoll_add(epoll: RawFd, fd: RawFd, key: u64) -> Result<(), Errno> {
    let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLPRI | libc::EPOLLRDHUP | libc::EPOLLET;
    let mut event = libc::epoll_event {
        events: events.cast_unsigned(),
        u64: key,
    };
    let mut control = |operation| {
        // SAFETY: the entry is valid during the call.
        check(unsafe { libc::epoll_ctl(epoll, operation, fd, &raw mut event) }).map(drop)
    };
    match control(libc::EPOLL_CTL_ADD) {
        Err(Errno::EEXIST) => control(libc::EPOLL_CTL_MOD),
        done => done,
    }
}

/// Removes a file from an epoll.
pub(crate) fn epoll_remove(epoll: RawFd, fd: RawFd) {
    let nothing = std::ptr::null_mut();
    // SAFETY: this request does not use the entry. An unknown file is removed already.
    unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, fd, nothing) };
}

/// Waits for events of an epoll. Returns keys and events. Must be called outside the freezer.
pub(crate) fn epoll_wait(epoll: RawFd) -> Result<Vec<(u64, i16)>, Errno> {
    epoll_wait_for(epoll, -1)
}

/// Waits for files of an epoll, for so many milliseconds, or without limit if it is -1.
pub(crate) fn epoll_wait_for(epoll: RawFd, limit: c_int) -> Result<Vec<(u64, i16)>, Errno> {
    const MAX_EVENTS: usize = 64;
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; MAX_EVENTS];
    // SAFETY: there is room for as many events as the call is told.
    let count =
        check(unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), MAX_EVENTS as c_int, limit) })?;
    let ready = events.iter().take(count as usize);
    Ok(ready
        .map(|event| (event.u64, event.events as i16))
        .collect())
}

/// Runs an action with all signals blocked. A thread that it starts inherits the mask.
pub(crate) fn with_signals_blocked<R>(action: impl FnOnce() -> R) -> R {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the call initializes the set.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the set is initialized.
    let before = set_signal_mask(unsafe { all.assume_init_ref() });
    let result = action();
    set_signal_mask(&before);
    result
}

/// Sets the signal mask of the thread, and returns the previous one.
pub(crate) fn set_signal_mask(mask: &libc::sigset_t) -> libc::sigset_t {
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: both sets are valid.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, before.as_mut_ptr()) };
    // SAFETY: the call has initialized it.
    unsafe { before.assume_init() }
}

/// Takes or releases a lock on a whole file. May block.
pub(crate) fn flock(fd: RawFd, operation: c_int) -> Result<c_int, Errno> {
    let wait = match operation & libc::LOCK_NB {
        0 => Wait::Possible,
        _ => Wait::Never,
    };
    let _out = host_fork::blocking_section();
    // SAFETY: the call takes no pointer.
    let result = unsafe { direct!(wait, libc::SYS_flock, fd, operation) };
    result.map(|result| result as c_int)
}

/// Returns a limit, and optionally sets it.
pub(crate) fn prlimit(
    process: libc::pid_t,
    resource: c_int,
    new: Option<libc::rlimit>,
) -> Result<libc::rlimit, Errno> {
    let new = new.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let mut old = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the new limit is valid or null, and there is room for the old one.
    check(unsafe { libc::prlimit(process, resource.cast_unsigned(), new, &raw mut old) })?;
    Ok(old)
}

/// Returns a system value.
pub(crate) fn sysconf(name: c_int) -> c_long {
    // SAFETY: the call takes no pointer.
    unsafe { libc::sysconf(name) }
}

/// Returns the process ID.
pub(crate) fn process_id() -> libc::pid_t {
    // SAFETY: the call takes no pointer.
    unsafe { libc::getpid() }
}

/// Returns true if there is a process with this ID, or its parent has not waited for it yet.
pub(crate) fn is_alive(id: libc::pid_t) -> bool {
    // SAFETY: the call takes no pointer.
    unsafe { libc::kill(id, 0) == 0 || errno() != Errno::ESRCH }
}

/// Returns the ID of the calling thread.
pub(crate) fn thread_id() -> libc::pid_t {
    // SAFETY: the call takes no pointer.
    unsafe { libc::gettid() }
}

/// Converts the return value of a call to a result.
pub(crate) fn done(result: c_int) -> Result<c_int, Errno> {
    check(result)
}

/// Converts a pointer that may be null to a result.
pub(crate) fn check_pointer<T>(result: *mut T) -> Result<*mut T, Errno> {
    if result.is_null() {
        Err(errno())
    } else {
        Ok(result)
    }
}

/// Allocates memory with `malloc`, for the program to free.
pub(crate) fn allocate(size: usize) -> Result<*mut c_void, Errno> {
    // SAFETY: any size is valid.
    check_pointer(unsafe { libc::malloc(size) })
}

/// Frees memory of `malloc`.
pub(crate) fn free(place: *mut c_void) {
    // SAFETY: `allocate` returned it, and nothing else uses it.
    unsafe { libc::free(place) };
}

/// Returns the status of the file system of a path.
pub(crate) fn statfs(path: &CStr) -> Result<libc::statfs64, Errno> {
    let mut statfs = MaybeUninit::uninit();
    // SAFETY: the path is a C string, and there is room for the result.
    check(unsafe { libc::statfs64(path.as_ptr(), statfs.as_mut_ptr()) })?;
    // SAFETY: the call has initialized it.
    Ok(unsafe { statfs.assume_init() })
}

/// Returns the status of the file system of an open file.
pub(crate) fn fstatfs(fd: RawFd) -> Result<libc::statfs64, Errno> {
    let mut statfs = MaybeUninit::uninit();
    // SAFETY: there is room for the result.
    check(unsafe { libc::fstatfs64(fd, statfs.as_mut_ptr()) })?;
    // SAFETY: the call has initialized it.
    Ok(unsafe { statfs.assume_init() })
}

/// Reads into several buffers, at an offset or at the position. May block.
pub(crate) fn readv(
    fd: RawFd,
    wait: Wait,
    bufs: &mut [IoSliceMut<'_>],
    offset: Option<i64>,
) -> Result<usize, Errno> {
    let at = bufs.as_mut_ptr().cast();
    // SAFETY: a slice of them has the layout of an array of `iovec`.
    unsafe {
        vectored(
            fd,
            wait,
            [libc::SYS_readv, libc::SYS_preadv],
            (at, bufs.len()),
            offset,
        )
    }
}

/// Reads into buffers of the caller, which may not be there: the host checks them. May block.
pub(crate) fn readv_raw(
    fd: RawFd,
    wait: Wait,
    bufs: &[libc::iovec],
    offset: Option<u64>,
) -> Result<usize, Errno> {
    let array = (bufs.as_ptr(), bufs.len());
    let offset = offset.map(u64::cast_signed);
    // SAFETY: the array is valid, and the host checks the buffers.
    unsafe { vectored(fd, wait, [libc::SYS_readv, libc::SYS_preadv], array, offset) }
}

/// Writes from buffers of the caller, which may not be there: the host checks them. May block.
pub(crate) fn writev_raw(
    fd: RawFd,
    wait: Wait,
    bufs: &[libc::iovec],
    offset: Option<u64>,
) -> Result<usize, Errno> {
    let array = (bufs.as_ptr(), bufs.len());
    let offset = offset.map(u64::cast_signed);
    // SAFETY: the array is valid, and the host checks the buffers.
    unsafe {
        vectored(
            fd,
            wait,
            [libc::SYS_writev, libc::SYS_pwritev],
            array,
            offset,
        )
    }
}

/// Writes from several buffers, at an offset or at the position. May block.
pub(crate) fn writev(
    fd: RawFd,
    wait: Wait,
    bufs: &[IoSlice<'_>],
    offset: Option<i64>,
) -> Result<usize, Errno> {
    let at = bufs.as_ptr().cast();
    // SAFETY: a slice of them has the layout of an array of `iovec`.
    unsafe {
        vectored(
            fd,
            wait,
            [libc::SYS_writev, libc::SYS_pwritev],
            (at, bufs.len()),
            offset,
        )
    }
}

/// Transfers several buffers: the numbers of the call at the position, and of that at an offset.
///
/// # Safety
/// The array is valid, and its buffers are those that the call expects.
unsafe fn vectored(
    fd: RawFd,
    wait: Wait,
    [at_position, at_offset]: [c_long; 2],
    (first, length): (*const libc::iovec, usize),
    offset: Option<i64>,
) -> Result<usize, Errno> {
    let events = match at_position {
        libc::SYS_readv => libc::POLLIN,
        _ => libc::POLLOUT,
    };
    let _out = host_fork::blocking_section();
    let result = match offset {
        // SAFETY: as the caller promises.
        None => unsafe { transfer!(wait, (fd, events), at_position, fd, first, length) },
        // The upper half of the offset is ignored where a register holds all of it.
        // SAFETY: as the caller promises.
        Some(offset) => unsafe {
            direct!(Wait::Never, at_offset, fd, first, length, offset, 0_i32)
        },
    };
    transferred(result)
}

/// Allocates or frees space for a range of a file.
pub(crate) fn fallocate(fd: RawFd, how: c_int, offset: i64, length: i64) -> Result<(), Errno> {
    // SAFETY: the call takes no pointer.
    blocking(|| check(unsafe { libc::fallocate(fd, how, offset, length) })).map(drop)
}

/// Announces how a file will be used.
pub(crate) fn fadvise(fd: RawFd, offset: i64, length: i64, advice: c_int) -> Result<(), Errno> {
    // SAFETY: the call takes no pointer.
    match unsafe { libc::posix_fadvise(fd, offset, length, advice) } {
        0 => Ok(()),
        errno => Err(Errno::from_raw(errno)),
    }
}

/// Waits until all file systems are written.
pub(crate) fn sync() {
    let sync = || {
        // SAFETY: the call takes no pointer.
        unsafe { libc::sync() };
        Ok(())
    };
    // The call cannot fail.
    let _ = blocking(sync);
}

/// Waits until a file system is written.
pub(crate) fn syncfs(fd: RawFd) -> Result<c_int, Errno> {
    // SAFETY: the call takes no pointer.
    blocking(|| check(unsafe { libc::syncfs(fd) }))
}

/// Waits until a range of a file is written.
pub(crate) fn sync_file_range(
    fd: RawFd,
    offset: i64,
    length: i64,
    flags: c_uint,
) -> Result<c_int, Errno> {
    // SAFETY: the call takes no pointer.
    blocking(|| check(unsafe { libc::sync_file_range(fd, offset, length, flags) }))
}

/// Runs a request on an open file. May block.
///
/// # Safety
/// The argument is what the request expects.
pub(crate) unsafe fn ioctl(fd: RawFd, request: c_ulong, argument: c_ulong) -> Result<c_int, Errno> {
    // SAFETY: as the caller promises.
    blocking(|| check(unsafe { libc::ioctl(fd, request, argument) }))
}

/// Returns the page size.
pub(crate) fn page_size() -> i64 {
    sysconf(libc::_SC_PAGESIZE)
}

/// Returns half of the host's memory in bytes: the limit of a `tmpfs` of the host.
pub(crate) fn half_of_memory() -> u64 {
    let pages = sysconf(libc::_SC_PHYS_PAGES).max(0).cast_unsigned();
    pages.saturating_mul(page_size().cast_unsigned()) / 2
}

/// Sets the protection of memory.
pub(crate) fn protect(at: *mut c_void, length: usize, protection: c_int) -> Result<(), Errno> {
    // SAFETY: the memory was mapped for this purpose.
    check(unsafe { libc::mprotect(at, length, protection) }).map(drop)
}

/// Unmaps memory.
pub(crate) fn unmap(at: *mut c_void, length: usize) {
    // SAFETY: this library mapped it, and nothing else uses it.
    unsafe { libc::munmap(at, length) };
}

/// Returns random bits, of the quality that the host has without blocking.
pub(crate) fn random() -> u64 {
    let mut bits = 0_u64;
    // SAFETY: there is room for eight bytes.
    unsafe { libc::getrandom((&raw mut bits).cast(), 8, libc::GRND_NONBLOCK) };
    bits
}

/// Returns the umask. The host returns it only from a call that sets it.
pub(crate) fn current_umask() -> libc::mode_t {
    // SAFETY: the call takes no pointer.
    let mask = unsafe { libc::umask(0o77) };
    // SAFETY: as above.
    unsafe { libc::umask(mask) };
    mask
}

/// Returns the real user and group.
pub(crate) fn real_ids() -> (libc::uid_t, libc::gid_t) {
    // SAFETY: the calls take no pointer.
    (unsafe { libc::getuid() }, unsafe { libc::getgid() })
}

/// Returns the user and group that permissions of files are checked for.
pub(crate) fn ids_for_files() -> (libc::uid_t, libc::gid_t) {
    // -1 is no ID, so that the calls change nothing, and return the current ones.
    // SAFETY: the calls take no pointer.
    let user = unsafe { libc::setfsuid(libc::uid_t::MAX) };
    // SAFETY: as above.
    let group = unsafe { libc::setfsgid(libc::gid_t::MAX) };
    (user.cast_unsigned(), group.cast_unsigned())
}

/// Effective, permitted and inheritable capabilities: 32 of them, and the others.
type CapabilitySets = [[u32; 3]; 2];

const CAPABILITIES_VERSION_3: u32 = 0x2008_0522;

/// Returns the capabilities of the calling thread.
fn capability_sets() -> CapabilitySets {
    let mut header = [CAPABILITIES_VERSION_3, 0];
    let mut sets = [[0_u32; 3]; 2];
    let (header, place) = (header.as_mut_ptr(), sets.as_mut_ptr());
    // SAFETY: both have the layout that this version has. It cannot fail for the calling thread.
    unsafe { libc::syscall(libc::SYS_capget, header, place) };
    sets
}

/// Returns the low 32 of the effective and of the permitted capabilities of the calling thread.
pub(crate) fn capabilities() -> (u32, u32) {
    let sets = capability_sets();
    (sets[0][0], sets[0][1])
}

/// Runs a lookup of the calling thread with the rights that `access` has: those of the real user.
/// If the user for files is neither the real nor the effective one, it could not be set again, and
/// the lookup has its rights.
pub(crate) fn with_rights_of_access<R>(lookup: impl FnOnce() -> R) -> R {
    let before = capability_sets();
    let (user, group) = real_ids();
    let (user_before, group_before) = ids_for_files();
    // SAFETY: the calls take no pointer.
    let effective = (unsafe { libc::geteuid() }, unsafe { libc::getegid() });
    if effective != (user_before, group_before) {
        return lookup();
    }
    let mut sets = before;
    if !keeps_capabilities_of_access() {
        for set in &mut sets {
            set[0] = if user == 0 { set[1] } else { 0 };
        }
    }
    set_rights((user, group), &sets);
    let result = lookup();
    set_rights(effective, &before);
    result
}

/// Sets the user, the group and the capabilities that permissions of files are checked for. The
/// thread may always take those that it has as real, effective and permitted ones.
fn set_rights((user, group): (libc::uid_t, libc::gid_t), sets: &CapabilitySets) {
    let mut header = [CAPABILITIES_VERSION_3, 0];
    // SAFETY: the pointers are to what has the layout of this version.
    unsafe {
        libc::setfsgid(group);
        libc::setfsuid(user);
        // A change of the user may have changed them.
        libc::syscall(libc::SYS_capset, header.as_mut_ptr(), sets.as_ptr());
    }
}

/// Returns true if `access` uses the effective capabilities: `SECBIT_NO_SETUID_FIXUP`.
pub(crate) fn keeps_capabilities_of_access() -> bool {
    const NO_SETUID_FIXUP: c_int = 1 << 2;
    // SAFETY: the call takes no pointer.
    let bits = unsafe { libc::prctl(libc::PR_GET_SECUREBITS) };
    bits != -1 && bits & NO_SETUID_FIXUP != 0
}

/// Registers a function that runs in each child of a fork.
pub(crate) fn in_children(function: extern "C" fn()) {
    // SAFETY: the function is valid for the life of the process. If there is no memory to register
    // it, a child reports its parent's process ID in the owner of a lock.
    unsafe { libc::pthread_atfork(None, None, Some(function)) };
}
