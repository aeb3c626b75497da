//! The summary of `lmbench`: tables, figures, plots, and remarks.

use super::Measured;
use super::configuration::Configuration;
use super::row::{Group, Row};
use super::work::bytes;
use crate::plot::{Axis, Bar, Group as Bars, Kind, Plot, Scale};
use crate::report::{Figure, Goal, Table, ratio};
use crate::stats::{Summary, paired_ratio};

/// Returns the samples of a configuration, in the order of the rounds.
fn samples(rows: &[Measured], row: Row, configuration: Configuration) -> Option<&[f64]> {
    rows.iter()
        .find(|it| it.row == row && it.configuration == configuration)
        .map(|it| &*it.rounds)
}

/// Returns the speedup of a configuration over the plain one.
fn against_plain(rows: &[Measured], row: Row, configuration: Configuration) -> Option<Summary> {
    let plain = samples(rows, row, Configuration::Plain)?;
    Some(paired_ratio(plain, samples(rows, row, configuration)?))
}

/// Returns the value in lmbench's table: microseconds, or megabytes of 10^6 in a second.
fn shown(row: Row, ns: f64) -> f64 {
    match bytes(row) {
        Some(bytes) => bytes as f64 / ns * 1000.0,
        None => ns / 1000.0,
    }
}

