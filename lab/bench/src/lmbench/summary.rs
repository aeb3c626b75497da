//! The summary of `lmbench`: tables, figures, plots, and remarks.

use super::Measured;
use super::configuration::Configuration;
use super::row::Row;
use super::work::bytes;
use crate::plot::Axis;
use crate::report::{Figure, Grid, Report};
use crate::stats::{Samples, Summary};

/// The configurations that are compared with the plain one.
const COMPARED: [Configuration; 3] = [
    Configuration::Ours,
    Configuration::NoColours,
    Configuration::NoSlabs,
];

fn find(rows: &[Measured], row: Row, configuration: Configuration) -> Option<&Samples> {
    let is_it = |it: &&Measured| it.row == row && it.configuration == configuration;
    rows.iter().find(is_it).map(|it| &it.ns)
}

/// Returns the speedup of a configuration over the plain one.
fn against_plain(rows: &[Measured], row: Row, configuration: Configuration) -> Option<Summary> {
    let plain = find(rows, row, Configuration::Plain)?;
    Some(plain.over(find(rows, row, configuration)?))
}

/// Returns the value in lmbench's table: microseconds, or megabytes of 10^6 in a second.
fn shown(row: Row, ns: f64) -> f64 {
    match bytes(row) {
        Some(bytes) => bytes as f64 / ns * 1000.0,
        None => ns / 1000.0,
    }
}

/// Shows ratios and values, figures, and remarks.
pub(super) fn show(rows: &[Measured], report: &mut Report) {
    report.grid(Grid::new(
        "ratios",
        "Times as fast as without slabs and blocks",
        Axis::linear("times as fast"),
        Row::ALL.map(|row| (row.name(), row)),
        COMPARED.map(|it| (it.name(), it)),
        |configuration, row| against_plain(rows, *row, *configuration),
    ));
    let (moved, timed): (Vec<_>, Vec<_>) =
        Row::ALL.into_iter().partition(|&row| bytes(row).is_some());
    for (name, what, unit, of) in [
        ("times", "times", Axis::log("µs"), timed),
        ("bandwidths", "bandwidths", Axis::linear("MB/s"), moved),
    ] {
        let values = Grid::new(
            name,
            format!("The rows of lmbench that are {what}, with slabs and blocks and without"),
            unit,
            of.into_iter().map(|row| (row.name(), row)),
            Configuration::ALL.map(|it| (it.name(), it)),
            |configuration, row| {
                let ns = find(rows, *row, *configuration)?.rounds().iter();
                let shown: Vec<_> = ns.map(|&ns| shown(*row, ns)).collect();
                Some(Summary::of(&shown))
            },
        );
        report.grid(values);
    }
    figures(rows, report);
    report.remarks = remarks(rows);
}

/// Picks the headline figures: the worst row, how many are slower beyond the noise, and each row.
fn figures(rows: &[Measured], report: &mut Report) {
    let of = |row| Some((row, against_plain(rows, row, Configuration::Ours)?));
    let all: Vec<(Row, Summary)> = Row::ALL.into_iter().filter_map(of).collect();
    let worst = all
        .iter()
        .min_by(|(_, a), (_, b)| a.median.total_cmp(&b.median));
    let Some((row, worst)) = worst else {
        return;
    };
    let name = format!(" {}", row.name());
    let worst = Figure::of_case("lmbench.worst_vs_plain", worst, &name);
    report.headline.push(worst);
    report.figure("lmbench.rows_slower", Some(slower(rows).len() as f64));
    for (row, ratio) in all {
        report.ratio(row.key(), Some(ratio));
    }
}

/// Lists the rows whose ratio is below one, with 95 % certainty.
fn slower(rows: &[Measured]) -> Vec<Row> {
    let is_slower = |row: &Row| {
        let of = |configuration| Some(find(rows, *row, configuration)?.rounds());
        let pairs = of(Configuration::Plain).zip(of(Configuration::Ours));
        pairs.is_some_and(|(plain, ours)| mostly_above(ours, plain))
    };
    Row::ALL.into_iter().filter(is_slower).collect()
}

/// Returns true if significantly more of `these` are above their partner: the sign test, one-sided,
/// at 2.5 %.
fn mostly_above(these: &[f64], partners: &[f64]) -> bool {
    let above = these
        .iter()
        .zip(partners)
        .filter(|(this, partner)| this > partner);
    let all = these.len() as f64;
    above.count() as f64 > all / 2.0 + 1.96 * all.sqrt() / 2.0
}

/// Draws conclusions from the tables.
fn remarks(rows: &[Measured]) -> Vec<String> {
    let mut remarks = vec![
        "Each configuration is a process of its own, restarted several times. \"No slabs\" takes \
         open files and the nodes of tables from the heap of the C library; \"no blocks\" has an \
         array and bitmaps under a lock. A context switch includes the pipe's write and read, which \
         lmbench takes off."
            .to_owned(),
    ];
    let slower: Vec<_> = slower(rows).into_iter().map(Row::name).collect();
    remarks.push(if slower.is_empty() {
        "No row is slower with slabs and blocks than without by more than chance explains."
            .to_owned()
    } else {
        format!(
            "Slower with slabs and blocks than without, by more than chance explains: {}.",
            slower.join("; ")
        )
    });
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::shown as shown_of;

    fn measured(row: Row, configuration: Configuration, rounds: &[f64]) -> Measured {
        Measured {
            row,
            configuration,
            ns: rounds.to_vec().into(),
        }
    }

    #[test]
    fn the_worst_row_is_the_one_with_the_least_ratio() {
        let rows = [
            measured(Row::NullCall, Configuration::Ours, &[10.0]),
            measured(Row::NullCall, Configuration::Plain, &[20.0]),
            measured(Row::Ring2, Configuration::Ours, &[10.0]),
            measured(Row::Ring2, Configuration::Plain, &[9.0]),
        ];
        let figures = shown_of(|report| show(&rows, report)).headline;
        let keys: Vec<_> = figures.iter().map(|figure| figure.key).collect();
        let expected = [
            "lmbench.worst_vs_plain",
            "lmbench.rows_slower",
            "lmbench.null_call_vs_plain",
            "lmbench.ring_2_vs_plain",
        ];
        assert_eq!(keys, expected);
        assert_eq!(figures[0].value, 0.9);
    }

    #[test]
    fn one_round_in_two_is_chance_and_nine_in_ten_are_not() {
        let partners = vec![1.0; 100];
        let above = |count: usize| {
            let mut these = vec![0.5; 100];
            these[..count].fill(2.0);
            mostly_above(&these, &partners)
        };
        assert!(!above(50) && !above(59) && above(60) && above(90));
    }

    #[test]
    fn bandwidths_are_megabytes_and_the_rest_microseconds() {
        assert_eq!(shown(Row::NullCall, 1500.0), 1.5);
        // 64 KiB in 65,536 ns is a byte in each.
        assert_eq!(shown(Row::FileReread, 65_536.0), 1000.0);
    }
}
