//! Compares two runs: reports what became faster or slower beyond the noise.
//!
//! The machine may have changed between the runs, so the comparison is strict: a median has
//! *changed* only if the spreads from the 10th to the 90th percentile do not overlap and the
//! medians differ by more than 5 %. Differences between the machines are reported first.
//!
//! Rows are matched by their identity: words, whole numbers and truth values. Measured values are
//! summaries, and other numbers with a fraction. A measurement of too few samples for a spread is
//! not judged.
//!
//! 1. [`old`]: the file of an earlier run.
//! 2. [`row`]: rows, and their summaries.

use std::fmt;

use serde_json::Value;

use crate::json;
use crate::report::{Report, Table, nanoseconds, ratio};

pub mod old;
mod row;

pub use old::Old;
use old::{experiments, headline};
use row::{Change, Measured, rows};

/// The comparison with an earlier run, as text for people.
#[derive(Debug)]
pub struct Comparison {
    /// Name of the earlier run.
    pub name: String,
    /// Differences between the conditions of the two runs.
    pub warnings: Vec<String>,
    /// The changes, if any, and the headline figures.
    pub tables: Vec<Table>,
    /// The number of unchanged medians, and the rows that could not be compared.
    pub remarks: Vec<String>,
}

/// Header of every table.
const HEADER: [&str; 4] = ["", "before", "now", "now ÷ before"];

/// The result over all rows.
#[derive(Default)]
struct Tally {
    changes: Vec<(String, Change)>,
    /// Summaries that differ by no more than noise.
    within_noise: usize,
    /// Summaries without a spread.
    not_judged: usize,
    gone: Vec<String>,
    new: Vec<String>,
}

impl Comparison {
    /// Compares `new` with an earlier run.
    ///
    /// # Errors
    /// If a report has no JSON form, which no report of this crate lacks.
    pub fn new(old: &Old, new: &[Report]) -> anyhow::Result<Self> {
        Ok(Self::of(old, &json::document(new)?))
    }

    fn of(old: &Old, new: &Value) -> Self {
        let mut tally = Tally::default();
        let mut warnings = Vec::new();
        let mut remarks = Vec::new();
        for report in experiments(new) {
            let name = report["experiment"].as_str().unwrap_or_default();
            let Some(before) = old.experiment(name) else {
                remarks.push(format!("{name} is not in the earlier run."));
                continue;
            };
            warnings.extend(differences(name, before, report));
            tally.compare(name, before, report);
        }
        warnings.dedup();
        if !warnings.is_empty() {
            let care = "Figures of two runs are comparable only with care, and these were not \
                        taken under equal conditions:";
            warnings.insert(0, care.to_owned());
        }
        remarks.extend(tally.remarks());
        Comparison {
            name: old.name().to_owned(),
            warnings,
            tables: tally.tables(old, new),
            remarks,
        }
    }
}

/// Lists the differences between the conditions of two runs of one experiment.
fn differences(experiment: &str, old: &Value, new: &Value) -> Vec<String> {
    let parts = [
        ("CPU", "/machine/cpu"),
        ("number of CPUs", "/machine/cpus"),
        ("kernel", "/machine/kernel"),
        ("compiler", "/machine/rustc"),
    ];
    let shown = |value: Option<&Value>| match value {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "unknown".to_owned(),
    };
    let differ = |what: &str, pointer: &str| {
        let (old, new) = (old.pointer(pointer), new.pointer(pointer));
        (old != new).then(|| format!("{what}: {} → {}", shown(old), shown(new)))
    };
    let found = parts.into_iter();
    let found = found.filter_map(|(what, pointer)| differ(what, pointer));
    let mut found: Vec<_> = found.map(|it| format!("The {it}.")).collect();
    let what = "distance of a cache line to the other CPU";
    let distance = differ(what, "/machine/line_round_trip/distance");
    found.extend(
        distance
            .map(|it| format!("{experiment}, {it}: contended figures differ by up to 4 times.")),
    );
    found.extend(differ("configuration", "/config").map(|it| format!("{experiment}, {it}.")));
    found
}

