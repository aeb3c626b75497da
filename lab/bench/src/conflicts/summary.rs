//! The summary of the matrices: tables, figures, and remarks.

use serde_json::{Value, json};

use super::allowed::{Allowed, Line};
use super::matrix::{Cell, Matrix};
use super::operation::Operation;
use crate::report::{Figure, Goal, Table};

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

/// Makes a table of all subjects, the matrix of each, and the remaining conflicts of ours.
pub(super) fn tables(matrices: &[Matrix], allowed: &Allowed) -> Vec<Table> {
    let mut tables = vec![summary(matrices)];
    tables.extend(matrices.iter().map(matrix_table));
    tables.extend(matrices.first().map(|ours| reasons(ours, allowed)));
    tables.push(instructions(matrices));
    tables
}

/// The remaining conflicts, and their reasons.
fn reasons(ours: &Matrix, allowed: &Allowed) -> Table {
    let row = |(line, cases): (&Line, usize)| vec![line.reason.clone(), cases.to_string()];
    let counted = allowed.counted(ours);
    Table {
        caption: format!(
            "{}: the remaining conflicts, and their reasons",
            ours.subject
        ),
        header: ["", "cases"].map(str::to_owned).to_vec(),
        rows: counted.into_iter().map(row).collect(),
    }
}

/// Instructions of the calls on one CPU: a call without conflicts may still be slow.
fn instructions(matrices: &[Matrix]) -> Table {
    let row = |operation: &Operation| {
        let count = |matrix: &Matrix| match matrix.instructions(*operation) {
            0 => "-".to_owned(),
            count => count.to_string(),
        };
        let name = operation.name().to_owned();
        std::iter::once(name)
            .chain(matrices.iter().map(count))
            .collect()
    };
    let subjects = matrices.iter().map(|matrix| matrix.subject.to_owned());
    Table {
        caption: "Instructions of one call in steady state, those of the tracer included: \
                  medians"
            .to_owned(),
        header: std::iter::once(String::new()).chain(subjects).collect(),
        rows: Operation::ALL.iter().map(row).collect(),
    }
}

fn summary(matrices: &[Matrix]) -> Table {
    let row = |matrix: &Matrix| {
        let sum = matrix.sum();
        vec![
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
    Table {
        caption: "Pairs of calls: those that commute, and those of them that share no line that \
                  either writes"
            .to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: matrices.iter().map(row).collect(),
    }
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
        let cells = operations.iter().enumerate().map(cell);
        std::iter::once(name).chain(cells).collect()
    };
    let numbers = (1..=operations.len()).map(|number| number.to_string());
    Table {
        caption: format!(
            "{}: free of conflicts / commutative; one number if all are free",
            matrix.subject
        ),
        header: std::iter::once(String::new()).chain(numbers).collect(),
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

/// Picks the headline figures.
pub(super) fn figures(matrices: &[Matrix]) -> Vec<Figure> {
    let ratio = |nth: usize, key, goal| {
        let matrix = matrices.get(nth)?;
        Some(Figure {
            key,
            value: matrix.sum().ratio()?,
            goal,
            meaning: format!(
                "Part of the commutative cases that is free: {}",
                matrix.subject
            ),
        })
    };
    let cases = matrices.first().map(|ours| Figure {
        key: "conflicts.cases",
        value: ours.sum().commutative as f64,
        goal: Goal::AtLeast(1000.0),
        meaning: "Cases that commute".to_owned(),
    });
    let figures = [
        ratio(0, "conflicts.free_ratio", Goal::AtLeast(0.99)),
        cases,
        ratio(1, "conflicts.free_ratio_rwlock_vec", Goal::None),
        ratio(2, "conflicts.free_ratio_arc_swap", Goal::None),
        ratio(3, "conflicts.free_ratio_sharded_slab", Goal::None),
        ratio(4, "conflicts.free_ratio_dashmap", Goal::None),
    ];
    figures.into_iter().flatten().collect()
}

/// Draws conclusions from the tables.
pub(super) fn remarks() -> Vec<String> {
    vec![
        "Free means that two calls touch no common line that one of them writes, in this state: then \
         they do not slow each other down on any number of CPUs. It does not mean that they are \
         fast, and nothing here was timed."
            .to_owned(),
        "In the paper (SOSP 2013), 68 % of 13,664 commutative cases of 18 system calls are free in \
         Linux 3.8, and 99 % in sv6."
            .to_owned(),
    ]
}
