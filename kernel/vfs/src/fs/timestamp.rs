//! Real-time clock, for the timestamps of inodes.

use rustix::time::{ClockId, clock_gettime};

/// Timestamp, counted from the beginning of 1970 (UTC). In Linux: `struct timespec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Whole seconds, negative before 1970.
    pub seconds: i64,
    /// Nanoseconds after the whole seconds: 0 to 999,999,999.
    pub nanos: u32,
}

impl Timestamp {
    /// The beginning of 1970.
    pub const EPOCH: Self = Timestamp {
        seconds: 0,
        nanos: 0,
    };

    /// Returns the time of the last tick of the kernel's clock. That is 1 to 10 ms ago, and costs a
    /// quarter of an exact clock (Linux `current_time`).
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        Timestamp {
            seconds: now.tv_sec,
            nanos: now.tv_nsec as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn the_current_time_is_near_that_of_the_library() {
        let exact = UNIX_EPOCH.elapsed().unwrap().as_secs().cast_signed();
        assert!((Timestamp::now().seconds - exact).abs() <= 5);
    }
}
