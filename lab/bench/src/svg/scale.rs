//! From values to positions along an axis, and its ticks.

use super::Labels;
use crate::plot::Scale;

/// Steps of a decade that make round ticks.
const ROUND: [f64; 3] = [1.0, 2.0, 5.0];

/// A part of an axis, with its two ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ruler {
    scale: Scale,
    /// Ends, as positions.
    low: f64,
    high: f64,
}

/// Position of a ruler's lower end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Foot {
    /// At the smallest value, or the round one below: for points.
    AtSmallest,
    /// Well below it: bars have a length.
    Below,
}

impl Ruler {
    /// Makes a ruler for `values`, without those that have no position.
    pub(super) fn new(scale: Scale, values: impl Iterator<Item = f64>, foot: Foot) -> Self {
        match scale {
            Scale::Linear => Self::linear(values),
            Scale::Log => Self::log(values, foot),
        }
    }

    fn linear(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = ends(values.filter(|it| it.is_finite()).chain([0.0]));
        let high = if high > low { high } else { low + 1.0 };
        let step = round_above((high - low) / 5.0);
        Ruler {
            scale: Scale::Linear,
            low: (low / step).floor() * step,
            high: (high / step).ceil() * step,
        }
    }

    fn log(values: impl Iterator<Item = f64>, foot: Foot) -> Self {
        let (low, high) = ends(values.filter(|it| it.is_finite() && *it > 0.0));
        let (low, high) = if low <= high {
            (low, high)
        } else {
            (1.0, 10.0)
        };
        let low = match foot {
            Foot::AtSmallest => low,
            Foot::Below => low / 1.5,
        };
        let (low, mut high) = (round_below(low), round_above(high));
        if high <= low {
            high = low * 10.0;
        }
        Ruler {
            scale: Scale::Log,
            low: low.log10(),
            high: high.log10(),
        }
    }

    /// Returns the position of `value`: 0 is the lower end, 1 the upper one. None if it has no
    /// position.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let position = match self.scale {
            Scale::Linear => value,
            Scale::Log => value.log10(),
        };
        let place = (position - self.low) / (self.high - self.low);
        place.is_finite().then(|| place.clamp(0.0, 1.0))
    }

    /// Lists at most about `most` ticks.
    pub(super) fn labels(&self, most: usize) -> Labels {
        let ticks = match self.scale {
            Scale::Linear => self.linear_ticks(most),
            Scale::Log => self.log_ticks(most),
        };
        let label = |value| Some((self.place(value)?, short(value)));
        Labels(ticks.into_iter().filter_map(label).collect())
    }

    fn linear_ticks(&self, most: usize) -> Vec<f64> {
        let step = round_above((self.high - self.low) / most.max(1) as f64);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|nth| nth as f64 * step).collect()
    }

    fn log_ticks(&self, most: usize) -> Vec<f64> {
        let decades = self.low.floor() as i32..=self.high.ceil() as i32;
        let inside = |value: &f64| (self.low - 1e-9..=self.high + 1e-9).contains(&value.log10());
        let fine: Vec<f64> = decades
            .clone()
            .flat_map(|decade| ROUND.map(|step| step * 10_f64.powi(decade)))
            .filter(inside)
            .collect();
        if fine.len() <= most {
            return fine;
        }
        let whole: Vec<f64> = decades
            .map(|decade| 10_f64.powi(decade))
            .filter(inside)
            .collect();
        let every = whole.len().div_ceil(most.max(1)).max(1);
        whole.into_iter().step_by(every).collect()
    }
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), it| {
        (low.min(it), high.max(it))
    })
}

/// Returns the round value that is at least `value`.
fn round_above(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    let step = ROUND
        .into_iter()
        .find(|it| it * decade >= value * (1.0 - 1e-9));
    step.unwrap_or(10.0) * decade
}

fn round_below(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    let steps = ROUND.into_iter().rev();
    let mut fitting = steps.filter(|it| it * decade <= value * (1.0 + 1e-9));
    fitting.next().unwrap_or(1.0) * decade
}

/// Formats a value with at most three significant digits, and with k, M and G for thousands.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    let (value, unit) = match size {
        _ if size >= 999.5e6 => (value / 1e9, "G"),
        _ if size >= 999.5e3 => (value / 1e6, "M"),
        _ if size >= 999.5 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match value.abs() {
        size if size >= 99.5 => 0,
        size if size >= 9.95 => 1,
        size if size >= 0.995 || size == 0.0 => 2,
        size => (2 - size.log10().floor() as i32).clamp(0, 9) as usize,
    };
    let text = format!("{value:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ruler: &Ruler, most: usize) -> Vec<String> {
        ruler.labels(most).0.into_iter().map(|it| it.1).collect()
    }

    fn log(values: &[f64]) -> Ruler {
        Ruler::new(Scale::Log, values.iter().copied(), Foot::AtSmallest)
    }

    #[test]
    fn equal_ratios_are_equally_far_apart_on_a_log_ruler() {
        let ruler = log(&[1.0, 1e6]);
        let places = [1.0, 1e3, 1e6].map(|it| ruler.place(it).unwrap());
        assert_eq!(places, [0.0, 0.5, 1.0]);
        assert_eq!(
            labels(&ruler, 7),
            ["1", "10", "100", "1k", "10k", "100k", "1M"]
        );
        assert_eq!(labels(&ruler, 4), ["1", "100", "10k", "1M"]);
        assert_eq!(labels(&log(&[3.0, 40.0]), 8), ["2", "5", "10", "20", "50"]);
    }

    #[test]
    fn values_without_a_logarithm_have_no_position() {
        let ruler = log(&[0.0, -1.0, f64::NAN, 1.0, 10.0]);
        assert_eq!(labels(&ruler, 3), ["1", "10"]);
        assert_eq!(ruler.place(0.0), None);
        assert_eq!(ruler.place(-1.0), None);
        assert_eq!(log(&[]).place(10.0), Some(1.0));
    }

    #[test]
    fn a_bar_of_the_smallest_value_has_a_length() {
        let ruler = Ruler::new(Scale::Log, [1.0, 100.0].into_iter(), Foot::Below);
        assert!(ruler.place(1.0).unwrap() > 0.05);
    }

    #[test]
    fn a_linear_ruler_begins_at_nothing_and_ends_at_a_round_value() {
        let ruler = Ruler::new(Scale::Linear, [3.0, 9.4].into_iter(), Foot::Below);
        assert_eq!(labels(&ruler, 5), ["0", "2", "4", "6", "8", "10"]);
        let none = Ruler::new(Scale::Linear, [0.0].into_iter(), Foot::Below);
        assert_eq!(none.place(0.0), Some(0.0));
    }

    #[test]
    fn values_are_written_short() {
        let written = [
            0.0, 0.3, 0.000_25, 1.0, 9.996, 12.34, 123.4, 999.9, 1_234.0, 2e6, 3.5e9,
        ];
        let written = written.map(short);
        let expected = [
            "0", "0.3", "0.00025", "1", "10", "12.3", "123", "1k", "1.23k", "2M", "3.5G",
        ];
        assert_eq!(written, expected);
    }
}
