//! The state of a timer. Nothing here sleeps or locks.

use std::time::Duration;

use super::{Clock, ITimerSpec, TimerFlags};
use crate::Errno;

/// The last time of a clock: 292 years after its zero, as on Linux.
pub(in crate::event) const END_OF_TIME: Duration = Duration::from_nanos(i64::MAX as u64);

/// A clock that jumps by more was set.
const MIN_JUMP: Duration = Duration::from_millis(20);

/// Longest time between two readings of clocks that shows the offset between the clocks.
const MAX_GAP: Duration = Duration::from_millis(5);

/// State of a timer.
#[derive(Debug)]
pub struct Timer {
    /// Clock with which it was made.
    pub(super) clock: Clock,
    /// Clock on which it runs: a relative time does not follow the time of day.
    runs_on: Clock,
    pub(super) flags: TimerFlags,
    /// Increases with each setting.
    pub(super) setting: u64,
    /// On `runs_on`; none if it is disarmed.
    pub(super) expiry: Option<Duration>,
    interval: Duration,
    /// Expirations since the last read.
    pub(super) ticks: u64,
    /// The watchers have not been notified of the last ticks.
    unnotified: bool,
    /// With `CANCEL_ON_SET`: the offset between the two clocks, in which a jump shows.
    offset: Option<Duration>,
    canceled: bool,
}

/// Readings of the clocks.
#[derive(Clone, Copy)]
pub(super) struct Now {
    pub(super) time: Duration,
    /// How far the time of day is ahead of the monotonic clock. `None` if it is not needed, or
    /// could not be measured.
    offset: Option<Duration>,
}

impl Timer {
    pub(super) fn new(clock: Clock) -> Self {
        Timer {
            clock,
            runs_on: clock,
            flags: TimerFlags::empty(),
            setting: 0,
            expiry: None,
            interval: Duration::ZERO,
            ticks: 0,
            unnotified: false,
            offset: None,
            canceled: false,
        }
    }

    pub(super) fn follows_the_time_of_day(&self) -> bool {
        self.runs_on == Clock::Realtime
    }

    pub(super) fn set(&mut self, flags: TimerFlags, spec: ITimerSpec) {
        let absolute = flags.contains(TimerFlags::ABSTIME);
        self.runs_on = match self.clock {
            Clock::Realtime if !absolute => Clock::Monotonic,
            clock => clock,
        };
        let follows = self.follows_the_time_of_day() && flags.contains(TimerFlags::CANCEL_ON_SET);
        let now = Now {
            time: self.runs_on.now(),
            offset: if follows { offset() } else { None },
        };
        self.set_at(now, flags, spec);
    }

    fn set_at(&mut self, now: Now, flags: TimerFlags, spec: ITimerSpec) {
        let first = if flags.contains(TimerFlags::ABSTIME) {
            spec.value
        } else {
            now.time.saturating_add(spec.value)
        };
        self.flags = flags;
        self.setting += 1;
        self.expiry = (!spec.value.is_zero()).then_some(first.min(END_OF_TIME));
        self.interval = spec.interval.min(END_OF_TIME);
        self.ticks = 0;
        self.unnotified = false;
        self.offset = now.offset;
        self.canceled = false;
    }

    /// Returns the interval and the remaining time.
    pub(super) fn get(&mut self) -> ITimerSpec {
        let now = self.advance();
        let left = self.expiry.map(|expiry| expiry.saturating_sub(now.time));
        ITimerSpec {
            interval: self.interval,
            value: left.unwrap_or_default(),
        }
    }

    /// Counts the expirations until now. Afterwards the expiry is in the future.
    pub(super) fn advance(&mut self) -> Now {
        let now = self.now();
        self.advance_to(now);
        now
    }

    fn advance_to(&mut self, now: Now) {
        if let (Some(before), Some(offset)) = (self.offset, now.offset)
            && before.abs_diff(offset) > MIN_JUMP
        {
            self.offset = Some(offset);
            self.canceled = true;
            self.count(1);
        }
        let Some(expiry) = self.expiry.filter(|&expiry| expiry <= now.time) else {
            return;
        };
        if self.interval.is_zero() {
            self.expiry = None;
            self.count(1);
            return;
        }
        let passed = (now.time - expiry).as_nanos() / self.interval.as_nanos() + 1;
        // Both are below 2^63 nanoseconds, so the next expiry is below twice that.
        let next = expiry.as_nanos() + passed * self.interval.as_nanos();
        let next = Duration::from_nanos(u64::try_from(next).unwrap_or(u64::MAX));
        self.expiry = Some(next.min(END_OF_TIME));
        self.count(u64::try_from(passed).unwrap_or(u64::MAX));
    }

    fn count(&mut self, ticks: u64) {
        self.ticks = self.ticks.saturating_add(ticks);
        self.unnotified = true;
    }

    /// Takes the expirations; nothing if there are none.
    pub(super) fn take_ticks(&mut self) -> Option<Result<u64, Errno>> {
        let ticks = std::mem::take(&mut self.ticks);
        self.unnotified = false;
        if std::mem::take(&mut self.canceled) {
            return Some(Err(Errno::ECANCELED));
        }
        (ticks > 0).then_some(Ok(ticks))
    }

    /// Returns true if there are ticks of which the watchers were not notified. The caller notifies
    /// them.
    pub(super) fn take_unnotified(&mut self) -> bool {
        std::mem::take(&mut self.unnotified)
    }

    fn now(&self) -> Now {
        Now {
            time: self.runs_on.now(),
            offset: self.offset.and_then(|_| offset()),
        }
    }
}

/// Returns how far the time of day is ahead of the monotonic clock. Nothing if the thread was
/// interrupted between the readings, again and again.
fn offset() -> Option<Duration> {
    const TRIES: usize = 8;
    (0..TRIES).find_map(|_| {
        let before = Clock::Monotonic.now();
        let time = Clock::Realtime.now();
        let apart = Clock::Monotonic.now().saturating_sub(before);
        (apart <= MAX_GAP).then(|| time.saturating_sub(before))
    })
}

#[cfg(test)]
mod tests;
