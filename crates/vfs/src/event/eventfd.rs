//! Counters that can be waited for: `eventfd(2)`.
//!
//! A read takes the whole count, or one of it (`SEMAPHORE`); a write adds. Readers sleep while it is
//! zero. Of them a write wakes one, and who leaves something passes the wake-up on. Writers sleep
//! while what each adds does not fit below the highest count: some need more room than others, so a
//! read wakes them all.
//!
//! Watchers are told of every write, also if the count was not zero: who asks for edges may never
//! read, and many event loops do not.

use std::fmt::Write;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Events, FileId, Pollee, WaitQueue, Wakeups, Watcher, wait};
use crate::{Errno, Object, OpenFlags, Status};

bitflags::bitflags! {
    /// Set of flags of `eventfd`, with the values of Linux.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct EventFdFlags: u32 {
        /// Makes a read take one, and not all.
        const SEMAPHORE = 1;
        /// Makes calls that would wait answer `EAGAIN`.
        const NONBLOCK = 0o4000;
        /// Closes the descriptor on `exec`.
        const CLOEXEC = 0o2000000;
    }
}

impl EventFdFlags {
    /// Returns the flags that every open file knows.
    pub(crate) fn open_flags(self) -> OpenFlags {
        OpenFlags::from_bits_truncate((self - Self::SEMAPHORE).bits()) | OpenFlags::RDWR
    }
}

/// Open eventfd: a count that can be waited for.
#[derive(Debug)]
pub struct EventFd {
    counter: Arc<Counter>,
    status: Status,
    takes: Takes,
}

/// What a read takes.
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

/// Outcome of an operation, and those whom it has found to be woken.
type Outcome = (Result<u64, Errno>, Wakeups);

/// Bytes of a count.
const WORD: usize = size_of::<u64>();

impl EventFd {
    /// The highest count: 2^64 - 2.
    pub const MAX: u64 = u64::MAX - 1;

    /// Makes one with a count, 0 to [`MAX`](Self::MAX). Allocates.
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

    /// Returns the count of this moment.
    pub fn count(&self) -> u64 {
        self.counter.0.lock().count
    }

    /// Puts a count into the first eight bytes of `buf`.
    fn read_into(
        buf: &mut [u8],
        take: impl FnOnce() -> Result<u64, Errno>,
    ) -> Result<usize, Errno> {
        let word = buf.get_mut(..WORD).ok_or(Errno::EINVAL)?;
        word.copy_from_slice(&take()?.to_ne_bytes());
        Ok(WORD)
    }

    /// Takes what is to be added from the first eight bytes.
    fn addend(bytes: &[u8]) -> Result<u64, Errno> {
        let word = bytes.first_chunk().ok_or(Errno::EINVAL)?;
        match u64::from_ne_bytes(*word) {
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
        // A string takes all that is written.
        let _ = writeln!(
            text,
            "eventfd-count: {:16x}\neventfd-semaphore: {takes_one}",
            self.count()
        );
    }

    /// Who still looks at it through a borrowed lookup may as well have come before.
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
    /// Runs an operation once. Nothing, if it has to wait, is `EAGAIN`.
    fn attempt(&self, operation: impl FnOnce(&mut State) -> Option<Outcome>) -> Result<u64, Errno> {
        let outcome = operation(&mut self.0.lock());
        finish(outcome)
    }

    /// Runs an operation until it does not have to wait.
    fn wait_for(
        &self,
        interest: Events,
        operation: impl FnMut(&mut State) -> Option<Outcome>,
    ) -> Result<u64, Errno> {
        let outcome = wait(&self.0, |state| &mut state.queue, interest, None, operation);
        finish(outcome)
    }
}

/// Wakes whom an operation has found, now that the lock is gone.
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
            // Even nothing is an edge, as on Linux, but there is nothing to take.
            0 => self.queue.tell(Events::IN),
            _ => self.queue.wake(Events::IN),
        };
        Some((Ok(addend), woken))
    }
}

impl Pollee for Counter {
    /// As Linux, `IN` and `OUT` without their second spellings.
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
        let told = self.0.lock().queue.forget(file);
        told.run();
    }

    fn is_revoked(&self) -> bool {
        self.0.lock().revoked
    }
}

#[cfg(test)]
mod tests;
