//! Queues between the two threads of the supervisor: the one that traces, and the one that does
//! what the kernel is needed for.

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::sync::mpsc;

use fdtable_vfs::Errno;

use crate::host;

/// Request to the thread that traces.
pub(super) enum Request {
    /// Trace the first process, which has one thread. The answer is on the socket.
    Begin { id: c_int, name: u32 },
    /// Let the process with this id go, so that another one can trace it. A thread of it has asked.
    Release { id: c_int, asker: c_int },
    /// The process with this name was reaped.
    Reaped(u32),
}

/// Request of the thread that traces to the other thread.
#[derive(Clone, Copy, Debug)]
pub(super) enum Job {
    /// The process with this name was forked.
    Born { name: u32, id: c_int },
    /// Reap the process with this name, and say so.
    Reap(u32),
    /// Reap the process with this name, which has ended by itself.
    ReapEnded(u32),
    /// Watch a process, which is not traced any more.
    Watch { id: c_int, name: u32 },
}

/// One end of a queue between the two threads. Its descriptor is ready when there is something.
pub(super) struct Sender<T> {
    queue: mpsc::Sender<T>,
    eventfd: RawFd,
}

impl<T> Sender<T> {
    pub(super) fn send(&self, what: T) {
        // Neither thread ends before the process.
        let _ = self.queue.send(what);
        host::eventfd_set(self.eventfd);
    }

    /// Sends what has time until the other thread looks for something else.
    pub(super) fn send_later(&self, what: T) {
        // As above.
        let _ = self.queue.send(what);
    }
}

/// The other end.
pub(super) struct Receiver<T> {
    queue: mpsc::Receiver<T>,
    pub(super) eventfd: RawFd,
}

impl<T> Receiver<T> {
    /// Takes all items in the queue. Call it when the descriptor is ready, or at any other time.
    pub(super) fn take(&self) -> Vec<T> {
        host::eventfd_reset(self.eventfd);
        self.queue.try_iter().collect()
    }
}

/// Makes a queue.
///
/// # Errors
/// Errors of the host's `eventfd`.
pub(super) fn queue<T>() -> Result<(Sender<T>, Receiver<T>), Errno> {
    let eventfd = host::eventfd()?.into_raw();
    let (sender, receiver) = mpsc::channel();
    let sender = Sender {
        queue: sender,
        eventfd,
    };
    Ok((
        sender,
        Receiver {
            queue: receiver,
            eventfd,
        },
    ))
}
