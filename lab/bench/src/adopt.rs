//! `adopt`: what a newcomer waits for, and what a table adds to a program.
//!
//! *The first command.* A fresh clone of the commit that is checked out is built, and run, as the
//! README says: seconds, and lines on the screen.
//!
//! *A crate of one's own.* `cargo add` adds the table to an empty crate, whose program is the first
//! one of the README. It is built from nothing as a release, with the versions of our lock file.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::Context;
use nix::sys::resource::UsageWho;
use serde::Serialize;
use serde_json::json;

use crate::child::output;
use crate::experiment::{Effort, Experiment, Progress};
use crate::machine::Machine;
use crate::report::Report;
use crate::usage::Usage;

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The document with the program.
const README: &str = include_str!("../../../README.md");

/// Experiment that builds what a newcomer builds.
#[derive(Clone, Debug, Serialize)]
pub struct Adopt {
    /// True to run the first command too, which takes minutes.
    pub first_command: bool,
}

impl Adopt {
    /// Returns the configuration for one of the two lengths of a run.
    pub fn new(effort: Effort) -> Self {
        Adopt {
            first_command: effort.pick(false, true),
        }
    }
}

impl Experiment for Adopt {
    fn name(&self) -> &'static str {
        "adopt"
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        let folder = tempfile::tempdir()?;
        progress.begin("adopt", 1 + u64::from(self.first_command));
        let title = "the first run, and a crate of one's own";
        let rows: [(); 0] = [];
        let mut report = Report::new(self, title, json!(self), &rows, machine)?;
        if self.first_command {
            first_command(folder.path(), &mut report)?;
            progress.step();
        }
        crate_of_ones_own(folder.path(), &mut report)?;
        progress.step();
        Ok(report)
    }
}

fn first_command(folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let clone = folder.join("clone");
    run("git clone --quiet .", Path::new(ROOT), Some(&clone))?;
    let began = Instant::now();
    // The program that `cargo run` builds.
    run("cargo build --release --bin fdtable", &clone, None)?;
    let built = began.elapsed();
    let screen = run("cargo run --release", &clone, None)?;
    let ran = began.elapsed() - built;
    report.figure("adopt.build_s", Some(built.as_secs_f64()));
    report.figure("adopt.run_s", Some(ran.as_secs_f64()));
    report.figure("adopt.screen_lines", Some(screen.lines().count() as f64));
    Ok(())
}

fn crate_of_ones_own(folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let own = folder.join("own");
    run("cargo init --quiet --vcs none", folder, Some(&own))?;
    let root = Path::new(ROOT);
    let library = root.join("crates/fdtable");
    run("cargo add --quiet --path", &own, Some(&library))?;
    fs::copy(root.join("Cargo.lock"), own.join("Cargo.lock"))?;
    let program = README.split("```").nth(1);
    let program = program.and_then(|block| block.strip_prefix("rust\n"));
    fs::write(own.join("src/main.rs"), program.context("no program")?)?;
    let tree = run("cargo tree --prefix none --no-dedupe", &own, None)?;
    let mut packages: Vec<&str> = tree.lines().collect();
    packages.sort_unstable();
    packages.dedup();
    let before = Usage::of(UsageWho::RUSAGE_CHILDREN)?;
    let build = "cargo build --quiet --release --config profile.release.strip=true";
    run(build, &own, None)?;
    let used = Usage::of(UsageWho::RUSAGE_CHILDREN)?.since(&before);
    let seconds = (used.user + used.system).as_secs_f64();
    let bytes = fs::metadata(own.join("target/release/own"))?.len();
    // The crate itself is among them.
    report.figure("adopt.dependencies", Some((packages.len() - 1) as f64));
    report.figure("adopt.cold_build_cpu_s", Some(seconds));
    report.figure("adopt.program_kb", Some(bytes as f64 / 1e3));
    Ok(())
}

/// Runs a command line, with a path at its end, and returns what it has printed.
fn run(line: &str, folder: &Path, path: Option<&Path>) -> anyhow::Result<String> {
    let mut words = line.split(' ').chain(path.and_then(Path::to_str));
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).current_dir(folder);
    // A newcomer's shell has none of these.
    for variable in ["CARGO_TARGET_DIR", "RUSTFLAGS"] {
        command.env_remove(variable);
    }
    output(&mut command)?.with_context(|| format!("{line}: not installed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Silent, run};

    #[test]
    fn a_crate_of_ones_own_has_its_figures() {
        let adopt = Adopt {
            first_command: false,
        };
        let report = run(&adopt, &Silent).expect("the program of the README builds");
        let value = |key| report.headline.iter().find(|figure| figure.key == key);
        let value = |key| value(key).map_or(f64::NAN, |figure| figure.value);
        assert!((5.0..=12.0).contains(&value("adopt.dependencies")));
        assert!((100.0..=1000.0).contains(&value("adopt.program_kb")));
        assert!(value("adopt.cold_build_cpu_s") > 0.0);
    }
}
