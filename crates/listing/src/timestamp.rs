//! Points in time, also for programs without a system clock.

use core::fmt;
use core::time::Duration;
#[cfg(feature = "std")]
use std::time::SystemTime;

use jiff::SignedDuration;

/// A point in time, in nanoseconds relative to the beginning of 1970 in UTC.
///
/// It is written as RFC 3339 has it, in UTC, with as many digits of the second as it needs, or as
/// many as the precision asks for. RFC 3339 has years to 9999; other times are written as seconds
/// since 1970 after an `@`, as `date(1)` reads them.
///
/// ```
/// use core::time::Duration;
/// use fdtable_listing::Timestamp;
///
/// let billion = Timestamp::from_unix(Duration::from_millis(1_000_000_000_500));
/// assert_eq!(billion.to_string(), "2001-09-09T01:46:40.5Z");
/// assert_eq!(format!("{billion:.0}"), "2001-09-09T01:46:40Z");
/// # #[cfg(feature = "std")]
/// assert!(Timestamp::from(std::time::SystemTime::now()) > billion);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(SignedDuration);

impl Timestamp {
    /// Makes a time at or after the beginning of 1970. At most 2^63 seconds after it; more counts
    /// as that.
    #[must_use]
    pub fn from_unix(since_1970: Duration) -> Self {
        Self(signed(since_1970))
    }

    /// Returns the time since the beginning of 1970; nothing for a time before it.
    #[must_use]
    pub fn to_unix(self) -> Option<Duration> {
        Duration::try_from(self.0).ok()
    }
}

/// Times before 1970 are valid: a clock that was not set may have begun there.
#[cfg(feature = "std")]
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => Self(signed(after)),
            Err(before) => Self(-signed(before.duration())),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_duration(self.0) {
            Ok(moment) => moment.fmt(f),
            Err(_) => write!(f, "@{}", self.0.as_secs()),
        }
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}
