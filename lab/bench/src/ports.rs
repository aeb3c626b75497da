//! `ports`: what a project that brings its own interface gets from the table.
//!
//! *Cages*: the interface of a sandbox that runs several processes, on our table, on arrays in a
//! concurrent map, and on vectors behind one lock. All threads use one cage with 64 descriptors
//! open, except that each forks one of its own.
//!
//! *Pairs*: our operations on descriptors with words, each beside the plain operation.
//!
//! *Unused words*: operations in tables that have no words, and the memory of such a table.
//!
//! *Kinds*: files that are dropped in the close, beside files that can be borrowed from; and how
//! long after the close an object is dropped.
//!
//! *Nanoseconds per operation* are those of one CPU: see [`turn`](crate::turn).

use std::time::Duration;

use anyhow::ensure;
use serde::Serialize;
use serde_json::{json, to_value};

use crate::experiment::{Effort, Experiment, Progress};
use crate::machine::Machine;
use crate::report::{Figure, Goal, Report, Table, nanoseconds, ratio};
use crate::stats::{Summary, order, paired_ratio};

mod arrays;
mod cages;
mod drop_delay;
mod kinds;
mod ours;
mod pairs;
mod subject;
mod unused;
mod vectors;

use pairs::Side;
use subject::{Of, Operation, Subject};

/// Experiment that measures what ports use.
#[derive(Clone, Debug, Serialize)]
pub struct Ports {
    /// Turns of each row, at least 1.
    pub rounds: usize,
    /// Length of a turn in milliseconds, at least 1.
    pub turn_ms: u64,
    /// Closes in each series of which `Drop` is timed, at least 1.
    pub closes: usize,
    /// Descriptors of the tables whose memory is measured, at least 1.
    pub slots: u32,
}

/// The times of one subject.
#[derive(Clone, Debug, Serialize)]
struct Row {
    name: &'static str,
    operation: &'static str,
    threads: usize,
    /// Nanoseconds per operation and busy CPU.
    ns: Summary,
    #[serde(skip)]
    rounds: Vec<f64>,
}

const THREADS: [usize; 2] = [1, 2];

/// The name of our rows.
const OURS: &str = "fdtable";

impl Ports {
    /// Returns the configuration for one of the two lengths of a run.
    pub fn new(effort: Effort) -> Self {
        let (rounds, closes) = match effort {
            Effort::Quick => (15, 20),
            Effort::Full => (101, 100),
        };
        Ports {
            rounds,
            turn_ms: 2,
            closes,
            slots: 1_000_000,
        }
    }

    /// Gives each of `turns` its turn in every round, in another order each time.
    fn measure_all(
        &self,
        part: &str,
        turns: &[Turn<'_>],
        progress: &dyn Progress,
    ) -> anyhow::Result<Vec<Row>> {
        progress.begin(part, self.rounds as u64);
        let mut ns = vec![Vec::with_capacity(self.rounds); turns.len()];
        for round in 0..self.rounds {
            for place in order(turns.len(), round) {
                let length = Duration::from_millis(self.turn_ms);
                let turn = (turns[place].run)(length)?;
                ensure!(turn.is_finite(), "an operation failed");
                ns[place].push(turn);
            }
            progress.step();
        }
        let row = |(turn, rounds): (&Turn<'_>, Vec<f64>)| Row {
            name: turn.name,
            operation: turn.operation,
            threads: turn.threads,
            ns: Summary::of(&rounds),
            rounds,
        };
        Ok(turns.iter().zip(ns).map(row).collect())
    }
}

/// Work of one subject in a row.
struct Turn<'a> {
    name: &'static str,
    operation: &'static str,
    threads: usize,
    run: Box<dyn Fn(Duration) -> anyhow::Result<f64> + 'a>,
}

fn turns_of_cages(subjects: &[Box<dyn Subject>]) -> Vec<Turn<'_>> {
    fn of_subject(subject: &dyn Subject, operation: Operation, threads: usize) -> Turn<'_> {
        Turn {
            name: subject.name(),
            operation: operation.name(),
            threads,
            run: Box::new(move |length| subject.turn(operation, threads, length)),
        }
    }
    let mut turns = Vec::new();
    for operation in Operation::ALL {
        for threads in THREADS {
            turns.extend(
                subjects
                    .iter()
                    .map(|subject| of_subject(&**subject, operation, threads)),
            );
        }
    }
    turns
}

