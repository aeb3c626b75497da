//! Ratio of the cost of an open with many descriptors to that with one.

use super::range::Place;
use super::ranges::VFS;
use super::{Row, State};
use crate::opener::{FILES_STRUCT, OURS, RWLOCK_VEC};
use crate::report::Report;

/// Cost at one descriptor and at the most, without the clock, measured side by side.
pub(super) struct Growth {
    /// Number of descriptors of the larger table.
    pub(super) most: u32,
    /// Nanoseconds with one descriptor.
    pub(super) one: f64,
    /// Nanoseconds with the most descriptors.
    pub(super) many: f64,
}

impl Growth {
    /// Returns the growth: 1 if there is none.
    pub(super) fn ratio(&self) -> f64 {
        self.many / self.one
    }
}

/// Finds the growth of one subject, at the place where it is largest.
pub(super) fn growth(rows: &[Row], subject: &str, state: State) -> Option<Growth> {
    let of_subject: Vec<_> = rows
        .iter()
        .filter(|row| row.subject == subject && row.state == state)
        .collect();
    let most = of_subject.iter().map(|row| row.open).max()?;
    let at = |place: Place| {
        let mut fitting = of_subject.iter().rev().filter(|row| row.place == place);
        let many = fitting.clone().find(|row| row.open == most)?.open_ns;
        // From the end: a twin in the largest step comes before the row of the first step.
        let one = fitting.find(|row| row.open == 1)?.open_ns;
        Some(Growth { most, one, many })
    };
    let all = [Place::Middle, Place::End].into_iter().filter_map(at);
    all.max_by(|one, other| one.ratio().total_cmp(&other.ratio()))
}

/// Adds the headline figures.
pub(super) fn figures(rows: &[Row], report: &mut Report) {
    for (name, subject) in [
        ("", OURS),
        ("vfs_", VFS),
        ("files_struct_", FILES_STRUCT),
        ("rwlock_", RWLOCK_VEC),
    ] {
        for (word, state) in [("hot", State::Hot), ("cold", State::Cold)] {
            let growth = growth(rows, subject, state);
            let key = format!("fd_scale.{name}{word}_growth");
            report.figure(&key, growth.map(|growth| growth.ratio()));
        }
    }
    let pairs = growth(rows, OURS, State::Pair).map(|growth| growth.ratio());
    report.figure("alloc.lowest_pair_ns_ratio_1M_vs_1", pairs);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Summary;

    fn row(open: u32, step: u32, place: Place, ns: f64) -> Row {
        let summary = Summary::of(&[ns + 20.0]);
        let subject = OURS;
        Row {
            subject,
            open,
            step,
            state: State::Hot,
            place,
            ns: summary,
            clock_ns: 20.0,
            open_ns: ns,
        }
    }

    #[test]
    fn growth_is_that_of_the_worse_place_without_the_clock() {
        let rows = [
            row(1, 1, Place::Middle, 10.0),
            row(1, 1, Place::End, 10.0),
            row(100, 100, Place::Middle, 12.0),
            row(100, 100, Place::End, 15.0),
        ];
        assert_eq!(growth(&rows, OURS, State::Hot).unwrap().ratio(), 1.5);
    }

    #[test]
    fn growth_prefers_the_twin_of_the_same_rounds() {
        let rows = [
            row(1, 1, Place::End, 5.0),
            row(100, 100, Place::End, 12.0),
            row(1, 100, Place::End, 10.0),
        ];
        assert_eq!(growth(&rows, OURS, State::Hot).unwrap().ratio(), 1.2);
    }
}
