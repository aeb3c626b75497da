//! Distance of two CPUs: the time in which a cache line travels to the other one and back.
//!
//! Virtual machines migrate. The same two CPUs may be 60 to 120 ns apart in one run and 400 ns in
//! the next, and all contended results change with that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::Serialize;

use crate::affinity;
use crate::stats::median;

/// Samples of one measurement.
const SAMPLES: usize = 9;

/// Round trips of one sample: 1 ms to 4 ms.
const TRIPS: u64 = 10_000;

/// Least nanoseconds at which two CPUs count as far apart.
const FAR: f64 = 250.0;

/// Round trips of one cache line between the first two CPUs, in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct RoundTrip {
    /// The shortest sample.
    pub min_ns: f64,
    /// The median of the samples.
    pub median_ns: f64,
    /// The longest sample.
    pub max_ns: f64,
    /// `near` if the median is below 250 ns, else `far`.
    pub distance: &'static str,
    /// All samples, each the mean of 10,000 round trips, in the order of time.
    pub samples_ns: Vec<f64>,
}

impl RoundTrip {
    /// Measures between the first two CPUs; returns `None` if there is only one.
    pub fn measure() -> Option<Self> {
        (affinity::cpus() > 1).then(|| Self::of((0..SAMPLES).map(|_| sample()).collect()))
    }

    /// Adds the samples of a later measurement.
    pub fn merge(&mut self, later: &Self) {
        let samples = [self.samples_ns.as_slice(), &later.samples_ns].concat();
        *self = Self::of(samples);
    }

    fn of(samples_ns: Vec<f64>) -> Self {
        let median_ns = median(&samples_ns);
        RoundTrip {
            min_ns: samples_ns.iter().copied().fold(f64::INFINITY, f64::min),
            median_ns,
            max_ns: samples_ns.iter().copied().fold(0.0, f64::max),
            distance: if median_ns < FAR { "near" } else { "far" },
            samples_ns,
        }
    }
}

/// One sample in nanoseconds: two threads increment one counter in turns.
fn sample() -> f64 {
    let ball = AtomicU64::new(0);
    let both = affinity::on_two_cpus(
        || {
            let began = Instant::now();
            return_balls(&ball, 0);
            began.elapsed()
        },
        || return_balls(&ball, 1),
    );
    both.map_or(f64::NAN, |(time, ())| time.as_nanos() as f64 / TRIPS as f64)
}

/// Waits for each value of this side's parity and stores the next one.
fn return_balls(ball: &AtomicU64, parity: u64) {
    for trip in 0..TRIPS {
        let mine = trip * 2 + parity;
        while ball.load(Ordering::Acquire) != mine {
            std::hint::spin_loop();
        }
        ball.store(mine + 1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_later_measurement_joins_the_samples() {
        let mut before = RoundTrip::of(vec![60.0, 80.0, 70.0]);
        assert_eq!(before.distance, "near");
        before.merge(&RoundTrip::of(vec![400.0, 410.0, 420.0, 405.0]));
        assert_eq!(
            (before.min_ns, before.median_ns, before.max_ns),
            (60.0, 400.0, 420.0)
        );
        assert_eq!(before.distance, "far");
        assert_eq!(before.samples_ns.len(), 7);
    }

    #[test]
    fn both_sides_take_every_turn() {
        let ball = AtomicU64::new(0);
        thread::scope(|scope| {
            scope.spawn(|| return_balls(&ball, 1));
            return_balls(&ball, 0);
        });
        assert_eq!(ball.into_inner(), TRIPS * 2);
    }
}
