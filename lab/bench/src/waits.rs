//! `waits`: the longest wait for a table's lock during another thread's long call.
//!
//! Each call has arguments of up to a million descriptors. Beside it a thread reads the limits of
//! the table in a loop, which takes the table's write lock for a few steps. Its longest wait is the
//! worst cost of the call for others: one hold of the lock, the wakeup of a sleeping thread, and
//! the machine's own pauses. The row *nothing* is the last of these alone.
//!
//! A pause by the machine can only add to a wait, so the smallest of the rounds' worst waits is the
//! best estimate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

use crate::experiment::{Effort, Experiment, Progress};
use crate::machine::Machine;
use crate::report::{Report, Table, nanoseconds};
use crate::stats::Summary;

mod call;

use call::Call;

/// Experiment that measures waits for the lock of a table.
#[derive(Clone, Debug, Serialize)]
pub struct Waits {
    /// Repetitions of each call, at least 1.
    pub rounds: usize,
    /// Number of descriptors in the arguments of a call.
    pub descriptors: u32,
}

/// The cost of one call.
#[derive(Clone, Debug, Serialize)]
struct Row {
    call: &'static str,
    /// Microseconds of the whole call.
    call_us: Summary,
    /// Microseconds of the longest wait beside it, one for each round.
    worst_wait_us: Summary,
    /// True if the documentation says that the lock is held for a time that grows with the
    /// argument.
    grows: bool,
}

impl Waits {
    /// Returns the configuration for one of the two lengths of a run.
    pub fn new(effort: Effort) -> Self {
        let (rounds, descriptors) = match effort {
            Effort::Quick => (3, 100_000),
            Effort::Full => (15, 1_000_000),
        };
        Waits {
            rounds,
            descriptors,
        }
    }

    fn row(&self, call: &Call, progress: &dyn Progress) -> anyhow::Result<Row> {
        let mut took = Vec::with_capacity(self.rounds);
        let mut waits = Vec::with_capacity(self.rounds);
        for _ in 0..self.rounds {
            let (call, wait) = measure(call, self.descriptors)?;
            took.push(call.as_secs_f64() * 1e6);
            waits.push(wait.as_secs_f64() * 1e6);
            progress.step();
        }
        Ok(Row {
            call: call.name,
            call_us: Summary::of(&took),
            worst_wait_us: Summary::of(&waits),
            grows: call.grows,
        })
    }
}

/// Makes a call on a new table, and returns its duration and the longest wait beside it.
fn measure(call: &Call, descriptors: u32) -> anyhow::Result<(Duration, Duration)> {
    let files = Arc::new((call.prepare)(descriptors)?);
    let (waiting, done) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut worst = Duration::ZERO;
            while !done.load(Relaxed) {
                let began = Instant::now();
                // Takes the lock of the table, and changes nothing.
                files.set_quarantine(0).ok();
                let wait = began.elapsed();
                // Waits before the call do not count.
                if waiting.swap(true, Relaxed) {
                    worst = worst.max(wait);
                }
            }
            worst
        });
        while !waiting.load(Relaxed) {
            thread::yield_now();
        }
        let began = Instant::now();
        let outcome = (call.run)(&files, descriptors);
        let took = began.elapsed();
        done.store(true, Relaxed);
        let worst = waiter.join().expect("the waiter does not panic");
        outcome.map(|()| (took, worst))
    })
}

impl Experiment for Waits {
    fn name(&self) -> &'static str {
        "waits"
    }

    fn expected(&self) -> Duration {
        let million = f64::from(self.descriptors) / 1e6;
        Duration::from_secs_f64(self.rounds as f64 * million * 3.0)
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        let calls = call::all();
        progress.begin("waits", (self.rounds * calls.len()) as u64);
        let rows = calls.iter().map(|call| self.row(call, progress));
        let rows = rows.collect::<anyhow::Result<Vec<Row>>>()?;
        let title = format!(
            "waits for the lock of a table beside calls about {} descriptors",
            self.descriptors
        );
        let mut report = Report::new(self, title, json!(self), &rows, machine)?;
        report.tables.push(table(&rows));
        figures(&rows, &mut report);
        Ok(report)
    }
}

fn table(rows: &[Row]) -> Table {
    let line = |row: &Row| {
        let waits = &row.worst_wait_us;
        let cells = [row.call_us.median, waits.min, waits.median, waits.max];
        let [call, least, median, most] = cells.map(nanoseconds);
        let name = match row.grows {
            true => format!("{} (grows with its argument)", row.call),
            false => row.call.to_owned(),
        };
        [name, call, least, median, most]
    };
    Table::new(
        "Microseconds of each call, and of the longest wait of another thread for the lock beside \
         it: the least, the median and the most of all rounds",
        ["", "the call", "longest wait: least", "median", "most"],
        rows.iter().map(line),
    )
}

fn figures(rows: &[Row], report: &mut Report) {
    let bounded = rows.iter().filter(|row| !row.grows);
    let worst = bounded.map(|row| row.worst_wait_us.min).fold(0.0, f64::max);
    let alone = rows.iter().find(|row| row.call == call::NOTHING);
    report.figure("waits.worst_us", Some(worst));
    let machine = alone.map(|row| row.worst_wait_us.min);
    report.figure("waits.machine_us", machine);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Silent, run};

    #[test]
    fn every_call_has_a_row() {
        let waits = Waits {
            rounds: 1,
            descriptors: 1_000,
        };
        let report = run(&waits, &Silent).expect("the calls succeed");
        assert_eq!(report.rows.len(), call::all().len());
        assert!(report.headline.iter().all(|figure| figure.value > 0.0));
    }
}
