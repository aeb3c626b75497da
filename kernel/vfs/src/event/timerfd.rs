//! `timerfd_create(2)`: timers that can be waited for.
//!
//! A timer has no thread. Expirations are computed when the timer is asked, and sleepers wake at
//! the time that [`next_change`](Count::next_change) returns. A timer without waiters costs
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
use std::time::{Duration, Instant};

use super::count_file::{Count, CountFile, Outcome};
use super::{Clock, Events, WaitQueue, Wakeups};
use crate::{Errno, Object, OpenFlags};
use timer::Now;

mod timer;

pub(super) use timer::END_OF_TIME;
use timer::Timer;

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

/// Setting of a timer. In Linux: `itimerspec`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ITimerSpec {
    /// Time between expirations. Zero: it expires once.
    pub interval: Duration,
    /// Time to the first expiration, or absolute time of it. Zero: the timer is disarmed.
    pub value: Duration,
}

/// Open timerfd: a timer that can be waited for.
pub type TimerFd = CountFile<Timer>;

/// How often waiters read a clock that can be set.
const CLOCK_CHECK: Duration = Duration::from_secs(1);

impl TimerFdFlags {
    /// Returns the flags that every open file has.
    pub(crate) fn open_flags(self) -> OpenFlags {
        OpenFlags::from_bits_truncate(self.bits()) | OpenFlags::RDWR
    }
}

impl TimerFd {
    /// Makes a disarmed timer. Allocates.
    pub fn new(clock: Clock, flags: TimerFdFlags) -> Self {
        Self::of(Timer::new(clock), flags.open_flags())
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
            let mut state = self.lock();
            state.check()?;
            let old = state.count.get();
            state.count.set(flags, spec);
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
        let mut state = self.lock();
        state.check()?;
        Ok(state.count.get())
    }
}

/// Downcasts an object to a timer.
pub(crate) fn as_timerfd(object: &dyn Object) -> Option<&TimerFd> {
    (object as &dyn std::any::Any).downcast_ref()
}

impl Count for Timer {
    const LABEL: &'static str = "anon_inode:[timerfd]";
    const IS_TIMED: bool = true;

    fn take(&mut self, _queue: &mut WaitQueue) -> Option<Outcome> {
        self.advance();
        Some((self.take_ticks()?, Wakeups::default()))
    }

    /// As on Linux, `IN` without its second spelling.
    fn events(&mut self) -> Events {
        self.advance();
        let mut events = Events::empty();
        events.set(Events::IN, self.ticks > 0);
        events
    }

    fn next_change(&mut self, queue: &mut WaitQueue) -> (Option<Instant>, Wakeups) {
        let Now { time, .. } = self.advance();
        let next_change = self.expiry.and_then(|expiry| {
            let mut left = expiry.saturating_sub(time);
            if self.follows_the_time_of_day() {
                left = left.min(CLOCK_CHECK);
            }
            // A deadline too far ahead is none.
            Instant::now().checked_add(left)
        });
        let notified = match self.take_unnotified() {
            true => queue.notify_watchers(Events::IN),
            false => Wakeups::default(),
        };
        (next_change, notified)
    }

    fn setting(&self) -> u64 {
        self.setting
    }

    fn show_fdinfo(file: &TimerFd, text: &mut String) {
        let ITimerSpec { interval, value } = file.get().unwrap_or_default();
        let timer = &mut file.lock().count;
        timer.advance();
        let shown = |time: Duration| format!("({}, {})", time.as_secs(), time.subsec_nanos());
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "clockid: {}\nticks: {}\nsettime flags: 0{:o}\nit_value: {}\nit_interval: {}",
            timer.clock.id(),
            timer.ticks,
            timer.flags.bits(),
            shown(value),
            shown(interval)
        );
    }
}

#[cfg(test)]
mod tests;
