//! The summary of the matrices: tables, figures, and remarks.

use serde_json::{Value, json};

use super::allowed::{Allowed, Line};
use super::matrix::{Cell, Matrix};
use super::operation::Operation;
use crate::report::{Report, Table, line};

/// Returns a row for each two operations of each subject.
pub(super) fn rows(matrices: &[Matrix]) -> Vec<Value> {
    let of_matrix = |matrix: &Matrix| {
        let row = |(one, other): (Operation, Operation)| {
            let cell = matrix.cell(one, other);
            json!({
                "subject": matrix.subject,
                "operation": one.name(),
                "and": other.name(),
                "commutative": cell.commutative,
                "free": cell.free,
                "false_sharing": cell.false_sharing,
            })
        };
        pairs(&matrix.operations())
            .into_iter()
            .map(row)
            .collect::<Vec<_>>()
    };
    matrices.iter().flat_map(of_matrix).collect()
}

/// Lists each two operations once.
fn pairs(operations: &[Operation]) -> Vec<(Operation, Operation)> {
    let with = |(nth, &one): (usize, &Operation)| {
        operations[..=nth]
            .iter()
            .map(move |&other| (one, other))
            .collect::<Vec<_>>()
    };
    operations.iter().enumerate().flat_map(with).collect()
}

/// Shows all subjects, the matrix of each, and the remaining conflicts of ours.
pub(super) fn show(matrices: &[Matrix], allowed: &Allowed, report: &mut Report) {
    report.tables.push(summary(matrices));
    report.tables.extend(matrices.iter().map(matrix_table));
    let remaining = matrices.first().map(|ours| reasons(ours, allowed));
    report.tables.extend(remaining);
    let cases = matrices.first().map(|ours| ours.sum().commutative as f64);
    for (nth, key) in KEYS.into_iter().enumerate() {
        let free = matrices.get(nth).and_then(|matrix| matrix.sum().ratio());
        report.figure(key, free);
        if nth == 0 {
            report.figure("conflicts.cases", cases);
        }
    }
    report.remarks.extend(REMARKS.map(str::to_owned));
}

/// The figures of the subjects, in their order.
const KEYS: [&str; 5] = [
    "conflicts.free_ratio",
    "conflicts.free_ratio_rwlock_vec",
    "conflicts.free_ratio_arc_swap",
    "conflicts.free_ratio_sharded_slab",
    "conflicts.free_ratio_dashmap",
];

/// Conclusions from the tables.
const REMARKS: [&str; 2] = [
    "Free means that two calls touch no common line that one of them writes, in this state: then \
     they do not slow each other down on any number of CPUs. It does not mean that they are fast, \
     and nothing here was timed.",
    "In the paper (SOSP 2013), 68 % of 13,664 commutative cases of 18 system calls are free in \
     Linux 3.8, and 99 % in sv6.",
];

/// The remaining conflicts, and their reasons.
fn reasons(ours: &Matrix, allowed: &Allowed) -> Table {
    let row = |(line, cases): (&Line, usize)| [line.reason.clone(), cases.to_string()];
    let caption = format!(
        "{}: the remaining conflicts, and their reasons",
        ours.subject
    );
    let counted = allowed.counted(ours);
    Table::new(caption, ["", "cases"], counted.into_iter().map(row))
}

fn summary(matrices: &[Matrix]) -> Table {
    let row = |matrix: &Matrix| {
        let sum = matrix.sum();
        [
            matrix.subject.to_owned(),
            matrix.trials.len().to_string(),
            sum.commutative.to_string(),
            sum.free.to_string(),
            percent(&sum),
            sum.false_sharing.to_string(),
        ]
    };
    let header = [
        "",
        "cases",
        "commutative",
        "free of conflicts",
        "",
        "only false sharing",
    ];
    let caption = "Pairs of calls: those that commute, and those of them that share no line that \
                   either writes";
    Table::new(caption, header, matrices.iter().map(row))
}

fn percent(cell: &Cell) -> String {
    cell.ratio()
        .map_or_else(String::new, |ratio| format!("{:.1} %", ratio * 100.0))
}

/// Makes the matrix: the lower triangle, since it is symmetric. Columns have the indices of the
/// rows.
fn matrix_table(matrix: &Matrix) -> Table {
    let operations = matrix.operations();
    let row = |(nth, &one): (usize, &Operation)| {
        let cell = |(column, &other): (usize, &Operation)| match column <= nth {
            true => text(&matrix.cell(one, other)),
            false => String::new(),
        };
        let name = format!("{} {}", nth + 1, one.name());
        line(name, operations.iter().enumerate().map(cell))
    };
    let numbers = (1..=operations.len()).map(|number| number.to_string());
    Table {
        caption: format!(
            "{}: free of conflicts / commutative; one number if all are free",
            matrix.subject
        ),
        header: line("", numbers),
        rows: operations.iter().enumerate().map(row).collect(),
    }
}

fn text(cell: &Cell) -> String {
    match *cell {
        Cell { commutative: 0, .. } => "-".to_owned(),
        Cell {
            commutative, free, ..
        } if commutative == free => free.to_string(),
        Cell {
            commutative, free, ..
        } => format!("{free}/{commutative}"),
    }
}
