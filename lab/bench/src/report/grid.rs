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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_without_a_value_has_no_line_and_one_with_some_has_all_cells() {
        let value = |subject: &u32, case: &u32| match (subject, case) {
            (1, 1) => Some(Summary::of(&[2.0])),
            (2, _) => Some(Summary::of(&[3.0])),
            _ => None,
        };
        let cases = [("first", 1), ("second", 2)];
        let subjects = [("some", 1), ("all", 2), ("none", 3)];
        let grid = Grid::new("it", "Times", Axis::linear("ns"), cases, subjects, value);
        let table = grid.table();
        assert_eq!(table.header, ["ns", "first", "second"]);
        let some = ["some", "2.00 (2.00–2.00)", "-"];
        assert_eq!(
            (table.rows.len(), &table.rows[0][..]),
            (2, &some.map(str::to_owned)[..])
        );
        let Kind::Bars { groups, .. } = grid.plot().kind else {
            panic!("no bars");
        };
        let bars: Vec<_> = groups.iter().map(|group| group.bars.len()).collect();
        assert_eq!(bars, [2, 1]);
    }
}
