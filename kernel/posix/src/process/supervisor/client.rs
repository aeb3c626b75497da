//! Requests of the processes of a tree to their supervisor.

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::thread;
use std::time::Duration;

use crossbeam_utils::atomic::AtomicCell;
use fdtable_shm::Mutex;
use fdtable_vfs::Errno;

use super::messages::{
    DROP, GIVE, KEEP, Message, RELEASE, TRACE, WAKE, WATCH, receive, send_on, send_with,
    socket_pair,
};
use crate::abi::guard::guarded;
use crate::host::{self, errno};

/// The id of the supervisor, or 0.
pub(super) static ID: AtomicCell<c_int> = AtomicCell::new(0);

/// The socket on which processes write to it, or -1.
pub(super) static SOCKET: AtomicCell<RawFd> = AtomicCell::new(-1);

/// 1 if the supervisor traces this process, and so all that it makes; else 0. The supervisor writes
/// it too.
pub(super) static IS_TRACED: AtomicCell<u64> = AtomicCell::new(0);

/// The numbers of what is kept.
pub(super) struct Numbers {
    pub(super) free: Vec<c_int>,
    pub(super) next: c_int,
    pub(super) end: c_int,
}

fdtable_sync::global! {
    pub(super) static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers {
        free: Vec::new(),
        next: 0,
        end: 0,
    });
}

fdtable_sync::global! {
    /// The numbers of counters that the supervisor makes readable before it does anything else.
    pub(super) static WAKES: Mutex<Vec<c_int>> = Mutex::new(Vec::new());
}

/// The numbers that the supervisor itself drops, until it has followed all messages.
pub(super) static DROPPED: Mutex<Vec<c_int>> = Mutex::new(Vec::new());

/// Has the supervisor trace this process, or watch it if the host does not let it.
pub(super) fn trace_this() {
    let (id, name) = (host::process_id(), fdtable_shm::process());
    // Some hosts let a process trace only its children, and processes that allow it.
    // SAFETY: it takes integers.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, ID.load()) };
    send([TRACE, id, name.cast_signed()], None);
    let answer = receive(SOCKET.load());
    IS_TRACED.store(matches!(answer, Some(([TRACE, 1, _], None))).into());
    see(id, name);
}

/// Has the supervisor let this process go, for another one that traces it. Returns when it has, or
/// after ten seconds. The process and its later children are watched from then on.
pub fn release() {
    const LOOKS: u32 = 10_000;
    if !is_traced() {
        return;
    }
    // SAFETY: it takes nothing.
    let asker = unsafe { libc::gettid() };
    send([RELEASE, host::process_id(), asker], None);
    for _ in 0..LOOKS {
        thread::sleep(Duration::from_millis(1));
        if !is_traced() {
            return;
        }
    }
}

/// Returns true if the supervisor traces this process, or did so until it ended.
pub(crate) fn is_traced() -> bool {
    IS_TRACED.load() != 0
}

/// Has the supervisor watch a process of the tree, unless it traces it.
pub(crate) fn see(id: c_int, name: u32) {
    if !is_traced() {
        send([WATCH, id, name.cast_signed()], None);
    }
}

/// Has the supervisor keep a host descriptor. Returns the number there.
///
/// # Errors
/// `ENFILE` if there is no supervisor, or it has no number left.
pub(crate) fn keep(fd: RawFd) -> Result<c_int, Errno> {
    let number = {
        let mut numbers = NUMBERS.lock();
        match numbers.free.pop() {
            Some(number) => number,
            None if numbers.next == numbers.end => return Err(Errno::ENFILE),
            None => {
                numbers.next += 1;
                numbers.next - 1
            }
        }
    };
    if !send([KEEP, number, 0], Some(fd)) {
        NUMBERS.lock().free.push(number);
        return Err(Errno::ENFILE);
    }
    Ok(number)
}

/// Has the supervisor close what it keeps under a number.
pub(crate) fn drop_kept(number: c_int) {
    if ID.load() == host::process_id() {
        // This is it, and the message with the descriptor may still be before it.
        let _private = fdtable_shm::leave();
        DROPPED.lock().push(number);
    } else {
        send([DROP, number, 0], None);
    }
}

/// Makes a counter readable that the supervisor keeps under a number. The caller keeps it from
/// being dropped meanwhile. Does not wait for the supervisor, which may wait for a lock of the
/// caller.
pub(crate) fn wake_kept(number: c_int) {
    let is_new = {
        let _shared = fdtable_shm::enter();
        let mut wakes = WAKES.lock();
        let is_new = !wakes.contains(&number);
        if is_new {
            wakes.push(number);
        }
        is_new
    };
    if ID.load() == host::process_id() {
        // This is it.
        make_wakes();
    } else if is_new {
        // If there is no room, the supervisor has a message before it, and looks for wake-ups then.
        send_now([WAKE, 0, 0]);
    }
}

/// Makes the counters in `WAKES` readable, in the supervisor. A counter stays there if the
/// supervisor does not have it yet: the message with it is still before the supervisor.
pub(super) fn make_wakes() {
    let _ = guarded(|| {
        WAKES.lock().retain(|&number| !host::eventfd_set(number));
        Ok(())
    });
}

/// Opens what the supervisor keeps under a number, for reading and writing.
///
/// # Errors
/// As [`ask_for`]; `EMFILE`, `ENFILE`.
pub(crate) fn open_kept(number: c_int) -> Result<RawFd, Errno> {
    let path = format!("/proc/{}/fd/{number}\0", ID.load());
    // SAFETY: the path ends with a zero byte.
    let fd = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDWR | libc::O_CLOEXEC) };
    if fd >= 0 {
        return Ok(fd);
    }
    match errno() {
        errno @ (Errno::EMFILE | Errno::ENFILE) => Err(errno),
        // Another user, a root without `/proc`, or the supervisor has the message still before it:
        // the request comes behind that.
        _ => ask_for(number),
    }
}

/// Asks the supervisor for what it keeps under a number.
///
/// # Errors
/// `EIO` if it does not answer; those of the host's `socketpair`.
pub(crate) fn ask_for(number: c_int) -> Result<RawFd, Errno> {
    /// How long it may take, in milliseconds.
    const PATIENCE: c_int = 2_000;
    let [ours, theirs] = socket_pair()?;
    let is_sent = send([GIVE, number, 0], Some(theirs));
    host::close(theirs);
    let mut answer = libc::pollfd {
        fd: ours,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: there is one entry.
    let is_there = is_sent && unsafe { libc::poll(&raw mut answer, 1, PATIENCE) } > 0;
    let fd = is_there.then(|| receive(ours)).flatten();
    host::close(ours);
    fd.and_then(|(_, fd)| fd).ok_or(Errno::EIO)
}

/// Sends a message. Returns false if there is no supervisor.
pub(super) fn send(message: Message, fd: Option<RawFd>) -> bool {
    send_on(SOCKET.load(), message, fd)
}

/// Sends a message, if there is room.
pub(super) fn send_now(message: Message) {
    send_with(SOCKET.load(), message, None, libc::MSG_DONTWAIT);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_free_again_where_there_is_no_supervisor() {
        {
            let mut numbers = NUMBERS.lock();
            (numbers.next, numbers.end) = (7, 8);
        }
        for _ in 0..2 {
            assert_eq!(keep(0), Err(Errno::ENFILE));
            assert_eq!(NUMBERS.lock().free, [7]);
        }
    }
}
