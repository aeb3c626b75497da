//! Rows of a report, and the summaries in them.

use serde_json::{Map, Value};

/// Fewest samples that have a spread.
pub(super) const FEWEST: u64 = 3;

/// Least difference of medians that counts as a change.
const LEAST: f64 = 0.05;

/// Row with its measured values.
pub(super) struct Row {
    /// Fields that identify the row, in the order of their names.
    identity: Vec<(String, Value)>,
    measured: Vec<(String, Spread)>,
}

/// The compared part of a summary.
#[derive(Clone, Copy, Debug, PartialEq)]
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

/// Meaning of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Faster,
    Slower,
    /// The name of the field does not imply which direction is better.
    Other,
}

/// Lists the rows of a report that have measured values.
pub(super) fn rows(report: &Value) -> Vec<Row> {
    let objects = report["rows"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_object);
    let mut rows: Vec<Row> = objects.map(Row::of).collect();
    rows.retain(|row| !row.measured.is_empty());
    rows
}

impl Row {
    fn of(object: &Map<String, Value>) -> Self {
        let identifies = |value: &Value| match value {
            Value::String(_) | Value::Bool(_) => true,
            Value::Number(number) => !number.is_f64(),
            _ => false,
        };
        let identity = object.iter().filter(|(_, value)| identifies(value));
        let mut measured = Vec::new();
        collect("", object, &mut measured);
        Row {
            identity: identity
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            measured,
        }
    }

    /// Returns true if both are of the same subject in the same case.
    pub(super) fn is(&self, other: &Row) -> bool {
        self.identity == other.identity
    }

    /// Returns its words, and its numbers with their names.
    pub(super) fn name(&self) -> String {
        let part = |(name, value): &(String, Value)| match value {
            Value::String(text) => text.clone(),
            value => format!("{name} {value}"),
        };
        self.identity
            .iter()
            .map(part)
            .collect::<Vec<_>>()
            .join(", ")
    }

    pub(super) fn measured(&self) -> impl Iterator<Item = (&str, Spread)> {
        self.measured
            .iter()
            .map(|(name, spread)| (&**name, *spread))
    }

    pub(super) fn summary(&self, field: &str) -> Option<Spread> {
        self.measured()
            .find(|(name, _)| *name == field)
            .map(|(_, spread)| spread)
    }
}

/// Collects the summaries of an object and of those in it, each named by its path.
fn collect(way: &str, object: &Map<String, Value>, to: &mut Vec<(String, Spread)>) {
    for (name, value) in object {
        let Some(inner) = value.as_object() else {
            continue;
        };
        let name = if way.is_empty() {
            name.clone()
        } else {
            format!("{way}.{name}")
        };
        match Spread::of(value) {
            Some(spread) => to.push((name, spread)),
            None => collect(&name, inner, to),
        }
    }
}

impl Spread {
    fn of(value: &Value) -> Option<Self> {
        Some(Spread {
            p10: value["p10"].as_f64()?,
            median: value["median"].as_f64()?,
            p90: value["p90"].as_f64()?,
            samples: value["samples"].as_u64()?,
        })
    }
}

impl Change {
    /// Compares two summaries, if both have a spread.
    pub(super) fn of(field: &str, old: Spread, new: Spread) -> Option<Self> {
        let field = field.to_owned();
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

    pub(super) fn direction(&self) -> Direction {
        let grew = self.new.median > self.old.median;
        match (more_is_better(&self.field), grew) {
            (None, _) => Direction::Other,
            (Some(more), grew) if more == grew => Direction::Faster,
            _ => Direction::Slower,
        }
    }
}

/// Returns true if more of a field is better, judging by its name. None if the name does not imply
/// it.
fn more_is_better(field: &str) -> Option<bool> {
    let names = || field.split('.');
    let any = |fits: fn(&str) -> bool| names().any(fits);
    if any(|it| it.contains("per_second") || it.starts_with("faster_than")) {
        Some(true)
    } else if any(|it| matches!(it, "ns" | "us" | "ms") || is_cost(it)) {
        Some(false)
    } else {
        None
    }
}

fn is_cost(name: &str) -> bool {
    [
        "_ns",
        "_us",
        "_ms",
        "_seconds",
        "_instructions",
        "_bytes",
        "_misses",
    ]
    .iter()
    .any(|unit| name.ends_with(unit))
}
