//! From values to positions along an axis, and its ticks.

use std::ops::Range;

use plotters::coord::combinators::LogCoord;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::plot::Scale;

/// Axis in one of the two scales.
pub(super) enum Ruler {
    Linear(RangedCoordf64),
    Log(LogCoord<f64>),
}

impl Ruler {
    /// Makes a ruler for those of `values` that have a position: from 0, or for whole decades.
    pub(super) fn new(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let values = values.filter(|value| has_position(scale, *value));
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), it| {
            (low.min(it), high.max(it))
        });
        match scale {
            Scale::Linear if low <= high => {
                Ruler::Linear((low.min(0.0)..high.max(f64::MIN_POSITIVE) * 1.02).into())
            }
            Scale::Linear => Ruler::Linear((0.0..1.0).into()),
            Scale::Log if low <= high => {
                // A value at the lower end would have no length as a bar.
                let [low, high] = [(low * 0.9).log10().floor(), high.log10().ceil()];
                Ruler::Log((10_f64.powf(low)..10_f64.powf(high)).log_scale().into())
            }
            Scale::Log => Ruler::Log((1.0..10.0).log_scale().into()),
        }
    }

    /// Makes a ruler for rows, from top to bottom.
    pub(super) fn rows(number: usize) -> Self {
        Ruler::Linear((number as f64..0.0).into())
    }
}

impl Ranged for Ruler {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        match self {
            Ruler::Linear(axis) => axis.map(value, limit),
            Ruler::Log(axis) => axis.map(value, limit),
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match self {
            _ if hint.weight().allow_light_points() => Vec::new(),
            Ruler::Linear(axis) => axis.key_points(hint),
            Ruler::Log(axis) => axis.key_points(hint),
        }
    }

    fn range(&self) -> Range<f64> {
        match self {
            Ruler::Linear(axis) => axis.range(),
            Ruler::Log(axis) => axis.range(),
        }
    }
}

/// Returns true if a value has a position in this scale.
pub(super) fn has_position(scale: Scale, value: f64) -> bool {
    value.is_finite() && (scale == Scale::Linear || value > 0.0)
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

    fn range(scale: Scale, values: &[f64]) -> Range<f64> {
        Ruler::new(scale, values.iter().copied()).range()
    }

    #[test]
    fn a_log_ruler_has_whole_decades() {
        let wide = range(Scale::Log, &[3.0, 4000.0]);
        assert_eq!((wide.start, wide.end), (1.0, 10_000.0));
    }

    #[test]
    fn values_without_a_logarithm_have_no_position() {
        let some = range(Scale::Log, &[0.0, -1.0, f64::NAN, 2.0, 9.0]);
        assert_eq!((some.start, some.end), (1.0, 10.0));
        let none = range(Scale::Log, &[]);
        assert_eq!((none.start, none.end), (1.0, 10.0));
    }

    #[test]
    fn a_bar_of_the_smallest_value_has_a_length() {
        assert!(range(Scale::Log, &[1.0, 100.0]).start < 1.0);
    }

    #[test]
    fn a_linear_ruler_begins_at_nothing() {
        assert_eq!(range(Scale::Linear, &[3.0, 9.4]).start, 0.0);
        assert!(range(Scale::Linear, &[0.0]).end > 0.0);
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
