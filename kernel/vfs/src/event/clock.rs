//! Clocks of timers.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Clock on which a timer runs, as in `clock_gettime(2)`. In Linux: `clockid_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// Time of day since 1970, which can be set (`CLOCK_REALTIME`).
    Realtime,
    /// Time since an unspecified start, without suspends (`CLOCK_MONOTONIC`).
    Monotonic,
    /// Time since an unspecified start, with suspends (`CLOCK_BOOTTIME`). The same as `Monotonic`
    /// on hosts without such a clock, which Linux has.
    Boottime,
}

impl Clock {
    /// Returns the clock ID of Linux.
    pub const fn id(self) -> i32 {
        match self {
            Clock::Realtime => 0,
            Clock::Monotonic => 1,
            Clock::Boottime => 7,
        }
    }

    /// Returns the time since the clock's zero; a time before it is zero.
    pub(super) fn now(self) -> Duration {
        let id = match self {
            Clock::Realtime => ClockId::Realtime,
            Clock::Monotonic => ClockId::Monotonic,
            Clock::Boottime => ClockId::Boottime,
        };
        let now = Duration::try_from(clock_gettime(id)).unwrap_or_default();
        now.min(super::timerfd::END_OF_TIME)
    }
}
