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
    report.tables.push(table(rows));
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

fn table(rows: &[Row]) -> Table {
    let lines = |row: &Row| {
        let open = format!("{}: open, to {}", row.subject, row.most);
        let look_up = format!("{}: lookup", row.subject);
        let idle = "beside it: idle step".to_owned();
        [
            line(open, &row.open),
            line(look_up, &row.look_up),
            line(idle, &row.idle),
        ]
    };
    Table::new(
        "One open, one lookup on the other CPU meanwhile, and an idle step between two of them, \
         the clock included: medians over the runs; of the maximum with the 10th–90th percentile, \
         and the smallest of five runs",
        ["", "median, ns", "99.99 %, µs", "max, µs", "smallest max"],
        rows.iter().flat_map(lines),
    )
}

fn line(name: String, tails: &[Tail]) -> [String; 5] {
    let of = |pick: fn(&Tail) -> u64| {
        let picked: Vec<_> = tails.iter().map(|tail| pick(tail) as f64).collect();
        Summary::of(&picked)
    };
    let us = |ns: f64| nanoseconds(ns / 1e3);
    [
        name,
        nanoseconds(of(|tail| tail.median_ns).median),
        us(of(|tail| tail.p9999_ns).median),
        of(|tail| tail.max_ns).spread(us),
        nanoseconds(smallest_maximum_us(tails)),
    ]
}

fn find<'a>(rows: &'a [Row], subject: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.subject == subject)
}

fn figures(rows: &[Row], report: &mut Report) {
    for (key, subject) in [
        ("grow.max_us", OURS),
        ("grow.any_max_us", ANY),
        ("grow.rwlock_max_us", RWLOCK_VEC),
        ("grow.files_struct_max_us", FILES_STRUCT),
        ("grow.host_max_us", HOST),
        ("grow.clock_max_us", CLOCK),
    ] {
        let row = find(rows, subject);
        report.figure(key, row.map(|row| smallest_maximum_us(&row.open)));
    }
    let Some(ours) = find(rows, OURS) else {
        return;
    };
    let clock = find(rows, CLOCK);
    let over = clock.map(|clock| over_clock_us(ours, clock));
    report.figure("grow.max_over_clock_us", over);
    let look_up = smallest_maximum_us(&ours.look_up);
    report.figure("grow.lookup_max_us", Some(look_up));
    let idle = smallest_maximum_us(&ours.idle);
    report.figure("grow.idle_max_us", Some(idle));
    report.figure("grow.lookup_excess_us", Some(excess_us(ours)));
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
