//! `eventfd(2)`: counters that can be waited for.
//!
//! A read takes the whole count, or one of it (`SEMAPHORE`); a write adds. Readers sleep while the
//! count is zero. A write wakes one of them, and a reader that leaves something passes the wake-up
//! on. Writers sleep while their addend does not fit below the maximum: they need different
//! amounts, so a read wakes them all.
//!
//! Every write notifies the watchers, even if the count was not zero: an edge-triggered event loop
//! may never read.

use std::fmt::Write;
use std::sync::Arc;

use fdtable_shm::Mutex;

use super::{Events, FileId, Limit, Pollee, WaitQueue, Wakeups, Watcher, wait};
use crate::fs::locks::{self, LockSet};
use crate::{Errno, Object, OpenFlags, Status};

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
    counter: Arc<Counter>,
    status: Status,
    takes: Takes,
}

/// How much a read takes.
#[derive(Clone, Copy, Debug)]
enum Takes {
    All,
    One,
}

#[derive(Debug)]
struct Counter(Mutex<State>);

#[derive(Debug)]
struct State {
    /// At most [`EventFd::MAX`].
    count: u64,
    revoked: bool,
    queue: WaitQueue,
}

/// Result of an operation, and the wake-ups that it has collected.
type Outcome = (Result<u64, Errno>, Wakeups);

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
        let state = State {
            count: initial,
            revoked: false,
            queue: WaitQueue::new(),
        };
        let takes = if flags.contains(EventFdFlags::SEMAPHORE) {
            Takes::One
        } else {
            Takes::All
        };
        Ok(EventFd {
            counter: Arc::new(Counter(Mutex::new(state))),
            status: Status::new(flags.open_flags()),
            takes,
        })
    }

    /// Returns the current count.
    pub fn count(&self) -> u64 {
        self.counter.0.lock().count
    }

    /// Stores a count in the first eight bytes of `buf`.
    fn read_into(
        buf: &mut [u8],
        take: impl FnOnce() -> Result<u64, Errno>,
    ) -> Result<usize, Errno> {
        let word = buf.get_mut(..WORD).ok_or(Errno::EINVAL)?;
        word.copy_from_slice(&take()?.to_ne_bytes());
        Ok(WORD)
    }

    /// Reads the addend, which must be all of the bytes.
    fn addend(bytes: &[u8]) -> Result<u64, Errno> {
        let word: [u8; WORD] = bytes.try_into().map_err(|_| Errno::EINVAL)?;
        match u64::from_ne_bytes(word) {
            u64::MAX => Err(Errno::EINVAL),
            addend => Ok(addend),
        }
    }
}

impl Object for EventFd {
    fn status(&self) -> OpenFlags {
        self.status.get()
    }

    fn set_status(&self, flags: OpenFlags) -> Result<(), Errno> {
        self.status.set(flags);
        Ok(())
    }

    fn locks(&self) -> Option<&LockSet> {
        Some(&locks::ANONYMOUS)
    }

    fn pollee(&self) -> Option<Arc<dyn Pollee>> {
        Some(Arc::clone(&self.counter) as Arc<dyn Pollee>)
    }

    fn events(&self) -> Events {
        self.counter.events()
    }

    fn try_read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        let take = |state: &mut State| state.take(self.takes);
        Self::read_into(buf, || self.counter.attempt(take))
    }

    fn read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        let take = |state: &mut State| state.take(self.takes);
        Self::read_into(buf, || self.counter.wait_for(Events::IN, take))
    }

    fn try_write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let addend = Self::addend(bytes)?;
        self.counter.attempt(|state| state.add(addend))?;
        Ok(WORD)
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let addend = Self::addend(bytes)?;
        self.counter
            .wait_for(Events::OUT, |state| state.add(addend))?;
        Ok(WORD)
    }

    fn label(&self) -> String {
        "anon_inode:[eventfd]".to_string()
    }

    fn show_fdinfo(&self, text: &mut String) {
        let takes_one = u8::from(matches!(self.takes, Takes::One));
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "eventfd-count: {:16x}\neventfd-semaphore: {takes_one}",
            self.count()
        );
    }

    /// No effect: a borrowed lookup that still uses it might have come before.
    fn release(&self) {}

    fn revoke(&self) {
        let woken = {
            let mut state = self.counter.0.lock();
            state.revoked = true;
            state
                .queue
                .wake_all(Events::IN | Events::OUT | Events::ALWAYS)
        };
        woken.run();
    }
}

impl Counter {
    /// Runs an operation once. `EAGAIN` if it would have to wait.
    fn attempt(&self, operation: impl FnOnce(&mut State) -> Option<Outcome>) -> Result<u64, Errno> {
        let outcome = operation(&mut self.0.lock());
        finish(outcome)
    }

    /// Runs an operation until it need not wait.
    fn wait_for(
        &self,
        interest: Events,
        operation: impl FnMut(&mut State) -> Option<Outcome>,
    ) -> Result<u64, Errno> {
        let outcome = wait(
            &self.0,
            |state| &mut state.queue,
            interest,
            Limit::FOREVER,
            operation,
        );
        finish(Some(outcome?))
    }
}

/// Runs the wake-ups of an operation, after the lock is released.
fn finish(outcome: Option<Outcome>) -> Result<u64, Errno> {
    let (result, woken) = outcome.ok_or(Errno::EAGAIN)?;
    woken.run();
    result
}

impl State {
    /// Takes from the count; nothing if it is zero.
    fn take(&mut self, takes: Takes) -> Option<Outcome> {
        if self.revoked {
            return Some((Err(Errno::EIO), Wakeups::default()));
        }
        if self.count == 0 {
            return None;
        }
        let taken = match takes {
            Takes::All => self.count,
            Takes::One => 1,
        };
        self.count -= taken;
        let mut woken = self.queue.wake_all(Events::OUT);
        if self.count > 0 {
            woken = woken.and(self.queue.pass_on(Events::IN));
        }
        Some((Ok(taken), woken))
    }

    /// Adds to the count; nothing if it does not fit.
    fn add(&mut self, addend: u64) -> Option<Outcome> {
        if self.revoked {
            return Some((Err(Errno::EIO), Wakeups::default()));
        }
        if addend > EventFd::MAX - self.count {
            return None;
        }
        self.count += addend;
        let woken = match self.count {
            // Adding zero is an edge too, as on Linux, but there is nothing to take.
            0 => self.queue.notify_watchers(Events::IN),
            _ => self.queue.wake(Events::IN),
        };
        Some((Ok(addend), woken))
    }
}

impl Pollee for Counter {
    /// As on Linux, `IN` and `OUT` without their second spellings.
    fn events(&self) -> Events {
        let state = self.0.lock();
        let mut events = Events::empty();
        events.set(Events::IN, state.count > 0);
        events.set(Events::OUT, state.count < EventFd::MAX);
        events.set(Events::ERR, state.revoked);
        events
    }

    fn watch(&self, watcher: &Arc<dyn Watcher>, interest: Events, file: Option<FileId>) {
        self.0.lock().queue.watch(watcher, interest, file);
    }

    fn unwatch(&self, watcher: &Arc<dyn Watcher>) {
        self.0.lock().queue.unwatch(watcher);
    }

    fn forget(&self, file: FileId) {
        let wakeups = self.0.lock().queue.forget(file);
        wakeups.run();
    }

    fn is_revoked(&self) -> bool {
        self.0.lock().revoked
    }
}

#[cfg(test)]
mod tests;
