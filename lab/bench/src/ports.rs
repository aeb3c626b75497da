//! `ports`: the cost of what projects with an interface of their own need from the table.
//!
//! Operations on descriptors with words, and replacements, are timed beside the plain operation.
//!
//! *Unused words.* A leaf of 64 descriptors gets a table of words with its first word. Lookups, and
//! pairs of open and close, are timed in a leaf without words, in a table that has words in its
//! other leaf and in one that has none. Both run the same code. So the ratio shows that words cost
//! nothing in leaves without them, and cannot show what the code for words costs. A comparison with
//! a build from before words shows that: the rows of `lookup`, `peers` and `slab`.
//!
//! *Nanoseconds per operation* are those of one CPU: see [`turn`].

use std::hint::black_box;
use std::time::Duration;

use anyhow::ensure;
use fdtable::{FdFlags, FileRef, Files, Rcu, rcu};
use serde::Serialize;
use serde_json::json;

use crate::experiment::{Effort, Experiment, Progress, alternate};
use crate::machine::Machine;
use crate::report::{Figure, Report, Table, nanoseconds, ratio};
use crate::stats::Samples;
use crate::turn::{self, Worker};

/// Experiment that measures words of descriptors, and replacements.
#[derive(Clone, Debug, Serialize)]
pub struct Ports {
    /// Turns of each operation, at least 1.
    pub rounds: usize,
    /// Least duration of a turn in milliseconds.
    pub turn_ms: u64,
}

/// The times of one operation.
#[derive(Clone, Debug, Serialize)]
struct Row {
    name: &'static str,
    operation: &'static str,
    threads: usize,
    ns: Samples,
}

/// Operations of a chunk.
const CHUNK: i32 = 256;

/// Descriptors of a leaf. The first half is used, and the first one behind it is free.
const LEAF: i32 = 64;
const USED: i32 = LEAF / 2;

/// Makes a table, and repeats an operation on it.
type Work = fn() -> Worker<'static>;

/// One side of a pair: its name, its operation, and the work.
type Side = (&'static str, &'static str, Work);

/// An operation that is compared with a plainer one: the figure, the plain side, and the other.
struct Pair(&'static str, Side, Side);

const PAIRS: [Pair; 5] = [
    Pair(
        "ports.replace_vs_dup3",
        ("dup3", "dup3", || {
            let (files, none) = (words(|fd| fd), FdFlags::empty());
            each(move |_| files.dup3(black_box(0), 1, none).ok().map(drop))
        }),
        ("replace", "replace", || {
            let (files, none) = (words(|fd| fd), FdFlags::empty());
            let kept = files.get(0).expect("it is open");
            each(move |_| {
                let replaced = files.replace(black_box(1), kept.clone(), none);
                replaced.ok().map(drop)
            })
        }),
    ),
    Pair(
        "ports.owned_word_vs_plain",
        ("get", "get", || {
            let files = words(|fd| fd);
            sum(move |fd| Some(**files.get(fd).ok()?))
        }),
        ("get_with_data", "get_with_data", || {
            let files = words(|fd| fd);
            sum(move |fd| {
                let (file, data) = files.get_with_data(fd).ok()?;
                Some(**file + data.word)
            })
        }),
    ),
    Pair(
        "ports.word_lookup_vs_plain",
        ("get_rcu", "get_rcu", || {
            let files = words(|fd| fd);
            sum(move |fd| Some(*files.get_rcu(fd, &rcu::read_lock()).ok()?))
        }),
        ("get_rcu_with_data", "get_rcu_with_data", || {
            let files = words(|fd| fd);
            sum(move |fd| {
                let section = rcu::read_lock();
                let (file, data) = files.get_rcu_with_data(fd, &section).ok()?;
                Some(*file + data.word)
            })
        }),
    ),
    Pair(
        UNUSED,
        ("no words", "get", || look_up(words(|_| 0))),
        ("words in the other leaf", "get", || {
            look_up(words(|fd| fd / LEAF))
        }),
    ),
    Pair(
        UNUSED,
        ("no words", "open lowest, close", || reopen(words(|_| 0))),
        ("words in the other leaf", "open lowest, close", || {
            reopen(words(|fd| fd / LEAF))
        }),
    ),
];

const UNUSED: &str = "ports.unused_word_cost";

/// Makes a table of two leaves, with a word of each descriptor unless it is 0.
fn words(word: fn(i32) -> i32) -> Files<Rcu<u64>> {
    let files = Files::new();
    for fd in 0..2 * LEAF {
        let data = (FdFlags::empty(), word(fd) as u64);
        let opened = files.open(FileRef::new_rcu(fd as u64), data);
        assert_eq!(opened.map(i32::from), Ok(fd), "it is the lowest");
    }
    drop(files.close(USED));
    files
}

/// Repeats an operation with each of the used descriptors, and warms it up.
fn each(mut act: impl FnMut(i32) -> Option<()> + 'static) -> Worker<'static> {
    let mut worker = move || {
        let mut fds = (0..CHUNK).map(|nth| nth % USED);
        match fds.all(|fd| act(fd).is_some()) {
            true => CHUNK as usize,
            false => 0,
        }
    };
    worker();
    Box::new(worker)
}

fn sum(look_up: impl Fn(i32) -> Option<u64> + 'static) -> Worker<'static> {
    each(move |fd| look_up(black_box(fd)).map(|value| _ = black_box(value)))
}

fn look_up(files: Files<Rcu<u64>>) -> Worker<'static> {
    sum(move |fd| Some(**files.get(fd).ok()?))
}

fn reopen(files: Files<Rcu<u64>>) -> Worker<'static> {
    let kept = files.get(0).expect("it is open");
    each(move |_| {
        let fd = files.open(kept.clone(), FdFlags::empty()).ok()?;
        files.close(black_box(fd)).ok().map(drop)
    })
}

impl Ports {
    /// Returns the configuration for one of the two lengths of a run.
    pub fn new(effort: Effort) -> Self {
        Ports {
            rounds: effort.rounds(15, 101),
            turn_ms: 2,
        }
    }
}

impl Experiment for Ports {
    fn name(&self) -> &'static str {
        "ports"
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        progress.begin("ports", self.rounds as u64);
        let length = Duration::from_millis(self.turn_ms);
        let sides: Vec<Side> = PAIRS.iter().flat_map(|pair| [pair.1, pair.2]).collect();
        let ns = alternate(sides.len(), self.rounds, progress, |place, _| {
            let ns = turn::turn(1, length, &|_| sides[place].2())?;
            ensure!(ns.is_finite(), "an operation failed");
            Ok(ns)
        })?;
        let row = |((name, operation, _), ns)| Row {
            name,
            operation,
            threads: 1,
            ns,
        };
        let rows: Vec<Row> = sides.into_iter().zip(ns).map(row).collect();
        let title = "words of descriptors, and replacements";
        let mut report = Report::new(self, title, json!(self), &rows, machine)?;
        show(&rows, &mut report);
        Ok(report)
    }
}

