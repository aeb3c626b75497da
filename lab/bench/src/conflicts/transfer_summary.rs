//! The summary of the line transfers: tables, figures, curves, and remarks.

use conflict_tracer::MAX_CPUS;

use super::long_run::Place;
use super::transfers::{Row, Work, steps};
use crate::plot::{Axis, Curve, Kind, Plot, Point};
use crate::report::{Report, Table};

const OURS: &str = "fdtable";

/// The other tables, and how keys name them.
const OTHERS: [(&str, &str); 4] = [
    ("RwLock<Vec<Option<Arc>>>", "rwlock_vec"),
    ("array of ArcSwapOption", "arc_swap"),
    ("sharded-slab", "sharded_slab"),
    ("dashmap", "dashmap"),
];

/// How keys and plots name each kind of work.
const WORKS: [(Work, &str, &str); 5] = [
    (Work::BorrowedOwn, "borrowed_own", "transfers-borrowed"),
    (
        Work::BorrowedCommon,
        "borrowed_one",
        "transfers-borrowed-one",
    ),
    (Work::OwnedOwn, "owned_own", "transfers-owned"),
    (Work::OwnedCommon, "owned_one", "transfers-owned-one"),
    (Work::OpenClose, "open_close", "transfers-open-close"),
];

/// Shows transfers, and the places of each long run.
pub(super) fn show(rows: &[Row], report: &mut Report) {
    for (work, _, name) in WORKS {
        report.curves(plot(rows, name, work));
    }
    let long_runs = rows.iter().filter(|row| row.long);
    report.tables.extend(long_runs.map(places));
    let mut most = |key: &str, subject, work| {
        let row = find(rows, subject, work, MAX_CPUS);
        report.figure(key, row.map(|row| row.per_operation));
    };
    for (work, of, _) in WORKS {
        most(&format!("conflicts.transfers_{of}"), OURS, work);
    }
    for (subject, other) in OTHERS {
        for (work, of, _) in &WORKS[2..] {
            let of = of.trim_start_matches("owned_");
            most(&format!("conflicts.transfers_{other}_{of}"), subject, *work);
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
