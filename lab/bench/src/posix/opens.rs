//! Opens of different files in one directory, by one thread and by two.
//!
//! Each thread opens and closes a file of its own. The path is absolute, and the directory is in
//! memory: a mount of ours, and a directory of the host in memory if it has one.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use fdtable_posix::timed::Calls;
use serde::Serialize;

use super::{HOST, OURS};
use crate::experiment::{Silent, alternate};
use crate::plot::Axis;
use crate::report::{Grid, Report};
use crate::stats::Samples;
use crate::turn::{Worker, turn};

/// How long each turn lasts.
const TURN: Duration = Duration::from_millis(5);

/// Opens between two looks at the clock.
const CHUNK: usize = 16;

/// The time of an open and a close on one side.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    call: &'static str,
    side: &'static str,
    threads: usize,
    /// Nanoseconds of a busy CPU.
    ns: Samples,
}

/// Directory with a file for each thread, which is removed at the end.
struct Files<'a> {
    side: &'static str,
    calls: &'a Calls,
    directory: Option<PathBuf>,
    paths: Vec<CString>,
}

impl<'a> Files<'a> {
    fn ours(calls: &'a Calls) -> anyhow::Result<Self> {
        Self::new(OURS, calls, None, Path::new("/fdt"))
    }

    fn host(calls: &'a Calls) -> anyhow::Result<Self> {
        let memory = Path::new("/dev/shm");
        let parent = match memory.is_dir() {
            true => memory.to_owned(),
            false => std::env::temp_dir(),
        };
        let directory = parent.join(format!("fdtable-bench-{}", std::process::id()));
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("no directory {}", directory.display()))?;
        Self::new(HOST, calls, Some(directory.clone()), &directory)
    }

    fn new(
        side: &'static str,
        calls: &'a Calls,
        directory: Option<PathBuf>,
        parent: &Path,
    ) -> anyhow::Result<Self> {
        let path = |nth| {
            let path = parent.join(format!("fdtable-bench-{nth}"));
            CString::new(path.into_os_string().into_encoded_bytes())
        };
        let paths = (0..2).map(path).collect::<Result<Vec<_>, _>>()?;
        let files = Files {
            side,
            calls,
            directory,
            paths,
        };
        for path in &files.paths {
            let fd = calls.open_file(path);
            ensure!(fd >= 0, "{side}: {path:?} cannot be created");
            calls.close(fd);
        }
        Ok(files)
    }

    fn worker(&self, nth: usize) -> Worker<'_> {
        let path = &self.paths[nth % self.paths.len()];
        Box::new(move || {
            for _ in 0..CHUNK {
                self.calls.close(self.calls.open_existing(path));
            }
            CHUNK
        })
    }
}

impl Drop for Files<'_> {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            // A file that remains is in memory, and has a name of its own.
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

/// Measures both sides, with one thread and with two.
pub(super) fn measure(rounds: usize, ours: &Calls, host: &Calls) -> anyhow::Result<Vec<Row>> {
    let sides = [Files::ours(ours)?, Files::host(host)?];
    let subjects: Vec<(&Files<'_>, usize)> = sides
        .iter()
        .flat_map(|files| [(files, 1), (files, 2)])
        .collect();
    let ns = alternate(subjects.len(), rounds, &Silent, |place, _| {
        let (files, threads) = subjects[place];
        turn(threads, TURN, &|nth| files.worker(nth))
    })?;
    let row = |(&(files, threads), ns): (&(&Files<'_>, usize), Samples)| Row {
        call: "open and close of files in one directory",
        side: files.side,
        threads,
        ns,
    };
    Ok(subjects.iter().zip(ns).map(row).collect())
}

/// Shows the times and the scaling, and what limits two threads.
pub(super) fn show(rows: &[Row], report: &mut Report) {
    let find = |side, threads| {
        let is_it = |row: &&Row| row.side == side && row.threads == threads;
        rows.iter().find(is_it).map(|row| &row.ns)
    };
    report.grid(Grid::new(
        "opens",
        "Nanoseconds of a busy CPU for an open and a close, each thread of its own file in one \
         directory",
        Axis::log("ns"),
        [("1 thread", 1), ("2 threads", 2)],
        [OURS, HOST].map(|side| (side, side)),
        |side, threads| find(*side, *threads).map(Samples::summary),
    ));
    // Two threads make twice as many opens in the same time of each CPU.
    let scaling = |side| Some(find(side, 1)?.over(find(side, 2)?).times(2.0));
    report.ratio("posix.open_2t_scaling", scaling(OURS));
    report.ratio("posix.open_2t_scaling_host", scaling(HOST));
    report.remarks.push(
        "Both threads use one table, and each open takes the lowest free descriptor: which that is \
         depends on the other thread. So a cache line travels between the CPUs at each open and \
         each close. The lookup of the path writes nothing that the threads share."
            .to_owned(),
    );
}