fn turns_of_pairs() -> Vec<Turn<'static>> {
    let turn = |side: Side, threads| Turn {
        name: side.name(),
        operation: side.name(),
        threads,
        run: Box::new(move |length| side.turn(threads, length)),
    };
    Side::ALL
        .iter()
        .flat_map(|&side| THREADS.map(|threads| turn(side, threads)))
        .collect()
}

impl Experiment for Ports {
    fn name(&self) -> &'static str {
        "ports"
    }

    fn expected(&self) -> Duration {
        let turns = self.rounds as u64 * self.turn_ms * 80;
        // The pauses, and the delays of two series.
        let closes = self.closes as u64 * (3 * 10 + 10);
        Duration::from_millis(turns + closes)
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        let subjects = [
            Of::<ours::Ours>::boxed(OURS),
            Of::<arrays::Arrays>::boxed("DashMap of arrays"),
            Of::<vectors::Vectors>::boxed("Mutex of vectors"),
        ];
        let cages = self.measure_all("ports, cages", &turns_of_cages(&subjects), progress)?;
        let pairs = self.measure_all("ports, pairs", &turns_of_pairs(), progress)?;
        let unused = self.measure_all("ports, unused words", &unused::turns(), progress)?;
        let kinds = self.measure_all("ports, kinds", &kinds::turns(), progress)?;
        let delays = drop_delay::rows(self.closes, progress)?;
        let footprints = unused::footprints(self.slots)?;
        let mut headline = figures(&cages, &pairs);
        headline.extend(unused::figure(&unused));
        headline.extend(kinds::figure(&kinds));
        headline.push(drop_delay::figure(&delays));
        let timed = [&cages, &pairs, &unused, &kinds].into_iter().flatten();
        let rows = timed
            .map(to_value)
            .chain(delays.iter().map(to_value))
            .chain(footprints.iter().map(to_value));
        Ok(Report {
            experiment: self.name(),
            title: "interfaces that ports bring".to_owned(),
            config: json!(self),
            rows: rows.collect::<Result<_, _>>()?,
            headline,
            tables: vec![
                table_of_cages(&cages),
                table_of_pairs(&pairs),
                unused::table(&unused),
                unused::table_of_footprints(&footprints),
                kinds::table(&kinds),
                drop_delay::table(&delays),
            ],
            plots: Vec::new(),
            remarks: vec![unused::remark()],
            machine,
        })
    }
}

/// How much longer each rival takes than ours, in the rows of one operation.
fn gains<'r>(rows: &'r [Row], ours: &'r Row) -> impl Iterator<Item = (&'static str, Summary)> + 'r {
    rows.iter()
        .filter(|row| row.operation == ours.operation && row.threads == ours.threads)
        .filter(|row| row.name != OURS)
        .map(|row| (row.name, paired_ratio(&row.rounds, &ours.rounds)))
}

fn table_of_cages(rows: &[Row]) -> Table {
    let ours = rows.iter().filter(|row| row.name == OURS);
    let line = |ours: &Row| {
        let mut line = vec![
            format!("{}, {} threads", ours.operation, ours.threads),
            nanoseconds(ours.ns.median),
        ];
        for (_, gain) in gains(rows, ours) {
            line.push(nanoseconds(gain.median * ours.ns.median));
            line.push(ratio(gain.median));
        }
        line
    };
    let header = ["", OURS, "DashMap of arrays", "×", "Mutex of vectors", "×"];
    Table {
        caption:
            "Nanoseconds of each operation on one cage with 64 descriptors, and how many times \
                  as long the others take"
                .to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: ours.map(line).collect(),
    }
}

/// The pairs: the plain operation, and the one that extends it.
const PAIRS: [(Side, Side); 3] = [
    (Side::Dup3, Side::Replace),
    (Side::Owned, Side::OwnedWithData),
    (Side::Borrowed, Side::BorrowedWithData),
];

/// A row by its name and operation.
type Which = (&'static str, &'static str);

