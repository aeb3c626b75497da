//! Requests of the processes of a tree to their supervisor.

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::thread;
use std::time::Duration;

use crossbeam_utils::atomic::AtomicCell;
use fdtable_shm::Mutex;
use fdtable_vfs::Errno;

use super::messages::{
    GIVE, Message, PIN, RELEASE, TRACE, UNPIN, WAKE, WATCH, receive, send_on, send_with,
    socket_pair,
};
use crate::abi::guard::inside;
use crate::host::direct::pollfd;
use crate::host::{self, errno};

/// The id of the supervisor, or 0.
pub(super) static ID: AtomicCell<c_int> = AtomicCell::new(0);

/// The socket on which processes write to it, or -1.
pub(super) static SOCKET: AtomicCell<RawFd> = AtomicCell::new(-1);

/// 1 if the supervisor traces this process, and so all that it makes; else 0. The supervisor writes
/// it too.
pub(super) static IS_TRACED: AtomicCell<u64> = AtomicCell::new(0);

/// The descriptors under which the supervisor pins those of others.
pub(super) struct PinFds {
    pub(super) free: Vec<c_int>,
    pub(super) next: c_int,
    pub(super) end: c_int,
}

fdtable_sync::global! {
    pub(super) static PIN_FDS: Mutex<PinFds> = Mutex::new(PinFds {
        free: Vec::new(),
        next: 0,
        end: 0,
    });
}

fdtable_sync::global! {
    /// The pinned descriptors of counters that the supervisor makes readable before it does
    /// anything else.
    pub(super) static WAKES: Mutex<Vec<c_int>> = Mutex::new(Vec::new());
}

/// The descriptors that the supervisor itself unpins, until it has followed all messages.
pub(super) static UNPINNED: Mutex<Vec<c_int>> = Mutex::new(Vec::new());

/// True from the first fork on. A child does not take the lock, which another thread may hold.
static HAS_BEGUN: AtomicCell<bool> = AtomicCell::new(false);

/// Has the supervisor trace this process and all that it makes, before the first fork: no other
/// process shares the kernel until then, and each signal wakes a tracer. Returns false if the host
/// does not let it. The calling thread blocks all signals.
pub fn begin_tracing() -> bool {
    static BEGINS: Mutex<()> = Mutex::new(());
    if HAS_BEGUN.load() {
        return true;
    }
    let _alone = BEGINS.lock();
    if HAS_BEGUN.load() {
        return true;
    }
    fdtable_shm::make_large_pages();
    // Some hosts let a process trace only its children, and processes that allow it.
    // SAFETY: it takes integers.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, ID.load()) };
    let name = fdtable_shm::process().cast_signed();
    send([TRACE, host::process_id(), name], None);
    let answer = receive(SOCKET.load());
    let is_traced = matches!(answer, Some(([TRACE, 1, _], None)));
    IS_TRACED.store(is_traced.into());
    HAS_BEGUN.store(true);
    is_traced
}

/// Has the supervisor release this process for another tracer. Returns when it has done so, or
/// after ten seconds. From then on the supervisor only watches the process and its later children.
pub fn release() {
    const LOOKS: u32 = 10_000;
    HAS_BEGUN.store(true);
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

/// Has the supervisor pin a host descriptor. Returns its descriptor there.
///
/// # Errors
/// `ENFILE` if there is no supervisor, or it has no descriptor left.
pub(crate) fn pin(fd: RawFd) -> Result<c_int, Errno> {
    let pinned = {
        let mut fds = PIN_FDS.lock();
        match fds.free.pop() {
            Some(pinned) => pinned,
            None if fds.next == fds.end => return Err(Errno::ENFILE),
            None => {
                fds.next += 1;
                fds.next - 1
            }
        }
    };
    if !send([PIN, pinned, 0], Some(fd)) {
        PIN_FDS.lock().free.push(pinned);
        return Err(Errno::ENFILE);
    }
    Ok(pinned)
}

/// Has the supervisor close a pinned descriptor.
pub(crate) fn unpin(pinned: c_int) {
    if ID.load() == host::process_id() {
        // This is it, and the message with the descriptor may still be before it.
        let _private = fdtable_shm::leave();
        UNPINNED.lock().push(pinned);
    } else {
        send([UNPIN, pinned, 0], None);
    }
}

/// Makes a pinned counter readable. The caller keeps it from being unpinned meanwhile. Does not
/// wait for the supervisor, which may wait for a lock of the caller.
pub(crate) fn wake_pinned(pinned: c_int) {
    let is_new = {
        let _shared = fdtable_shm::enter();
        let mut wakes = WAKES.lock();
        let is_new = !wakes.contains(&pinned);
        if is_new {
            wakes.push(pinned);
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
    inside(|| WAKES.lock().retain(|&pinned| !host::eventfd_set(pinned)));
}

/// Opens a pinned descriptor, for reading and writing.
///
/// # Errors
/// As [`ask_for`]; `EMFILE`, `ENFILE`.
pub(crate) fn open_pinned(pinned: c_int) -> Result<RawFd, Errno> {
    let path = format!("/proc/{}/fd/{pinned}\0", ID.load());
    // SAFETY: the path ends with a zero byte.
    let fd = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDWR | libc::O_CLOEXEC) };
    if fd >= 0 {
        return Ok(fd);
    }
    match errno() {
        errno @ (Errno::EMFILE | Errno::ENFILE) => Err(errno),
        // Another user, a root without `/proc`, or the supervisor has the message still before it:
        // the request comes behind that.
        _ => ask_for(pinned),
    }
}

/// Asks the supervisor for a pinned descriptor.
///
/// # Errors
/// `EIO` if it does not answer; those of the host's `socketpair`.
pub(crate) fn ask_for(pinned: c_int) -> Result<RawFd, Errno> {
    /// How long it may take, in milliseconds.
    const PATIENCE: c_int = 2_000;
    let [ours, theirs] = socket_pair()?;
    let is_sent = send([GIVE, pinned, 0], Some(theirs));
    host::close(theirs);
    let mut answer = pollfd(ours, libc::POLLIN);
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
    fn a_descriptor_is_free_again_where_there_is_no_supervisor() {
        {
            let mut fds = PIN_FDS.lock();
            (fds.next, fds.end) = (7, 8);
        }
        for _ in 0..2 {
            assert_eq!(pin(0), Err(Errno::ENFILE));
            assert_eq!(PIN_FDS.lock().free, [7]);
        }
    }
}
