//! `eventfd(2)`: counters that can be waited for.
//!
//! A read takes the whole count, or one of it (`SEMAPHORE`); a write adds. Readers sleep while the
//! count is zero. A write wakes one of them, and a reader that leaves something passes the wake-up
//! on. Writers sleep while their addend does not fit below the maximum: they need different
//! amounts, so a read wakes them all.
//!
//! Every write notifies the watchers, even if the count was not zero: an edge-triggered event loop
//! may never read.
//!
//! A sleeper checks the count under the lock under which it joins the queue, so no wake-up is lost.

use std::fmt::Write;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use fdtable_shm::Mutex;

use super::{Events, Limit, Pollee, WaitQueue, Wakeups, wait};
use crate::fs::locks::{self, LockSet};
use crate::vectored::scatter;
use crate::{Errno, Object, OpenFlags, Status, Transfer};

bitflags::bitflags! {
    /// Flags of `eventfd`, with the values of Linux.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct EventFdFlags: u32 {
        /// A read takes one, and not the whole count.
        const SEMAPHORE = 1;
        /// Calls that would block return `EAGAIN`.
        const NONBLOCK = 0o4000;
        /// Closes the descriptor on `exec`.
        const CLOEXEC = 0o2000000;
    }
}

impl EventFdFlags {
    /// Returns the flags that every open file has.
    pub(crate) fn open_flags(self) -> OpenFlags {
        OpenFlags::from_bits_truncate((self - Self::SEMAPHORE).bits()) | OpenFlags::RDWR
    }
}

/// Open eventfd: a counter that can be waited for.
#[derive(Debug)]
pub struct EventFd {
    shared: Arc<Shared>,
    status: Status,
}

/// Pollable part of the open file.
#[derive(Debug)]
struct Shared(Mutex<State>);

/// State that the lock guards.
#[derive(Debug)]
struct State {
    /// At most [`EventFd::MAX`].
    count: u64,
    takes: Takes,
    queue: WaitQueue,
    revoked: bool,
}

/// How much a read takes.
#[derive(Clone, Copy, Debug)]
enum Takes {
    All,
    One,
}

/// Result of an operation, and the wake-ups that it has collected.
type Outcome = (u64, Wakeups);

/// Size of a count in bytes.
const WORD: usize = size_of::<u64>();

impl EventFd {
    /// The maximum count: 2^64 - 2.
    pub const MAX: u64 = u64::MAX - 1;

    /// Makes an eventfd with a count of 0 to [`MAX`](Self::MAX). Allocates.
    ///
    /// # Errors
    /// `EINVAL` if the count is above that.
    pub fn new(initial: u64, flags: EventFdFlags) -> Result<Self, Errno> {
        if initial > Self::MAX {
            return Err(Errno::EINVAL);
        }
        let takes = match flags.contains(EventFdFlags::SEMAPHORE) {
            true => Takes::One,
            false => Takes::All,
        };
        let state = State {
            count: initial,
            takes,
            queue: WaitQueue::new(),
            revoked: false,
        };
        Ok(EventFd {
            shared: Arc::new(Shared(Mutex::new(state))),
            status: Status::new(flags.open_flags()),
        })
    }

    /// Returns the current count.
    pub fn count(&self) -> u64 {
        self.shared.0.lock().count
    }

    /// Runs an operation once, or until it need not wait. It returns nothing if it has to.
    ///
    /// # Errors
    /// `EAGAIN` if it would have to wait and may not; `EINTR` if a signal handler runs first; `EIO`
    /// if the file is revoked.
    fn run(
        &self,
        waits: bool,
        interest: Events,
        mut operation: impl FnMut(&mut State) -> Option<Outcome>,
    ) -> Result<u64, Errno> {
        let limit = match waits {
            true => Limit::FOREVER,
            false => Limit::NOW,
        };
        let (result, woken) = wait(
            &self.shared.0,
            |state| &mut state.queue,
            interest,
            limit,
            |state| match state.revoked {
                true => Some(Err(Errno::EIO)),
                false => operation(state).map(Ok),
            },
        )?;
        woken.run();
        Ok(result)
    }
}

