//! The summary of `grow`: tables, figures, and remarks.

use super::Row;
use super::subject::ANY;
use crate::opener::{CLOCK, FILES_STRUCT, HOST, OURS, RWLOCK_VEC};
use crate::report::{Report, Table, nanoseconds};
use crate::stats::{Summary, median};
use crate::tail::Tail;

/// Runs from which the headline takes the smallest maximum.
const RUNS: usize = 5;

/// Computes microseconds: the smallest maximum of five runs, and the median over the groups of
/// five. An incomplete group does not count, unless there are fewer than five runs.
fn smallest_maximum_us(tails: &[Tail]) -> f64 {
    median(&smallest_maxima_us(tails))
}

/// Computes the smallest maximum of each group of five runs, in microseconds.
fn smallest_maxima_us(tails: &[Tail]) -> Vec<f64> {
    let fives = tails
        .chunks(RUNS)
        .filter(|five| five.len() == RUNS.min(tails.len()));
    fives
        .filter_map(|five| five.iter().map(|tail| tail.max_ns).min())
        .map(|ns| ns as f64 / 1e3)
        .collect()
}

/// Computes by how many microseconds the worst open exceeds the worst step of the clock alone, each
/// the smallest of the same five runs: the median over the groups of five.
fn over_clock_us(opens: &Row, clock: &Row) -> f64 {
    let both = smallest_maxima_us(&opens.open)
        .into_iter()
        .zip(smallest_maxima_us(&clock.open));
    let over: Vec<f64> = both.map(|(open, clock)| open - clock).collect();
    median(&over)
}

/// Computes by how many microseconds the worst lookup exceeds the worst idle step of its run: the
/// median over the runs.
fn excess_us(row: &Row) -> f64 {
    let of = |(look_up, idle): (&Tail, &Tail)| (look_up.max_ns as f64 - idle.max_ns as f64) / 1e3;
    let excess: Vec<f64> = row.look_up.iter().zip(&row.idle).map(of).collect();
    median(&excess)
}

/// Shows everything that follows from the rows.
pub(super) fn show(rows: &[Row], report: &mut Report) {
    report.tables = vec![opens(rows), look_ups(rows)];
    figures(rows, report);
    report.remarks.push(
        "A pause by the machine can only add to a maximum, so the headline is the smallest of \
         five runs. An idle step only reads the clock: it shows the pauses of the machine. \
         Every lookup had to find its open descriptor, or the run would have failed."
            .to_owned(),
    );
    report.remarks.extend(find(rows, HOST).map(|host| {
        format!(
            "The host grew to {} descriptors, its limit here, each time on a new table that two \
             threads share.",
            host.most
        )
    }));
}

fn opens(rows: &[Row]) -> Table {
    let line = |row: &Row| {
        let [median, p9999, max, smallest] = tail_cells(&row.open);
        let name = format!("{} (to {})", row.subject, row.most);
        [name, median, p9999, max, smallest]
    };
    Table::new(
        "One open, the clock included: medians over the runs; of the maximum with the \
         10th–90th percentile, and the smallest of five runs",
        ["", "median, ns", "99.99 %, µs", "max, µs", "smallest max"],
        rows.iter().map(line),
    )
}

fn look_ups(rows: &[Row]) -> Table {
    let line = |row: &Row| {
        let [median, p9999, max, smallest] = tail_cells(&row.look_up);
        let [_, idle_p9999, idle_max, idle_smallest] = tail_cells(&row.idle);
        let name = row.subject.to_owned();
        [
            name,
            median,
            p9999,
            max,
            smallest,
            idle_p9999,
            idle_max,
            idle_smallest,
        ]
    };
    Table::new(
        "One lookup on the other CPU meanwhile, and an idle step between two of them",
        [
            "",
            "lookup: median, ns",
            "99.99 %, µs",
            "max, µs",
            "smallest max",
            "idle: 99.99 %, µs",
            "max, µs",
            "smallest max",
        ],
        rows.iter().map(line),
    )
}

