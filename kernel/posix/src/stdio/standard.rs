//! `stdin`, `stdout` and `stderr`.
//!
//! They begin as the C library's own streams, on the host's descriptors 0, 1 and 2, which our
//! descriptors of the same numbers refer to. That ends when such a descriptor is closed, or refers
//! to another file after `dup2` or `freopen`: then a stream of ours on that descriptor takes the
//! place of the standard stream, and stays. It is the value of the variable `stdin`, `stdout` or
//! `stderr`, which `printf` and all others read. A program that copied the variable before still
//! has the C library's stream.

use std::ffi::c_int;
use std::ptr;

use libc::FILE;

use crate::abi::call::{errno, guarded, set_errno};
use crate::abi::system::system;
use crate::host::file::HostFile;
use crate::process::descriptors::fdt_isatty;
use crate::stdio::file_layout::{Buffering, Locked};
use crate::stdio::streams::{self, Mode, cookie_of};

/// The variables of the C library and its own streams.
mod variables {
    use libc::FILE;

    #[repr(C)]
    pub(super) struct Opaque(u8);

    unsafe extern "C" {
        pub(super) static mut stdin: *mut FILE;
        pub(super) static mut stdout: *mut FILE;
        pub(super) static mut stderr: *mut FILE;
        pub(super) static mut _IO_2_1_stdin_: Opaque;
        pub(super) static mut _IO_2_1_stdout_: Opaque;
        pub(super) static mut _IO_2_1_stderr_: Opaque;
    }
}

/// Returns the variable of a standard stream.
fn variable(number: c_int) -> *mut *mut FILE {
    match number {
        0 => &raw mut variables::stdin,
        1 => &raw mut variables::stdout,
        _ => &raw mut variables::stderr,
    }
}

/// Returns the C library's own stream.
fn original(number: c_int) -> *mut FILE {
    match number {
        0 => (&raw mut variables::_IO_2_1_stdin_).cast(),
        1 => (&raw mut variables::_IO_2_1_stdout_).cast(),
        _ => (&raw mut variables::_IO_2_1_stderr_).cast(),
    }
}

fn current(number: c_int) -> *mut FILE {
    // SAFETY: the C library has initialized the variable. It is as wide as a register, so a thread
    // that changes it at the same time does no harm.
    unsafe { variable(number).read_volatile() }
}

fn set(number: c_int, stream: *mut FILE) {
    // SAFETY: as above. The C library lets programs assign to it.
    unsafe { variable(number).write_volatile(stream) };
}

/// Returns the descriptor of a standard stream, if it is one.
pub(crate) fn number_of(stream: *mut FILE) -> Option<c_int> {
    (0..=2).find(|&number| current(number) == stream)
}

/// Makes the C library's stream the standard stream again, after the stream at `address` is closed.
pub(crate) fn restore(address: usize) {
    for number in 0..=2 {
        if current(number).addr() == address {
            set(number, original(number));
        }
    }
}

/// Has a standard stream follow its descriptor, after the descriptor was closed or refers to
/// another file. errno is left unchanged. Must be called outside the freezer.
#[cold]
pub(crate) fn follow(number: c_int) {
    let is_the_hosts = guarded(|| {
        let file = system().file(number)?;
        Ok(HostFile::below(&**file).is_some_and(|file| file.fd().get() == number))
    });
    if is_the_hosts == Ok(true) {
        return;
    }
    let before = errno();
    let stream = current(number);
    // A stream of ours reads and writes no wide characters. A stream that the program has put into
    // the variable is the program's.
    // SAFETY: the C library never closes its own stream.
    let is_the_librarys = stream == original(number) && !unsafe { Locked::new(stream) }.is_wide();
    if is_the_librarys {
        take_over(number);
    }
    set_errno(before);
}

/// Puts a stream of ours on a descriptor of our table into the variable of a standard stream. The
/// new stream writes the data that the C library's stream has not written. Returns `None` with
/// errno if that fails. Must be called outside the freezer.
pub(crate) fn take_over(number: c_int) -> Option<*mut FILE> {
    let old = current(number);
    if cookie_of(old).is_some() {
        return Some(old);
    }
    let made = guarded(|| {
        let mode = Mode::read(if number == 0 { c"r" } else { c"w" })?;
        streams::stream(number, &mode)
    });
    let new = match made {
        Ok(new) => new,
        Err(errno) => {
            set_errno(errno);
            return None;
        }
    };
    // SAFETY: the standard stream is open.
    let locked = unsafe { Locked::new(old) };
    let buffering = match locked.buffering() {
        Buffering::Chosen(kind) => kind,
        Buffering::Undecided if fdt_isatty(number) == 1 => libc::_IOLBF,
        Buffering::Undecided => libc::_IOFBF,
    };
    // SAFETY: the stream is new, and the C library allocates the buffer.
    unsafe { libc::setvbuf(new, ptr::null_mut(), buffering, 0) };
    let unwritten = locked.unwritten();
    // SAFETY: the pointer and the length are those of a slice, and the stream is open.
    unsafe { libc::fwrite(unwritten.as_ptr().cast(), 1, unwritten.len(), new) };
    locked.purge();
    set(number, new);
    Some(new)
}
