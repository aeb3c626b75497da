//! The summary of `libmicro`: the table in the format of libMicro, figures, and remarks.

use serde::Serialize;

use super::LibMicro;
use super::case::{Case, Sharing};
use crate::plot::{Axis, Bar, Group, Kind, Plot, Scale};
use crate::report::{Figure, Goal, Table, ratio};
use crate::stats::{Summary, median, paired_ratio};

/// Results of a case.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    pub(super) case: Case,
    /// Nanoseconds per call and busy CPU on our table.
    pub(super) ns: Summary,
    /// Figures of each table under a lock.
    pub(super) locked: Vec<Subject>,
    /// The faster one of them.
    pub(super) best_locked: &'static str,
    /// Its nanoseconds divided by ours, round by round.
    pub(super) ratio: Summary,
}

/// A table under a lock.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) ns: Summary,
}

impl Row {
    /// Compares our samples with those of the table under a lock that has the smaller median. Each
    /// list has one sample for each round.
    pub(super) fn of(case: Case, ours: &[f64], locked: &[(&'static str, Vec<f64>)]) -> Self {
        let by_median = |one: &&(&str, Vec<f64>), other: &&(&str, Vec<f64>)| {
            median(&one.1).total_cmp(&median(&other.1))
        };
        let (best_locked, samples) = locked.iter().min_by(by_median).expect("two tables");
        let subject = |(name, samples): &(&'static str, Vec<f64>)| Subject {
            name,
            ns: Summary::of(samples),
        };
        Row {
            case,
            ns: Summary::of(ours),
            locked: locked.iter().map(subject).collect(),
            best_locked,
            ratio: paired_ratio(samples, ours),
        }
    }

    fn best_locked_ns(&self) -> f64 {
        let best = self.locked.iter().find(|one| one.name == self.best_locked);
        best.map_or(f64::NAN, |one| one.ns.median)
    }

    /// Names the row in a sentence.
    fn name(&self) -> String {
        format!("{}, {}", self.case.name, threads_of(self.case))
    }
}

fn threads_of(case: Case) -> String {
    match (case.threads, case.files) {
        (1, _) => "1 thread".to_owned(),
        (threads, Sharing::Shared) => format!("{threads} threads, shared files"),
        (threads, Sharing::Private) => format!("{threads} threads, private files"),
    }
}

/// Makes the table: a row for each case.
pub(super) fn tables(rows: &[Row], config: &LibMicro) -> Vec<Table> {
    let line = |row: &Row| {
        let Summary {
            p10, median, p90, ..
        } = row.ratio;
        let files = match (row.case.threads, row.case.files) {
            (1, _) => "-",
            (_, Sharing::Shared) => "shared",
            (_, Sharing::Private) => "private",
        };
        let cells = [
            row.case.name.to_owned(),
            row.case.threads.to_string(),
            files.to_owned(),
            row.case.work.calls().to_string(),
            microseconds(row.ns.median),
            microseconds(row.best_locked_ns()),
            row.best_locked.to_owned(),
            format!("{} ({}–{})", ratio(median), ratio(p10), ratio(p90)),
        ];
        cells.to_vec()
    };
    let header = [
        "name",
        "thr",
        "files",
        "cnt/samp",
        "usecs/call",
        "locked",
        "which is",
        "locked ÷ ours",
    ];
    vec![Table {
        caption: format!(
            "Microseconds of a busy CPU per call, medians of {} turns; the ratio is that of the \
             same round: median (10th–90th percentile), above 1 where ours is faster",
            config.rounds
        ),
        header: header.map(str::to_owned).to_vec(),
        rows: rows.iter().map(line).collect(),
    }]
}

/// Formats nanoseconds as microseconds, with the precision of libMicro.
fn microseconds(ns: f64) -> String {
    format!("{:.5}", ns / 1000.0)
}

/// Returns the rows with the least and the greatest ratio.
fn extremes(rows: &[Row]) -> Option<(&Row, &Row)> {
    let by_ratio = |one: &&Row, other: &&Row| one.ratio.median.total_cmp(&other.ratio.median);
    Some((rows.iter().min_by(by_ratio)?, rows.iter().max_by(by_ratio)?))
}

/// Picks the headline figures.
pub(super) fn figures(rows: &[Row]) -> Vec<Figure> {
    let Some((worst, best)) = extremes(rows) else {
        return Vec::new();
    };
    let of_row = |key, row: &Row, goal, which: &str| {
        let meaning = format!(
            "Throughput ÷ that of the better table under a lock, in the {which} case: {}",
            row.name()
        );
        Figure::of_ratio(key, &row.ratio, goal, &meaning)
    };
    let mean = |key, alone: bool, which: &str| {
        let of = rows.iter().filter(|row| (row.case.threads == 1) == alone);
        let logs: Vec<f64> = of.map(|row| row.ratio.median.ln()).collect();
        Figure {
            key,
            value: (logs.iter().sum::<f64>() / logs.len() as f64).exp(),
            goal: Goal::None,
            meaning: format!("The same, geometric mean of all cases {which}"),
        }
    };
    vec![
        of_row("libmicro.best_vs_locked", best, Goal::AtLeast(5.28), "best"),
        of_row(
            "libmicro.worst_vs_locked",
            worst,
            Goal::AtLeast(0.97),
            "worst",
        ),
        mean("libmicro.mean_1t_vs_locked", true, "of one thread"),
        mean("libmicro.mean_many_vs_locked", false, "of many threads"),
    ]
}

/// Draws the ratio of each case.
pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let mut groups: Vec<Group> = Vec::new();
    for row in rows {
        if groups.last().is_none_or(|last| last.label != row.case.name) {
            groups.push(Group {
                label: row.case.name.to_owned(),
                bars: Vec::new(),
            });
        }
        let bar = Bar {
            name: threads_of(row.case),
            value: row.ratio.median,
            spread: Some((row.ratio.p10, row.ratio.p90)),
        };
        groups.last_mut().expect("pushed above").bars.push(bar);
    }
    vec![Plot {
        name: "cases",
        caption: "Throughput of each call ÷ that of the better table under a lock".to_owned(),
        kind: Kind::Bars {
            value: Axis {
                label: "times the throughput of the locked table".to_owned(),
                scale: Scale::Log,
            },
            groups,
        },
    }]
}

/// Draws conclusions from the table.
pub(super) fn remarks(rows: &[Row], config: &LibMicro) -> Vec<String> {
    let mut remarks = vec![format!(
        "Names are those of libMicro, and fcntl_fd is fcntl(F_GETFD). \"_t\" and \"_tmp\" are \
         regular files in memory, \"_z\" /dev/zero and \"_n\" /dev/null; pipe_p is a pipe, pipe_s a \
         pair of sockets. Shared files: all {} threads use the same descriptors. Private ones: each \
         has its own, in the one table. The set-up and clean-up of batches is separated from the \
         calls by its CPU time, and not counted.",
        config.threads
    )];
    remarks.push(
        "Both sides run the same code below the table and hold the same references. A table under \
         a lock keeps its read lock while a call does not sleep, which is cheaper for it than a \
         reference; of the two, each row has the faster."
            .to_owned(),
    );
    let slower = rows.iter().filter(|row| row.ratio.median < 1.0);
    let slower: Vec<_> = slower
        .map(|row| format!("{}: {}", row.name(), ratio(row.ratio.median)))
        .collect();
    remarks.push(if slower.is_empty() {
        "No case is slower than under a lock.".to_owned()
    } else {
        format!("Slower than under a lock: {}.", slower.join("; "))
    });
    remarks
}

#[cfg(test)]
mod tests {
    use super::super::case;
    use super::*;

