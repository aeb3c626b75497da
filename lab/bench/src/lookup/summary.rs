//! The summary of `lookup`: rows, tables, figures, and remarks.

use super::Row;
use super::case::{Case, Pattern};
use super::subject::{
    BATCHED, BORROWED, FILES_STRUCT, LOAD, NAMES, OWNED, QUIESCENT, RWLOCK_VEC, RWLOCK_VEC_HELD,
    Subject, TWO_ADDS,
};
use crate::machine::Machine;
use crate::report::{Figure, Goal, Table, nanoseconds, ratio};
use crate::stats::{Summary, paired_ratio};
use crate::turn::busy_cpus;

/// Live descriptors of the headline cases.
const HEADLINE_LIVE: u32 = 64;

/// Makes the rows of one case from the samples of each subject.
pub(super) fn rows(case: Case, subjects: &[Subject], ns: &[Vec<f64>]) -> Vec<Row> {
    let of = |name| {
        let place = subjects.iter().position(|subject| subject.name == name);
        place.map_or(&[][..], |place| &ns[place])
    };
    let row = |(subject, own): (&Subject, &Vec<f64>)| Row {
        case,
        subject: subject.name,
        ns: Summary::of(own),
        times_load: paired_ratio(own, of(LOAD)),
        times_two_adds: paired_ratio(own, of(TWO_ADDS)),
        faster_than_rwlock_vec: paired_ratio(of(RWLOCK_VEC), own),
        faster_than_files_struct: paired_ratio(of(FILES_STRUCT), own),
        faster_than_rwlock_vec_held: paired_ratio(of(RWLOCK_VEC_HELD), own),
    };
    subjects.iter().zip(ns).map(row).collect()
}

/// Makes two tables for each number of live descriptors: nanoseconds, and ratios.
pub(super) fn tables(rows: &[Row]) -> Vec<Table> {
    let mut sizes: Vec<u32> = rows.iter().map(|row| row.case.live).collect();
    sizes.dedup();
    let of = |live| {
        rows.iter()
            .filter(|row| row.case.live == live)
            .collect::<Vec<_>>()
    };
    sizes
        .into_iter()
        .flat_map(|live| [costs(live, &of(live)), ratios(live, &of(live))])
        .collect()
}

fn costs(live: u32, rows: &[&Row]) -> Table {
    let cell = |row: &Row| {
        let Summary {
            median, min, p90, ..
        } = row.ns;
        format!(
            "{} ({}–{})",
            nanoseconds(median),
            nanoseconds(min),
            nanoseconds(p90)
        )
    };
    Table {
        caption: format!(
            "Nanoseconds per lookup with {live} open descriptors: median (minimum–90th percentile)"
        ),
        header: header(rows),
        rows: by_subject(rows, &NAMES, cell),
    }
}

fn ratios(live: u32, rows: &[&Row]) -> Table {
    let cell = |row: &Row| {
        format!(
            "{} | {}",
            ratio(row.times_load.median),
            ratio(row.faster_than_rwlock_vec.median)
        )
    };
    Table {
        caption: format!(
            "The same with {live} open, as medians of ratios within a round: \
             times the array load | times faster than {RWLOCK_VEC}"
        ),
        header: header(rows),
        rows: by_subject(
            rows,
            &[BORROWED, BATCHED, QUIESCENT, OWNED, FILES_STRUCT],
            cell,
        ),
    }
}

/// Names the columns: the cases, in the order in which they were measured.
fn header(rows: &[&Row]) -> Vec<String> {
    let name = |case: &Case| match (case.threads, case.pattern) {
        (1, _) => "1 thread".to_owned(),
        (threads, pattern) => format!("{threads} threads, {pattern}"),
    };
    let cases = rows
        .iter()
        .filter(|row| row.subject == LOAD)
        .map(|row| name(&row.case));
    std::iter::once("ns".to_owned()).chain(cases).collect()
}

/// Makes one row for each subject: its name, and a cell for each of its cases.
fn by_subject(rows: &[&Row], names: &[&str], cell: impl Fn(&Row) -> String) -> Vec<Vec<String>> {
    let line = |&name: &&str| {
        let cells = rows
            .iter()
            .filter(|row| row.subject == name)
            .map(|row| cell(row));
        std::iter::once(name.to_owned()).chain(cells).collect()
    };
    names.iter().map(line).collect()
}

fn find<'a>(rows: &'a [Row], subject: &str, threads: usize, pattern: Pattern) -> Option<&'a Row> {
    let case = Case {
        live: HEADLINE_LIVE,
        threads,
        pattern,
    };
    rows.iter()
        .find(|row| row.subject == subject && row.case == case)
}

