//! Misses in a simulated cache, which are the same in each run.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use serde::Serialize;

/// Geometry of a cache: bytes of a line, number of sets, and ways of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Geometry {
    pub(super) sets: usize,
    pub(super) ways: usize,
    pub(super) line: usize,
}

/// First-level cache of most CPUs: 32 KiB.
pub(super) const FIRST: Geometry = Geometry {
    sets: 64,
    ways: 8,
    line: 64,
};

/// Last-level cache of the simulation, which has two levels: 1 MiB.
pub(super) const LAST: Geometry = Geometry {
    sets: 1024,
    ways: 16,
    line: 64,
};

/// Cache misses of a program's data, reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Misses {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Geometry {
    /// Formats it as an option of the tool: size, associativity, line.
    fn option(self, level: &str) -> String {
        let Geometry { sets, ways, line } = self;
        format!("--{level}={},{ways},{line}", sets * ways * line)
    }
}

/// Runs `program` with `arguments` in the simulation. Returns none if the tool is missing. Blocks
/// for a second or so.
///
/// # Errors
/// If the tool or the program fails.
pub(super) fn count(program: &Path, arguments: &[String]) -> anyhow::Result<Option<Misses>> {
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes"])
        .arg("--cachegrind-out-file=/dev/null")
        .args([FIRST.option("I1"), FIRST.option("D1"), LAST.option("LL")])
        .arg(program)
        .args(arguments)
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("starting valgrind"),
    };
    let summary = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("valgrind ended with {}:\n{summary}", output.status);
    }
    let misses =
        parse(&summary).with_context(|| format!("valgrind printed no misses:\n{summary}"))?;
    Ok(Some(misses))
}

/// Finds the misses at the end of the tool's output.
fn parse(summary: &str) -> Option<Misses> {
    Some(Misses {
        first: total(summary, "D1  misses:")?,
        last: total(summary, "LLd misses:")?,
    })
}

/// Finds `==123== NAME    1,234  ( 1,000 rd + 234 wr)`, and returns the first number.
fn total(summary: &str, name: &str) -> Option<u64> {
    let numbers = summary
        .lines()
        .find_map(|line| line.split_once("== ")?.1.strip_prefix(name))?;
    let first = numbers.split_whitespace().next()?;
    first.replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: &str = "\
        ==4242== Cachegrind, a cache and branch-prediction profiler\n\
        ==4242== Command: target/release/fdtable part walk on 1000\n\
        ==4242== \n\
        ==4242== I   refs:      1,284,530\n\
        ==4242== I1  misses:        1,720\n\
        ==4242== LLi misses:        1,650\n\
        ==4242== I1  miss rate:      0.13%\n\
        ==4242== \n\
        ==4242== D   refs:        452,130  (321,002 rd   + 131,128 wr)\n\
        ==4242== D1  misses:      131,204  (130,002 rd   +   1,202 wr)\n\
        ==4242== LLd misses:          998  (    700 rd   +     298 wr)\n\
        ==4242== D1  miss rate:      29.0% (   40.5%     +     0.9%  )\n";

    #[test]
    fn misses_are_read_as_the_tool_writes_them() {
        let misses = Misses {
            first: 131_204,
            last: 998,
        };
        assert_eq!(parse(SUMMARY), Some(misses));
    }

    #[test]
    fn a_summary_without_a_simulation_has_no_misses() {
        // Newer versions count only instructions by default.
        let instructions = "==4242== I refs:        1,284,530\n";
        assert_eq!(parse(instructions), None);
        assert_eq!(parse(&SUMMARY.replace("131,204", "many")), None);
    }

    #[test]
    fn a_geometry_is_found_by_its_size() {
        assert_eq!(FIRST.option("D1"), "--D1=32768,8,64");
        assert_eq!(LAST.option("LL"), "--LL=1048576,16,64");
    }

    #[test]
    fn a_program_that_fails_is_an_error() {
        let counted = count(Path::new("/nonexistent"), &[]);
        assert!(matches!(counted, Ok(None) | Err(_)));
    }
}
