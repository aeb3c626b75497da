//! `ports`: the cost of what projects with an interface of their own need from the table.
//!
//! *Pairs*: operations on descriptors with words, each beside the plain operation.
//!
//! *Unused words*: operations in tables that have no words.
//!
//! *Nanoseconds per operation* are those of one CPU: see [`turn`](crate::turn).

use std::time::Duration;

use anyhow::ensure;
use serde::Serialize;
use serde_json::json;

use crate::experiment::{Effort, Experiment, Progress, alternate};
use crate::machine::Machine;
use crate::report::{Figure, Report, Table, nanoseconds, ratio};
use crate::stats::{Samples, Summary};
use crate::turn::Worker;

mod pairs;
mod unused;

/// Experiment that measures what ports use.
#[derive(Clone, Debug, Serialize)]
pub struct Ports {
    /// Turns of each row, at least 1.
    pub rounds: usize,
    /// Length of a turn in milliseconds, at least 1.
    pub turn_ms: u64,
}

/// The times of one subject.
#[derive(Clone, Debug, Serialize)]
struct Row {
    name: &'static str,
    operation: &'static str,
    threads: usize,
    /// Nanoseconds per operation and busy CPU.
    ns: Samples,
}

const THREADS: [usize; 2] = [1, 2];

/// Operations between two reads of the clock.
const CHUNK: usize = 256;

/// Work of one subject in a row.
struct Turn {
    name: &'static str,
    operation: &'static str,
    threads: usize,
    run: Box<dyn Fn(usize, Duration) -> anyhow::Result<f64>>,
}

/// Makes the turns of some work by each number of threads.
fn turns(
    name: &'static str,
    operation: &'static str,
    run: impl Fn(usize, Duration) -> anyhow::Result<f64> + Copy + 'static,
) -> [Turn; 2] {
    THREADS.map(|threads| Turn {
        name,
        operation,
        threads,
        run: Box::new(run),
    })
}

/// Makes a worker that acts on the numbers below `count` in turn, and stops where that fails.
fn each<'a>(count: u32, mut act: impl FnMut(i32) -> Option<()> + 'a) -> Worker<'a> {
    let mut worker = move || {
        let mut places = (0..CHUNK as u32).map(|nth| (nth % count) as i32);
        if places.all(|place| act(place).is_some()) {
            CHUNK
        } else {
            0
        }
    };
    // Warms the code, and what belongs to the thread.
    worker();
    Box::new(worker)
}

impl Ports {
    /// Returns the configuration for one of the two lengths of a run.
    pub fn new(effort: Effort) -> Self {
        Ports {
            rounds: effort.rounds(15, 101),
            turn_ms: 2,
        }
    }

    /// Gives each of `turns` its turn in every round, in another order each time.
    fn measure_all(
        &self,
        part: &str,
        turns: &[Turn],
        progress: &dyn Progress,
    ) -> anyhow::Result<Vec<Row>> {
        progress.begin(part, self.rounds as u64);
        let length = Duration::from_millis(self.turn_ms);
        let ns = alternate(turns.len(), self.rounds, progress, |place, _| {
            let turn = &turns[place];
            let ns = (turn.run)(turn.threads, length)?;
            ensure!(ns.is_finite(), "an operation failed");
            Ok(ns)
        })?;
        let row = |(turn, ns): (&Turn, Samples)| Row {
            name: turn.name,
            operation: turn.operation,
            threads: turn.threads,
            ns,
        };
        Ok(turns.iter().zip(ns).map(row).collect())
    }
}

impl Experiment for Ports {
    fn name(&self) -> &'static str {
        "ports"
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        let pairs = self.measure_all("ports, pairs", &pairs::turns(), progress)?;
        let unused = self.measure_all("ports, unused words", &unused::turns(), progress)?;
        let title = "words of descriptors, and replacements";
        let mut report = Report::new(self, title, json!(self), &pairs, machine)?;
        report.add_rows(&unused)?;
        pairs::show(&pairs, &mut report);
        unused::show(&unused, &mut report);
        Ok(report)
    }
}

/// A row by its name and operation.
type Which = (&'static str, &'static str);

fn find(rows: &[Row], (name, operation): Which, threads: usize) -> Option<&Row> {
    rows.iter()
        .find(|row| (row.name, row.operation, row.threads) == (name, operation, threads))
}

/// Returns the ratio of a row to another one.
fn over(rows: &[Row], one: Which, other: Which, threads: usize) -> Option<Summary> {
    let [one, other] = [one, other].map(|which| find(rows, which, threads));
    Some(one?.ns.over(&other?.ns))
}

/// Makes a table of rows beside the first of each case, with a line for each number of threads.
fn beside<const N: usize>(
    caption: &str,
    header: [&str; N],
    rows: &[Row],
    cases: impl IntoIterator<Item = (String, Vec<Which>)>,
) -> Table {
    let line = |title: &str, which: &[Which], threads| {
        let first = find(rows, which[0], threads)?.ns.summary().median;
        let mut line = vec![format!("{title}, {threads} threads"), nanoseconds(first)];
        for &other in &which[1..] {
            line.push(nanoseconds(find(rows, other, threads)?.ns.summary().median));
            line.push(ratio(over(rows, other, which[0], threads)?.median));
        }
        <[String; N]>::try_from(line).ok()
    };
    let lines = cases
        .into_iter()
        .flat_map(|(title, which)| THREADS.map(|threads| line(&title, &which, threads)))
        .flatten();
    Table::new(caption, header, lines)
}

/// Makes the figure of the operation in which `one` takes the longest beside `other`, on one
/// thread.
fn worst(
    key: &str,
    rows: &[Row],
    operations: impl IntoIterator<Item = &'static str>,
    [one, other]: [&'static str; 2],
) -> Option<Figure> {
    let of = |operation| {
        let ratios = over(rows, (one, operation), (other, operation), 1)?;
        Some((operation, ratios))
    };
    let ratios = operations.into_iter().filter_map(of);
    let (operation, worst) = ratios.max_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
    Some(Figure::of_case(key, &worst, &format!(" {operation}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Silent, run};

    #[test]
    fn every_operation_of_every_subject_has_a_row() {
        let ports = Ports {
            rounds: 1,
            turn_ms: 1,
        };
        let report = run(&ports, &Silent).expect("the tables do as they are asked");
        let [pairs, unused] = [6, 3 * 2].map(|rows| rows * 2);
        assert_eq!(report.rows.len(), pairs + unused);
        let mut keys: Vec<_> = report.headline.iter().map(|figure| figure.key).collect();
        keys.sort_unstable();
        let expected = [
            "ports.owned_word_vs_plain",
            "ports.replace_vs_dup3",
            "ports.unused_word_cost",
            "ports.word_lookup_vs_plain",
        ];
        assert_eq!(keys, expected);
        let lines: Vec<_> = report.tables.iter().map(|table| table.rows.len()).collect();
        assert_eq!(lines, [6, 8]);
    }
}
