//! The summary of `fork`: tables, figures, and remarks.

use super::host_table::{FORK, UNSHARE};
use super::parent::{FILES_STRUCT, OURS, RWLOCK_VEC};
use super::{FEW, Row, Step};
use crate::report::{Figure, Goal, Table, nanoseconds};
use crate::stats::{Summary, paired_ratio};

/// Makes a table of forks, and one of first closes.
pub(super) fn tables(rows: &[Row]) -> Vec<Table> {
    vec![forks(rows), first_closes(rows)]
}

fn microseconds(ns: &Summary) -> String {
    let us = |ns: f64| nanoseconds(ns / 1e3);
    format!("{} ({}–{})", us(ns.median), us(ns.p10), us(ns.p90))
}

fn forks(rows: &[Row]) -> Table {
    let line = |row: &Row| {
        vec![
            row.subject.to_owned(),
            row.open.to_string(),
            microseconds(&row.ns),
        ]
    };
    let forks = rows.iter().filter(|row| row.step == Step::Fork);
    Table {
        caption: "Microseconds of one fork: median (10th–90th percentile)".to_owned(),
        header: ["", "open", "fork, µs"].map(str::to_owned).to_vec(),
        rows: forks.map(line).collect(),
    }
}

fn first_closes(rows: &[Row]) -> Table {
    let line = |hot: &Row| {
        let cold = find(rows, hot.subject, hot.open, Step::FirstCloseCold)?;
        Some(vec![
            hot.subject.to_owned(),
            hot.open.to_string(),
            microseconds(&hot.ns),
            microseconds(&cold.ns),
        ])
    };
    let hot = rows.iter().filter(|row| row.step == Step::FirstClose);
    let header = ["", "open", "right after the fork, µs", "cold, µs"];
    Table {
        caption: "Microseconds of the first close in the child, the clock included: median \
                  (10th–90th percentile)"
            .to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: hot.filter_map(line).collect(),
    }
}

fn find<'a>(rows: &'a [Row], subject: &str, open: u32, step: Step) -> Option<&'a Row> {
    rows.iter()
        .find(|row| row.subject == subject && row.open == open && row.step == step)
}

/// Picks the headline figures.
pub(super) fn figures(rows: &[Row], most: u32) -> Vec<Figure> {
    let us = |key, subject, step, goal, meaning: &str| {
        find(rows, subject, most, step).map(|row| Figure {
            key,
            value: row.ns.median / 1e3,
            goal,
            meaning: format!("{meaning}, in µs"),
        })
    };
    let small = |key, subject, goal, meaning: &str| {
        let ours = find(rows, OURS, FEW, Step::Fork)?;
        let copy = find(rows, subject, FEW, Step::Fork)?;
        let ratio = paired_ratio(&ours.rounds, &copy.rounds);
        Some(Figure::of_ratio(key, &ratio, goal, meaning))
    };
    let figures = [
        us(
            "fork.million_us",
            OURS,
            Step::Fork,
            Goal::AtMost(20.0),
            &format!("A fork with {most} open"),
        ),
        small(
            "fork.small_vs_copy",
            RWLOCK_VEC,
            Goal::AtMost(1.0),
            &format!("A fork with {FEW} open ÷ a copy of a vector of {FEW} under its lock"),
        ),
        small(
            "fork.small_vs_files_struct",
            FILES_STRUCT,
            Goal::None,
            "The same ÷ a copy of files_struct under its lock",
        ),
        us(
            "fork.first_write_us",
            OURS,
            Step::FirstClose,
            Goal::None,
            "The first close in the child, right after the fork",
        ),
        us(
            "fork.first_write_cold_us",
            OURS,
            Step::FirstCloseCold,
            Goal::None,
            "The same, cache cold",
        ),
        us(
            "fork.rwlock_million_us",
            RWLOCK_VEC,
            Step::Fork,
            Goal::None,
            &format!("A copy of RwLock<Vec> with {most} open"),
        ),
    ];
    figures.into_iter().flatten().collect()
}

/// Draws conclusions from the tables.
pub(super) fn remarks(rows: &[Row]) -> Vec<String> {
    let mut remarks = vec![
        "Each open file is an object of its own, so a copy that takes a reference to each writes \
         to as many lines of the cache. Children are dropped outside of the timing."
            .to_owned(),
    ];
    let host = |subject, wanted: fn(u32) -> bool| {
        let row = rows
            .iter()
            .find(|row| row.subject == subject && wanted(row.open))?;
        let us = nanoseconds(row.ns.median / 1e3);
        Some(format!("{us} µs with {}", row.open))
    };
    let few = |open| open == FEW;
    let more = |open| open != FEW;
    let described = || {
        Some(format!(
            "The host copies its table alone in {} and {} open; fork(2) copies the address space \
             of this process too, and takes {} and {}.",
            host(UNSHARE, few)?,
            host(UNSHARE, more)?,
            host(FORK, few)?,
            host(FORK, more)?,
        ))
    };
    remarks.push(
        described()
            .unwrap_or_else(|| "The host refused a table of its own, and has no row.".to_owned()),
    );
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_fork_is_compared_within_each_round() {
        let rows = [
            Row::new(OURS, FEW, Step::Fork, vec![50.0, 500.0]),
            Row::new(RWLOCK_VEC, FEW, Step::Fork, vec![100.0, 1000.0]),
        ];
        let figures = figures(&rows, 1_000_000);
        let keys: Vec<_> = figures.iter().map(|figure| figure.key).collect();
        assert_eq!(keys, ["fork.small_vs_copy"]);
        assert_eq!(figures[0].value, 0.5);
    }
}
