//! The clocks of timers.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Clock that a timer may run on, as `clock_gettime(2)` has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[doc(alias = "clockid_t")]
pub enum Clock {
    /// Time of day since 1970, which may be set (`CLOCK_REALTIME`).
    Realtime,
    /// Time since some moment, without the time in which the machine slept (`CLOCK_MONOTONIC`).
    Monotonic,
    /// Time since some moment, with that (`CLOCK_BOOTTIME`). As `Monotonic` where the machine has
    /// no such clock, which is not on Linux.
    Boottime,
}

impl Clock {
    /// Returns the number that Linux uses.
    pub const fn id(self) -> i32 {
        match self {
            Clock::Realtime => 0,
            Clock::Monotonic => 1,
            Clock::Boottime => 7,
        }
    }

    /// Returns the time since the zero of the clock. One before that is zero.
    pub(super) fn now(self) -> Duration {
        let id = match self {
            Clock::Realtime => ClockId::Realtime,
            Clock::Monotonic => ClockId::Monotonic,
            #[cfg(target_os = "linux")]
            Clock::Boottime => ClockId::Boottime,
            #[cfg(not(target_os = "linux"))]
            Clock::Boottime => ClockId::Monotonic,
        };
        let now = Duration::try_from(clock_gettime(id)).unwrap_or_default();
        now.min(super::timerfd::END_OF_TIME)
    }
}