/// Reads an addend, which must be all of the bytes.
fn addend(bytes: &[u8]) -> Result<u64, Errno> {
    let word: [u8; WORD] = bytes.try_into().map_err(|_| Errno::EINVAL)?;
    match u64::from_ne_bytes(word) {
        u64::MAX => Err(Errno::EINVAL),
        addend => Ok(addend),
    }
}

impl State {
    fn take(&mut self) -> Option<Outcome> {
        if self.count == 0 {
            return None;
        }
        let taken = match self.takes {
            Takes::All => self.count,
            Takes::One => 1,
        };
        self.count -= taken;
        let mut woken = self.queue.wake_all(Events::OUT);
        if self.count > 0 {
            woken.append(self.queue.pass_on(Events::IN));
        }
        Some((taken, woken))
    }

    fn add(&mut self, addend: u64) -> Option<Outcome> {
        if addend > EventFd::MAX - self.count {
            return None;
        }
        self.count += addend;
        let woken = match self.count {
            // Adding zero is an edge too, as on Linux, but there is nothing to take.
            0 => self.queue.notify_watchers(Events::IN),
            _ => self.queue.wake(Events::IN),
        };
        Some((addend, woken))
    }
}

impl Object for EventFd {
    fn status_cell(&self) -> Option<&Status> {
        Some(&self.status)
    }

    fn locks(&self) -> Option<&LockSet> {
        Some(&locks::ANONYMOUS)
    }

    fn pollee(&self) -> Option<Arc<dyn Pollee>> {
        Some(Arc::clone(&self.shared) as Arc<dyn Pollee>)
    }

    fn events(&self) -> Events {
        self.shared.events()
    }

    fn read_to(&self, bufs: &mut [IoSliceMut<'_>], how: Transfer<'_>) -> Result<usize, Errno> {
        let waits = how.waits_in_stream()?;
        scatter(bufs, |buf| {
            let word = buf.get_mut(..WORD).ok_or(Errno::EINVAL)?;
            let taken = self.run(waits, Events::IN, State::take)?;
            word.copy_from_slice(&taken.to_ne_bytes());
            Ok(WORD)
        })
    }

    /// Writes each buffer by itself, as Linux does, until one fails.
    fn write_from(&self, bufs: &[IoSlice<'_>], how: Transfer<'_>) -> Result<usize, Errno> {
        let waits = how.waits_in_stream()?;
        let mut written = Err(Errno::EINVAL);
        for bytes in bufs {
            let added = addend(bytes)
                .and_then(|addend| self.run(waits, Events::OUT, |state| state.add(addend)));
            match added {
                Ok(_) => written = Ok(written.unwrap_or(0) + WORD),
                Err(errno) => return written.or(Err(errno)),
            }
        }
        written
    }

    fn label(&self) -> String {
        "anon_inode:[eventfd]".to_string()
    }

    fn show_fdinfo(&self, text: &mut String) {
        let State { count, takes, .. } = *self.shared.0.lock();
        let takes_one = u8::from(matches!(takes, Takes::One));
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "eventfd-count: {count:16x}\neventfd-semaphore: {takes_one}"
        );
    }

    /// No effect: a borrowed lookup that still uses it might have come before.
    fn release(&self) {}

    fn revoke(&self) {
        let woken = {
            let mut state = self.shared.0.lock();
            state.revoked = true;
            state
                .queue
                .wake_all(Events::IN | Events::OUT | Events::ALWAYS)
        };
        woken.run();
    }
}

impl Pollee for Shared {
    /// As on Linux, `IN` and `OUT` without their second spellings.
    fn events(&self) -> Events {
        let state = self.0.lock();
        let mut events = Events::empty();
        events.set(Events::IN, state.count > 0);
        events.set(Events::OUT, state.count < EventFd::MAX);
        events.set(Events::ERR, state.revoked);
        events
    }

    fn with_queues(&self, visit: &mut dyn FnMut(&mut WaitQueue)) {
        visit(&mut self.0.lock().queue);
    }

    fn is_revoked(&self) -> bool {
        self.0.lock().revoked
    }
}

#[cfg(test)]
mod tests;
