//! `run`: unmodified programs under `fdtable run`, beside the same binaries on the host.
//!
//! Both sides run the same file with the same arguments, in turns. Only the folder for its files
//! differs: in memory on the host (`/dev/shm`), and in memory of ours (`/fdt`). Some programs time
//! their calls themselves, so that their start is not in the figure; of the others the whole
//! process is timed. A program that is not installed has no row.
//!
//! `run/programs.txt` lists the programs, `run/server.rs` measures a server under load. The
//! experiment `tree` does the same with programs that make processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use serde::Serialize;
use serde_json::json;

use crate::experiment::{Effort, Experiment, Progress};
use crate::machine::Machine;
use crate::plot::Axis;
use crate::report::{Figure, Grid, Report, Table, nanoseconds, ratio};
use crate::stats::{Samples, median, order};

mod program;
mod server;

use program::{Bound, Clock, Program};

/// Which programs are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Programs {
    /// Each in one process.
    Single,
    /// Each with the processes that it makes.
    Trees,
}

/// Experiment that measures unmodified programs.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Which ones.
    pub programs: Programs,
    /// Turns of each program on each side, at least 1.
    pub rounds: usize,
    /// Share of its usual work that each program does, in percent, from 1 to 100.
    pub work: u32,
    /// The program `fdtable`, which has the command `run`.
    pub runner: PathBuf,
}

/// Side on which a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Ours,
    Host,
}

const SIDES: [Side; 2] = [Side::Ours, Side::Host];

impl Side {
    fn name(self) -> &'static str {
        match self {
            Side::Ours => "fdtable run",
            Side::Host => "host",
        }
    }

    /// The folder for the files of a program.
    fn folder(self) -> &'static str {
        match self {
            Side::Ours => "/fdt",
            Side::Host => "/dev/shm",
        }
    }
}

/// The times of one program on one side, in nanoseconds.
#[derive(Clone, Debug, Serialize)]
struct Row {
    program: &'static str,
    side: &'static str,
    ns: Samples,
}

impl Run {
    /// Returns the configuration for one of the two lengths of a run. `runner` is the program
    /// `fdtable`.
    pub fn new(programs: Programs, effort: Effort, runner: PathBuf) -> Self {
        Run {
            programs,
            rounds: effort.rounds(3, 11),
            work: effort.pick(20, 100),
            runner,
        }
    }

    /// Gives every program its turns, each on both sides. Returns a pair of rows for each.
    fn rows(&self, programs: &[Program], progress: &dyn Progress) -> anyhow::Result<Vec<[Row; 2]>> {
        progress.begin(self.name(), (self.rounds * programs.len()) as u64);
        let mut ns = vec![[Vec::new(), Vec::new()]; programs.len()];
        for round in 0..self.rounds {
            for (program, ns) in programs.iter().zip(&mut ns) {
                for place in order(SIDES.len(), round) {
                    ns[place].push(self.time(program, SIDES[place])?);
                }
                progress.step();
            }
        }
        let pair = |(program, [ours, host]): (&Program, [Vec<f64>; 2])| {
            [(Side::Ours, ours), (Side::Host, host)].map(|(side, rounds)| Row {
                program: program.name,
                side: side.name(),
                ns: rounds.into(),
            })
        };
        Ok(programs.iter().zip(ns).map(pair).collect())
    }

    /// Runs a program once on one side. Returns nanoseconds: of the process, or what it printed.
    fn time(&self, program: &Program, side: Side) -> anyhow::Result<f64> {
        let overlay = program.overlay.as_deref();
        let mut command = self.command(side, &program.file, overlay);
        let folder = match (side, overlay.and_then(Path::to_str)) {
            (Side::Ours, Some(overlay)) => overlay,
            _ => side.folder(),
        };
        command.args(program.words(folder));
        let began = Instant::now();
        let output = command.output().context(program.name)?;
        let process = began.elapsed().as_nanos() as f64;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{} on {}: {said}", program.name, side.name());
        }
        match program.clock {
            Clock::Process => Ok(process),
            Clock::Printed { last_word_in_ns } => {
                let text = String::from_utf8_lossy(&output.stdout);
                let last = text.split_whitespace().last().unwrap_or_default();
                let number: f64 = last.parse().context(program.name)?;
                Ok(number * last_word_in_ns)
            }
        }
    }

    /// Runs each program once more, with its calls counted. Returns the largest share of calls that
    /// trapped, of the programs that make many. None if there is no such program.
    fn trap_share(&self, programs: &[Program], folder: &Path) -> anyhow::Result<Option<Figure>> {
        let file = folder.join("stats");
        let mut worst: Option<(f64, &str)> = None;
        for program in programs {
            let mut command = Command::new(&self.runner);
            let option = format!("--stats={}", file.display());
            command.args(["run", &option]).arg(&program.file);
            command.args(program.words(Side::Ours.folder()));
            command.output().context(program.name)?;
            let report = fs::read_to_string(&file).context(program.name)?;
            let (calls, share) = totals(&report).context(report)?;
            if calls >= MANY_CALLS && worst.is_none_or(|(most, _)| share > most) {
                worst = Some((share, program.name));
            }
        }
        Ok(worst
            .map(|(share, name)| Figure::new("run.trap_share", share).and(&format!(" ({name})"))))
    }

    /// Begins a command that runs a file on one side. We show an overlay there, if it is given.
    fn command(&self, side: Side, file: &Path, overlay: Option<&Path>) -> Command {
        if side == Side::Host {
            return Command::new(file);
        }
        let mut command = Command::new(&self.runner);
        command.arg("run");
        if let Some(overlay) = overlay {
            command.arg("--overlay").arg(overlay);
        }
        command.arg(file);
        command
    }
}