impl Tally {
    fn compare(&mut self, experiment: &str, old: &Value, new: &Value) {
        let mut before = rows(old);
        for (name, now) in rows(new) {
            let full = format!("{experiment}: {name}");
            match before.remove(&name) {
                Some(old) => self.compare_rows(&full, old, &now),
                None => self.new.push(full),
            }
        }
        let gone = before.into_keys();
        self.gone
            .extend(gone.map(|name| format!("{experiment}: {name}")));
    }

    fn compare_rows(&mut self, name: &str, old: Measured, new: &Measured) {
        for (field, before) in old {
            let Some(after) = new.get(&field) else {
                self.gone.push(format!("{name}, {field}"));
                continue;
            };
            match Change::of(field, before, *after) {
                Some(change) if change.is_beyond_noise() => {
                    self.changes.push((name.to_owned(), change));
                }
                Some(_) => self.within_noise += 1,
                None => self.not_judged += 1,
            }
        }
    }

    fn tables(&mut self, old: &Old, new: &Value) -> Vec<Table> {
        let largest = |change: &Change| -change.size();
        self.changes
            .sort_by(|(_, one), (_, other)| largest(one).total_cmp(&largest(other)));
        let directions = ["Slower", "Faster", "Changed"];
        let mut tables: Vec<_> = directions.map(|it| self.changed(it)).into();
        tables.push(headlines(old, new));
        tables.retain(|table| !table.rows.is_empty());
        tables
    }

    fn changed(&self, direction: &str) -> Table {
        let line = |(name, change): &(String, Change)| {
            [
                format!("{name}, {}", change.field),
                spread(&change.old),
                spread(&change.new),
                ratio(change.ratio()),
            ]
        };
        let fitting = self.changes.iter();
        let fitting = fitting.filter(|(_, it)| it.direction() == direction);
        Table::new(
            format!("{direction}, beyond the noise: median (10th–90th percentile)"),
            HEADER,
            fitting.map(line),
        )
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = vec![format!(
            "{} medians changed beyond the noise, and {} did not.",
            self.changes.len(),
            self.within_noise
        )];
        if self.not_judged > 0 {
            remarks.push(format!(
                "{} were not judged: they have fewer than {} samples.",
                self.not_judged,
                row::FEWEST
            ));
        }
        let named = |what: &str, names: &[String]| {
            (!names.is_empty()).then(|| format!("{what}: {}.", names.join("; ")))
        };
        remarks.extend(named("Not measured any more", &self.gone));
        remarks.extend(named("Not measured before", &self.new));
        remarks
    }
}

fn spread(it: &row::Spread) -> String {
    let [p10, median, p90] = [it.p10, it.median, it.p90].map(nanoseconds);
    format!("{median} ({p10}–{p90})")
}

/// Lists the headline figures of both runs, as far as their experiments ran in the new one.
fn headlines(old: &Old, new: &Value) -> Table {
    let mut rows = Vec::new();
    for report in experiments(new) {
        let before = old.experiment(report["experiment"].as_str().unwrap_or_default());
        let before = before.map(headline).unwrap_or_default();
        let now = headline(report);
        let gone = before.keys().filter(|key| !now.contains_key(*key));
        for key in now.keys().chain(gone) {
            let (old, new) = (before.get(key), now.get(key));
            let shown = |value: Option<&f64>| value.map_or("-".to_owned(), |it| ratio(*it));
            let quotient = old.zip(new).map(|(old, new)| new / old);
            let key = key.clone();
            rows.push([key, shown(old), shown(new), shown(quotient.as_ref())]);
        }
    }
    Table::new("Headline figures", HEADER, rows)
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n== compared with {} ==", self.name)?;
        for warning in &self.warnings {
            writeln!(f, "!! {warning}")?;
        }
        for table in &self.tables {
            write!(f, "{table}")?;
        }
        writeln!(f)?;
        for remark in &self.remarks {
            writeln!(f, "  - {remark}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
