//! The summary of `fd-scale`: rows, tables, figures, and remarks.

use super::growth::{Growth, growth};
use super::range::Place;
use super::ranges::VFS;
use super::{Entry, Row, State};
use crate::opener::{CLOCK, FILES_STRUCT, HOST, OURS, RWLOCK_VEC};
use crate::report::{Table, nanoseconds, ratio};
use crate::stats::{Summary, median};

/// Growth of Linux 2.6's `open` from 1 to 1,000,000 descriptors in the original experiment.
const LINUX_2007_HOT: f64 = 5.9;
/// The same with a cold cache.
const LINUX_2007_COLD: f64 = 3.0;

/// Subjects that have a column in the tables, and a curve in the plots.
pub(super) const SUBJECTS: [&str; 5] = [OURS, VFS, FILES_STRUCT, RWLOCK_VEC, HOST];

/// Makes the rows of one step.
pub(super) fn rows(step: u32, entries: &[Entry<'_>]) -> Vec<Row> {
    let clock = entries.iter().find(|entry| entry.range.name() == CLOCK);
    let of = |entry| clock.map(|clock| rows_of(step, entry, clock));
    entries.iter().filter_map(of).flatten().collect()
}

/// Makes the rows of one entry, with the clock's own cost beside each.
fn rows_of(step: u32, entry: &Entry<'_>, clock: &Entry<'_>) -> [Row; 5] {
    let row = |state, place, ns: &[f64], clock_ns| Row {
        subject: entry.range.name(),
        open: entry.open,
        step,
        state,
        place,
        ns: Summary::of(ns),
        clock_ns,
        open_ns: median(ns) - clock_ns,
    };
    let [middle, end] = &entry.hot;
    let [cold_middle, cold_end] = &entry.cold;
    let [clock_middle, clock_end] = clock.hot.each_ref().map(|ns| median(ns));
    let [clock_cold_middle, clock_cold_end] = clock.cold.each_ref().map(|ns| median(ns));
    [
        row(State::Hot, Place::Middle, middle, clock_middle),
        row(State::Hot, Place::End, end, clock_end),
        row(State::Cold, Place::Middle, cold_middle, clock_cold_middle),
        row(State::Cold, Place::End, cold_end, clock_cold_end),
        row(State::Pair, Place::Middle, &entry.pairs, 0.0),
    ]
}

/// Makes the table of growth.
pub(super) fn growths(rows: &[Row], most: u32) -> Table {
    let line = |&subject: &&str| {
        let largest = growth(rows, subject, State::Hot).map_or(most, |growth| growth.most);
        let [hot, cold] = [State::Hot, State::Cold].map(|state| growth(rows, subject, state));
        let [[hot, hot_growth], [cold, cold_growth]] = [hot, cold].map(growth_cells);
        let name = format!("{subject} (1 to {largest})");
        [name, hot, hot_growth, cold, cold_growth]
    };
    let linux = [
        "Linux 2.6 of 2007, sys_open (1 to 1000000)".to_owned(),
        "1400 → 8200".to_owned(),
        ratio(LINUX_2007_HOT),
        "4600 → 13600".to_owned(),
        ratio(LINUX_2007_COLD),
    ];
    Table::new(
        "Growth of the cost, at the worse of middle and end: medians without the clock, and the \
         largest divided by the smallest",
        ["", "hot, ns", "growth", "cold, ns", "growth"],
        SUBJECTS.iter().map(line).chain([linux]),
    )
}

/// Formats the first and the last cost, and their ratio.
fn growth_cells(growth: Option<Growth>) -> [String; 2] {
    growth.map_or(["-", "-"].map(str::to_owned), |growth| {
        let [one, many] = [growth.one, growth.many].map(nanoseconds);
        [format!("{one} → {many}"), ratio(growth.ratio())]
    })
}

/// Draws conclusions from the tables.
pub(super) fn remarks(most: u32, host_most: u32) -> Vec<String> {
    vec![
        format!(
            "The original measured Linux in 2007: {LINUX_2007_HOT} times the cost at 1,000,000 \
             hot, {LINUX_2007_COLD} times cold. Each open had to return the descriptor that was \
             just closed, or the run would have failed."
        ),
        format!(
            "The host's own table takes part as far as its limit allows: {host_most} descriptors. \
             It is measured through a system call, and its two ends at different times; the others \
             at {most} and at 1 take turns in the same rounds."
        ),
    ]
}
