//! Calls on descriptors, one line for each, in the notation of `strace -f -e trace=desc`.
//!
//! Calls that are answered with ENOSYS have a line too, whatever they are about.

use std::fmt::Write;
use std::io;

use fdtable_posix::runner;

use super::call::Call;
use super::sink::Sink;
use crate::memory::pointer;

/// Kind of an argument, which decides how it is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Fd,
    /// A directory, or `AT_FDCWD`.
    At,
    Path,
    OpenFlags,
    Mode,
    Address,
    Number,
    Hex,
    Whence,
    Command,
}

use Kind::{Address, At, Command, Fd, Hex, Mode, Number, OpenFlags, Path, Whence};

/// Returns the arguments of a call that is about descriptors.
pub(super) fn arguments(number: i64) -> Option<&'static [Kind]> {
    Some(match number {
        libc::SYS_read | libc::SYS_write | libc::SYS_getdents64 | libc::SYS_getdents => {
            &[Fd, Address, Number]
        }
        libc::SYS_readv | libc::SYS_writev | libc::SYS_vmsplice => &[Fd, Address, Number],
        libc::SYS_pread64 | libc::SYS_pwrite64 | libc::SYS_preadv | libc::SYS_pwritev => {
            &[Fd, Address, Number, Number]
        }
        libc::SYS_preadv2 | libc::SYS_pwritev2 => &[Fd, Address, Number, Number, Number, Hex],
        libc::SYS_open => &[Path, OpenFlags, Mode],
        libc::SYS_creat => &[Path, Mode],
        libc::SYS_openat => &[At, Path, OpenFlags, Mode],
        libc::SYS_openat2 => &[At, Path, Address, Number],
        libc::SYS_close | libc::SYS_dup | libc::SYS_fsync | libc::SYS_fdatasync => &[Fd],
        libc::SYS_fchdir | libc::SYS_syncfs => &[Fd],
        libc::SYS_dup2 => &[Fd, Number],
        libc::SYS_dup3 => &[Fd, Number, OpenFlags],
        libc::SYS_close_range => &[Number, Number, Hex],
        libc::SYS_fcntl => &[Fd, Command, Hex],
        libc::SYS_ioctl => &[Fd, Hex, Hex],
        libc::SYS_lseek => &[Fd, Number, Whence],
        libc::SYS_fstat | libc::SYS_fstatfs => &[Fd, Address],
        libc::SYS_newfstatat => &[At, Path, Address, Hex],
        libc::SYS_statx => &[At, Path, Hex, Hex, Address],
        libc::SYS_faccessat => &[At, Path, Mode],
        libc::SYS_faccessat2 | libc::SYS_fchmodat2 => &[At, Path, Mode, Hex],
        libc::SYS_readlinkat => &[At, Path, Address, Number],
        libc::SYS_mkdirat | libc::SYS_fchmodat => &[At, Path, Mode],
        libc::SYS_unlinkat => &[At, Path, Hex],
        libc::SYS_renameat => &[At, Path, At, Path],
        libc::SYS_renameat2 | libc::SYS_linkat => &[At, Path, At, Path, Hex],
        libc::SYS_symlinkat => &[Path, At, Path],
        libc::SYS_ftruncate | libc::SYS_flock => &[Fd, Number],
        libc::SYS_fallocate => &[Fd, Hex, Number, Number],
        libc::SYS_fadvise64 => &[Fd, Number, Number, Number],
        libc::SYS_fchmod => &[Fd, Mode],
        libc::SYS_fchown => &[Fd, Number, Number],
        libc::SYS_pipe => &[Address],
        libc::SYS_pipe2 => &[Address, OpenFlags],
        libc::SYS_mmap => &[Address, Number, Hex, Hex, Fd, Number],
        libc::SYS_sendfile => &[Fd, Fd, Address, Number],
        libc::SYS_splice | libc::SYS_copy_file_range => &[Fd, Address, Fd, Address, Number, Hex],
        libc::SYS_tee => &[Fd, Fd, Number, Hex],
        libc::SYS_poll => &[Address, Number, Number],
        libc::SYS_ppoll => &[Address, Number, Address, Address, Number],
        libc::SYS_select | libc::SYS_pselect6 => &[Number, Address, Address, Address, Address],
        libc::SYS_epoll_create => &[Number],
        libc::SYS_epoll_create1 => &[OpenFlags],
        libc::SYS_epoll_ctl => &[Fd, Number, Fd, Address],
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => &[Fd, Address, Number, Number],
        libc::SYS_epoll_pwait2 => &[Fd, Address, Number, Address],
        libc::SYS_eventfd => &[Number],
        libc::SYS_eventfd2 => &[Number, OpenFlags],
        libc::SYS_timerfd_create => &[Number, OpenFlags],
        libc::SYS_timerfd_settime => &[Fd, Hex, Address, Address],
        libc::SYS_timerfd_gettime => &[Fd, Address],
        libc::SYS_signalfd => &[Number, Address, Number],
        libc::SYS_signalfd4 => &[Number, Address, Number, OpenFlags],
        libc::SYS_memfd_create => &[Path, Hex],
        libc::SYS_socket => &[Number, Hex, Number],
        libc::SYS_socketpair => &[Number, Hex, Number, Address],
        libc::SYS_bind | libc::SYS_connect => &[Fd, Address, Number],
        libc::SYS_listen | libc::SYS_shutdown => &[Fd, Number],
        libc::SYS_accept => &[Fd, Address, Address],
        libc::SYS_accept4 => &[Fd, Address, Address, OpenFlags],
        libc::SYS_sendto | libc::SYS_recvfrom => &[Fd, Address, Number, Hex, Address, Number],
        libc::SYS_sendmsg | libc::SYS_recvmsg => &[Fd, Address, Hex],
        libc::SYS_getsockopt | libc::SYS_setsockopt => &[Fd, Number, Number, Address, Hex],
        libc::SYS_getsockname | libc::SYS_getpeername => &[Fd, Address, Address],
        _ => return None,
    })
}

