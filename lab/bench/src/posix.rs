//! `posix`: the cost of the C interface, beside the host and the table in Rust.
//!
//! Three almost empty calls: the flags of a descriptor, one byte of `/dev/zero`, and a `dup` with
//! its `close`. One thread makes each in a loop, through a pointer to the C function, here and on
//! the host in turn. Then a lookup in the table for C, with a reference and without, in C and in
//! Rust. Then one thread and two threads open and close files in one directory, each its own
//! (`posix/opens.rs`), and two event loops talk over sockets (`posix/sockets.rs`).

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fdtable::{FdFlags, FileRef, Files, Rcu, rcu};
use fdtable_capi::timed;
use fdtable_posix::timed::Calls;
use serde::Serialize;
use serde_json::json;

use crate::affinity;
use crate::experiment::{Effort, Experiment, Progress, alternate};
use crate::machine::Machine;
use crate::plot::Axis;
use crate::report::{Grid, Report};
use crate::stats::Samples;

mod opens;
mod sockets;

/// Descriptors of the tables.
const DESCRIPTORS: u32 = 64;

/// Experiment that measures the C interface.
#[derive(Clone, Debug, Serialize)]
pub struct Posix {
    /// Turns of each call, at least 1.
    pub rounds: usize,
    /// Calls of each turn, at least 1.
    pub calls: u32,
}

/// The time of one call on one side.
#[derive(Clone, Debug, Serialize)]
struct Row {
    call: &'static str,
    side: &'static str,
    /// Nanoseconds of one call.
    ns: Samples,
}

/// One call to be timed.
struct Subject<'a> {
    call: &'static str,
    side: &'static str,
    run: Box<dyn Fn() + 'a>,
}

const OURS: &str = "fdtable";
const HOST: &str = "host";
const RUST: &str = "Rust";

const FLAGS: &str = "fcntl(F_GETFD)";
const READ: &str = "read, 1 byte of /dev/zero";
const DUP: &str = "dup and close";
const GET: &str = "table: get and put";
const BORROW: &str = "table: borrow in a section";

impl Posix {
    /// Returns the configuration for one of the two lengths of a run.
    pub fn new(effort: Effort) -> Self {
        let (rounds, calls) = match effort {
            Effort::Quick => (15, 20_000),
            Effort::Full => (51, 200_000),
        };
        Posix { rounds, calls }
    }

    fn rows(
        &self,
        ours: &Calls,
        host: &Calls,
        progress: &dyn Progress,
    ) -> anyhow::Result<Vec<Row>> {
        let plain = timed::Table::with_descriptors(DESCRIPTORS).context("no table")?;
        let files = Files::new();
        let mut subjects = Vec::new();
        subjects.extend(calls(OURS, ours)?);
        subjects.extend(calls(HOST, host)?);
        subjects.extend(lookups(&plain, &files)?);
        progress.begin("posix", self.rounds as u64);
        let time = |place: usize, _| Ok(self.time(&subjects[place]));
        let ns = alternate(subjects.len(), self.rounds, progress, time)?;
        let row = |(subject, ns): (&Subject<'_>, Samples)| Row {
            call: subject.call,
            side: subject.side,
            ns,
        };
        Ok(subjects.iter().zip(ns).map(row).collect())
    }

    fn time(&self, subject: &Subject<'_>) -> f64 {
        let began = Instant::now();
        for _ in 0..self.calls {
            (subject.run)();
        }
        began.elapsed().as_nanos() as f64 / f64::from(self.calls)
    }
}

/// Lists the calls of one side.
fn calls<'a>(side: &'static str, calls: &'a Calls) -> anyhow::Result<[Subject<'a>; 3]> {
    let fd = calls.open_zero();
    let read = move || calls.read(fd, &mut [0]);
    ensure!(fd >= 0 && read() == 1, "{side} has no /dev/zero");
    let subject = |call, run| Subject { call, side, run };
    Ok([
        subject(FLAGS, Box::new(move || _ = black_box(calls.flags(fd)))),
        subject(READ, Box::new(move || _ = black_box(read()))),
        subject(
            DUP,
            Box::new(move || _ = black_box(calls.close(calls.dup(fd)))),
        ),
    ])
}

