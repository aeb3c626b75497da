//! `ports`: what a project that brings its own interface gets from the table.
//!
//! *Cages*: the interface of a sandbox that runs several processes, on our table, on arrays in a
//! concurrent map, and on vectors behind one lock. All threads use one cage with 64 descriptors
//! open, except that each forks one of its own.
//!
//! *Pairs*: our operations on descriptors with words, each beside the plain operation.
//!
//! *Nanoseconds per operation* are those of one CPU: see [`turn`](crate::turn).

use std::time::Duration;

use serde::Serialize;
use serde_json::{json, to_value};

use crate::experiment::{Effort, Experiment, Progress};
use crate::machine::Machine;
use crate::report::{Figure, Goal, Report, Table, nanoseconds, ratio};
use crate::stats::{Summary, order, paired_ratio};

mod arrays;
mod cages;
mod ours;
mod pairs;
mod subject;
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
        let rounds = match effort {
            Effort::Quick => 15,
            Effort::Full => 101,
        };
        Ports { rounds, turn_ms: 2 }
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
                ns[place].push((turns[place].run)(length)?);
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

/// What is run for a row.
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
        Duration::from_millis(self.rounds as u64 * self.turn_ms * 60)
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        let subjects = [
            Of::<ours::Ours>::boxed(OURS),
            Of::<arrays::Arrays>::boxed("DashMap of arrays"),
            Of::<vectors::Vectors>::boxed("Mutex of vectors"),
        ];
        let cages = self.measure_all("ports, cages", &turns_of_cages(&subjects), progress)?;
        let pairs = self.measure_all("ports, pairs", &turns_of_pairs(), progress)?;
        Ok(Report {
            experiment: self.name(),
            title: "interfaces that ports bring".to_owned(),
            config: json!(self),
            rows: cages
                .iter()
                .chain(&pairs)
                .map(to_value)
                .collect::<Result<_, _>>()?,
            headline: figures(&cages, &pairs),
            tables: vec![table_of_cages(&cages), table_of_pairs(&pairs)],
            plots: Vec::new(),
            remarks: Vec::new(),
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

fn cost(rows: &[Row], pair: (Side, Side), threads: usize) -> Option<[&Row; 2]> {
    let find = |side: Side| {
        let of_side = |row: &&Row| row.name == side.name() && row.threads == threads;
        rows.iter().find(of_side)
    };
    Some([find(pair.0)?, find(pair.1)?])
}

fn table_of_pairs(rows: &[Row]) -> Table {
    let line = |pair: (Side, Side), threads| {
        let [plain, other] = cost(rows, pair, threads)?;
        let cost = paired_ratio(&other.rounds, &plain.rounds);
        Some(vec![
            format!("{} for {}, {threads} threads", other.name, plain.name),
            nanoseconds(plain.ns.median),
            nanoseconds(other.ns.median),
            ratio(cost.median),
        ])
    };
    let header = ["", "plain", "with a word", "ratio"];
    Table {
        caption: "Nanoseconds of operations beside the plain ones".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: PAIRS
            .iter()
            .flat_map(|&pair| THREADS.map(|threads| line(pair, threads)))
            .flatten()
            .collect(),
    }
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
        if let Some([plain, other]) = cost(pairs, pair, 1) {
            let cost = paired_ratio(&other.rounds, &plain.rounds);
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
        };
        let report = run(&ports, &Silent).expect("the tables do as they are asked");
        assert_eq!(report.rows.len(), 3 * 5 * 2 + 6 * 2);
        assert_eq!(report.headline.len(), 4);
    }
}