/// Returns the rows of two sides, and the ratio of the second to the first.
fn paired(rows: &[Row], sides: [Which; 2], threads: usize) -> Option<(&Row, &Row, Summary)> {
    let find = |(name, operation): Which| {
        rows.iter()
            .find(|row| row.name == name && row.operation == operation && row.threads == threads)
    };
    let (plain, other) = (find(sides[0])?, find(sides[1])?);
    let ratios = paired_ratio(&other.rounds, &plain.rounds);
    Some((plain, other, ratios))
}

/// Makes a table of sides beside each other, with a line for each number of threads.
fn beside(
    caption: &str,
    header: [&str; 4],
    rows: &[Row],
    cases: impl IntoIterator<Item = (String, [Which; 2])>,
) -> Table {
    let line = |title: &str, sides, threads| {
        let (plain, other, ratios) = paired(rows, sides, threads)?;
        Some(vec![
            format!("{title}, {threads} threads"),
            nanoseconds(plain.ns.median),
            nanoseconds(other.ns.median),
            ratio(ratios.median),
        ])
    };
    Table {
        caption: caption.to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: cases
            .into_iter()
            .flat_map(|(title, sides)| THREADS.map(|threads| line(&title, sides, threads)))
            .flatten()
            .collect(),
    }
}

fn sides((plain, other): (Side, Side)) -> [Which; 2] {
    [plain, other].map(|side| (side.name(), side.name()))
}

fn table_of_pairs(rows: &[Row]) -> Table {
    let case = |pair: (Side, Side)| {
        let title = format!("{} for {}", pair.1.name(), pair.0.name());
        (title, sides(pair))
    };
    beside(
        "Nanoseconds of operations beside the plain ones",
        ["", "plain", "with a word", "ratio"],
        rows,
        PAIRS.map(case),
    )
}

fn figures(cages: &[Row], pairs: &[Row]) -> Vec<Figure> {
    let ours = cages.iter().filter(|row| row.name == OURS);
    let worst = ours
        .flat_map(|ours| gains(cages, ours).map(|(_, gain)| gain.median))
        .fold(f64::INFINITY, f64::min);
    let mut figures = vec![Figure {
        key: "ports.cages_gain",
        value: worst,
        goal: Goal::AtLeast(1.5),
        meaning: "how many times as long a rival takes, in the operation where it is the fastest"
            .to_owned(),
    }];
    let keys = [
        "ports.replace_vs_dup3",
        "ports.owned_word_vs_plain",
        "ports.word_lookup_vs_plain",
    ];
    let goals = [1.0, 1.05, 1.05];
    for ((pair, key), goal) in PAIRS.into_iter().zip(keys).zip(goals) {
        if let Some((plain, other, cost)) = paired(pairs, sides(pair), 1) {
            let meaning = format!("the time of {} for that of {}", other.name, plain.name);
            figures.push(Figure::of_ratio(key, &cost, Goal::AtMost(goal), &meaning));
        }
    }
    figures
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
            closes: 2,
            slots: 1000,
        };
        let report = run(&ports, &Silent).expect("the tables do as they are asked");
        let [cages, pairs, unused, kinds] = [3 * 5, 6, 3 * 2, 2 * 2].map(|rows| rows * 2);
        let (delays, footprints) = (3, report.tables[3].rows.len());
        assert!(footprints == 2 || cfg!(not(target_env = "gnu")));
        let expected = cages + pairs + unused + kinds + delays + footprints;
        assert_eq!(report.rows.len(), expected);
        let mut keys: Vec<_> = report.headline.iter().map(|figure| figure.key).collect();
        keys.sort_unstable();
        let expected = [
            "ports.cages_gain",
            "ports.drop_delay_ms",
            "ports.owned_word_vs_plain",
            "ports.prompt_vs_rcu_kind",
            "ports.replace_vs_dup3",
            "ports.unused_word_cost",
            "ports.word_lookup_vs_plain",
        ];
        assert_eq!(keys, expected);
        let empty = report.tables.iter().find(|table| table.rows.is_empty());
        assert!(empty.is_none_or(|_| footprints == 0), "{empty:?}");
    }
}
