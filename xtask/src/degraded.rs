//! `degraded`: the tests of the library on machines that lack something its fast paths need.
//!
//! The binaries of the tests run again, each behind a command that takes it away. Nothing is built
//! for that. Before the tests, the example `machine` has to print that it is away.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::library::{self, Package};
use crate::process::{self, End, Finished, Process, TestBinary};
use crate::steps::{Verdict, judge_all, sum_up};
use crate::tally::Tally;
use crate::{Result, loom, no_arguments, pool, target};

/// A machine that lacks something.
pub(crate) struct Form {
    pub(crate) name: &'static str,
    /// The words in front of a program. `EXAMPLES` is the directory of the built examples.
    command: &'static str,
    /// Output of the example `machine` there.
    shows: &'static str,
}

/// All forms. `check` runs the first two.
pub(crate) const FORMS: &[Form] = &[
    Form {
        name: "without rseq",
        command: "env GLIBC_TUNABLES=glibc.pthread.rseq=0",
        shows: " no sequences,",
    },
    Form {
        name: "without membarrier",
        command: "EXAMPLES/without_membarrier ENOSYS",
        shows: "fences by fence,",
    },
    Form {
        name: "membarrier refused",
        command: "EXAMPLES/without_membarrier EPERM",
        shows: "fences by fence,",
    },
    Form {
        name: "without rseq and membarrier",
        command: "env GLIBC_TUNABLES=glibc.pthread.rseq=0 EXAMPLES/without_membarrier ENOSYS",
        shows: "fences by fence, no sequences,",
    },
    Form {
        name: "one CPU",
        command: "taskset -c 0",
        shows: "CPUs: 1.",
    },
];

/// How many forms `check` runs.
pub(crate) const SHORT_FORMS: usize = 2;

/// Binaries that `check` leaves out: they take three quarters of the time. Most of their tests are
/// about answers or memory; the threads of the others use what the remaining binaries test.
const LONG: &[&str] = &[
    "table",
    "lowest_judge",
    "memory",
    "out_of_memory",
    "ports",
    "against_host",
];

/// How much of the tests runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Everything.
    Whole,
    /// Not the long binaries, and few cases of each property.
    Short,
}

/// How long the tests of one binary may run: most take seconds, and some a minute.
const LIMIT: Duration = Duration::from_secs(10 * 60);

pub(crate) fn run(arguments: &[String]) -> Result {
    no_arguments(arguments)?;
    in_all_forms(None).map(Verdict::show)
}

/// Runs all tests in all forms, and sums them up.
pub(crate) fn in_all_forms(log: Option<&Path>) -> Result<Verdict> {
    let binaries = build()?;
    judge_all(FORMS.iter().map(|form| {
        println!("{}", form.name);
        let mut tally = Tally::default();
        let verdict = form.test(&binaries, Extent::Whole, log, &mut tally);
        println!("{tally}");
        (form.name, verdict)
    }))
}

/// Builds the tests of the library, and the examples with them.
fn build() -> Result<Vec<TestBinary>> {
    let mut build = Process::cargo("test");
    for package in library::crates()? {
        build = build.args(["-p", &package.name]);
    }
    process::build_tests(build)
}

impl Form {
    /// Runs those of the binaries that are of the library. Prints what a binary has printed that
    /// fails, and which tests say that they are skipped.
    pub(crate) fn test(
        &self,
        binaries: &[TestBinary],
        extent: Extent,
        log: Option<&Path>,
        tally: &mut Tally,
    ) -> Result<Verdict> {
        let machine = self.program(&examples().join("machine"));
        let shown = machine.quiet().finish()?.output;
        if !shown.contains(self.shows) {
            let why = format!("{}: not possible here: {}", self.name, shown.trim_end());
            return Ok(Verdict::Skipped(why));
        }
        let packages = library::crates()?;
        let chosen: Vec<&TestBinary> = binaries
            .iter()
            .filter(|binary| is_chosen(binary, extent, &packages))
            .collect();
        if chosen.is_empty() {
            return Err("there are no tests".into());
        }
        let ended = pool::each(chosen, |binary| {
            let mut process = self.program(&binary.path).directory(&binary.package);
            if extent == Extent::Short {
                process = process.env("PROPTEST_CASES", "8");
            }
            if let Some(log) = log {
                process = process.log(log);
            }
            let line = process.line();
            Ok((line, process.limit(LIMIT).quiet().finish()?))
        })?;
        let mut failed = Vec::new();
        for (line, Finished { end, output }) in ended {
            tally.add(&output);
            for skipped in output.lines().filter(|line| line.contains("skipped: ")) {
                println!("{skipped}");
            }
            if end != End::Success {
                println!("{output}\nFAILED: {line}");
                failed.push(line);
            }
        }
        sum_up(&failed, &[])
    }

    /// A program behind the command.
    fn program(&self, path: &Path) -> Process {
        let examples = examples();
        let examples = examples.to_string_lossy();
        let words = self.command.split_whitespace();
        let mut words = words.map(|word| word.replace("EXAMPLES", &examples));
        let first = words.next().expect("each form has a command");
        Process::new(first).args(words).arg(path)
    }
}

/// The directory in which cargo builds examples.
fn examples() -> PathBuf {
    target().join("debug/examples")
}

fn is_chosen(binary: &TestBinary, extent: Extent, packages: &[Package]) -> bool {
    let is_of = |package: &Package| binary.package == package.folder;
    let is_long = LONG.contains(&loom::stem(&binary.path).as_str());
    packages.iter().any(is_of) && (extent == Extent::Whole || !is_long)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root;

    #[test]
    fn binaries_of_the_library_are_chosen_and_the_long_ones_for_the_whole_alone() {
        let packages = library::crates().unwrap();
        let chosen = |package: &str, name: &str| {
            let binary = TestBinary {
                path: target().join("debug/deps").join(name),
                package: root().join(package),
            };
            [Extent::Whole, Extent::Short].map(|extent| is_chosen(&binary, extent, &packages))
        };
        assert_eq!(chosen("crates/fdtable", "races-0a"), [true, true]);
        assert_eq!(chosen("crates/fdtable", "table-0a"), [true, false]);
        assert_eq!(chosen("kernel/vfs", "fdtable_vfs-0a"), [false, false]);
    }
}
