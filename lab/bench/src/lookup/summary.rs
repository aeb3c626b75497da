//! The summary of `lookup`: rows, tables, figures, and remarks.

use super::Row;
use super::case::{Case, Pattern};
use super::subject::{
    BATCHED, BORROWED, FILES_STRUCT, LOAD, OWNED, QUIESCENT, RWLOCK_VEC, RWLOCK_VEC_HELD, Subject,
    TWO_ADDS,
};
use crate::machine::Machine;
use crate::plot::Axis;
use crate::report::{Grid, Report};
use crate::stats::{Samples, Summary};
use crate::turn::busy_cpus;

/// Open descriptors of the headline figures.
const HEADLINE_LIVE: u32 = 64;

/// Makes the rows of one case.
pub(super) fn rows(case: Case, subjects: &[Subject], ns: &[Samples]) -> Vec<Row> {
    let of = |name| subjects.iter().position(|subject| subject.name == name);
    let all = [LOAD, TWO_ADDS, RWLOCK_VEC, FILES_STRUCT, RWLOCK_VEC_HELD];
    let [load, adds, vec, bitmap, held] = all.map(|name| &ns[of(name).unwrap_or(0)]);
    let row = |(subject, own): (&Subject, &Samples)| Row {
        case,
        subject: subject.name,
        ns: own.summary(),
        times_load: own.over(load),
        times_two_adds: own.over(adds),
        faster_than_rwlock_vec: vec.over(own),
        faster_than_files_struct: bitmap.over(own),
        faster_than_rwlock_vec_held: held.over(own),
    };
    subjects.iter().zip(ns).map(row).collect()
}

/// Shows costs and ratios with each number of open descriptors.
pub(super) fn show(rows: &[Row], report: &mut Report) {
    let mut sizes: Vec<u32> = rows.iter().map(|row| row.case.live).collect();
    sizes.dedup();
    for (name, live) in ["few", "many"].into_iter().zip(sizes) {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.case.live == live).collect();
        let cases = rows.iter().filter(|row| row.subject == LOAD);
        let cases: Vec<_> = cases.map(|row| (label(&row.case), row.case)).collect();
        let of_one_case = rows.iter().filter(|row| row.case == rows[0].case);
        let subjects = of_one_case.map(|row| (row.subject, row.subject));
        let find = |subject: &str, case: &Case| {
            let is_it = |row: &&&Row| row.subject == subject && row.case == *case;
            rows.iter().find(is_it)
        };
        report.grid(Grid::new(
            name,
            format!("Nanoseconds per lookup with {live} open descriptors"),
            Axis::log("ns"),
            cases,
            subjects,
            |name, case| Some(find(name, case)?.ns),
        ));
    }
}

fn label(case: &Case) -> String {
    match (case.threads, case.pattern) {
        (1, _) => "1 thread".to_owned(),
        (threads, pattern) => format!("{threads} threads, {}", pattern.name()),
    }
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

/// Picks the headline figures.
pub(super) fn figures(rows: &[Row], report: &mut Report) {
    let (same, different) = (Pattern::Same, Pattern::Different);
    let load = |subject| Some(find(rows, subject, 1, different)?.times_load.median);
    report.figure("lookup.borrowed_1t_vs_load", load(BORROWED));
    report.figure("lookup.borrowed_in_section_1t_vs_load", load(BATCHED));
    report.figure("lookup.borrowed_qsbr_1t_vs_load", load(QUIESCENT));
    let adds = find(rows, OWNED, 1, different).map(|row| row.times_two_adds.median);
    report.figure("lookup.owned_1t_vs_two_adds", adds);
    let two = |subject, pattern, ratio: fn(&Row) -> Summary| {
        find(rows, subject, 2, pattern).map(|row| ratio(row).median)
    };
    let vec = |row: &Row| row.faster_than_rwlock_vec;
    let faster = two(BORROWED, same, vec);
    report.figure("lookup.borrowed_2t_same_fd_vs_rwlock", faster);
    let faster = two(BORROWED, same, |row| row.faster_than_rwlock_vec_held);
    report.figure("lookup.borrowed_2t_same_fd_vs_rwlock_held", faster);
    let faster = two(OWNED, different, vec);
    report.figure("lookup.owned_2t_diff_fd_vs_rwlock", faster);
    let both = two(OWNED, same, |row| row.ns).zip(two(OWNED, different, |row| row.ns));
    let slower = both.map(|(same, different)| same / different);
    report.figure("lookup.owned_2t_same_fd_vs_diff_fd", slower);
}

/// Explains the tables.
pub(super) fn remarks(machine: &Machine) -> Vec<String> {
    let mut remarks = vec![format!(
        "Nanoseconds are those of one CPU: duration × busy CPUs (up to {}) ÷ lookups of all \
         threads. A borrowed lookup takes no reference; an owned one takes and drops one; with \
         \"lock held\" the object is read under the table's read lock.",
        busy_cpus(usize::MAX)
    )];
    remarks.extend(machine.line_round_trip.as_ref().map(|trip| {
        format!(
            "Each write to a line that two threads share waits for the line to arrive from the \
             other CPU, which is {} now: the contended figures of a near and of a far pair of CPUs \
             differ by up to 4 times.",
            trip.distance
        )
    }));
    remarks
}
