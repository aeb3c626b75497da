//! The tables of `peers`: times, ratios, features, memory and growth.

use super::super::Row;
use super::super::case::{Case, Work};
use super::super::rival::{Features, Side};
use super::best;
use crate::report::{Table, nanoseconds, ratio};
use crate::stats::{Summary, median, paired_ratio};

/// The work that is compared side by side, in one table each.
const KINDS: [(&str, &[Work]); 2] = [
    ("lookups", &[Work::Borrowed, Work::Owned]),
    (
        "changes",
        &[Work::OpenClose, Work::OpenCloseNew, Work::Mixed],
    ),
];

/// Makes all tables.
pub(in super::super) fn tables(rows: &[Row], most: u32) -> Vec<Table> {
    let mut tables = Vec::new();
    for (kind, works) in KINDS {
        let of_kind = |case: &&Case| works.contains(&case.work);
        let cases: Vec<Case> = Case::ALL.iter().filter(of_kind).copied().collect();
        tables.push(times(rows, kind, &cases));
        tables.push(ratios(rows, kind, &cases));
    }
    tables.push(sizes(rows, most));
    tables.push(features(rows));
    tables
}

fn header(first: &str, cases: &[Case]) -> Vec<String> {
    let column = |case: &Case| format!("{}, {}t", case.work, case.threads);
    std::iter::once(first.to_owned())
        .chain(cases.iter().map(column))
        .collect()
}

fn times(rows: &[Row], kind: &str, cases: &[Case]) -> Table {
    let cell = |row: &Row, case: &Case| {
        let timing = row.timings.iter().find(|timing| timing.case == *case);
        timing.map_or("-".to_owned(), |timing| spread(&timing.ns))
    };
    Table {
        caption: format!("Nanoseconds, {kind}: median (10th–90th percentile)"),
        header: header("ns", cases),
        rows: lines(rows, cases, cell),
    }
}

fn ratios(rows: &[Row], kind: &str, cases: &[Case]) -> Table {
    let cell = |row: &Row, case: &Case| {
        let of = |row: &Row| {
            let ours = best(rows, Side::Ours, *case)?;
            Some(paired_ratio(row.samples(*case)?, ours.samples(*case)?).median)
        };
        of(row).map_or("-".to_owned(), ratio)
    };
    Table {
        caption: format!("Times slower than the best of ours, {kind}: medians of the rounds"),
        header: header("times", cases),
        rows: lines(rows, cases, cell),
    }
}

fn lines(rows: &[Row], cases: &[Case], cell: impl Fn(&Row, &Case) -> String) -> Vec<Vec<String>> {
    let line = |row: &Row| {
        let cells = cases.iter().map(|case| cell(row, case));
        std::iter::once(row.name.to_owned()).chain(cells).collect()
    };
    let takes_part = |row: &&Row| cases.iter().any(|&case| row.samples(case).is_some());
    rows.iter().filter(takes_part).map(line).collect()
}

fn spread(ns: &Summary) -> String {
    let [p10, median, p90] = [ns.p10, ns.median, ns.p90].map(nanoseconds);
    format!("{median} ({p10}–{p90})")
}

fn sizes(rows: &[Row], most: u32) -> Table {
    let line = |row: &Row| {
        if row.growths.is_empty() && row.bytes_per_descriptor.is_none() {
            return None;
        }
        let bytes = row
            .bytes_per_descriptor
            .map_or("-".to_owned(), |bytes| format!("{bytes:.1}"));
        let mut line = vec![row.name.to_owned(), bytes];
        line.extend(growth(row));
        Some(line)
    };
    let header = ["", "bytes each", "median, ns", "99.99 %, µs", "worst, µs"];
    Table {
        caption: format!(
            "A table with {most} descriptors: memory beyond the objects, and its opens one by one, \
             the clock included; medians of the growths, of the worst the smallest"
        ),
        header: header.map(str::to_owned).to_vec(),
        rows: rows.iter().filter_map(line).collect(),
    }
}

fn growth(row: &Row) -> [String; 3] {
    let Some(worst) = row.growths.iter().map(|tail| tail.max_ns).min() else {
        return ["-"; 3].map(str::to_owned);
    };
    let of = |part: fn(&crate::tail::Tail) -> u64| {
        let parts: Vec<f64> = row.growths.iter().map(|tail| part(tail) as f64).collect();
        median(&parts)
    };
    [
        nanoseconds(of(|tail| tail.median_ns)),
        nanoseconds(of(|tail| tail.p9999_ns) / 1e3),
        nanoseconds(worst as f64 / 1e3),
    ]
}

fn features(rows: &[Row]) -> Table {
    let line = |row: &Row| {
        let answers = row.features.answers().map(|answer| answer.to_string());
        std::iter::once(row.name.to_owned())
            .chain(answers)
            .collect()
    };
    let tables = rows.iter().filter(|row| row.side != Side::Floor);
    Table {
        caption: "Features of each table; a word says how it has a feature".to_owned(),
        header: std::iter::once("")
            .chain(Features::NAMES)
            .map(str::to_owned)
            .collect(),
        rows: tables.map(line).collect(),
    }
}
