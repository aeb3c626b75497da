//! Timers that can be waited for: `timerfd_create(2)`.
//!
//! A timer has no thread. What has expired is found out when somebody asks, and those who sleep wake
//! themselves at the moment that [`next_change`](Pollee::next_change) tells them. A timer that nobody
//! waits for costs nothing, however often it expires.
//!
//! When a timer is set, all who wait for it are woken, since the moment at which they wanted to wake
//! is another one now.
//!
//! # A clock that is set
//!
//! A timer for a time of day expires earlier or later if somebody sets the clock, and nobody tells a
//! process of that. So those who wait for such a timer look at the clock once a second
//! ([`GLANCE`]). A relative time is not affected, as on Linux.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Clock, Events, FileId, Pollee, WaitQueue, Wakeups, Watcher, wait};
use crate::{Errno, Object, OpenFlags, Status};
use timer::{Now, Timer};

mod timer;

pub(super) use timer::END_OF_TIME;

bitflags::bitflags! {
    /// Set of flags of `timerfd_create`, with the values of Linux.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct TimerFdFlags: u32 {
        /// Makes calls that would wait answer `EAGAIN`.
        const NONBLOCK = 0o4000;
        /// Closes the descriptor on `exec`.
        const CLOEXEC = 0o2000000;
    }

    /// Set of flags of `timerfd_settime`, with the values of Linux.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct TimerFlags: u32 {
        /// The first expiration is a time of the clock, and not one from now.
        const ABSTIME = 1;
        /// With `ABSTIME` on [`Clock::Realtime`]: a read answers `ECANCELED` once after the clock was
        /// set.
        const CANCEL_ON_SET = 2;
    }
}

/// When a timer expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[doc(alias = "itimerspec")]
pub struct ITimerSpec {
    /// Time from one expiration to the next. Zero: it expires once.
    pub interval: Duration,
    /// Time to the first expiration, or of it. Zero: the timer is off.
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

/// How long who waits does not look at a clock that may be set.
const GLANCE: Duration = Duration::from_secs(1);

/// Bytes of a count.
const WORD: usize = size_of::<u64>();

impl TimerFdFlags {
    /// Returns the flags that every open file knows.
    pub(crate) fn open_flags(self) -> OpenFlags {
        OpenFlags::from_bits_truncate(self.bits()) | OpenFlags::RDWR
    }
}

impl TimerFd {
    /// Makes a timer that is off. Allocates.
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

    /// Sets or ends the timer, forgets what has expired, and returns what
    /// [`get`](Self::get) would have.
    ///
    /// # Errors
    /// `EINVAL` if `flags` has unknown ones; `EIO` if it is revoked.
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

    /// Returns the interval, and the time to the next expiration: zero if the timer is off, or has
    /// expired for good.
    ///
    /// # Errors
    /// `EIO` if it is revoked.
    pub fn get(&self) -> Result<ITimerSpec, Errno> {
        let mut state = self.shared.0.lock();
        state.check()?;
        Ok(state.timer.get())
    }

    /// Returns the clock that it was made with.
    pub fn clock(&self) -> Clock {
        self.shared.0.lock().timer.clock()
    }

    /// Returns how it was last set.
    pub fn flags(&self) -> TimerFlags {
        self.shared.0.lock().timer.flags()
    }

    /// Returns how often it has expired since it was last read.
    pub fn ticks(&self) -> u64 {
        let mut state = self.shared.0.lock();
        state.timer.advance();
        state.timer.ticks()
    }

    /// Takes what has expired, or nothing, and tells when to come again.
    fn try_take(&self) -> Result<u64, Errno> {
        let outcome = self.shared.0.lock().take();
        outcome.unwrap_or(Err(Errno::EAGAIN))
    }

    /// Takes what has expired, and waits for it.
    fn take(&self) -> Result<u64, Errno> {
        loop {
            let (setting, until) = {
                let mut state = self.shared.0.lock();
                (state.timer.setting(), state.next_change())
            };
            let attempt = |state: &mut State| match state.take() {
                Some(result) => Some(Some(result)),
                // It expires at another time now.
                None if state.timer.setting() != setting => Some(None),
                None => None,
            };
            let found = wait(
                &self.shared.0,
                |state| &mut state.queue,
                Events::IN,
                until,
                attempt,
            );
            if let Some(Some(result)) = found {
                return result;
            }
        }
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
}

/// Sees a file as a timer, if it is one.
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
        // A string takes all that is written.
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

    /// Nobody but its own readers waits for it.
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

    /// Takes what has expired; nothing if nothing has.
    fn take(&mut self) -> Option<Result<u64, Errno>> {
        if let Err(errno) = self.check() {
            return Some(Err(errno));
        }
        self.timer.advance();
        self.timer.take()
    }

    /// Returns when to look again.
    fn next_change(&mut self) -> Option<Instant> {
        let Now { time, .. } = self.timer.advance();
        let mut left = self.timer.expiry()?.saturating_sub(time);
        if self.timer.follows_the_time_of_day() {
            left = left.min(GLANCE);
        }
        // Too far ahead is never.
        Instant::now().checked_add(left)
    }
}

impl Pollee for Shared {
    /// As Linux, `IN` without its second spelling.
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
        let told = self.0.lock().queue.forget(file);
        told.run();
    }

    fn is_revoked(&self) -> bool {
        self.0.lock().revoked
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn next_change(&self) -> Option<Instant> {
        let (next_change, told) = {
            let mut state = self.0.lock();
            let next_change = state.next_change();
            let told = match state.timer.tell() {
                true => state.queue.tell(Events::IN),
                false => Wakeups::default(),
            };
            (next_change, told)
        };
        told.run();
        next_change
    }
}

#[cfg(test)]
mod tests;