impl Experiment for Run {
    fn name(&self) -> &'static str {
        match self.programs {
            Programs::Single => "run",
            Programs::Trees => "tree",
        }
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        ensure!(
            cfg!(all(target_os = "linux", target_arch = "x86_64")),
            "`fdtable run` is for Linux on x86-64"
        );
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("overlay"))?;
        let (programs, missing) = program::all(self.name(), self.work, folder.path())?;
        let pairs = self.rows(&programs, progress)?;
        let title = match self.programs {
            Programs::Single => "unmodified programs beside the host",
            Programs::Trees => "trees of processes, beside the host",
        };
        let config = json!({ "rounds": self.rounds, "work": self.work });
        let rows: Vec<&Row> = pairs.iter().flatten().collect();
        let mut report = Report::new(self, title, config, &rows, machine)?;
        show(&pairs, &mut report);
        for (program, pair) in programs.iter().zip(&pairs) {
            report.headline.push(figure(program.bound, pair));
        }
        report.remarks = missing;
        if self.programs == Programs::Single {
            let traps = self.trap_share(&programs, folder.path())?;
            report.headline.extend(traps);
            match server::measure(self, folder.path(), progress)? {
                Some(figure) => report.headline.push(figure),
                None => report.remarks.push(server::MISSING.to_owned()),
            }
        }
        report.remarks.push(
            "Files are in memory on both sides: in /dev/shm on the host, in /fdt on ours."
                .to_owned(),
        );
        Ok(report)
    }
}

/// How many calls a program makes for its share of traps to count: with fewer, those before a site
/// is rewritten decide.
const MANY_CALLS: f64 = 100_000.0;

/// Returns the number of calls and the share that trapped, of the last line of `--stats`: the time
/// in percent, in ns, and of a call, the calls, the errors, and the traps in percent.
fn totals(report: &str) -> Option<(f64, f64)> {
    let words: Vec<&str> = report.lines().last()?.split_whitespace().collect();
    let [_, _, _, calls, _, trapped, "total"] = words[..] else {
        return None;
    };
    Some((calls.parse().ok()?, trapped.parse::<f64>().ok()? / 100.0))
}

/// Makes the figure of a bound from the rows of its program.
fn figure(bound: Bound, [ours, host]: &[Row; 2]) -> Figure {
    match bound {
        Bound::TimesFaster(key) => Figure::of_ratio(key, &host.ns.over(&ours.ns)),
        Bound::TimesSlower(key) => Figure::of_ratio(key, &ours.ns.over(&host.ns)),
        Bound::Nanoseconds(key) => {
            let [ours, host] = [ours, host].map(|row| row.ns.summary().median);
            Figure::new(key, ours).and(&format!(" the host {}", nanoseconds(host)))
        }
        Bound::MillisecondsMore(key) => {
            let both = ours.ns.rounds().iter().zip(host.ns.rounds());
            let more: Vec<f64> = both.map(|(ours, host)| (ours - host) / 1e6).collect();
            Figure::new(key, median(&more))
        }
    }
}

/// Shows the times of each program, and how many times faster it is on ours.
fn show(pairs: &[[Row; 2]], report: &mut Report) {
    let line = |[ours, host]: &[Row; 2]| {
        let [ours_ns, host_ns] = [ours, host].map(|row| nanoseconds(row.ns.summary().median));
        let faster = host.ns.over(&ours.ns).spread(ratio);
        [ours.program.to_owned(), ours_ns, host_ns, faster]
    };
    let caption = "Nanoseconds of a call or of a process, medians; host ÷ ours in pairs";
    let header = ["", "ours", "host", "host ÷ ours"];
    let table = Table::new(caption, header, pairs.iter().map(line));
    report.tables.push(table);
    let times = Grid::new(
        "programs",
        "Unmodified programs on our kernel, beside the host",
        Axis::log("ns"),
        pairs.iter().map(|pair| (pair[0].program, pair)),
        SIDES.map(|side| (side.name(), side as usize)),
        |side, pair| Some(pair[*side].ns.summary()),
    );
    report.plots.push(times.plot());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(ours: &[f64], host: &[f64]) -> [Row; 2] {
        [(Side::Ours, ours), (Side::Host, host)].map(|(side, rounds)| Row {
            program: "it",
            side: side.name(),
            ns: rounds.to_vec().into(),
        })
    }

    #[test]
    fn the_last_line_of_a_report_has_the_calls_and_their_traps() {
        let report = "% time\n 99.00 5 5 1 0 100.00 brk\n100.00 900 9 200000 3 0.25 total\n";
        assert_eq!(totals(report), Some((200_000.0, 0.0025)));
        assert_eq!(totals("nothing"), None);
    }

    #[test]
    fn a_program_that_takes_half_the_time_is_twice_as_fast() {
        let rows = pair(&[1e6, 2e6, 3e6], &[2e6, 4e6, 6e6]);
        let value = |bound| figure(bound, &rows).value;
        assert_eq!(value(Bound::TimesFaster("run.dd_vs_host")), 2.0);
        assert_eq!(value(Bound::TimesSlower("run.compute_overhead")), 0.5);
        assert_eq!(value(Bound::Nanoseconds("run.call_ns")), 2e6);
        assert_eq!(value(Bound::MillisecondsMore("run.start_ms")), -2.0);
    }
}
