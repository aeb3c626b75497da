//! A process beside the program, which receives its findings.

use std::ffi::c_int;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr;

use crate::thread::done;

/// Starts a process that is no child of this one, and runs `serve` there with the socket of which
/// the other end is returned. It has standard error, and no other descriptor of this process. Call
/// it before [`run`](crate::run), while the process has one thread.
///
/// # Errors
/// Errors of the host's `socketpair` and `fork`.
pub fn start_beside(serve: impl FnOnce(OwnedFd)) -> io::Result<OwnedFd> {
    let mut ends: [RawFd; 2] = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: there is room for two descriptors.
    done(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
    // SAFETY: opened above, for these alone.
    let [ours, theirs] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    // SAFETY: this process has one thread, which continues in the child.
    let first = unsafe { libc::fork() };
    if first == 0 {
        // SAFETY: as above.
        if unsafe { libc::fork() } == 0 {
            serve(leave(theirs));
        }
        // SAFETY: it takes an integer.
        unsafe { libc::_exit(0) };
    }
    done(first)?;
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(first, ptr::null_mut(), 0) };
    Ok(ours)
}

/// Leaves the session, which may be interrupted, and closes all but standard error and the socket.
fn leave(socket: OwnedFd) -> OwnedFd {
    const SOCKET: RawFd = 3;
    // SAFETY: these take integers and strings. This process uses no other descriptor.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"fdt-reporter".as_ptr());
        libc::dup2(std::os::fd::IntoRawFd::into_raw_fd(socket), SOCKET);
        libc::close_range(SOCKET.cast_unsigned() + 1, c_int::MAX.cast_unsigned(), 0);
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        libc::dup2(null, libc::STDIN_FILENO);
        libc::dup2(null, libc::STDOUT_FILENO);
        libc::close(null);
        OwnedFd::from_raw_fd(SOCKET)
    }
}