/// Formats it with the width of lmbench, but with digits below a hundredth.
fn number(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Makes each of lmbench's tables, and one of ratios.
pub(super) fn tables(rows: &[Measured]) -> Vec<Table> {
    let mut tables: Vec<_> = Group::ALL.map(|group| of_group(rows, group)).into();
    tables.push(ratios(rows));
    tables
}

fn of_group(rows: &[Measured], group: Group) -> Table {
    let line = |configuration: Configuration| {
        let cell = |row| {
            samples(rows, row, configuration).map_or("-".to_owned(), |ns| {
                number(shown(row, Summary::of(ns).median))
            })
        };
        let name = configuration.name().to_owned();
        std::iter::once(name)
            .chain(group.rows().map(cell))
            .collect()
    };
    let names = group.rows().map(|row| row.name().to_owned());
    Table {
        caption: group.heading().to_owned(),
        header: std::iter::once(String::new()).chain(names).collect(),
        rows: Configuration::ALL.into_iter().map(line).collect(),
    }
}

fn ratios(rows: &[Measured]) -> Table {
    let compared = [
        Configuration::Ours,
        Configuration::NoColours,
        Configuration::NoSlabs,
    ];
    let line = |row: Row| {
        let cell = |configuration| {
            against_plain(rows, row, configuration).map_or("-".to_owned(), |of| {
                let [low, median, high] = [of.p10, of.median, of.p90].map(ratio);
                format!("{median} ({low}–{high})")
            })
        };
        let name = title(row);
        std::iter::once(name).chain(compared.map(cell)).collect()
    };
    let names = compared.map(|configuration| configuration.name().to_owned());
    Table {
        caption: "Times as fast as without slabs and blocks: median (10th–90th percentile)"
            .to_owned(),
        header: std::iter::once(String::new()).chain(names).collect(),
        rows: Row::ALL.into_iter().map(line).collect(),
    }
}

/// Names a row where no heading shows its kind.
fn title(row: Row) -> String {
    match row.group() {
        Group::Processes => row.name().to_owned(),
        Group::ContextSwitches => format!("context switch, {}", row.name()),
        Group::Latencies => format!("latency, {}", row.name()),
        Group::Bandwidths => format!("bandwidth, {}", row.name()),
    }
}

/// Picks the headline figures: the worst row, how many are slower beyond the noise, and each row.
pub(super) fn figures(rows: &[Measured]) -> Vec<Figure> {
    let of = |row| Some((row, against_plain(rows, row, Configuration::Ours)?));
    let all: Vec<(Row, Summary)> = Row::ALL.into_iter().filter_map(of).collect();
    let worst = all
        .iter()
        .min_by(|(_, a), (_, b)| a.median.total_cmp(&b.median));
    let worst = worst.map(|(row, of)| {
        Figure::of_ratio(
            "lmbench.worst_vs_plain",
            of,
            Goal::AtLeast(1.0),
            &format!(
                "The worst row, {}: times as fast as without slabs and blocks",
                title(*row)
            ),
        )
    });
    let slower = slower(rows);
    let slower = worst.is_some().then(|| Figure {
        key: "lmbench.rows_slower",
        value: slower.len() as f64,
        goal: Goal::AtMost(0.0),
        meaning: "Rows that are slower than without slabs and blocks by more than chance explains"
            .to_owned(),
    });
    let each = all.iter().map(|(row, of)| {
        let meaning = format!("{}: times as fast as without slabs and blocks", title(*row));
        Figure::of_ratio(row.key(), of, Goal::None, &meaning)
    });
    worst.into_iter().chain(slower).chain(each).collect()
}

/// Lists the rows whose ratio is below one, with 95 % certainty.
fn slower(rows: &[Measured]) -> Vec<Row> {
    let is_slower = |row: &Row| {
        let of = |configuration| samples(rows, *row, configuration);
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

/// Makes a plot of the times, one of the bandwidths, and one of the ratios.
pub(super) fn plots(rows: &[Measured]) -> Vec<Plot> {
    let bars = |of: &dyn Fn(Row, Configuration) -> Option<Summary>, row: Row| Bars {
        label: title(row),
        bars: Configuration::ALL
            .into_iter()
            .filter_map(|configuration| {
                let values = of(row, configuration)?;
                Some(Bar {
                    name: configuration.name().to_owned(),
                    value: values.median,
                    spread: Some((values.p10, values.p90)),
                })
            })
            .collect(),
    };
    let values = |row, configuration| {
        let ns = samples(rows, row, configuration)?;
        let shown: Vec<_> = ns.iter().map(|&ns| shown(row, ns)).collect();
        Some(Summary::of(&shown))
    };
    let ratios = |row, configuration| match configuration {
        Configuration::Plain => None,
        _ => against_plain(rows, row, configuration),
    };
    let (moved, timed): (Vec<_>, Vec<_>) =
        Row::ALL.into_iter().partition(|&row| bytes(row).is_some());
    let plot = |name, caption: &str, label: &str, scale, groups| Plot {
        name,
        caption: caption.to_owned(),
        kind: Kind::Bars {
            value: Axis {
                label: label.to_owned(),
                scale,
            },
            groups,
        },
    };
    vec![
        plot(
            "ratios",
            "The rows of lmbench: times as fast as without slabs and blocks.",
            "times as fast",
            Scale::Linear,
            Row::ALL.into_iter().map(|row| bars(&ratios, row)).collect(),
        ),
        plot(
            "times",
            "The rows of lmbench that are times, with slabs and blocks and without.",
            "µs",
            Scale::Log,
            timed.into_iter().map(|row| bars(&values, row)).collect(),
        ),
        plot(
            "bandwidths",
            "The rows of lmbench that are bandwidths, with slabs and blocks and without.",
            "MB/s",
            Scale::Linear,
            moved.into_iter().map(|row| bars(&values, row)).collect(),
        ),
    ]
}

/// Draws conclusions from the tables.
pub(super) fn remarks(rows: &[Measured]) -> Vec<String> {
    let mut remarks = vec![
        "Each configuration is a process of its own, restarted several times. \"No slabs\" takes \
         open files and the nodes of tables from the heap of the C library; \"no blocks\" has an \
         array and bitmaps under a lock. A context switch includes the pipe's write and read, which \
         lmbench takes off."
            .to_owned(),
    ];
    let slower: Vec<_> = slower(rows).into_iter().map(title).collect();
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

    fn measured(row: Row, configuration: Configuration, rounds: &[f64]) -> Measured {
        Measured {
            row,
            configuration,
            ns: Summary::of(rounds),
            rounds: rounds.to_vec(),
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
        let figures = figures(&rows);
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
