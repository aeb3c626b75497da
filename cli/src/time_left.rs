//! An estimate of the time left, from expected and elapsed durations.

use std::time::Duration;

/// Expected durations of a run, scaled by the actual durations of its first experiments.
pub(crate) struct TimeLeft {
    expected: Vec<Duration>,
    /// Actual durations of the finished ones.
    taken: Vec<Duration>,
}

impl TimeLeft {
    /// Starts a run of experiments with these expected durations.
    pub(crate) fn new(expected: Vec<Duration>) -> Self {
        TimeLeft {
            expected,
            taken: Vec::new(),
        }
    }

    /// Ends an experiment that took `took`.
    pub(crate) fn end(&mut self, took: Duration) {
        self.taken.push(took);
    }

    /// Estimates the time left in whole seconds, where the current experiment started `elapsed`
    /// ago.
    pub(crate) fn after(&self, elapsed: Duration) -> Duration {
        let (ended, ahead) = self
            .expected
            .split_at(self.taken.len().min(self.expected.len()));
        let (present, later) = match ahead.split_first() {
            Some((present, later)) => (*present, later),
            None => (Duration::ZERO, ahead),
        };
        let scale = self.scale(ended, present, elapsed);
        let present_left = present.mul_f64(scale).saturating_sub(elapsed);
        let left = present_left + later.iter().sum::<Duration>().mul_f64(scale);
        Duration::from_secs(left.as_secs_f64().round() as u64)
    }

    /// Computes how much slower than expected the run is: by the finished ones, and by the current
    /// one if it already takes longer.
    fn scale(&self, ended: &[Duration], present: Duration, elapsed: Duration) -> f64 {
        let expected: Duration = ended.iter().sum();
        let taken: Duration = self.taken.iter().sum();
        let by_ended = quotient(taken, expected).unwrap_or(1.0);
        let with_present = quotient(taken + elapsed, expected + present);
        with_present.map_or(by_ended, |scale| scale.max(by_ended))
    }
}

fn quotient(over: Duration, under: Duration) -> Option<f64> {
    (!under.is_zero()).then(|| over.as_secs_f64() / under.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn run() -> TimeLeft {
        TimeLeft::new([10, 20, 30].map(seconds).to_vec())
    }

    #[test]
    fn at_first_the_time_left_is_the_expected_one() {
        assert_eq!(run().after(Duration::ZERO), seconds(60));
        assert_eq!(run().after(seconds(4)), seconds(56));
    }

    #[test]
    fn a_slow_machine_makes_the_rest_longer() {
        let mut run = run();
        run.end(seconds(20));
        assert_eq!(run.after(Duration::ZERO), seconds(100));
        assert_eq!(run.after(seconds(30)), seconds(70));
    }

    #[test]
    fn an_experiment_that_takes_longer_than_expected_is_noticed() {
        assert_eq!(run().after(seconds(30)), seconds(150));
    }

    #[test]
    fn at_the_end_no_time_is_left() {
        let mut run = run();
        for took in [10, 20, 30] {
            run.end(seconds(took));
        }
        assert_eq!(run.after(Duration::ZERO), Duration::ZERO);
        assert_eq!(TimeLeft::new(Vec::new()).after(seconds(3)), Duration::ZERO);
    }
}
