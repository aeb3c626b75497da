//! The summary of `sparse`: tables, figures, and remarks.

use super::Row;
use super::high::Bytes;
use super::subject::{BTREE_MAP, HASH_MAP, HOST, OURS, RWLOCK_VEC};
use crate::report::{Figure, Goal, Table, nanoseconds};

/// Makes a table of times, and one of memory.
pub(super) fn tables(rows: &[Row]) -> Vec<Table> {
    vec![times(rows), weights(rows)]
}

/// Returns the smallest of the rounds' worst values: a pause by the machine can only add to it.
fn smallest_worst(row: &Row) -> f64 {
    row.worst_ns.iter().copied().fold(f64::INFINITY, f64::min)
}

fn times(rows: &[Row]) -> Table {
    let us = |ns: f64| nanoseconds(ns / 1e3);
    let line = |row: &Row| {
        vec![
            row.subject.to_owned(),
            row.fd.to_string(),
            format!(
                "{} ({}–{})",
                us(row.ns.median),
                us(row.ns.p10),
                us(row.ns.p90)
            ),
            us(row.ns.max),
            us(smallest_worst(row)),
        ]
    };
    let header = [
        "",
        "descriptor",
        "first open, µs",
        "worst",
        "smallest worst",
    ];
    Table {
        caption: "Microseconds of the first open at a high descriptor in a fresh table, the clock \
                  included: median (10th–90th percentile), the worst of all, and the smallest of \
                  the rounds' worst"
            .to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: rows.iter().map(line).collect(),
    }
}

fn weights(rows: &[Row]) -> Table {
    let line = |row: &Row| {
        let Bytes {
            before,
            open,
            closed,
        } = row.bytes?;
        let cells = [before, open, closed].map(|bytes| format!("{bytes:.0}"));
        let names = [row.subject.to_owned(), row.fd.to_string()];
        Some(names.into_iter().chain(cells).collect())
    };
    let header = [
        "",
        "descriptor",
        "one open, at 0",
        "two open",
        "closed again",
    ];
    Table {
        caption: "Bytes that a table holds, itself and headers of the heap included".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: rows.iter().filter_map(line).collect(),
    }
}

fn find<'a>(rows: &'a [Row], subject: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.subject == subject)
}

/// Picks the headline figures.
pub(super) fn figures(rows: &[Row]) -> Vec<Figure> {
    let figure = |key, value: Option<f64>, goal, meaning: &str| {
        value.map(|value| Figure {
            key,
            value,
            goal,
            meaning: meaning.to_owned(),
        })
    };
    let ours = find(rows, OURS);
    let bytes = ours.and_then(|row| row.bytes);
    let median_us = |name| find(rows, name).map(|row| row.ns.median / 1e3);
    let figures = [
        figure(
            "sparse.open_max_fd_us",
            median_us(OURS),
            Goal::AtMost(10.0),
            "The first open at 2^31 - 1 in a fresh table, median, in µs",
        ),
        figure(
            "sparse.open_max_fd_worst_us",
            ours.map(|row| smallest_worst(row) / 1e3),
            Goal::AtMost(10.0),
            "The worst of a round of them, the smallest of all rounds, in µs",
        ),
        figure(
            "sparse.bytes",
            bytes.map(|bytes| bytes.open),
            Goal::AtMost(32768.0),
            "Bytes of a table with descriptors at 0 and at 2^31 - 1",
        ),
        figure(
            "sparse.kept_bytes",
            bytes.map(|bytes| bytes.closed - bytes.before),
            Goal::None,
            "Bytes of them that remain when the high one is closed",
        ),
        figure(
            "sparse.hash_map_us",
            median_us(HASH_MAP),
            Goal::None,
            "The same open in a HashMap under a lock, in µs",
        ),
        figure(
            "sparse.btree_map_us",
            median_us(BTREE_MAP),
            Goal::None,
            "The same open in a BTreeMap under a lock, in µs",
        ),
    ];
    figures.into_iter().flatten().collect()
}

/// Draws conclusions from the tables.
pub(super) fn remarks(rows: &[Row]) -> Vec<String> {
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
        None => "The host refused a table of its own, and has no row.".to_owned(),
    });
    if rows.iter().all(|row| row.bytes.is_none()) {
        remarks.push("Memory was not measured: only glibc reports its memory in use.".to_owned());
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Summary;

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
        let figures = figures(&[row]);
        let value = |key| figures.iter().find(|it| it.key == key).map(|it| it.value);
        assert_eq!(value("sparse.open_max_fd_us"), Some(5.0));
        assert_eq!(value("sparse.open_max_fd_worst_us"), Some(2.0));
        assert_eq!(value("sparse.bytes"), Some(9000.0));
        assert_eq!(value("sparse.kept_bytes"), Some(100.0));
    }
}
