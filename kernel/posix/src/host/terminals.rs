//! Terminals: functions of the C library that take a descriptor.
//!
//! A terminal is always a host file. On other host files these functions return the host's errors,
//! and on our files `ENOTTY`.

use std::ffi::{c_char, c_int};

use fdtable_vfs::Errno;
use libc::{pid_t, termios};

use crate::abi::call::{call, call_returning_errno};
use crate::fs::open::fdt_open;
use crate::host;
use crate::host::file::HostFile;

/// Returns the settings of a terminal: `tcgetattr(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_tcgetattr(fd: c_int, settings: *mut termios) -> c_int {
    // SAFETY: as the caller promises.
    on_host(fd, |host_fd| unsafe { libc::tcgetattr(host_fd, settings) })
}

/// Changes the settings of a terminal: `tcsetattr(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_tcsetattr(fd: c_int, when: c_int, settings: *const termios) -> c_int {
    // SAFETY: as the caller promises.
    on_host(fd, |host_fd| unsafe {
        libc::tcsetattr(host_fd, when, settings)
    })
}

/// Discards input that was not read, or output that was not sent: `tcflush(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_tcflush(fd: c_int, which: c_int) -> c_int {
    // SAFETY: the call takes no pointer.
    on_host(fd, |host_fd| unsafe { libc::tcflush(host_fd, which) })
}

/// Waits until all output is sent: `tcdrain(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_tcdrain(fd: c_int) -> c_int {
    // SAFETY: the call takes no pointer.
    on_host(fd, |host_fd| unsafe { libc::tcdrain(host_fd) })
}

/// Suspends or resumes input or output: `tcflow(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_tcflow(fd: c_int, action: c_int) -> c_int {
    // SAFETY: the call takes no pointer.
    on_host(fd, |host_fd| unsafe { libc::tcflow(host_fd, action) })
}

/// Sends a break: `tcsendbreak(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_tcsendbreak(fd: c_int, duration: c_int) -> c_int {
    // SAFETY: the call takes no pointer.
    on_host(fd, |host_fd| unsafe {
        libc::tcsendbreak(host_fd, duration)
    })
}

/// Returns the foreground process group: `tcgetpgrp(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_tcgetpgrp(fd: c_int) -> pid_t {
    // SAFETY: the call takes no pointer.
    on_host(fd, |host_fd| unsafe { libc::tcgetpgrp(host_fd) })
}

/// Sets the foreground process group: `tcsetpgrp(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_tcsetpgrp(fd: c_int, group: pid_t) -> c_int {
    // SAFETY: the call takes no pointer.
    on_host(fd, |host_fd| unsafe { libc::tcsetpgrp(host_fd, group) })
}

/// Returns the session of a terminal: `tcgetsid(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_tcgetsid(fd: c_int) -> pid_t {
    // SAFETY: the call takes no pointer.
    on_host(fd, |host_fd| unsafe { libc::tcgetsid(host_fd) })
}

/// Opens a new pseudoterminal: `posix_openpt(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_posix_openpt(flags: c_int) -> c_int {
    // SAFETY: the path is a C string.
    unsafe { fdt_open(c"/dev/ptmx".as_ptr(), flags, 0) }
}

/// Gives the slave of a pseudoterminal to the user: `grantpt(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_grantpt(fd: c_int) -> c_int {
    // SAFETY: the call takes no pointer.
    on_host(fd, |host_fd| unsafe { libc::grantpt(host_fd) })
}

/// Unlocks the slave of a pseudoterminal: `unlockpt(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_unlockpt(fd: c_int) -> c_int {
    // SAFETY: the call takes no pointer.
    on_host(fd, |host_fd| unsafe { libc::unlockpt(host_fd) })
}

/// Returns the path of the slave of a pseudoterminal, valid until the next call: `ptsname(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_ptsname(fd: c_int) -> *mut c_char {
    call(|system| {
        let file = system.file(fd)?;
        let host_fd = HostFile::below(&**file).ok_or(Errno::ENOTTY)?.fd();
        // SAFETY: the C library returns its own buffer.
        host::check_pointer(unsafe { libc::ptsname(host_fd.get()) })
    })
}

/// Copies the path of the slave of a pseudoterminal, and returns the error number: `ptsname_r(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_ptsname_r(fd: c_int, buf: *mut c_char, size: usize) -> c_int {
    call_returning_errno(|system| {
        let file = system.file(fd)?;
        let host_fd = HostFile::below(&**file).ok_or(Errno::ENOTTY)?.fd();
        // SAFETY: as the caller promises.
        match unsafe { libc::ptsname_r(host_fd.get(), buf, size) } {
            0 => Ok(()),
            errno => Err(Errno::from_raw(errno)),
        }
    })
}

/// Runs a host call with the host descriptor of a file. May block.
fn on_host(fd: c_int, call_of_host: impl FnOnce(c_int) -> c_int) -> c_int {
    call(|system| {
        let file = system.file(fd)?;
        let host_fd = HostFile::below(&**file).ok_or(Errno::ENOTTY)?.fd();
        host::blocking(|| host::done(call_of_host(host_fd.get())))
    })
}