/// Returns the name of a call.
pub(super) fn name(number: i64) -> String {
    let known = usize::try_from(number).ok().and_then(syscalls::Sysno::new);
    known.map_or_else(
        || format!("syscall_{number}"),
        |call| call.name().to_owned(),
    )
}

/// Returns the call as text, up to its result. The call may change what its arguments lead to.
pub(super) fn begin(call: &Call) -> Option<String> {
    arguments(call.number).map(|kinds| text(call, kinds))
}

fn text(call: &Call, kinds: &[Kind]) -> String {
    let shown = kinds.iter().zip(call.arguments);
    let creates = libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY);
    let mut flags = None;
    let mut parts = Vec::new();
    for (kind, value) in shown {
        if *kind == OpenFlags {
            flags = Some(value as i32);
        }
        if *kind == Mode && flags.is_some_and(|flags| flags & creates == 0) {
            continue;
        }
        parts.push(argument(*kind, value));
    }
    format!("{}({})", name(call.number), parts.join(", "))
}

fn argument(kind: Kind, value: i64) -> String {
    match kind {
        At if value as i32 == libc::AT_FDCWD => "AT_FDCWD".to_owned(),
        Fd | At => (value as i32).to_string(),
        Number => value.to_string(),
        Path | Address if value == 0 => "NULL".to_owned(),
        Path => path(value),
        Address | Hex => format!("{value:#x}"),
        Mode => format!("0{:o}", value & 0o7777),
        OpenFlags => open_flags(value as i32),
        Whence => match value as i32 {
            libc::SEEK_SET => "SEEK_SET".to_owned(),
            libc::SEEK_CUR => "SEEK_CUR".to_owned(),
            libc::SEEK_END => "SEEK_END".to_owned(),
            libc::SEEK_DATA => "SEEK_DATA".to_owned(),
            libc::SEEK_HOLE => "SEEK_HOLE".to_owned(),
            other => other.to_string(),
        },
        Command => match value as i32 {
            libc::F_DUPFD => "F_DUPFD".to_owned(),
            libc::F_DUPFD_CLOEXEC => "F_DUPFD_CLOEXEC".to_owned(),
            libc::F_GETFD => "F_GETFD".to_owned(),
            libc::F_SETFD => "F_SETFD".to_owned(),
            libc::F_GETFL => "F_GETFL".to_owned(),
            libc::F_SETFL => "F_SETFL".to_owned(),
            libc::F_GETLK => "F_GETLK".to_owned(),
            libc::F_SETLK => "F_SETLK".to_owned(),
            libc::F_SETLKW => "F_SETLKW".to_owned(),
            libc::F_GETPIPE_SZ => "F_GETPIPE_SZ".to_owned(),
            libc::F_SETPIPE_SZ => "F_SETPIPE_SZ".to_owned(),
            other => other.to_string(),
        },
    }
}

fn path(at: i64) -> String {
    // SAFETY: the guest's string. It is copied at once; a guest that changes it meanwhile gets a
    // torn text in its own trace.
    let found = unsafe { runner::string(pointer(at.cast_unsigned())) };
    match found {
        Some(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        None => format!("{at:#x}"),
    }
}

fn open_flags(flags: i32) -> String {
    let access = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => "O_RDONLY",
        libc::O_WRONLY => "O_WRONLY",
        _ => "O_RDWR",
    };
    let mut text = access.to_owned();
    let mut rest = flags & !libc::O_ACCMODE;
    for (bits, name) in [
        (libc::O_TMPFILE, "O_TMPFILE"),
        (libc::O_SYNC, "O_SYNC"),
        (libc::O_CREAT, "O_CREAT"),
        (libc::O_EXCL, "O_EXCL"),
        (libc::O_NOCTTY, "O_NOCTTY"),
        (libc::O_TRUNC, "O_TRUNC"),
        (libc::O_APPEND, "O_APPEND"),
        (libc::O_NONBLOCK, "O_NONBLOCK"),
        (libc::O_DIRECT, "O_DIRECT"),
        (libc::O_DIRECTORY, "O_DIRECTORY"),
        (libc::O_NOFOLLOW, "O_NOFOLLOW"),
        (libc::O_NOATIME, "O_NOATIME"),
        (libc::O_CLOEXEC, "O_CLOEXEC"),
        (libc::O_PATH, "O_PATH"),
    ] {
        if rest & bits == bits {
            text += "|";
            text += name;
            rest &= !bits;
        }
    }
    if rest != 0 {
        let _ = write!(text, "|{rest:#x}");
    }
    text
}

/// Writes the line of a call, with the number of the thread.
pub(super) fn end(sink: &Sink, begun: Option<String>, call: &Call, result: i64) {
    let is_unknown = result == -i64::from(libc::ENOSYS);
    let begun = match begun {
        Some(text) => text,
        None if is_unknown => text(call, &[Hex; 6]),
        None => return,
    };
    // SAFETY: it takes nothing.
    let thread = unsafe { libc::gettid() };
    let answer = match result {
        -4095..0 => {
            let error = io::Error::from_raw_os_error(-result as i32);
            format!("-1 {error}")
        }
        _ if call.number == libc::SYS_mmap => format!("{result:#x}"),
        _ => result.to_string(),
    };
    let not_served = if is_unknown { " (not served)" } else { "" };
    sink.write(&format!("{thread} {begun} = {answer}{not_served}\n"));
}
