//! The summary of `fd-scale`: rows, tables, figures, and remarks.

use super::growth::{Growth, growth};
use super::range::Place;
use super::ranges::VFS;
use super::{Entry, Row, State};
use crate::opener::{CLOCK, FILES_STRUCT, HOST, OURS, RWLOCK_VEC};
use crate::report::{Table, line, nanoseconds, ratio};
use crate::stats::{Summary, median};

/// Growth of Linux 2.6's `open` from 1 to 1,000,000 descriptors in the original experiment.
const LINUX_2007_HOT: f64 = 5.9;
/// The same with a cold cache.
const LINUX_2007_COLD: f64 = 3.0;

/// Most rows of a table on the terminal; the JSON form has every step.
const LINES: usize = 11;

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

/// Makes a table of hot costs, one of cold costs, and one of growth.
pub(super) fn tables(rows: &[Row], most: u32) -> Vec<Table> {
    vec![
        costs(rows, State::Hot, "hot (the mean of a batch)"),
        costs(
            rows,
            State::Cold,
            "cold (one open after the whole cache was overwritten)",
        ),
        growths(rows, most),
    ]
}

fn costs(rows: &[Row], state: State, cache: &str) -> Table {
    let find = |open, subject, place| {
        rows.iter().find(|row| {
            row.open == open && row.subject == subject && row.state == state && row.place == place
        })
    };
    let cell = |open, subject| {
        let ns = |place| find(open, subject, place).map(|row| nanoseconds(row.open_ns));
        match (ns(Place::Middle), ns(Place::End)) {
            (Some(middle), Some(end)) => format!("{middle} | {end}"),
            _ => "-".to_owned(),
        }
    };
    let clock = |open| {
        find(open, CLOCK, Place::Middle).map_or_else(String::new, |row| nanoseconds(row.ns.median))
    };
    let of_step = |open: u32| {
        let cells = SUBJECTS.iter().map(|subject| cell(open, subject));
        line(open.to_string(), cells.chain([clock(open)]))
    };
    Table {
        caption: format!(
            "Nanoseconds of one open, cache {cache}, without the clock's own, which is the \
             last column: median from the middle | from the end"
        ),
        header: line(
            "open",
            SUBJECTS.iter().chain(&[CLOCK]).map(|&it| it.to_owned()),
        ),
        rows: shown_steps(rows).into_iter().map(of_step).collect(),
    }
}

/// Chooses the steps for the terminal: evenly spread, with the first and the last.
fn shown_steps(rows: &[Row]) -> Vec<u32> {
    let mut steps: Vec<u32> = rows.iter().map(|row| row.step).collect();
    steps.dedup();
    let last = steps.len().saturating_sub(1);
    let lines = LINES.min(steps.len());
    (0..lines)
        .map(|line| steps[last * line / (lines - 1).max(1)])
        .collect()
}

fn growths(rows: &[Row], most: u32) -> Table {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(open: u32, step: u32, place: Place, ns: f64) -> Row {
        let summary = Summary::of(&[ns + 20.0]);
        let subject = OURS;
        Row {
            subject,
            open,
            step,
            state: State::Hot,
            place,
            ns: summary,
            clock_ns: 20.0,
            open_ns: ns,
        }
    }

    #[test]
    fn the_terminal_shows_the_first_and_the_last_step() {
        let rows: Vec<_> = (1..=40)
            .map(|open| row(open, open, Place::End, 1.0))
            .collect();
        let shown = shown_steps(&rows);
        assert_eq!((shown.len(), shown[0], shown[LINES - 1]), (LINES, 1, 40));
        assert_eq!(shown_steps(&rows[..1]), [1]);
    }
}
