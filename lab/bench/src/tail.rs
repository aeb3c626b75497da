//! Distributions of durations whose longest values matter.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Longest duration that is recorded exactly: 10 s.
const LONGEST_NS: u64 = 10_000_000_000;

/// Significant digits of a duration.
const DIGITS: u8 = 3;

/// The durations of many steps, in nanoseconds with the clock.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Tail {
    pub(crate) median_ns: u64,
    /// The 99.99th percentile.
    pub(crate) p9999_ns: u64,
    pub(crate) max_ns: u64,
    /// Number of steps.
    pub(crate) count: u64,
}

/// Durations of steps, with a precision of three digits.
#[derive(Clone, Debug)]
pub(crate) struct Durations(Histogram<u64>);

impl Durations {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Durations(Histogram::new_with_bounds(
            1, LONGEST_NS, DIGITS,
        )?))
    }

    pub(crate) fn record(&mut self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record(nanoseconds);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn tail(&self) -> Tail {
        Tail {
            median_ns: self.0.value_at_quantile(0.5),
            p9999_ns: self.0.value_at_quantile(0.9999),
            max_ns: self.0.max(),
            count: self.0.len(),
        }
    }
}
