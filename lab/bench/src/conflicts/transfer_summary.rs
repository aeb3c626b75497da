//! The summary of the line transfers: tables, figures, curves, and remarks.

use conflict_tracer::MAX_CPUS;

use super::long_run::Place;
use super::transfers::{Row, Work, steps};
use crate::plot::{Axis, Curve, Kind, Plot, Point};
use crate::report::{Report, Table, line};

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

/// The work that each of the three keys measures, with the name of its plot.
const COMPARED: [(Work, &str); 3] = [
    (Work::OwnedOwn, "transfers-owned"),
    (Work::OwnedCommon, "transfers-owned-one"),
    (Work::OpenClose, "transfers-open-close"),
];

/// Shows transfers, and the places of each long run.
pub(super) fn show(rows: &[Row], report: &mut Report) {
    report.tables.push(transfers(rows));
    let long_runs = rows.iter().filter(|row| row.long);
    report.tables.extend(long_runs.map(places));
    let plots = COMPARED.map(|(work, name)| plot(rows, name, work));
    report.plots.extend(plots);
    let mut most = |key, subject, work| {
        let row = find(rows, subject, work, MAX_CPUS);
        report.figure(key, row.map(|row| row.per_operation));
    };
    for (key, work) in [
        ("conflicts.transfers_borrowed_own", Work::BorrowedOwn),
        ("conflicts.transfers_borrowed_one", Work::BorrowedCommon),
        ("conflicts.transfers_owned_own", Work::OwnedOwn),
        ("conflicts.transfers_owned_one", Work::OwnedCommon),
        ("conflicts.transfers_open_close", Work::OpenClose),
    ] {
        most(key, OURS, work);
    }
    for (subject, keys) in OTHERS {
        for (key, (work, _)) in keys.into_iter().zip(COMPARED) {
            most(key, subject, work);
        }
    }
    let ours = rows.iter().find(|row| row.long && row.subject == OURS);
    let ours = ours.map(|row| row.per_operation);
    report.figure("conflicts.transfers_open_close_long", ours);
    report.remarks.extend(REMARKS.map(str::to_owned));
}

/// Conclusions from the tables.
const REMARKS: [&str; 2] = [
    "Transfers are counted without a clock, from the traces of 256 CPUs that work in turns: for \
     operations without a conflict exact in any order, for others a lower bound.",
    "A column of fewer CPUs has the work of the first of the 256, with the same 256 threads. An \
     operation that scans every thread, like a close of an ArcSwapOption, scans 256 in each \
     column. That takes so many steps that at most 8 CPUs are traced there.",
];

/// Places where the lines of a long run travel.
fn places(row: &Row) -> Table {
    let line = |place: &Place| [place.name.clone(), format!("{:.4}", place.per_operation)];
    let caption = format!(
        "{}: places in the source where lines travel, for each open and close of the long run",
        row.subject
    );
    Table::new(caption, ["", "lines"], row.places.iter().map(line))
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

/// Makes a row for each subject and work, and a column for each number of CPUs.
fn transfers(rows: &[Row]) -> Table {
    let mut lines = Vec::new();
    for subject in subjects(rows) {
        for work in Work::ALL {
            let cell = |cpus| {
                let row = find(rows, subject, work, cpus);
                row.map_or_else(String::new, |row| format!("{:.2}", row.per_operation))
            };
            lines.push(line(
                format!("{subject}: {}", work.name()),
                steps().map(cell),
            ));
        }
    }
    for row in rows.iter().filter(|row| row.long) {
        let cell = |cpus| match cpus {
            2 => format!("{:.3}", row.per_operation),
            _ => String::new(),
        };
        let name = format!("{}: open any and close, a long run", row.subject);
        lines.push(line(name, steps().map(cell)));
    }
    Table {
        caption: "Lines that travel between caches for each operation, by the number of CPUs, in \
                  steady state"
            .to_owned(),
        header: line("", steps().map(|cpus| cpus.to_string())),
        rows: lines,
    }
}

/// Draws the transfers over the number of CPUs.
fn plot(rows: &[Row], name: &'static str, work: Work) -> Plot {
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
