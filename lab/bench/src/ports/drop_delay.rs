//! The time from the close that drops the last reference to `Drop` of the object, with no other
//! close meanwhile that could run it.
//!
//! Each timed close follows the `Drop` of the one before, and a pause, so no two share a batch. A
//! close that finds the worker asleep wakes it, and its object is dropped in the next look. After a
//! close that follows another, it is sooner or in the second look. So files that can be borrowed
//! from have a second series: there another file is closed up to a tick of the worker before.

use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fdtable::{FdFlags, FileRef, Files, rcu};
use serde::Serialize;

use crate::experiment::Progress;
use crate::report::{Figure, Report, Table, ratio};
use crate::stats::Summary;

/// Longest pause before a timed close, in microseconds: some ticks of the worker.
const LONGEST_PAUSE_US: u64 = 20_000;

/// Longest time from the close of another file to the timed close, in microseconds: a tick.
const LONGEST_AFTER_US: u64 = 3_000;

/// Time after which an object counts as never dropped.
const NEVER: Duration = Duration::from_secs(30);

/// The delays of one kind of files.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    name: &'static str,
    operation: &'static str,
    /// Milliseconds from the call of the close to that of `Drop`.
    ms: Summary,
    /// Milliseconds from the return of the close to the call of `Drop`: 0 if it is earlier.
    after_return_ms: Summary,
}

/// An object that reports the time of its `Drop`.
struct Reports(Sender<Instant>);

impl Drop for Reports {
    fn drop(&mut self) {
        // Fails only if the experiment has failed.
        _ = self.0.send(Instant::now());
    }
}

/// Subject of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Series {
    Borrowable,
    /// Another file is closed shortly before.
    BorrowableAfterAnother,
    Prompt,
}

impl Series {
    fn names(self) -> [&'static str; 2] {
        match self {
            Self::Borrowable => ["Files<Rcu<T>>", "close to Drop"],
            Self::BorrowableAfterAnother => ["Files<Rcu<T>>", "close after another to Drop"],
            Self::Prompt => ["Files<T>", "close to Drop"],
        }
    }
}

/// Measures all series with `closes` closes each, at least 1.
pub(super) fn rows(closes: usize, progress: &dyn Progress) -> anyhow::Result<[Row; 3]> {
    progress.begin("ports, delay of Drop", 3 * closes as u64);
    let rcu = FileRef::new_rcu;
    Ok([
        measure(Series::Borrowable, rcu, closes, progress)?,
        measure(Series::BorrowableAfterAnother, rcu, closes, progress)?,
        measure(Series::Prompt, FileRef::new, closes, progress)?,
    ])
}

/// Measures files that `file` makes. Prompt ones must be dropped when the close returns.
fn measure<T: Send + Sync>(
    series: Series,
    file: impl Fn(Reports) -> FileRef<T>,
    closes: usize,
    progress: &dyn Progress,
) -> anyhow::Result<Row> {
    // Runs the callbacks that other parts have left.
    rcu::barrier()?;
    let mut pauses = fastrand::Rng::with_seed(0);
    let files = Files::new();
    let (mut from_call, mut from_return) = (Vec::new(), Vec::new());
    for _ in 0..closes {
        thread::sleep(Duration::from_micros(pauses.u64(..LONGEST_PAUSE_US)));
        if series == Series::BorrowableAfterAnother {
            let (report, _) = mpsc::channel();
            let fd = files.open(file(Reports(report)), FdFlags::empty())?;
            drop(files.close(fd)?);
            thread::sleep(Duration::from_micros(pauses.u64(..LONGEST_AFTER_US)));
        }
        let (report, dropped) = mpsc::channel();
        let fd = files.open(file(Reports(report)), FdFlags::empty())?;
        let called = Instant::now();
        drop(files.close(fd)?);
        let returned = Instant::now();
        let prompt = series == Series::Prompt;
        let at = match prompt {
            true => dropped
                .try_recv()
                .context("a close returned before the object was dropped")?,
            false => dropped
                .recv_timeout(NEVER)
                .context("an object was never dropped")?,
        };
        ensure!(!prompt || at <= returned, "a prompt file was dropped late");
        let ms = |since| at.saturating_duration_since(since).as_secs_f64() * 1e3;
        from_call.push(ms(called));
        from_return.push(ms(returned));
        progress.step();
    }
    let [name, operation] = series.names();
    Ok(Row {
        name,
        operation,
        ms: Summary::of(&from_call),
        after_return_ms: Summary::of(&from_return),
    })
}

/// Shows the delays, and the worst of files that can be borrowed from.
pub(super) fn show(rows: &[Row; 3], report: &mut Report) {
    let line = |row: &Row| {
        let name = format!("{}, {}, {} times", row.name, row.operation, row.ms.samples);
        let (ms, after) = (row.ms, row.after_return_ms);
        let [median, worst, after, worst_after] =
            [ms.median, ms.max, after.median, after.max].map(ratio);
        [name, median, worst, after, worst_after]
    };
    let header = [
        "",
        "median",
        "worst",
        "median after the return",
        "worst after the return",
    ];
    let caption = "Milliseconds from the close that drops the last reference to Drop of the \
                   object, and how many of them come after the return of the close";
    let table = Table::new(caption, header, rows.iter().map(line));
    report.tables.push(table);
    let [alone, after] = [rows[0].ms, rows[1].ms];
    let figure = Figure::new("ports.drop_delay_ms", alone.max.max(after.max));
    report.headline.push(figure.and(&format!(
        " (of {} times; medians {}, and {} after another close)",
        alone.samples + after.samples,
        ratio(alone.median),
        ratio(after.median)
    )));
}
