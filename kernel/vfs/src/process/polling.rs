//! `poll`: waiting for one of many descriptors.
//!
//! The first check takes no references: it asks the files for their events inside read-side
//! sections. Only a call that has to sleep takes references and registers with the files. It holds
//! them until it returns, so a close of a descriptor meanwhile does not wake it, as on Linux.

use std::time::{Duration, Instant};

use fdtable::{FdArg, RawFd, rcu};

use super::Process;
use crate::Errno;
use crate::event::{Events, Poll};

/// Events requested of a descriptor, and those found. In Linux: `pollfd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollFd {
    /// The descriptor. A negative one is ignored.
    pub fd: RawFd,
    /// Requested events. `ERR`, `HUP` and `NVAL` are reported even if they are not requested.
    pub events: Events,
    /// Events that were found; empty before the call.
    pub revents: Events,
}

impl PollFd {
    /// Requests `events` of a descriptor.
    pub fn new(fd: impl FdArg, events: Events) -> Self {
        PollFd {
            fd: fd.to_raw(),
            events,
            revents: Events::empty(),
        }
    }
}

impl Process {
    /// Waits until one of `fds` is ready, or until `timeout` has passed (`None`: forever), and
    /// returns how many are ready, with their events in `revents`. In Linux: `ppoll`.
    ///
    /// Regular files are always ready. A descriptor that is not open is ready with `NVAL`, a
    /// revoked one with `ERR` and `HUP`. Blocks, and allocates if it does.
    ///
    /// # Errors
    /// `EINVAL` if there are more of them than the limit of the table; `EINTR` if a signal handler
    /// runs first.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use fdtable_vfs::event::{EventFdFlags, Events};
    /// use fdtable_vfs::{PollFd, Process};
    ///
    /// # fn main() -> Result<(), fdtable_vfs::Errno> {
    /// let process = Process::new();
    /// let fd = process.eventfd(0, EventFdFlags::empty())?;
    /// let mut polled = [PollFd::new(fd, Events::IN)];
    /// assert_eq!(process.poll(&mut polled, Some(Duration::from_millis(1)))?, 0);
    /// process.write(fd, &1u64.to_ne_bytes())?;
    /// assert_eq!(process.poll(&mut polled, None)?, 1);
    /// assert_eq!(polled[0].revents, Events::IN);
    /// # Ok(())
    /// # }
    /// ```
    pub fn poll(&self, fds: &mut [PollFd], timeout: Option<Duration>) -> Result<usize, Errno> {
        if fds.len() > self.files.limit() as usize {
            return Err(Errno::EINVAL);
        }
        self.poll_for(fds, Events::ALWAYS | Events::NVAL, timeout)
    }

    /// Polls like [`poll`](Self::poll) any number of descriptors. Of the events that are not
    /// requested, only `always` are reported.
    ///
    /// # Errors
    /// `EINTR` if a signal handler runs first.
    pub fn poll_for(
        &self,
        fds: &mut [PollFd],
        always: Events,
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        // A call that does not block needs no clock.
        if timeout == Some(Duration::ZERO) {
            return Ok(self.look_at(fds, always));
        }
        // Read before the first check, which takes time too. A deadline too far ahead is none.
        let deadline = timeout.map(|timeout| Instant::now().checked_add(timeout));
        let ready = self.look_at(fds, always);
        if ready > 0 {
            return Ok(ready);
        }
        let poll = self.register(fds);
        let ready = poll.wait(deadline.flatten(), |found| note(fds, always, found))?;
        Ok(ready.unwrap_or(0))
    }

    /// Checks each descriptor once, without a reference, and returns how many are ready.
    fn look_at(&self, fds: &mut [PollFd], always: Events) -> usize {
        let (mut ready, mut rest) = (0, fds);
        while let Some(first) = rest.first() {
            // Neighbours are in one leaf of the table, and are checked in one section.
            let section = rcu::read_lock();
            let block = self.files.block(first.fd, &section);
            let (max, mut looked) = (rest.len().min(IN_ONE_SECTION), 0);
            for one in &mut rest[..max] {
                let fd = one.fd;
                if !block.contains(fd) {
                    break;
                }
                let events = match block.get_rcu(fd) {
                    Ok(file) => file.events(),
                    Err(_) if fd < 0 => Events::empty(),
                    Err(error) => events_of_none(error),
                };
                ready += usize::from(one.note(events, always));
                looked += 1;
            }
            rest = &mut rest[looked..];
        }
        ready
    }

    /// Takes references, and registers with the files.
    fn register(&self, fds: &[PollFd]) -> Poll {
        let mut poll = Poll::new();
        for one in fds {
            match one.fd {
                ..0 => poll.add_fixed(Events::empty()),
                fd => match self.files.get(fd) {
                    Ok(file) => poll.add(file, one.events),
                    Err(error) => poll.add_fixed(events_of_none(error)),
                },
            }
        }
        poll
    }
}

/// Most files that are checked in one section: 64. A grace period waits for them.
const IN_ONE_SECTION: usize = 64;

/// Stores the events found for each descriptor, and returns how many are ready, if any.
fn note(
    fds: &mut [PollFd],
    always: Events,
    found: &mut dyn Iterator<Item = Events>,
) -> Option<usize> {
    let notes = fds.iter_mut().zip(found);
    let ready = notes
        .filter_map(|(one, events)| one.note(events, always).then_some(()))
        .count();
    (ready > 0).then_some(ready)
}

impl PollFd {
    /// Stores those of `events` that are requested or among `always`, and returns true if there are
    /// any. For an embedder that polls a table of its own.
    #[inline]
    pub fn note(&mut self, events: Events, always: Events) -> bool {
        self.revents = events & (self.events | always);
        !self.revents.is_empty()
    }
}

/// Returns the events of a descriptor without a file.
fn events_of_none(error: fdtable::Error) -> Events {
    match error {
        fdtable::Error::Revoked => Events::ALWAYS,
        _ => Events::NVAL,
    }
}
