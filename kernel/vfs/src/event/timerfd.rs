//! `timerfd_create(2)`: timers that can be waited for.
//!
//! A timer has no thread. Expirations are computed when the timer is asked, and sleepers wake at
//! the time that [`next_change`](Pollee::next_change) returns. A timer without waiters costs
//! nothing, however often it expires.
//!
//! Setting a timer wakes all its waiters, because the time at which they have to wake has changed.
//!
//! # A clock that is set
//!
//! A timer on the time of day expires earlier or later if the clock is set, and a process is not
//! notified of that. So the waiters of such a timer read the clock once a second ([`CLOCK_CHECK`]).
//! A relative time is not affected, as on Linux.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fdtable_shm::Mutex;

use super::{
    Clock, Events, FileId, Limit, Pollee, Restart, WaitEnd, WaitQueue, Wakeups, Watcher, wait,
};
use crate::fs::locks::{self, LockSet};
use crate::{Errno, Object, OpenFlags, Status};
use timer::{Now, Timer};

mod timer;

pub(super) use timer::END_OF_TIME;

bitflags::bitflags! {
    /// Flags of `timerfd_create`, with the values of Linux.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct TimerFdFlags: u32 {
        /// Calls that would block return `EAGAIN`.
        const NONBLOCK = 0o4000;
        /// Closes the descriptor on `exec`.
        const CLOEXEC = 0o2000000;
    }

    /// Flags of `timerfd_settime`, with the values of Linux.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct TimerFlags: u32 {
        /// The first expiration is an absolute time of the clock.
        const ABSTIME = 1;
        /// With `ABSTIME` on [`Clock::Realtime`]: after the clock is set, a read returns
        /// `ECANCELED` once.
        const CANCEL_ON_SET = 2;
    }
}

/// Setting of a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[doc(alias = "itimerspec")]
pub struct ITimerSpec {
    /// Time between expirations. Zero: it expires once.
    pub interval: Duration,
    /// Time to the first expiration, or absolute time of it. Zero: the timer is disarmed.
    pub value: Duration,
}

/// Open timerfd: a timer that can be waited for.
#[derive(Debug)]
pub struct TimerFd {
    shared: Arc<Shared>,
    status: Status,
}

#[derive(Debug)]
struct Shared(Mutex<State>);

#[derive(Debug)]
struct State {
    timer: Timer,
    revoked: bool,
    queue: WaitQueue,
}

/// How often waiters read a clock that can be set.
const CLOCK_CHECK: Duration = Duration::from_secs(1);

/// Size of a count in bytes.
const WORD: usize = size_of::<u64>();

impl TimerFdFlags {
    /// Returns the flags that every open file has.
    pub(crate) fn open_flags(self) -> OpenFlags {
        OpenFlags::from_bits_truncate(self.bits()) | OpenFlags::RDWR
    }
}

impl TimerFd {
    /// Makes a disarmed timer. Allocates.
    pub fn new(clock: Clock, flags: TimerFdFlags) -> Self {
        let state = State {
            timer: Timer::new(clock),
            revoked: false,
            queue: WaitQueue::new(),
        };
        TimerFd {
            shared: Arc::new(Shared(Mutex::new(state))),
            status: Status::new(flags.open_flags()),
        }
    }

    /// Arms or disarms the timer, discards its expirations, and returns what [`get`](Self::get)
    /// would have returned.
    ///
    /// # Errors
    /// `EINVAL` if `flags` has unknown bits; `EIO` if it is revoked.
    pub fn set(&self, flags: TimerFlags, spec: ITimerSpec) -> Result<ITimerSpec, Errno> {
        if TimerFlags::from_bits(flags.bits()).is_none() {
            return Err(Errno::EINVAL);
        }
        let (old, woken) = {
            let mut state = self.shared.0.lock();
            state.check()?;
            let old = state.timer.get();
            state.timer.set(flags, spec);
            (old, state.queue.wake_all(Events::IN))
        };
        woken.run();
        Ok(old)
    }

    /// Returns the interval, and the time to the next expiration: zero if the timer is disarmed, or
    /// will not expire again.
    ///
    /// # Errors
    /// `EIO` if it is revoked.
    pub fn get(&self) -> Result<ITimerSpec, Errno> {
        let mut state = self.shared.0.lock();
        state.check()?;
        Ok(state.timer.get())
    }

    /// Returns the clock of the timer.
    pub fn clock(&self) -> Clock {
        self.shared.0.lock().timer.clock()
    }

