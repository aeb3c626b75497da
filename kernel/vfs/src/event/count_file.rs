//! Open files of a count of eight bytes: what `eventfd` and `timerfd` have in common.
//!
//! A read takes the count, and sleeps while there is none. The [`Count`] says what the file counts,
//! what a write does, and whether time changes the count.
//!
//! A sleeper checks the count under the lock under which it joins the queue, so no wake-up is lost.
//! It also wakes when time will change the count, and notices under the same lock if another thread
//! has moved that time meanwhile ([`Count::setting`]).

use std::fmt::Debug;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::Instant;

use fdtable_shm::{Mutex, MutexGuard};

use super::{Events, Limit, Pollee, Restart, WaitQueue, Wakeups, wait};
use crate::fs::locks::{self, LockSet};
use crate::vectored::scatter;
use crate::{Errno, Object, OpenFlags, Status, Transfer};

/// Count of a [`CountFile`], under its lock. Each operation gets the queue of the waiters, collects
/// those to wake, and returns nothing if it has to wait.
pub trait Count: Debug + Send + Sized + 'static {
    /// Name that `/proc` shows.
    const LABEL: &'static str;

    /// Takes from the count.
    fn take(&mut self, queue: &mut WaitQueue) -> Option<Outcome>;

    /// Adds to the count.
    ///
    /// The outcome is `EINVAL` if a write is not possible (the default).
    fn add(&mut self, _addend: u64, _queue: &mut WaitQueue) -> Option<Outcome> {
        Some((Err(Errno::EINVAL), Wakeups::default()))
    }

    /// Returns the events that the file is ready for now.
    fn events(&mut self) -> Events;

    /// Returns when time alone may change the count, and collects the watchers of what it has
    /// changed already. By default, time changes nothing.
    fn next_change(&mut self, _queue: &mut WaitQueue) -> (Option<Instant>, Wakeups) {
        (None, Wakeups::default())
    }

    /// Returns a number that changes with [`next_change`](Self::next_change), except by time.
    fn setting(&self) -> u64 {
        0
    }

    /// True if time alone may change the count.
    const IS_TIMED: bool = false;

    /// Appends the lines of `/proc/self/fdinfo`.
    fn show_fdinfo(file: &CountFile<Self>, text: &mut String);
}

/// Result of an operation, and the wake-ups that it has collected.
pub(super) type Outcome = (Result<u64, Errno>, Wakeups);

/// Open file of a count.
#[derive(Debug)]
pub struct CountFile<C: Count> {
    shared: Arc<Shared<C>>,
    status: Status,
}

/// Pollable part of the open file.
#[derive(Debug)]
struct Shared<C>(Mutex<State<C>>);

/// State that the lock guards.
#[derive(Debug)]
pub(super) struct State<C> {
    pub(super) count: C,
    pub(super) queue: WaitQueue,
    revoked: bool,
}

/// Size of a count in bytes.
pub(super) const WORD: usize = size_of::<u64>();

impl<C: Count> CountFile<C> {
    pub(super) fn of(count: C, flags: OpenFlags) -> Self {
        let state = State {
            count,
            queue: WaitQueue::new(),
            revoked: false,
        };
        CountFile {
            shared: Arc::new(Shared(Mutex::new(state))),
            status: Status::new(flags),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.shared.0.lock()
    }

    /// Runs an operation once, or until it need not wait. It runs again when time has changed the
    /// count, and when another thread has changed the time at which it will.
    ///
    /// # Errors
    /// `EAGAIN` if it would have to wait and may not; `EINTR` if a signal handler runs first; `EIO`
    /// if the file is revoked.
    fn run(
        &self,
        waits: bool,
        interest: Events,
        mut operation: impl FnMut(&mut C, &mut WaitQueue) -> Option<Outcome>,
    ) -> Result<u64, Errno> {
        if !waits {
            let outcome = self.lock().run(operation);
            return finish(outcome);
        }
        loop {
            let (setting, (until, notified)) = {
                let State { count, queue, .. } = &mut *self.lock();
                (count.setting(), count.next_change(queue))
            };
            notified.run();
            let found = wait(
                &self.shared.0,
                |state| &mut state.queue,
                interest,
                Limit::new(until, Restart::Allowed),
                |state| match state.run(&mut operation) {
                    Some(outcome) => Some(Ok(Some(outcome))),
                    None if state.count.setting() != setting => Some(Ok(None)),
                    None => None,
                },
            );
            match found {
                Ok(Some(outcome)) => return finish(Some(outcome)),
                // Another thread or the time has changed the count.
                Ok(None) | Err(Errno::EAGAIN) => {}
                Err(errno) => return Err(errno),
            }
        }
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

/// Runs the wake-ups of an operation, after the lock is released.
fn finish(outcome: Option<Outcome>) -> Result<u64, Errno> {
    let (result, woken) = outcome.ok_or(Errno::EAGAIN)?;
    woken.run();
    result
}

impl<C: Count> State<C> {
    /// Checks that the file is not revoked.
    pub(super) fn check(&self) -> Result<(), Errno> {
        match self.revoked {
            true => Err(Errno::EIO),
            false => Ok(()),
        }
    }

    fn run(
        &mut self,
        operation: impl FnOnce(&mut C, &mut WaitQueue) -> Option<Outcome>,
    ) -> Option<Outcome> {
        match self.check() {
            Ok(()) => operation(&mut self.count, &mut self.queue),
            Err(errno) => Some((Err(errno), Wakeups::default())),
        }
    }
}

impl<C: Count> Object for CountFile<C> {
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
            let taken = self.run(waits, Events::IN, C::take)?;
            word.copy_from_slice(&taken.to_ne_bytes());
            Ok(WORD)
        })
    }

    /// Writes each buffer by itself, as Linux does, until one fails.
    fn write_from(&self, bufs: &[IoSlice<'_>], how: Transfer<'_>) -> Result<usize, Errno> {
        let waits = how.waits_in_stream()?;
        let mut written = Err(Errno::EINVAL);
        for bytes in bufs {
            let added = addend(bytes).and_then(|addend| {
                self.run(waits, Events::OUT, |count, queue| count.add(addend, queue))
            });
            match added {
                Ok(_) => written = Ok(written.unwrap_or(0) + WORD),
                Err(errno) => return written.or(Err(errno)),
            }
        }
        written
    }

    fn label(&self) -> String {
        C::LABEL.to_string()
    }

    fn show_fdinfo(&self, text: &mut String) {
        C::show_fdinfo(self, text);
    }

    /// No effect: a borrowed lookup that still uses it might have come before.
    fn release(&self) {}

    fn revoke(&self) {
        let woken = {
            let mut state = self.lock();
            state.revoked = true;
            state
                .queue
                .wake_all(Events::IN | Events::OUT | Events::ALWAYS)
        };
        woken.run();
    }
}

impl<C: Count> Pollee for Shared<C> {
    fn events(&self) -> Events {
        let mut state = self.0.lock();
        let mut events = state.count.events();
        events.set(Events::ERR, state.revoked);
        events
    }

    fn with_queues(&self, visit: &mut dyn FnMut(&mut WaitQueue)) {
        visit(&mut self.0.lock().queue);
    }

    fn is_revoked(&self) -> bool {
        self.0.lock().revoked
    }

    fn is_timed(&self) -> bool {
        C::IS_TIMED
    }

    fn next_change(&self) -> Option<Instant> {
        let (next_change, wakeups) = {
            let State { count, queue, .. } = &mut *self.0.lock();
            count.next_change(queue)
        };
        wakeups.run();
        next_change
    }
}
