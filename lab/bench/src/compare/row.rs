//! Rows of a report, and the summaries in them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, from_value};

/// Fewest samples that have a spread.
pub(super) const FEWEST: u64 = 3;

/// Least difference of medians that counts as a change.
const LEAST: f64 = 0.05;

/// Measured values of a row, each named by its path.
pub(super) type Measured = BTreeMap<String, Spread>;

/// The compared part of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(super) struct Spread {
    pub(super) p10: f64,
    pub(super) median: f64,
    pub(super) p90: f64,
    samples: u64,
}

/// Summary before and now.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) field: String,
    pub(super) old: Spread,
    pub(super) new: Spread,
}

/// Lists the rows of a report that have measured values, each by the name of its subject and case:
/// the words, and the numbers with their names.
pub(super) fn rows(report: &Value) -> BTreeMap<String, Measured> {
    let objects = report["rows"].as_array().into_iter().flatten();
    let named = objects.filter_map(Value::as_object).map(|object| {
        let mut measured = Measured::new();
        collect("", object, &mut measured);
        let parts: Vec<_> = object.iter().filter_map(identity).collect();
        (parts.join(", "), measured)
    });
    named.filter(|(_, measured)| !measured.is_empty()).collect()
}

/// Returns the part of the name of a row that a field is, unless it is measured.
fn identity((name, value): (&String, &Value)) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if number.is_f64() => None,
        Value::Bool(_) | Value::Number(_) => Some(format!("{name} {value}")),
        _ => None,
    }
}

/// Collects the summaries of an object and of those in it.
fn collect(way: &str, object: &Map<String, Value>, to: &mut Measured) {
    for (name, value) in object {
        let Some(inner) = value.as_object() else {
            continue;
        };
        let name = format!("{way}{name}");
        match from_value(value.clone()) {
            Ok(spread) => drop(to.insert(name, spread)),
            Err(_) => collect(&format!("{name}."), inner, to),
        }
    }
}

impl Change {
    /// Compares two summaries, if both have a spread.
    pub(super) fn of(field: String, old: Spread, new: Spread) -> Option<Self> {
        (old.samples.min(new.samples) >= FEWEST).then_some(Change { field, old, new })
    }

    pub(super) fn ratio(&self) -> f64 {
        self.new.median / self.old.median
    }

    /// Returns the size of the change, regardless of its direction.
    pub(super) fn size(&self) -> f64 {
        self.ratio().ln().abs()
    }

    pub(super) fn is_beyond_noise(&self) -> bool {
        let apart = self.new.p10 > self.old.p90 || self.new.p90 < self.old.p10;
        let difference = (self.new.median - self.old.median).abs();
        apart && difference > LEAST * self.old.median.abs()
    }

    /// Names the direction, as far as the name of the field implies which one is better.
    pub(super) fn direction(&self) -> &'static str {
        let grew = self.new.median > self.old.median;
        match more_is_better(&self.field) {
            None => "Changed",
            Some(more) if more == grew => "Faster",
            Some(_) => "Slower",
        }
    }
}

/// Returns true if more of a field is better, judging by its name. None if the name does not imply
/// it.
fn more_is_better(field: &str) -> Option<bool> {
    let is_rate = |name: &str| name.contains("per_second") || name.starts_with("faster_than");
    let is_cost = |name: &str| {
        let unit = name.rsplit('_').next();
        [
            "ns",
            "us",
            "ms",
            "seconds",
            "instructions",
            "bytes",
            "misses",
        ]
        .map(Some)
        .contains(&unit)
    };
    if field.split('.').any(is_rate) {
        Some(true)
    } else {
        field.split('.').any(is_cost).then_some(false)
    }
}
