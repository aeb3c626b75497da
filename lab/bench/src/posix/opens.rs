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
use crate::report::{Figure, Goal, Table, nanoseconds};
use crate::stats::{Summary, order, paired_ratio};
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
    ns: Summary,
    /// The samples of each round, for ratios in pairs.
    #[serde(skip)]
    rounds: Vec<f64>,
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
    let mut ns = vec![Vec::new(); subjects.len()];
    for round in 0..rounds {
        for place in order(subjects.len(), round) {
            let (files, threads) = subjects[place];
            ns[place].push(turn(threads, TURN, &|nth| files.worker(nth))?);
        }
    }
    let row = |(&(files, threads), rounds): (&(&Files<'_>, usize), Vec<f64>)| Row {
        call: "open and close of files in one directory",
        side: files.side,
        threads,
        ns: Summary::of(&rounds),
        rounds,
    };
    Ok(subjects.iter().zip(ns).map(row).collect())
}

pub(super) fn table(rows: &[Row]) -> Table {
    let line = |row: &Row| {
        let Summary {
            median, p10, p90, ..
        } = row.ns;
        vec![
            row.side.to_owned(),
            row.threads.to_string(),
            nanoseconds(median),
            format!("{}–{}", nanoseconds(p10), nanoseconds(p90)),
        ]
    };
    Table {
        caption: "Nanoseconds of a busy CPU for an open and a close, each thread of its own file \
                  in one directory: median (10th–90th percentile)"
            .to_owned(),
        header: ["side", "threads", "ns", "spread"]
            .map(str::to_owned)
            .to_vec(),
        rows: rows.iter().map(line).collect(),
    }
}

pub(super) fn figures(rows: &[Row]) -> Vec<Figure> {
    let scaling = |key, side, goal, meaning: &str| {
        let rounds = |threads| {
            let row = rows
                .iter()
                .find(|row| row.side == side && row.threads == threads)?;
            // Opens in each microsecond of the wall.
            let throughput = |ns: &f64| threads as f64 * 1000.0 / ns;
            Some(row.rounds.iter().map(throughput).collect::<Vec<_>>())
        };
        let ratio = paired_ratio(&rounds(2)?, &rounds(1)?);
        Some(Figure::of_ratio(key, &ratio, goal, meaning))
    };
    let figures = [
        scaling(
            "posix.open_2t_scaling",
            OURS,
            Goal::AtLeast(1.8),
            "opens of different files in one directory: throughput of two threads ÷ of one",
        ),
        scaling(
            "posix.open_2t_scaling_host",
            HOST,
            Goal::None,
            "the same on the host",
        ),
    ];
    figures.into_iter().flatten().collect()
}

/// Says what limits two threads.
pub(super) fn remark() -> String {
    "Both threads use one table, and each open takes the lowest free descriptor: which that is \
     depends on the other thread. So a cache line travels between the CPUs at each open and each \
     close. The lookup of the path writes nothing that the threads share."
        .to_owned()
}
