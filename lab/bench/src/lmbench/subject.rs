//! A configuration in a process of its own, which measures one turn per request.
//!
//! A request is a line with the row and the length of the turn in microseconds; an answer is a line
//! with nanoseconds. Between its turns the process and all its threads wait for a request.

use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};

use super::configuration::Configuration;
use super::row::Row;

/// Internal command of the program that serves. Only the program itself uses it.
pub const COMMAND: &str = "lmbench-subject";

/// Serves requests on the standard input until it ends. Blocks.
///
/// # Errors
/// If this process has another memory configuration, or a row fails.
pub fn serve(configuration: Configuration) -> anyhow::Result<()> {
    let works = configuration.prepare()?;
    for line in stdin().lock().lines() {
        let line = line?;
        let (row, micros) = line.split_once(' ').context("a row and a time")?;
        let (row, micros) = (row.parse()?, micros.parse()?);
        let ns = works.turn(row, Duration::from_micros(micros))?;
        let mut out = stdout().lock();
        writeln!(out, "{ns}")?;
        out.flush()?;
    }
    Ok(())
}

/// The process of a configuration. It ends when this is dropped.
pub(super) struct Subject {
    configuration: Configuration,
    process: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Subject {
    /// Starts the process.
    pub(super) fn begin(program: &Path, configuration: Configuration) -> anyhow::Result<Self> {
        let mut process = Command::new(program)
            .args([COMMAND, &configuration.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let answers = process.stdout.take().context("its output is ours")?;
        Ok(Subject {
            configuration,
            requests: process.stdin.take(),
            answers: BufReader::new(answers),
            process,
        })
    }

    /// Runs a row for a while, and returns nanoseconds.
    pub(super) fn turn(&mut self, row: Row, turn: Duration) -> anyhow::Result<f64> {
        let what = || format!("{}, {}", self.configuration.name(), row.name());
        let requests = self.requests.as_mut().context("it was not ended")?;
        writeln!(requests, "{} {}", row.key(), turn.as_micros()).with_context(what)?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).with_context(what)?;
        let ns: f64 = answer.trim().parse().with_context(what)?;
        ensure!(ns.is_finite(), "{}: a call failed", what());
        Ok(ns)
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // The process ends when its input ends.
        self.requests = None;
        if self.process.wait().is_err() {
            let _ = self.process.kill();
        }
    }
}