/// Picks the headline figures; those whose case did not run are left out.
pub(super) fn figures(rows: &[Row]) -> Vec<Figure> {
    let one = |subject| find(rows, subject, 1, Pattern::Different);
    let two = |subject, pattern| find(rows, subject, 2, pattern);
    let candidates = [
        one(BORROWED).map(|row| Figure {
            key: "lookup.borrowed_1t_vs_load",
            value: row.times_load.median,
            goal: Goal::AtMost(1.5),
            meaning:
                "A lookup without a reference, in a section of its own, costs this many plain \
                      array loads"
                    .to_owned(),
        }),
        one(BATCHED).map(|row| Figure {
            key: "lookup.borrowed_in_section_1t_vs_load",
            value: row.times_load.median,
            goal: Goal::AtMost(1.3),
            meaning: "The same with one section around 64 lookups".to_owned(),
        }),
        one(QUIESCENT).map(|row| Figure {
            key: "lookup.borrowed_qsbr_1t_vs_load",
            value: row.times_load.median,
            goal: Goal::AtMost(1.3),
            meaning: "The same by a reader with quiescent states, one after 64 lookups".to_owned(),
        }),
        one(OWNED).map(|row| Figure {
            key: "lookup.owned_1t_vs_two_adds",
            value: row.times_two_adds.median,
            goal: Goal::AtMost(1.1),
            meaning: "A lookup with a reference costs this many times its two atomic adds"
                .to_owned(),
        }),
        two(BORROWED, Pattern::Same).map(|row| Figure {
            key: "lookup.borrowed_2t_same_fd_vs_rwlock",
            value: row.faster_than_rwlock_vec.median,
            goal: Goal::AtLeast(40.0),
            meaning: "Two threads on one descriptor, without a reference: times faster than \
                      RwLock<Vec>"
                .to_owned(),
        }),
        two(BORROWED, Pattern::Same).map(|row| Figure {
            key: "lookup.borrowed_2t_same_fd_vs_rwlock_held",
            value: row.faster_than_rwlock_vec_held.median,
            goal: Goal::None,
            meaning: "The same against RwLock<Vec> that takes no reference either, and holds its \
                      lock instead: times faster"
                .to_owned(),
        }),
        two(OWNED, Pattern::Different).map(|row| Figure {
            key: "lookup.owned_2t_diff_fd_vs_rwlock",
            value: row.faster_than_rwlock_vec.median,
            goal: Goal::AtLeast(5.0),
            meaning: "Two threads on descriptors of their own, with a reference: times faster \
                      than RwLock<Vec>"
                .to_owned(),
        }),
        two(OWNED, Pattern::Same)
            .zip(two(OWNED, Pattern::Different))
            .map(|(same, different)| Figure {
                key: "lookup.owned_2t_same_fd_vs_diff_fd",
                value: same.ns.median / different.ns.median,
                goal: Goal::AtMost(1.2),
                meaning: "Two threads that take references to one file: times as slow as two \
                          threads with files of their own"
                    .to_owned(),
            }),
    ];
    candidates.into_iter().flatten().collect()
}

/// Draws conclusions from the tables.
pub(super) fn remarks(rows: &[Row], machine: &Machine) -> Vec<String> {
    let mut remarks = vec![format!(
        "Nanoseconds are those of one CPU: duration × busy CPUs (up to {}) ÷ lookups of all \
         threads. A borrowed lookup takes no reference; an owned one takes and drops one; with \
         \"lock held\" the object is read under the table's read lock.",
        busy_cpus(usize::MAX)
    )];
    remarks.extend(scaling(rows));
    if let Some(trip) = &machine.line_round_trip {
        remarks.push(format!(
            "Each write to a line that two threads share waits for the line to arrive from the other \
             CPU, which is {} now: the contended figures of a near and of a far pair of CPUs \
             differ by up to 4 times.",
            trip.distance
        ));
    }
    remarks
}

/// Compares one thread with two.
fn scaling(rows: &[Row]) -> Option<String> {
    let cost =
        |subject, threads, pattern| find(rows, subject, threads, pattern).map(|row| row.ns.median);
    let change = |subject, pattern| {
        let alone = cost(subject, 1, Pattern::Different)?;
        Some(format!(
            "{} → {} ns",
            nanoseconds(alone),
            nanoseconds(cost(subject, 2, pattern)?)
        ))
    };
    Some(format!(
        "From one thread to two on the same descriptor, a lookup changes {} borrowed and {} under \
         RwLock<Vec>: readers that write nothing do not slow each other down. An owned lookup \
         changes {} on descriptors of their own and {} on one, whose count is by CPU.",
        change(BORROWED, Pattern::Same)?,
        change(RWLOCK_VEC, Pattern::Same)?,
        change(OWNED, Pattern::Different)?,
        change(OWNED, Pattern::Same)?,
    ))
}