    fn row(nth: usize, ours: &[f64], bitmap: &[f64], vec: &[f64]) -> Row {
        let locked = [("bitmap", bitmap.to_vec()), ("vec", vec.to_vec())];
        Row::of(case::all(16)[nth], ours, &locked)
    }

    #[test]
    fn the_faster_of_the_locked_tables_is_the_rival() {
        let row = row(0, &[10.0, 20.0], &[30.0, 60.0], &[20.0, 40.0]);
        assert_eq!((row.best_locked, row.ratio.median), ("vec", 2.0));
    }

    #[test]
    fn the_headline_names_the_best_and_the_worst_case() {
        let rows = [
            row(0, &[10.0], &[9.0], &[20.0]),
            row(1, &[10.0], &[60.0], &[70.0]),
            row(2, &[10.0], &[30.0], &[20.0]),
        ];
        let figures = figures(&rows);
        let of = |key| figures.iter().find(|figure| figure.key == key).unwrap();
        let best = of("libmicro.best_vs_locked");
        assert_eq!(best.value, 6.0);
        assert!(best.meaning.contains(&rows[1].name()), "{}", best.meaning);
        assert_eq!(of("libmicro.worst_vs_locked").value, 0.9);
    }

    #[test]
    fn every_case_has_its_bars_in_one_group() {
        let rows: Vec<Row> = (0..8).map(|nth| row(nth, &[1.0], &[2.0], &[3.0])).collect();
        let Kind::Bars { groups, .. } = &plots(&rows)[0].kind else {
            panic!("no bars")
        };
        let sizes: Vec<_> = groups.iter().map(|group| group.bars.len()).collect();
        assert_eq!(sizes, [2, 3, 3]);
    }
}