fn show(rows: &[Row], report: &mut Report) {
    let (pairs, _) = rows.as_chunks::<2>();
    let line = |[plain, other]: &[Row; 2]| {
        let [plain_ns, other_ns] = [plain, other].map(|row| row.ns.summary().median);
        let title = match other.name == other.operation {
            true => format!("{} for {}", other.name, plain.name),
            false => format!("{}, {}", other.operation, other.name),
        };
        let quotient = ratio(other.ns.over(&plain.ns).median);
        [
            title,
            nanoseconds(plain_ns),
            nanoseconds(other_ns),
            quotient,
        ]
    };
    report.tables.push(Table::new(
        "Nanoseconds of operations beside the plain ones",
        ["", "plain", "other", "ratio"],
        pairs.iter().map(line),
    ));
    let mut figures: Vec<Figure> = Vec::new();
    for (Pair(key, ..), [plain, other]) in PAIRS.iter().zip(pairs) {
        let case = match *key {
            UNUSED => format!(" {}", other.operation),
            _ => String::new(),
        };
        let figure = Figure::of_case(key, &other.ns.over(&plain.ns), &case);
        // Of the operations with one key, the worst.
        match figures.iter_mut().find(|it| it.key == *key) {
            Some(worst) if worst.value >= figure.value => {}
            Some(worst) => *worst = figure,
            None => figures.push(figure),
        }
    }
    report.headline.extend(figures);
    report.remarks.push(format!(
        "{UNUSED} compares tables within one build. What the code for words costs is shown by \
         --compare with a run of a build from before words: rows of lookup, peers and slab."
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Silent, run};

    #[test]
    fn every_operation_has_a_row() {
        let ports = Ports {
            rounds: 1,
            turn_ms: 1,
        };
        let report = run(&ports, &Silent).expect("the tables do as they are asked");
        assert_eq!(report.rows.len(), 10);
        let mut keys: Vec<_> = report.headline.iter().map(|figure| figure.key).collect();
        keys.sort_unstable();
        let expected = [
            "ports.owned_word_vs_plain",
            "ports.replace_vs_dup3",
            "ports.unused_word_cost",
            "ports.word_lookup_vs_plain",
        ];
        assert_eq!(keys, expected);
        assert_eq!(report.tables[0].rows.len(), 5);
    }
}
