//! Event files that only the host has: `timerfd`, `inotify` and `signalfd`.

use std::ffi::{c_char, c_int};
use std::os::fd::RawFd;

use fdtable_vfs::Errno;

use crate::abi::call::call;
use crate::abi::path::Target;
use crate::abi::pin::LastLink;
use crate::abi::system::System;
use crate::host;
use crate::host::file::OpenHostFd;

/// Creates a timer: `timerfd_create(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_timerfd_create(clock: c_int, flags: c_int) -> c_int {
    call(|system| {
        let ours = flags & libc::TFD_CLOEXEC;
        // SAFETY: the call takes no pointer.
        let host_fd =
            host::check(unsafe { libc::timerfd_create(clock, flags | libc::TFD_CLOEXEC) })?;
        system.adopt_new(host_fd, ours)
    })
}

/// Sets a timer: `timerfd_settime(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_timerfd_settime(
    fd: c_int,
    flags: c_int,
    new: *const libc::itimerspec,
    old: *mut libc::itimerspec,
) -> c_int {
    // SAFETY: as the caller promises.
    let set = |host_fd| unsafe { libc::timerfd_settime(host_fd, flags, new, old) };
    call(|system| system.on_timer(fd, set))
}

/// Returns the setting of a timer: `timerfd_gettime(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_timerfd_gettime(fd: c_int, spec: *mut libc::itimerspec) -> c_int {
    // SAFETY: as the caller promises.
    let get = |host_fd| unsafe { libc::timerfd_gettime(host_fd, spec) };
    call(|system| system.on_timer(fd, get))
}

impl System {
    /// Makes a call on a timer. The host checks the arguments before the descriptor, also where it
    /// has none.
    fn on_timer(&self, fd: c_int, make: impl FnOnce(RawFd) -> c_int) -> Result<(), Errno> {
        let file = self.opened_file(fd).map(OpenHostFd::of);
        let host_fd = file.as_ref().ok().and_then(Option::as_ref);
        let made = host::done(make(host_fd.map_or(-1, OpenHostFd::get)));
        match (made, file) {
            (Err(Errno::EBADF), Ok(None)) => Err(Errno::EINVAL),
            (made, _) => made,
        }
    }
}

/// Creates a file that reports changes of host files: `inotify_init(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_inotify_init() -> c_int {
    fdt_inotify_init1(0)
}

/// Creates a file that reports changes of host files, with flags: `inotify_init1(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_inotify_init1(flags: c_int) -> c_int {
    call(|system| {
        let ours = flags & libc::IN_CLOEXEC;
        // SAFETY: the call takes no pointer.
        let host_fd = host::check(unsafe { libc::inotify_init1(flags | libc::IN_CLOEXEC) })?;
        system.adopt_new(host_fd, ours)
    })
}

/// Adds a watch for a host path: `inotify_add_watch(2)`. Fails with `EOPNOTSUPP` for a path of
/// fdtable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_inotify_add_watch(fd: c_int, path: *const c_char, mask: u32) -> c_int {
    call(|system| {
        let host_fd = system.host_fd(fd)?.ok_or(Errno::EINVAL)?;
        let last = match mask & libc::IN_DONT_FOLLOW {
            0 => LastLink::Follow,
            _ => LastLink::Keep,
        };
        // SAFETY: as the caller promises.
        match unsafe { system.target(libc::AT_FDCWD, path, last) }? {
            Target::Ours(..) => Err(Errno::EOPNOTSUPP),
            Target::Host(path) => {
                // SAFETY: the path is a C string.
                host::check(unsafe { libc::inotify_add_watch(host_fd.get(), path.as_ptr(), mask) })
            }
        }
    })
}

/// Removes a watch: `inotify_rm_watch(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_inotify_rm_watch(fd: c_int, watch: c_int) -> c_int {
    call(|system| {
        let host_fd = system.host_fd(fd)?.ok_or(Errno::EINVAL)?;
        // SAFETY: the call takes no pointer.
        host::check(unsafe { libc::inotify_rm_watch(host_fd.get(), watch) })
    })
}

/// Creates a file that receives signals, or changes its mask: `signalfd(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_signalfd(
    fd: c_int,
    mask: *const libc::sigset_t,
    flags: c_int,
) -> c_int {
    call(|system| {
        if fd != -1 {
            let host_fd = system.host_fd(fd)?.ok_or(Errno::EINVAL)?;
            // SAFETY: as the caller promises.
            host::check(unsafe { libc::signalfd(host_fd.get(), mask, flags) })?;
            return Ok(fd);
        }
        let ours = flags & libc::SFD_CLOEXEC;
        // SAFETY: as the caller promises.
        let host_fd = host::check(unsafe { libc::signalfd(-1, mask, flags | libc::SFD_CLOEXEC) })?;
        Ok(system.adopt_new(host_fd, ours)?.raw())
    })
}
