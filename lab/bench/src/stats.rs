//! Medians, spreads and paired ratios of noisy measurements.

use serde::{Serialize, Serializer};

/// Distribution of one measured quantity, in the unit of its samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Smallest sample: the result without disturbance by the machine.
    pub min: f64,
    /// Tenth percentile: the lower end of the spread.
    pub p10: f64,
    /// Median: half of the samples lie on each side.
    pub median: f64,
    /// Ninetieth percentile: the upper end of the spread.
    pub p90: f64,
    /// Largest sample.
    pub max: f64,
    /// Number of samples, at least 1.
    pub samples: usize,
}

impl Summary {
    /// Summarises `samples`, in any order.
    ///
    /// # Panics
    /// If there is no sample.
    pub fn of(samples: &[f64]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Summary {
            min: sorted[0],
            p10: quantile(&sorted, 0.1),
            median: quantile(&sorted, 0.5),
            p90: quantile(&sorted, 0.9),
            max: sorted[sorted.len() - 1],
            samples: sorted.len(),
        }
    }

    /// Multiplies all values, for another unit.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Summary {
            min: self.min * factor,
            p10: self.p10 * factor,
            median: self.median * factor,
            p90: self.p90 * factor,
            max: self.max * factor,
            samples: self.samples,
        }
    }

    /// Writes the median, with the 10th and 90th percentile.
    pub fn spread(&self, shown: impl Fn(f64) -> String) -> String {
        let [p10, median, p90] = [self.p10, self.median, self.p90].map(shown);
        format!("{median} ({p10}–{p90})")
    }
}

/// Samples of one quantity, one of each round. A report has their summary.
#[derive(Clone, Debug)]
pub struct Samples(Vec<f64>);

impl From<Vec<f64>> for Samples {
    fn from(rounds: Vec<f64>) -> Self {
        Samples(rounds)
    }
}

impl Samples {
    /// Summarises them.
    ///
    /// # Panics
    /// If there is no sample.
    pub fn summary(&self) -> Summary {
        Summary::of(&self.0)
    }

    /// Summarises the ratios to samples of the same rounds.
    ///
    /// # Panics
    /// If the two have different lengths or no sample.
    pub fn over(&self, other: &Samples) -> Summary {
        paired_ratio(&self.0, &other.0)
    }

    /// Returns the samples, in the order of the rounds.
    pub fn rounds(&self) -> &[f64] {
        &self.0
    }
}

impl Serialize for Samples {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.summary().serialize(to)
    }
}

/// Returns the median of `samples`.
///
/// # Panics
/// If there is no sample.
pub fn median(samples: &[f64]) -> f64 {
    Summary::of(samples).median
}

/// Summarises the ratios of samples that were taken in the same round.
///
/// A machine that is slower for a while slows both sides of a pair, so the ratio is steadier than
/// that of two medians.
///
/// # Panics
/// If the two have different lengths or no sample.
pub fn paired_ratio(numerators: &[f64], denominators: &[f64]) -> Summary {
    assert_eq!(numerators.len(), denominators.len(), "a pair has two sides");
    let ratios: Vec<f64> = numerators
        .iter()
        .zip(denominators)
        .map(|(n, d)| n / d)
        .collect();
    Summary::of(&ratios)
}

/// Returns the order in which `subjects` subjects run in a round. The order differs in each round,
/// so that no subject always follows the same other, and is the same in each run.
pub fn order(subjects: usize, round: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..subjects).collect();
    fastrand::Rng::with_seed(round as u64).shuffle(&mut places);
    places
}

/// Returns the sample below which the fraction `q` lies, interpolated between neighbours.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let place = q * (sorted.len() - 1) as f64;
    let below = place.floor() as usize;
    let above = place.ceil() as usize;
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_depends_on_neither_order_nor_outliers() {
        assert_eq!(median(&[5.0, 1.0, 1000.0]), 5.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
    }

    #[test]
    fn a_summary_spans_from_the_smallest_to_the_largest() {
        let summary = Summary::of(&(0..=100).rev().map(f64::from).collect::<Vec<_>>());
        let expected = Summary {
            min: 0.0,
            p10: 10.0,
            median: 50.0,
            p90: 90.0,
            max: 100.0,
            samples: 101,
        };
        assert_eq!(summary, expected);
    }

    #[test]
    fn a_paired_ratio_survives_a_machine_that_slows_down() {
        // The second round ran ten times slower for both; the ratio of each pair is 2.
        let ratio = paired_ratio(&[2.0, 20.0, 2.2], &[1.0, 10.0, 1.1]);
        assert!((ratio.median - 2.0).abs() < 1e-9);
        assert!((ratio.max - ratio.min).abs() < 1e-9);
    }

    #[test]
    fn every_round_runs_every_subject_once() {
        for round in 0..20 {
            let mut places = order(6, round);
            places.sort_unstable();
            assert_eq!(places, [0, 1, 2, 3, 4, 5]);
        }
    }

    #[test]
    fn no_subject_always_follows_the_same_other() {
        let before_the_first = |round| {
            let places = order(6, round);
            let at = places.iter().position(|&place| place == 0)?;
            at.checked_sub(1).map(|before| places[before])
        };
        let predecessors: std::collections::BTreeSet<_> =
            (0..9).filter_map(before_the_first).collect();
        assert!(predecessors.len() >= 3, "{predecessors:?}");
    }
}