    /// Returns the flags of the last setting.
    pub fn flags(&self) -> TimerFlags {
        self.shared.0.lock().timer.flags()
    }

    /// Returns the expirations since the last read.
    pub fn ticks(&self) -> u64 {
        let mut state = self.shared.0.lock();
        state.timer.advance();
        state.timer.ticks()
    }

    /// Takes the expirations, or returns `EAGAIN`.
    fn try_take(&self) -> Result<u64, Errno> {
        let outcome = self.shared.0.lock().take();
        outcome.unwrap_or(Err(Errno::EAGAIN))
    }

    /// Takes the expirations, and blocks until there is one.
    fn take(&self) -> Result<u64, Errno> {
        loop {
            let (setting, until) = {
                let mut state = self.shared.0.lock();
                (state.timer.setting(), state.next_change())
            };
            let attempt = |state: &mut State| match state.take() {
                Some(result) => Some(Some(result)),
                // It was set meanwhile, and expires at another time now.
                None if state.timer.setting() != setting => Some(None),
                None => None,
            };
            let found = wait(
                &self.shared.0,
                |state| &mut state.queue,
                Events::IN,
                Limit::new(until, Restart::Allowed),
                attempt,
            );
            match found {
                Ok(Some(result)) => return result,
                Err(WaitEnd::Interrupted) => return Err(Errno::EINTR),
                Ok(None) | Err(WaitEnd::TimedOut) => {}
            }
        }
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
}

/// Downcasts an object to a timer.
pub(crate) fn as_timerfd(object: &dyn Object) -> Option<&TimerFd> {
    (object as &dyn std::any::Any).downcast_ref()
}

impl Object for TimerFd {
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
        Some(Arc::clone(&self.shared) as Arc<dyn Pollee>)
    }

    fn events(&self) -> Events {
        self.shared.events()
    }

    fn try_read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        Self::read_into(buf, || self.try_take())
    }

    fn read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        Self::read_into(buf, || self.take())
    }

    fn try_write(&self, _bytes: &[u8]) -> Result<usize, Errno> {
        Err(Errno::EINVAL)
    }

    fn label(&self) -> String {
        "anon_inode:[timerfd]".to_string()
    }

    fn show_fdinfo(&self, text: &mut String) {
        let ITimerSpec { interval, value } = self.get().unwrap_or_default();
        let shown = |time: Duration| format!("({}, {})", time.as_secs(), time.subsec_nanos());
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "clockid: {}\nticks: {}\nsettime flags: 0{:o}\nit_value: {}\nit_interval: {}",
            self.clock().id(),
            self.ticks(),
            self.flags().bits(),
            shown(value),
            shown(interval)
        );
    }

    /// No effect: only its own readers wait for it.
    fn release(&self) {}

    fn revoke(&self) {
        let woken = {
            let mut state = self.shared.0.lock();
            state.revoked = true;
            state.queue.wake_all(Events::IN | Events::ALWAYS)
        };
        woken.run();
    }
}

impl State {
    fn check(&self) -> Result<(), Errno> {
        if self.revoked {
            return Err(Errno::EIO);
        }
        Ok(())
    }

    /// Takes the expirations; nothing if there are none.
    fn take(&mut self) -> Option<Result<u64, Errno>> {
        if let Err(errno) = self.check() {
            return Some(Err(errno));
        }
        self.timer.advance();
        self.timer.take()
    }

    /// Returns when to check again.
    fn next_change(&mut self) -> Option<Instant> {
        let Now { time, .. } = self.timer.advance();
        let mut left = self.timer.expiry()?.saturating_sub(time);
        if self.timer.follows_the_time_of_day() {
            left = left.min(CLOCK_CHECK);
        }
        // A deadline too far ahead is none.
        Instant::now().checked_add(left)
    }
}

impl Pollee for Shared {
    /// As on Linux, `IN` without its second spelling.
    fn events(&self) -> Events {
        let mut state = self.0.lock();
        state.timer.advance();
        let mut events = Events::empty();
        events.set(Events::IN, state.timer.ticks() > 0);
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

    fn is_timed(&self) -> bool {
        true
    }

    fn next_change(&self) -> Option<Instant> {
        let (next_change, wakeups) = {
            let mut state = self.0.lock();
            let next_change = state.next_change();
            let wakeups = match state.timer.take_unnotified() {
                true => state.queue.notify_watchers(Events::IN),
                false => Wakeups::default(),
            };
            (next_change, wakeups)
        };
        wakeups.run();
        next_change
    }
}

#[cfg(test)]
mod tests;