/// Lists the lookups in tables.
fn lookups<'a>(
    plain: &'a timed::Table,
    files: &'a Files<Rcu<usize>>,
) -> anyhow::Result<[Subject<'a>; 4]> {
    for object in 0..DESCRIPTORS as usize {
        files.open(FileRef::new_rcu(object), FdFlags::empty())?;
    }
    let fd = 17;
    let subject = |call, side, run| Subject { call, side, run };
    Ok([
        subject(
            GET,
            OURS,
            Box::new(move || plain.get_and_put(black_box(fd))),
        ),
        subject(
            GET,
            RUST,
            Box::new(move || drop(black_box(files.get(black_box(fd))))),
        ),
        subject(BORROW, OURS, Box::new(move || plain.borrow(black_box(fd)))),
        subject(
            BORROW,
            RUST,
            Box::new(move || {
                let section = rcu::read_lock();
                _ = black_box(files.get_rcu(black_box(fd), &section).is_ok());
            }),
        ),
    ])
}

impl Experiment for Posix {
    fn name(&self) -> &'static str {
        "posix"
    }

    fn expected(&self) -> Duration {
        Duration::from_millis(self.rounds as u64 * self.calls as u64 / 500)
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        let (ours, host) = (Calls::ours(), Calls::host());
        let opens = opens::measure(self.rounds, &ours, &host)?;
        let talks = sockets::measure(self.rounds)?;
        let rows = affinity::on_one_cpu(|| self.rows(&ours, &host, progress))?;
        let config = json!({ "rounds": self.rounds, "calls": self.calls });
        let title = "calls through the C interface";
        let mut report = Report::new(self, title, config, &rows, machine)?;
        report.add_rows(&opens)?;
        report.add_rows(&talks)?;
        show(&rows, &mut report);
        opens::show(&opens, &mut report);
        sockets::show(&talks, &mut report);
        Ok(report)
    }
}

fn find<'a>(rows: &'a [Row], call: &str, side: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.call == call && row.side == side)
}

fn show(rows: &[Row], report: &mut Report) {
    report.grid(Grid::new(
        "calls",
        "Nanoseconds of one call through the C interface, beside the host's and beside Rust",
        Axis::log("ns"),
        [FLAGS, READ, DUP, GET, BORROW].map(|call| (call, call)),
        [OURS, HOST, RUST].map(|side| (side, side)),
        |side, call| Some(find(rows, call, side)?.ns.summary()),
    ));
    for (call, ours, host) in [
        (FLAGS, "posix.getfd_ns", "posix.getfd_host_ns"),
        (READ, "posix.read_zero_ns", "posix.read_zero_host_ns"),
        (DUP, "posix.dup_close_ns", "posix.dup_close_host_ns"),
    ] {
        for (key, side) in [(ours, OURS), (host, HOST)] {
            let ns = find(rows, call, side).map(|row| row.ns.summary().median);
            report.figure(key, ns);
        }
    }
    let over =
        |call, one, other| Some(find(rows, call, one)?.ns.over(&find(rows, call, other)?.ns));
    report.ratio("posix.table_get_vs_rust", over(GET, OURS, RUST));
    report.ratio("posix.table_borrow_vs_rust", over(BORROW, OURS, RUST));
    let times = |call| {
        let ratio = over(call, HOST, OURS)?;
        Some(format!("{:.0} times for {call}", ratio.median))
    };
    let times: Vec<String> = [FLAGS, READ, DUP].into_iter().filter_map(times).collect();
    report.remarks.extend([
        format!("The host takes longer by: {}.", times.join(", ")),
        "A call in C enters the freezer, so that a fork of the host process can wait for it, and \
         catches panics: this is the difference between C and Rust for a table."
            .to_owned(),
    ]);
}
