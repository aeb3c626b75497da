//! The summary of the line transfers: tables, figures, curves, and remarks.

use conflict_tracer::MAX_CPUS;

use super::long_run::Place;
use super::transfers::{Row, Work, steps};
use crate::plot::{Axis, Curve, Kind, Plot, Point};
use crate::report::{Figure, Goal, Table};

const OURS: &str = "fdtable";

/// The other tables, with the keys of their figures: owned lookups of separate files, of the same
/// file, and opens and closes.
const OTHERS: [(&str, [&str; 3]); 4] = [
    (
        "RwLock<Vec<Option<Arc>>>",
        [
            "conflicts.transfers_rwlock_vec_own",
            "conflicts.transfers_rwlock_vec_one",
            "conflicts.transfers_rwlock_vec_open_close",
        ],
    ),
    (
        "array of ArcSwapOption",
        [
            "conflicts.transfers_arc_swap_own",
            "conflicts.transfers_arc_swap_one",
            "conflicts.transfers_arc_swap_open_close",
        ],
    ),
    (
        "sharded-slab",
        [
            "conflicts.transfers_sharded_slab_own",
            "conflicts.transfers_sharded_slab_one",
            "conflicts.transfers_sharded_slab_open_close",
        ],
    ),
    (
        "dashmap",
        [
            "conflicts.transfers_dashmap_own",
            "conflicts.transfers_dashmap_one",
            "conflicts.transfers_dashmap_open_close",
        ],
    ),
];

/// The work that each of the three keys measures.
const COMPARED: [Work; 3] = [Work::OwnedOwn, Work::OwnedCommon, Work::OpenClose];

/// Makes a table of transfers, and one of the places of each long run.
pub(super) fn tables(rows: &[Row]) -> Vec<Table> {
    let mut tables = vec![transfers(rows)];
    tables.extend(rows.iter().filter(|row| row.long).map(places));
    tables
}

/// Places where the lines of a long run travel.
fn places(row: &Row) -> Table {
    let line = |place: &Place| {
        let lines = format!("{:.4}", place.per_operation);
        vec![place.name.clone(), lines]
    };
    Table {
        caption: format!(
            "{}: places in the source where lines travel, for each open and close of the long run",
            row.subject
        ),
        header: ["", "lines"].map(str::to_owned).to_vec(),
        rows: row.places.iter().map(line).collect(),
    }
}

fn subjects(rows: &[Row]) -> Vec<&str> {
    let mut subjects: Vec<&str> = rows.iter().map(|row| row.subject.as_str()).collect();
    subjects.dedup();
    subjects
}

fn find<'r>(rows: &'r [Row], subject: &str, work: Work, cpus: usize) -> Option<&'r Row> {
    let is_it = |row: &&Row| (row.work, row.cpus, row.long) == (work, cpus, false);
    rows.iter().filter(is_it).find(|row| row.subject == subject)
}

fn long(rows: &[Row], subject: &str) -> Option<f64> {
    let row = rows.iter().find(|row| row.long && row.subject == subject)?;
    Some(row.per_operation)
}

/// Makes a row for each subject and work, and a column for each number of CPUs.
fn transfers(rows: &[Row]) -> Table {
    let line = |subject: &str, work: Work| {
        let cell = |cpus| {
            find(rows, subject, work, cpus)
                .map_or_else(String::new, |row| format!("{:.2}", row.per_operation))
        };
        let name = format!("{subject}: {}", work.name());
        std::iter::once(name)
            .chain(steps().map(cell))
            .collect::<Vec<_>>()
    };
    let works = |subject| Work::ALL.map(|work| line(subject, work));
    let mut lines: Vec<_> = subjects(rows).into_iter().flat_map(works).collect();
    for row in rows.iter().filter(|row| row.long) {
        let name = format!("{}: open any and close, a long run", row.subject);
        let cell = |cpus| match cpus {
            2 => format!("{:.3}", row.per_operation),
            _ => String::new(),
        };
        lines.push(std::iter::once(name).chain(steps().map(cell)).collect());
    }
    Table {
        caption: "Lines that travel between caches for each operation, by the number of CPUs, in \
                  steady state"
            .to_owned(),
        header: std::iter::once(String::new())
            .chain(steps().map(|cpus| cpus.to_string()))
            .collect(),
        rows: lines,
    }
}

