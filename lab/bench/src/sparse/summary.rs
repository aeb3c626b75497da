//! The summary of `sparse`: tables, figures, and remarks.

use super::Row;
use super::high::Bytes;
use super::subject::{BTREE_MAP, HASH_MAP, HOST, OURS, RWLOCK_VEC};
use crate::plot::Axis;
use crate::report::{Grid, Report, Table};
use crate::stats::Summary;

/// Returns the worst duration of the quietest round.
fn smallest_worst(row: &Row) -> f64 {
    row.worst_ns.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Shows everything that follows from the rows.
pub(super) fn show(rows: &[Row], report: &mut Report) {
    type Times = fn(&Row) -> Summary;
    let cases: [(&str, Times); 2] = [
        ("first open", |row| row.ns.times(1e-3)),
        ("worst of each round", |row| {
            Summary::of(&row.worst_ns).times(1e-3)
        }),
    ];
    report.grid(Grid::new(
        "times",
        "Microseconds of the first open at a high descriptor in a fresh table, the clock included",
        Axis::log("µs"),
        cases,
        rows.iter().map(|row| (name(row), row)),
        |row, times| Some(times(row)),
    ));
    report.tables.push(weights(rows));
    figures(rows, report);
    report.remarks = remarks(rows);
}

fn name(row: &Row) -> String {
    format!("{} to {}", row.subject, row.fd)
}

fn weights(rows: &[Row]) -> Table {
    let line = |row: &Row| {
        let Bytes {
            before,
            open,
            closed,
        } = row.bytes?;
        let [before, open, closed] = [before, open, closed].map(|bytes| format!("{bytes:.0}"));
        Some([name(row), before, open, closed])
    };
    Table::new(
        "Bytes that a table holds, itself and headers of the heap included",
        ["", "one open, at 0", "two open", "closed again"],
        rows.iter().filter_map(line),
    )
}

fn find<'a>(rows: &'a [Row], subject: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.subject == subject)
}

fn figures(rows: &[Row], report: &mut Report) {
    let ours = find(rows, OURS);
    let bytes = ours.and_then(|row| row.bytes);
    let median_us = |name| find(rows, name).map(|row| row.ns.median / 1e3);
    report.figure("sparse.open_max_fd_us", median_us(OURS));
    let worst = ours.map(|row| smallest_worst(row) / 1e3);
    report.figure("sparse.open_max_fd_worst_us", worst);
    report.figure("sparse.bytes", bytes.map(|bytes| bytes.open));
    let kept = bytes.map(|bytes| bytes.closed - bytes.before);
    report.figure("sparse.kept_bytes", kept);
    report.figure("sparse.hash_map_us", median_us(HASH_MAP));
    report.figure("sparse.btree_map_us", median_us(BTREE_MAP));
}

fn remarks(rows: &[Row]) -> Vec<String> {
    let mut remarks = vec![
        "A vector of 2^31 slots has 16 GiB, so no vector reaches the end of the range; those here \
         fill all slots below the descriptor. Maps reach it, but do not know the lowest free one."
            .to_owned(),
    ];
    let grows = find(rows, RWLOCK_VEC).zip(rows.iter().rev().find(|row| row.subject == RWLOCK_VEC));
    remarks.extend(grows.map(|(low, high)| {
        format!(
            "{RWLOCK_VEC} takes {:.0} µs to {} and {:.0} µs to {}.",
            low.ns.median / 1e3,
            low.fd,
            high.ns.median / 1e3,
            high.fd
        )
    }));
    remarks.push(match find(rows, HOST) {
        Some(host) => format!(
            "{} is the highest descriptor that the host allows here.",
            host.fd
        ),
        None => crate::host::REFUSED.to_owned(),
    });
    if rows.iter().all(|row| row.bytes.is_none()) {
        remarks.push(crate::memory::UNKNOWN.to_owned());
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::shown;

    #[test]
    fn the_worst_is_that_of_the_quietest_round() {
        let row = Row {
            subject: OURS,
            fd: i32::MAX,
            ns: Summary::of(&[1000.0, 9000.0]),
            worst_ns: vec![9000.0, 2000.0, 3000.0],
            bytes: Some(Bytes {
                before: 600.0,
                open: 9000.0,
                closed: 700.0,
            }),
        };
        let figures = shown(|report| show(&[row], report)).headline;
        let value = |key| figures.iter().find(|it| it.key == key).map(|it| it.value);
        assert_eq!(value("sparse.open_max_fd_us"), Some(5.0));
        assert_eq!(value("sparse.open_max_fd_worst_us"), Some(2.0));
        assert_eq!(value("sparse.bytes"), Some(9000.0));
        assert_eq!(value("sparse.kept_bytes"), Some(100.0));
    }
}
