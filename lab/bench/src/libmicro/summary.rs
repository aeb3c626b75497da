//! The summary of `libmicro`: the table in the format of libMicro, figures, and remarks.

use serde::Serialize;

use super::LibMicro;
use super::case::{Case, Sharing};
use crate::plot::Axis;
use crate::report::{Figure, Grid, Report, Table, ratio};
use crate::stats::{Samples, Summary};

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
    /// Compares our samples with those of the table under a lock that has the smaller median.
    pub(super) fn of(case: Case, ours: &Samples, locked: &[(&'static str, &Samples)]) -> Self {
        let subject = |&(name, samples): &(_, &Samples)| (name, samples.summary());
        let compared = locked.iter().map(subject).zip(locked);
        let ((best_locked, _), (_, samples)) = compared
            .min_by(|((_, a), _), ((_, b), _)| a.median.total_cmp(&b.median))
            .expect("two tables");
        let subjects = locked.iter().map(subject);
        Row {
            case,
            ns: ours.summary(),
            locked: subjects.map(|(name, ns)| Subject { name, ns }).collect(),
            best_locked,
            ratio: samples.over(ours),
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

/// Shows a row for each case.
pub(super) fn show(rows: &[Row], config: &LibMicro, report: &mut Report) {
    let line = |row: &Row| {
        let files = match (row.case.threads, row.case.files) {
            (1, _) => "-",
            (_, Sharing::Shared) => "shared",
            (_, Sharing::Private) => "private",
        };
        [
            row.case.name.to_owned(),
            row.case.threads.to_string(),
            files.to_owned(),
            row.case.work.calls().to_string(),
            microseconds(row.ns.median),
            microseconds(row.best_locked_ns()),
            row.best_locked.to_owned(),
            row.ratio.spread(ratio),
        ]
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
    let caption = format!(
        "Microseconds of a busy CPU per call, medians of {} turns; the ratio is that of the same \
         round: median (10th–90th percentile), above 1 where ours is faster",
        config.rounds
    );
    let table = Table::new(caption, header, rows.iter().map(line));
    report.tables.push(table);
    report.plots.push(ratios(rows).plot());
    figures(rows, report);
    report.remarks = remarks(rows, config);
}

/// Makes a grid of the ratio of each case.
fn ratios(rows: &[Row]) -> Grid {
    let mut names: Vec<_> = rows.iter().map(|row| row.case.name).collect();
    names.dedup();
    let mut threads: Vec<_> = rows.iter().map(|row| threads_of(row.case)).collect();
    threads.sort_unstable();
    threads.dedup();
    Grid::new(
        "cases",
        "Throughput of each call ÷ that of the better table under a lock",
        Axis::log("times the throughput of the locked table"),
        names.into_iter().map(|name| (name, name)),
        threads.into_iter().map(|of| (of.clone(), of)),
        |threads, name| {
            let is_it = |row: &&Row| row.case.name == *name && threads_of(row.case) == *threads;
            rows.iter().find(is_it).map(|row| row.ratio)
        },
    )
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

fn figures(rows: &[Row], report: &mut Report) {
    let Some((worst, best)) = extremes(rows) else {
        return;
    };
    for (of, row) in [("best", best), ("worst", worst)] {
        let name = format!(" {}", row.name());
        let of = |suffix| format!("libmicro.{of}_{suffix}");
        report.headline.extend([
            Figure::new(&of("ns"), row.ns.median).and(&name),
            Figure::new(&of("locked_ns"), row.best_locked_ns()).and(&name),
            Figure::of_case(&of("vs_locked"), &row.ratio, &name),
        ]);
    }
    for (key, alone) in [
        ("libmicro.mean_1t_vs_locked", true),
        ("libmicro.mean_many_vs_locked", false),
    ] {
        let of = rows.iter().filter(|row| (row.case.threads == 1) == alone);
        let logs: Vec<f64> = of.map(|row| row.ratio.median.ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        report.figure(key, Some(mean.exp()));
    }
}

/// Draws conclusions from the table.
fn remarks(rows: &[Row], config: &LibMicro) -> Vec<String> {
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
    use crate::experiment::Effort;
    use crate::plot::Kind;
    use crate::report::shown;

    fn row(nth: usize, ours: &[f64], bitmap: &[f64], vec: &[f64]) -> Row {
        let [ours, bitmap, vec] = [ours, bitmap, vec].map(|it| Samples::from(it.to_vec()));
        let locked = [("bitmap", &bitmap), ("vec", &vec)];
        Row::of(case::all(16)[nth], &ours, &locked)
    }

    fn shown_of(rows: &[Row]) -> Report {
        shown(|report| show(rows, &LibMicro::new(Effort::default()), report))
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
        let figures = shown_of(&rows).headline;
        let of = |key| figures.iter().find(|figure| figure.key == key).unwrap();
        let best = of("libmicro.best_vs_locked");
        assert_eq!(best.value, 6.0);
        assert!(best.meaning.contains(&rows[1].name()), "{}", best.meaning);
        assert_eq!(of("libmicro.worst_vs_locked").value, 0.9);
    }

    #[test]
    fn every_case_has_its_bars_in_one_group() {
        let rows: Vec<Row> = (0..8).map(|nth| row(nth, &[1.0], &[2.0], &[3.0])).collect();
        let Kind::Bars { groups, .. } = &shown_of(&rows).plots[0].kind else {
            panic!("no bars")
        };
        let sizes: Vec<_> = groups.iter().map(|group| group.bars.len()).collect();
        assert_eq!(sizes, [2, 3, 3]);
    }
}
