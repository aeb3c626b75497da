//! Measured values as a table and as bars.

use super::{Table, line, nanoseconds};
use crate::plot::{Axis, Bar, Group, Kind, Plot};
use crate::stats::Summary;

/// Values of subjects, a row for each, in cases, a column for each.
pub(crate) struct Grid {
    /// Name of the plot's file.
    name: &'static str,
    /// The measured quantity, or its conditions.
    caption: String,
    /// The unit, and how bars are scaled.
    unit: Axis,
    columns: Vec<String>,
    rows: Vec<(String, Vec<Option<Summary>>)>,
}

impl Grid {
    /// Makes a grid of the subjects that have a value in any case.
    pub(crate) fn new<S, C>(
        name: &'static str,
        caption: impl Into<String>,
        unit: Axis,
        cases: impl IntoIterator<Item = (impl Into<String>, C)>,
        subjects: impl IntoIterator<Item = (impl Into<String>, S)>,
        value: impl Fn(&S, &C) -> Option<Summary>,
    ) -> Self {
        let cases = cases.into_iter().map(|(name, case)| (name.into(), case));
        let (columns, cases): (_, Vec<C>) = cases.unzip();
        let mut rows = Vec::new();
        for (name, subject) in subjects {
            let values: Vec<_> = cases.iter().map(|case| value(&subject, case)).collect();
            if values.iter().any(Option::is_some) {
                rows.push((name.into(), values));
            }
        }
        Grid {
            name,
            caption: caption.into(),
            unit,
            columns,
            rows,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes medians, each with the 10th and 90th percentile.
    pub(crate) fn table(&self) -> Table {
        let cell =
            |value: &Option<Summary>| value.map_or("-".to_owned(), |it| it.spread(nanoseconds));
        let of = |(name, values): &(String, Vec<Option<Summary>>)| {
            line(name.as_str(), values.iter().map(cell))
        };
        Table {
            caption: format!("{}: median (10th–90th percentile)", self.caption),
            header: line(self.unit.label.as_str(), self.columns.iter().cloned()),
            rows: self.rows.iter().map(of).collect(),
        }
    }

    /// Draws a group of bars for each case, with a bar for each subject.
    pub(crate) fn plot(self) -> Plot {
        let group = |(column, label): (usize, String)| {
            let bar = |(name, values): &(String, Vec<Option<Summary>>)| {
                Some(Bar::of(name.as_str(), values[column].as_ref()?))
            };
            Group {
                label,
                bars: self.rows.iter().filter_map(bar).collect(),
            }
        };
        Plot {
            name: self.name,
            caption: self.caption,
            kind: Kind::Bars {
                value: self.unit,
                groups: self.columns.into_iter().enumerate().map(group).collect(),
            },
        }
    }
}
