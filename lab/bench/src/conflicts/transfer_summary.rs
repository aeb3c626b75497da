//! The summary of the line transfers: tables, figures, curves, and remarks.

use conflict_tracer::{Costs, MAX_CPUS, Machine};
use serde_json::{Value, json};

use super::long_run::Place;
use super::transfers::{Row, Work, steps};
use crate::plot::{Axis, Curve, Kind, Plot, Point};
use crate::report::{Figure, Goal, Table, ratio};

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

/// Returns the parameters of the model.
pub(super) fn model() -> Value {
    let Machine { topology, costs } = Machine::CLUSTERS;
    let Costs {
        instruction_ns,
        locked_ns,
        same_cluster_ns,
        same_socket_ns,
        other_socket_ns,
        memory_ns,
        further_sharer_ns,
        clean_copy_ns,
    } = costs;
    json!({
        "cpus_per_cluster": topology.cpus_per_cluster,
        "cpus_per_socket": topology.cpus_per_socket,
        "instruction_ns": instruction_ns,
        "locked_ns": locked_ns,
        "same_cluster_ns": same_cluster_ns,
        "same_socket_ns": same_socket_ns,
        "other_socket_ns": other_socket_ns,
        "memory_ns": memory_ns,
        "further_sharer_ns": further_sharer_ns,
        "clean_copy_ns": clean_copy_ns,
    })
}

/// Returns a row for each subject, work and number of CPUs.
pub(super) fn rows(rows: &[Row]) -> anyhow::Result<Vec<Value>> {
    Ok(rows
        .iter()
        .map(serde_json::to_value)
        .collect::<Result<_, _>>()?)
}

/// Makes a table of transfers, and one of the model.
pub(super) fn tables(rows: &[Row]) -> Vec<Table> {
    let mut tables = vec![transfers(rows)];
    tables.extend(rows.iter().filter(|row| row.long).map(places));
    tables.push(modelled(rows));
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

/// A row for each subject and work, a column for each number of CPUs.
fn by_cpus(rows: &[Row], caption: &str, text: impl Fn(&Row) -> String) -> Table {
    let line = |subject: &str, work: Work| {
        let cell = |cpus| find(rows, subject, work, cpus).map_or_else(String::new, &text);
        let name = format!("{subject}: {}", work.name());
        std::iter::once(name)
            .chain(steps().map(cell))
            .collect::<Vec<_>>()
    };
    let has = |work: &Work| rows.iter().any(|row| row.work == *work);
    let works = |subject| {
        let works = Work::ALL.into_iter().filter(has);
        works.map(|work| line(subject, work)).collect::<Vec<_>>()
    };
    Table {
        caption: caption.to_owned(),
        header: std::iter::once(String::new())
            .chain(steps().map(|cpus| cpus.to_string()))
            .collect(),
        rows: subjects(rows).into_iter().flat_map(works).collect(),
    }
}

fn transfers(rows: &[Row]) -> Table {
    let caption = "Lines that travel between caches for each operation, by the number of CPUs, in \
                   steady state";
    let mut table = by_cpus(rows, caption, |row| format!("{:.2}", row.per_operation));
    for subject in subjects(rows) {
        let Some(long) = long(rows, subject) else {
            continue;
        };
        let name = format!("{subject}: open any and close, a long run");
        let cell = |cpus| match cpus {
            2 => format!("{long:.3}"),
            _ => String::new(),
        };
        table
            .rows
            .push(std::iter::once(name).chain(steps().map(cell)).collect());
    }
    table
}

fn modelled(rows: &[Row]) -> Table {
    let caption = "Million operations a second of all CPUs, by a model (no measurement): from a \
                   line that is lost at once to one that is kept for the operation";
    let millions = |value: f64| ratio(value / 1e6);
    let mut rows = rows.to_vec();
    rows.retain(|row| row.work.is_modelled());
    by_cpus(&rows, caption, |row| {
        let band = row.modelled;
        band.map_or_else(String::new, |(low, high)| {
            let (low, high) = (millions(low), millions(high));
            if low == high {
                low
            } else {
                format!("{low}–{high}")
            }
        })
    })
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
    counted.chain(modelled_plots(rows)).collect()
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

fn modelled_plots(rows: &[Row]) -> Vec<Plot> {
    let plot = |name, work: Work| Plot {
        name,
        caption: format!(
            "{}: million operations a second of all CPUs, by a model (no measurement; \
             bands from a line that is lost at once to one that is kept)",
            work.name()
        ),
        kind: Kind::Curves {
            x: Axis::log("simulated CPUs"),
            y: Axis::log("million/s, modelled"),
            curves: subjects(rows)
                .into_iter()
                .map(|subject| curve(rows, subject, work))
                .collect(),
        },
    };
    vec![
        plot("modelled-owned", Work::OwnedOwn),
        plot("modelled-open-close", Work::OpenClose),
    ]
}

fn curve(rows: &[Row], subject: &str, work: Work) -> Curve {
    let point = |cpus: usize| {
        let (low, high) = find(rows, subject, work, cpus)?.modelled?;
        let (low, high) = (low / 1e6, high / 1e6);
        Some(Point {
            x: cpus as f64,
            y: (low * high).sqrt(),
            spread: Some((low, high)),
        })
    };
    Curve {
        name: subject.to_owned(),
        points: steps().filter_map(point).collect(),
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
        "The throughput is a model with the parameters in the configuration, for comparing shapes. It \
         has no limit of bandwidth, no full caches and no failed exchanges; operations without a \
         transfer scale in it by construction."
            .to_owned(),
    ]
}
