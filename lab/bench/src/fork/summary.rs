//! The summary of `fork`: tables, figures, and remarks.

use super::host_table::{FORK, UNSHARE};
use super::{FEW, Row, Step};
use crate::opener::{FILES_STRUCT, OURS, RWLOCK_VEC};
use crate::plot::Axis;
use crate::report::{Grid, Report};

/// Subjects, in the order of the tables.
const SUBJECTS: [&str; 5] = [OURS, RWLOCK_VEC, FILES_STRUCT, UNSHARE, FORK];

/// Shows everything that follows from the rows.
pub(super) fn show(rows: &[Row], most: u32, report: &mut Report) {
    let mut sizes: Vec<u32> = rows.iter().map(|row| row.open).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let times = |name, caption: &str, cases: Vec<(String, (u32, Step))>| {
        let subjects = SUBJECTS.map(|name| (name, name));
        Grid::new(
            name,
            caption,
            Axis::log("µs"),
            cases,
            subjects,
            |name, case| Some(find(rows, name, case.0, case.1)?.ns.summary().times(1e-3)),
        )
    };
    let forks = sizes
        .iter()
        .map(|&open| (format!("{open} open"), (open, Step::Fork)));
    report.grid(times("forks", "Microseconds of one fork", forks.collect()));
    let closes = sizes.iter().flat_map(|&open| {
        [
            (
                format!("{open} open, right after the fork"),
                (open, Step::FirstClose),
            ),
            (format!("{open} open, cold"), (open, Step::FirstCloseCold)),
        ]
    });
    let caption = "Microseconds of the first close in the child, the clock included";
    let closes = closes.filter(|(_, (open, _))| [FEW, most].contains(open));
    report.grid(times("first-closes", caption, closes.collect()));
    figures(rows, most, report);
    report.remarks = remarks(rows);
}

fn find<'a>(rows: &'a [Row], subject: &str, open: u32, step: Step) -> Option<&'a Row> {
    rows.iter()
        .find(|row| row.subject == subject && row.open == open && row.step == step)
}

fn figures(rows: &[Row], most: u32, report: &mut Report) {
    let us = |subject, step| {
        let row = find(rows, subject, most, step)?;
        Some(row.ns.summary().median / 1e3)
    };
    let small = |subject| {
        let ours = find(rows, OURS, FEW, Step::Fork)?;
        Some(ours.ns.over(&find(rows, subject, FEW, Step::Fork)?.ns))
    };
    report.figure("fork.million_us", us(OURS, Step::Fork));
    report.ratio("fork.small_vs_copy", small(RWLOCK_VEC));
    report.ratio("fork.small_vs_files_struct", small(FILES_STRUCT));
    report.figure("fork.first_write_us", us(OURS, Step::FirstClose));
    let cold = us(OURS, Step::FirstCloseCold);
    report.figure("fork.first_write_cold_us", cold);
    report.figure("fork.rwlock_million_us", us(RWLOCK_VEC, Step::Fork));
}

fn remarks(rows: &[Row]) -> Vec<String> {
    let mut remarks = vec![
        "Each open file is an object of its own, so a copy that takes a reference to each writes \
         to as many lines of the cache. Children are dropped outside of the timing. fork(2) copies \
         the address space of this process too."
            .to_owned(),
    ];
    if !rows.iter().any(|row| row.subject == UNSHARE) {
        remarks.push(crate::host::REFUSED.to_owned());
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::shown;

    #[test]
    fn the_small_fork_is_compared_within_each_round() {
        let rows = [
            Row::new(OURS, FEW, Step::Fork, vec![50.0, 500.0]),
            Row::new(RWLOCK_VEC, FEW, Step::Fork, vec![100.0, 1000.0]),
        ];
        let report = shown(|report| show(&rows, 1_000_000, report));
        let keys: Vec<_> = report.headline.iter().map(|figure| figure.key).collect();
        assert_eq!(keys, ["fork.small_vs_copy"]);
        assert_eq!(report.headline[0].value, 0.5);
    }
}