fn tail_cells(tails: &[Tail]) -> [String; 4] {
    let of = |pick: fn(&Tail) -> u64| {
        Summary::of(
            &tails
                .iter()
                .map(|tail| pick(tail) as f64)
                .collect::<Vec<_>>(),
        )
    };
    let us = |ns: f64| nanoseconds(ns / 1e3);
    let max = of(|tail| tail.max_ns);
    [
        nanoseconds(of(|tail| tail.median_ns).median),
        us(of(|tail| tail.p9999_ns).median),
        format!("{} ({}–{})", us(max.median), us(max.p10), us(max.p90)),
        nanoseconds(smallest_maximum_us(tails)),
    ]
}

fn find<'a>(rows: &'a [Row], subject: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.subject == subject)
}

fn figures(rows: &[Row], report: &mut Report) {
    let ours = find(rows, OURS);
    let open = |name| Some(smallest_maximum_us(&find(rows, name)?.open));
    report.figure("grow.max_us", open(OURS));
    let both = ours.zip(find(rows, CLOCK));
    let over = both.map(|(ours, clock)| over_clock_us(ours, clock));
    report.figure("grow.max_over_clock_us", over);
    let look_up = ours.map(|row| smallest_maximum_us(&row.look_up));
    report.figure("grow.lookup_max_us", look_up);
    let idle = ours.map(|row| smallest_maximum_us(&row.idle));
    report.figure("grow.idle_max_us", idle);
    report.figure("grow.lookup_excess_us", ours.map(excess_us));
    report.figure("grow.any_max_us", open(ANY));
    report.figure("grow.rwlock_max_us", open(RWLOCK_VEC));
    report.figure("grow.files_struct_max_us", open(FILES_STRUCT));
    report.figure("grow.host_max_us", open(HOST));
    report.figure("grow.clock_max_us", open(CLOCK));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Figure, shown};

    fn tails(maxima_us: &[u64]) -> Vec<Tail> {
        let tail = |us: &u64| Tail {
            median_ns: 1,
            p9999_ns: 1,
            max_ns: us * 1000,
            count: 1,
        };
        maxima_us.iter().map(tail).collect()
    }

    #[test]
    fn a_pause_in_some_runs_does_not_count() {
        assert_eq!(smallest_maximum_us(&tails(&[900, 30, 800])), 30.0);
        assert_eq!(smallest_maximum_us(&tails(&[900, 30, 800, 31, 40])), 30.0);
    }

    fn opening(subject: &'static str, maxima_us: &[u64]) -> Row {
        Row {
            subject,
            most: 1,
            open: tails(maxima_us),
            look_up: tails(&[1]),
            idle: tails(&[1]),
        }
    }

    #[test]
    fn an_open_is_compared_with_the_clock_of_the_same_five_runs() {
        let ours = opening(OURS, &[60, 45, 900, 50, 70, 20, 30, 30, 30, 30]);
        let clock = opening(CLOCK, &[40, 41, 42, 43, 44, 18, 800, 19, 20, 21]);
        assert_eq!(over_clock_us(&ours, &clock), 3.5);
        let report = shown(|report| show(&[ours], report));
        let is_it = |figure: &Figure| figure.key == "grow.max_over_clock_us";
        assert!(!report.headline.iter().any(is_it));
    }

    #[test]
    fn a_lookup_is_compared_with_the_idle_steps_of_its_run() {
        let row = Row {
            look_up: tails(&[30, 4000, 35]),
            idle: tails(&[25, 3995, 1]),
            ..opening(OURS, &[1, 1, 1])
        };
        assert_eq!(excess_us(&row), 5.0);
    }

    #[test]
    fn more_runs_do_not_make_the_figure_smaller() {
        let fifteen = [9, 5, 9, 9, 9, 3, 9, 9, 9, 9, 9, 9, 4, 9, 9];
        assert_eq!(smallest_maximum_us(&tails(&fifteen)), 4.0);
        // The sixth is left over.
        assert_eq!(smallest_maximum_us(&tails(&[9, 5, 9, 9, 9, 1])), 5.0);
    }
}
