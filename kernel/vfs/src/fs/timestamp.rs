//! Real-time clock, for the timestamps of inodes.

use std::time::{SystemTime, UNIX_EPOCH};

/// Timestamp, counted from the beginning of 1970 (UTC).
#[doc(alias = "struct timespec")]
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
    #[cfg(target_os = "linux")]
    pub(crate) fn now() -> Self {
        use rustix::time::{ClockId, clock_gettime};
        let now = clock_gettime(ClockId::RealtimeCoarse);
        Timestamp {
            seconds: now.tv_sec,
            nanos: now.tv_nsec as u32,
        }
    }

    /// Returns the current time.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn now() -> Self {
        Self::from(SystemTime::now())
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Timestamp {
                seconds: after.as_secs() as i64,
                nanos: after.subsec_nanos(),
            },
            Err(before) => {
                let before = before.duration();
                let part = before.subsec_nanos();
                Timestamp {
                    seconds: -(before.as_secs() as i64) - i64::from(part > 0),
                    nanos: if part > 0 { 1_000_000_000 - part } else { 0 },
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_timestamp_before_1970_has_nanoseconds_that_count_forwards() {
        let at = |seconds, nanos| Timestamp { seconds, nanos };
        let before = UNIX_EPOCH - Duration::new(1, 250_000_000);
        assert_eq!(Timestamp::from(before), at(-2, 750_000_000));
        assert_eq!(Timestamp::from(UNIX_EPOCH + Duration::new(1, 5)), at(1, 5));
    }

    #[test]
    fn the_current_time_is_near_that_of_the_library() {
        let exact = Timestamp::from(SystemTime::now());
        assert!((Timestamp::now().seconds - exact.seconds).abs() <= 5);
    }
}
