//! A configuration in a process of its own, which measures one turn per request.
//!
//! A request is a line with the row and the length of the turn in microseconds; an answer is a line
//! with nanoseconds. Between its turns the process and all its threads wait for a request.

use std::io::{BufRead, Write, stdin, stdout};
use std::time::Duration;

use anyhow::Context;

use super::configuration::Configuration;
use super::row::Row;
use crate::child::Program;

/// A turn takes milliseconds.
const LIMIT: Duration = Duration::from_secs(60);

/// Serves requests on the standard input until it ends. Blocks.
///
/// # Errors
/// If this process has another memory configuration, or a row fails.
pub(crate) fn serve(configuration: Configuration) -> anyhow::Result<()> {
    let works = configuration.prepare()?;
    for line in stdin().lock().lines() {
        let line = line?;
        let (row, micros) = line.split_once(' ').context("a row and a time")?;
        let (row, micros) = (row.parse()?, micros.parse()?);
        let ns = works.turn(row, Duration::from_micros(micros))?;
        let mut out = stdout().lock();
        writeln!(out, "ns {ns}")?;
        out.flush()?;
    }
    Ok(())
}

/// Runs a row there, and returns the nanoseconds of one operation.
pub(super) fn turn(subject: &mut Program, row: Row, turn: Duration) -> anyhow::Result<f64> {
    let request = format!("{} {}", row.key(), turn.as_micros());
    let answer = subject.ask_numbers(&request, "ns", LIMIT)?;
    let [ns] = answer.with_context(|| format!("{} is not measured", row.name()))?;
    Ok(ns)
}
