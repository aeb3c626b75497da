//! Terminals: functions of the C library on descriptors that would otherwise mean the host's.
//!
//! A terminal is always the host's. On other files of the host they answer what the host does, on files
//! of ours `ENOTTY`.

use std::ffi::{c_char, c_int};

use fdtable_vfs::Errno;
use libc::{pid_t, termios};

use crate::abi::call::{call, call_returning_errno};
use crate::fs::open::fdt_open;
use crate::host;
use crate::host::file::HostFile;

/// Tells how a terminal is set: `tcgetattr(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_tcgetattr(fd: c_int, settings: *mut termios) -> c_int {
    // SAFETY: as the caller promises.
    asked(fd, |number| unsafe { libc::tcgetattr(number, settings) })
}

/// Sets a terminal: `tcsetattr(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_tcsetattr(fd: c_int, when: c_int, settings: *const termios) -> c_int {
    // SAFETY: as the caller promises.
    asked(fd, |number| unsafe {
        libc::tcsetattr(number, when, settings)
    })
}

/// Drops what was not read or not sent: `tcflush(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_tcflush(fd: c_int, which: c_int) -> c_int {
    // SAFETY: it touches no memory.
    asked(fd, |number| unsafe { libc::tcflush(number, which) })
}

/// Waits until all is sent: `tcdrain(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_tcdrain(fd: c_int) -> c_int {
    // SAFETY: it touches no memory.
    asked(fd, |number| unsafe { libc::tcdrain(number) })
}

/// Holds what is sent or received, or lets it go on: `tcflow(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_tcflow(fd: c_int, action: c_int) -> c_int {
    // SAFETY: it touches no memory.
    asked(fd, |number| unsafe { libc::tcflow(number, action) })
}

/// Sends a break: `tcsendbreak(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_tcsendbreak(fd: c_int, duration: c_int) -> c_int {
    // SAFETY: it touches no memory.
    asked(fd, |number| unsafe { libc::tcsendbreak(number, duration) })
}

/// Returns the process group in front: `tcgetpgrp(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_tcgetpgrp(fd: c_int) -> pid_t {
    // SAFETY: it touches no memory.
    asked(fd, |number| unsafe { libc::tcgetpgrp(number) })
}

/// Sets the process group in front: `tcsetpgrp(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_tcsetpgrp(fd: c_int, group: pid_t) -> c_int {
    // SAFETY: it touches no memory.
    asked(fd, |number| unsafe { libc::tcsetpgrp(number, group) })
}

/// Returns the session of a terminal: `tcgetsid(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_tcgetsid(fd: c_int) -> pid_t {
    // SAFETY: it touches no memory.
    asked(fd, |number| unsafe { libc::tcgetsid(number) })
}

/// Opens a new terminal, from its other end: `posix_openpt(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_posix_openpt(flags: c_int) -> c_int {
    // SAFETY: the path is a string.
    unsafe { fdt_open(c"/dev/ptmx".as_ptr(), flags, 0) }
}

/// Gives a new terminal to the user: `grantpt(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_grantpt(fd: c_int) -> c_int {
    // SAFETY: it touches no memory.
    asked(fd, |number| unsafe { libc::grantpt(number) })
}

/// Allows a new terminal to be opened: `unlockpt(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_unlockpt(fd: c_int) -> c_int {
    // SAFETY: it touches no memory.
    asked(fd, |number| unsafe { libc::unlockpt(number) })
}

/// Returns the path of a new terminal, good until the next call: `ptsname(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_ptsname(fd: c_int) -> *mut c_char {
    call(|system| {
        let file = system.file(fd)?;
        let number = HostFile::below(&*file).ok_or(Errno::ENOTTY)?.number();
        // SAFETY: the C library has a place for it.
        host::check_pointer(unsafe { libc::ptsname(number) })
    })
}

/// Copies the path of a new terminal, and answers the error's number: `ptsname_r(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_ptsname_r(fd: c_int, buf: *mut c_char, size: usize) -> c_int {
    call_returning_errno(|system| {
        let file = system.file(fd)?;
        let number = HostFile::below(&*file).ok_or(Errno::ENOTTY)?.number();
        // SAFETY: as the caller promises.
        match unsafe { libc::ptsname_r(number, buf, size) } {
            0 => Ok(()),
            errno => Err(Errno::from_raw(errno)),
        }
    })
}

/// Asks the host about its number of a descriptor. It may wait.
fn asked(fd: c_int, call_of_host: impl FnOnce(c_int) -> c_int) -> c_int {
    call(|system| {
        let file = system.file(fd)?;
        let number = HostFile::below(&*file).ok_or(Errno::ENOTTY)?.number();
        host::waiting(|| host::done(call_of_host(number)))
    })
}
