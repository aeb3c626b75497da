//! The summary of `peers`: figures and remarks.

use super::Row;
use super::case::{Case, Work};
use super::rival::{Missing, Side};
use crate::report::{Figure, Goal, nanoseconds, ratio};
use crate::stats::{Summary, paired_ratio};

mod plots;
mod tables;

pub(super) use plots::plots;
pub(super) use tables::tables;

/// The headline figures, with their cases and meanings.
const FIGURES: [(&str, Case, &str); 7] = [
    (
        "peers.borrowed_1t",
        Case::of(Work::Borrowed, 1),
        "borrowed lookup, 1 thread",
    ),
    (
        "peers.borrowed_2t",
        Case::of(Work::Borrowed, 2),
        "borrowed lookup of the same descriptors, 2 threads",
    ),
    (
        "peers.owned_1t",
        Case::of(Work::Owned, 1),
        "owned lookup, 1 thread",
    ),
    (
        "peers.owned_2t",
        Case::of(Work::Owned, 2),
        "owned lookup, 2 threads",
    ),
    (
        "peers.open_close_1t",
        Case::of(Work::OpenClose, 1),
        "open and close, 1 thread",
    ),
    (
        "peers.open_close_2t",
        Case::of(Work::OpenClose, 2),
        "open and close, 2 threads",
    ),
    (
        "peers.mixed_2t",
        Case::of(Work::Mixed, 2),
        "90 % lookups, 2 threads",
    ),
];

impl Row {
    /// Returns the samples of a case, in the order of the rounds.
    fn samples(&self, case: Case) -> Option<&[f64]> {
        let timing = self.timings.iter().find(|timing| timing.case == case);
        timing.map(|timing| &*timing.rounds)
    }

    fn median(&self, case: Case) -> Option<f64> {
        let timing = self.timings.iter().find(|timing| timing.case == case);
        timing.map(|timing| timing.ns.median)
    }
}

/// Finds the fastest of a side in a case, by the median.
fn best(rows: &[Row], side: Side, case: Case) -> Option<&Row> {
    rows.iter()
        .filter(|row| row.side == side && row.median(case).is_some())
        .min_by(|a, b| {
            f64::total_cmp(
                &a.median(case).unwrap_or(0.0),
                &b.median(case).unwrap_or(0.0),
            )
        })
}

/// Compares the best rival with the best of ours, in pairs: above 1 where ours is faster.
fn against_best(rows: &[Row], case: Case) -> Option<(&Row, &Row, Summary)> {
    let ours = best(rows, Side::Ours, case)?;
    let theirs = best(rows, Side::Theirs, case)?;
    let ratios = paired_ratio(theirs.samples(case)?, ours.samples(case)?);
    Some((ours, theirs, ratios))
}

/// Computes the headline figures from the best of each side: where the keys of a rival need not be
/// the lowest, ours need not be either.
pub(super) fn figures(rows: &[Row]) -> Vec<Figure> {
    let figure = |&(key, case, what): &(&'static str, Case, &str)| {
        let (ours, theirs, ratios) = against_best(rows, case)?;
        let meaning = format!("{what}: {} ÷ {}", theirs.name, ours.name);
        Some(Figure::of_ratio(key, &ratios, Goal::AtLeast(1.0), &meaning))
    };
    FIGURES.iter().filter_map(figure).collect()
}

/// Lists where a rival is faster than ours, which rivals are missing, and which failed.
pub(super) fn remarks(rows: &[Row], missing: &[Missing], failures: &[String]) -> Vec<String> {
    let mut remarks: Vec<String> = Case::ALL.iter().map(|&case| ahead(rows, case)).collect();
    remarks.extend(size_ahead(rows));
    remarks.extend(
        missing
            .iter()
            .map(|Missing { name, reason }| format!("{name} did not take part: {reason}")),
    );
    remarks.extend(failures.iter().map(|failure| format!("failed: {failure}")));
    if !cfg!(feature = "rivals") {
        remarks.push(
            "This program was built without the feature `rivals`: most maps and slabs are missing"
                .to_owned(),
        );
    }
    remarks
}

/// Lists the rivals that are faster than the best of ours in a case. If there are none, returns by
/// how much the best rival is slower.
fn ahead(rows: &[Row], case: Case) -> String {
    let what = format!("{}, {}", case.work, threads(case.threads));
    let Some(ours) = best(rows, Side::Ours, case) else {
        return format!("{what}: not measured");
    };
    let median = ours.median(case).unwrap_or(f64::NAN);
    let faster: Vec<String> = rows
        .iter()
        .filter(|row| row.side == Side::Theirs)
        .filter_map(|row| Some((row.name, row.median(case)?)))
        .filter(|&(_, theirs)| theirs < median)
        .map(|(name, theirs)| {
            let [theirs, behind] = [nanoseconds(theirs), ratio(median / theirs)];
            format!("{name} takes {theirs} ns ({behind} times faster)")
        })
        .collect();
    let ours = format!("{} takes {} ns", ours.name, nanoseconds(median));
    if !faster.is_empty() {
        return format!("{what}: a rival is ahead. {ours}, {}", faster.join(", "));
    }
    match against_best(rows, case) {
        Some((_, theirs, ratios)) => format!(
            "{what}: {ours}, the best rival, {}, {} times as much",
            theirs.name,
            ratio(ratios.median)
        ),
        None => format!("{what}: {ours}, no rival supports it"),
    }
}

/// Lists the rivals that take less memory than the leanest of ours.
fn size_ahead(rows: &[Row]) -> Option<String> {
    let bytes = |side: Side| {
        rows.iter()
            .filter(move |row| row.side == side)
            .filter_map(|row| Some((row.name, row.bytes_per_descriptor?)))
    };
    let (_, ours) = bytes(Side::Ours).min_by(|a, b| a.1.total_cmp(&b.1))?;
    let leaner: Vec<String> = bytes(Side::Theirs)
        .filter(|&(_, theirs)| theirs < ours)
        .map(|(name, theirs)| format!("{name} has {theirs:.1}"))
        .collect();
    Some(match leaner.is_empty() {
        true => format!("memory: no rival has less than our {ours:.1} bytes per descriptor"),
        false => format!(
            "memory: ours has {ours:.1} bytes per descriptor, {}",
            leaner.join(", ")
        ),
    })
}

fn threads(threads: usize) -> &'static str {
    if threads == 1 {
        "1 thread"
    } else {
        "2 threads"
    }
}