/// Picks the headline figures.
pub(super) fn figures(rows: &[Row]) -> Vec<Figure> {
    let most = |key, subject, work: Work, goal| {
        let row = find(rows, subject, work, MAX_CPUS)?;
        Some(Figure {
            key,
            value: row.per_operation,
            goal,
            meaning: format!(
                "Line transfers per operation, 256 CPUs: {subject}, {}",
                work.name()
            ),
        })
    };
    let long = |key, subject, goal| {
        Some(Figure {
            key,
            value: long(rows, subject)?,
            goal,
            meaning: format!(
                "The same in a long run of two CPUs, with refills and grace periods: {subject}, an open and a close"
            ),
        })
    };
    let none = Goal::AtMost(0.0);
    let figures = [
        most(
            "conflicts.transfers_borrowed_own",
            OURS,
            Work::BorrowedOwn,
            none,
        ),
        most(
            "conflicts.transfers_borrowed_one",
            OURS,
            Work::BorrowedCommon,
            none,
        ),
        most("conflicts.transfers_owned_own", OURS, Work::OwnedOwn, none),
        most(
            "conflicts.transfers_owned_one",
            OURS,
            Work::OwnedCommon,
            Goal::AtMost(0.05),
        ),
        most(
            "conflicts.transfers_open_close",
            OURS,
            Work::OpenClose,
            none,
        ),
        long(
            "conflicts.transfers_open_close_long",
            OURS,
            Goal::AtMost(0.15),
        ),
    ];
    let of_others = |(subject, keys): (&'static str, [&'static str; 3])| {
        let compared = keys.into_iter().zip(COMPARED);
        compared.map(move |(key, work)| most(key, subject, work, Goal::None))
    };
    let others = OTHERS.into_iter().flat_map(of_others);
    figures.into_iter().chain(others).flatten().collect()
}

/// Draws the transfers, and the model's band, over the number of CPUs.
pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let counted = [
        "transfers-owned",
        "transfers-owned-one",
        "transfers-open-close",
    ];
    let counted = counted.into_iter().zip(COMPARED);
    let counted = counted.map(|(name, work)| counted_plot(rows, name, work));
    counted.collect()
}

fn counted_plot(rows: &[Row], name: &'static str, work: Work) -> Plot {
    let point = |row: &Row| Point {
        x: row.cpus as f64,
        y: row.per_operation,
        spread: None,
    };
    let curve = |subject: &str| Curve {
        name: subject.to_owned(),
        points: steps()
            .filter_map(|cpus| find(rows, subject, work, cpus).map(point))
            .collect(),
    };
    Plot {
        name,
        caption: format!(
            "{}: lines that travel between caches for each operation",
            work.name()
        ),
        kind: Kind::Curves {
            x: Axis::log("simulated CPUs"),
            y: Axis::linear("lines for each operation"),
            curves: subjects(rows).into_iter().map(curve).collect(),
        },
    }
}

/// Draws conclusions from the tables.
pub(super) fn remarks() -> Vec<String> {
    vec![
        "Transfers are counted without a clock, from the traces of 256 CPUs that work in turns: for \
         operations without a conflict exact in any order, for others a lower bound."
            .to_owned(),
        "A column of fewer CPUs has the work of the first of the 256, with the same 256 threads. An \
         operation that scans every thread, like a close of an ArcSwapOption, scans 256 in each \
         column. That takes so many steps that at most 8 CPUs are traced there."
            .to_owned(),
    ]
}
