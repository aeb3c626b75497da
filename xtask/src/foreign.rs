//! `foreign`, a step of `full`: the library's tests on other architectures, under user-mode QEMU.
//!
//! The step finds code that does not compile elsewhere, sizes and layouts that differ, assembly
//! that is missing or wrong, and errors on the paths of machines without restartable sequences.
//! It does not find an ordering that is too weak: QEMU runs each load and store as one of the host,
//! and an x86 host keeps them in order. The models check the orderings.
//!
//! QEMU gives threads no rseq area, so `getcpu` names the CPU, and the magazines have locks. A
//! child of a process with several threads cannot count on QEMU: it inherits QEMU's own locks, and
//! QEMU aborts when the child starts a thread.
//!
//! The step needs QEMU, a cross linker with its C library, and a compiler with the standard library
//! of the target: installed, or as source, which cargo then builds with the tests. The step
//! installs nothing, and reports what is missing.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::process::{self, End, Process};
use crate::steps::{Verdict, judge_all};
use crate::tally::Tally;
use crate::toolchain::{self, Standard, can_run};
use crate::{Result, fail_with, listed, target};

/// An architecture, and what builds and runs its programs.
pub(crate) struct Machine {
    pub(crate) triple: &'static str,
    pub(crate) qemu: &'static str,
    pub(crate) linker: &'static str,
    /// The directory of the C library, where QEMU looks for shared objects.
    pub(crate) libraries: &'static str,
    /// Debian's packages of all three.
    pub(crate) packages: &'static str,
}

pub(crate) const MACHINES: &[Machine] = &[
    Machine {
        triple: "aarch64-unknown-linux-gnu",
        qemu: "qemu-aarch64",
        linker: "aarch64-linux-gnu-gcc",
        libraries: "/usr/aarch64-linux-gnu",
        packages: "qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    },
    Machine {
        triple: "riscv64gc-unknown-linux-gnu",
        qemu: "qemu-riscv64",
        linker: "riscv64-linux-gnu-gcc",
        libraries: "/usr/riscv64-linux-gnu",
        packages: "qemu-user gcc-riscv64-linux-gnu libc6-dev-riscv64-cross",
    },
];

/// The compilers to try in this order: that of the toolchain that runs this program, and Debian's.
const COMPILERS: &[&str] = &["rustc", "/usr/bin/rustc"];

/// Debian's packages of a compiler and the source of its standard library.
const COMPILER_PACKAGES: &str = "rustc-web rust-web-src";

/// The tests are optimized, since QEMU is slow, and keep the checks of a debug build.
const TESTS: &str = "test --profile ci -p fdtable-sync -p fdtable-slab -p fdtable-objects \
                     -p fdtable --lib --tests";

/// Cases of each property.
const CASES: &str = "32";

/// How long the tests of one binary may run: most take seconds, and some a minute.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Names the command that tests start themselves with.
const RUNNER: &str = "FDTABLE_TEST_RUNNER";

/// Tests that cannot run under QEMU.
const SKIPPED: &str = "xtask/foreign-skipped.txt";

/// A compiler for a target.
pub(crate) struct Compiler {
    path: &'static str,
    standard: Standard,
}

/// Runs the tests on each machine that has what they need.
pub(crate) fn run(log: &Path) -> Result<Verdict> {
    let skipped = listed::read(SKIPPED)?;
    for (test, reason) in &skipped {
        println!("skipped: {test} {reason}");
    }
    judge_all(MACHINES.iter().map(|machine| {
        let verdict = match machine.compiler() {
            Err(packages) => Ok(Verdict::Skipped(format!(
                "{} needs {packages}",
                machine.triple
            ))),
            Ok(compiler) => {
                let tested = machine.test(&compiler, &skipped, log);
                tested.map(|()| Verdict::Passed)
            }
        };
        (machine.triple, verdict)
    }))
}

impl Machine {
    /// Finds a compiler for the machine.
    ///
    /// # Errors
    ///
    /// Returns the packages of Debian with what is missing.
    pub(crate) fn compiler(&self) -> std::result::Result<Compiler, String> {
        let compiler = COMPILERS.iter().find_map(|path| {
            let standard = toolchain::standard_of(path, self.triple)?;
            Some(Compiler { path, standard })
        });
        let has_tools =
            can_run(self.qemu) && can_run(self.linker) && Path::new(self.libraries).is_dir();
        match compiler {
            Some(compiler) if has_tools => Ok(compiler),
            Some(_) => Err(self.packages.to_owned()),
            None if has_tools => Err(format!(
                "{COMPILER_PACKAGES}, or rustup target add {}",
                self.triple
            )),
            None => Err(format!("{} {COMPILER_PACKAGES}", self.packages)),
        }
    }

    /// Builds the tests and runs each binary.
    fn test(&self, compiler: &Compiler, skipped: &BTreeMap<String, String>, log: &Path) -> Result {
        let mut tally = Tally::default();
        let mut left_out = 0;
        let mut failed = Vec::new();
        for binary in process::test_binaries(self.tests(compiler))? {
            let process = self.tests_of(&binary, skipped.keys()).log(log).quiet();
            let line = process.line();
            let finished = process.finish()?;
            tally.add(&finished.output);
            left_out += filtered_out(&finished.output);
            match finished.end {
                End::Success => {}
                End::Failure(status) => failed.push(format!("{line}: {status}")),
                End::TimedOut => failed.push(format!("{line}: not finished in time")),
            }
        }
        println!("{}: {tally}, {left_out} not for QEMU", self.triple);
        let listed = skipped.len();
        if left_out != listed {
            failed.push(format!(
                "of {listed} tests that are skipped, {left_out} exist"
            ));
        }
        fail_with(&failed)
    }

    fn tests(&self, compiler: &Compiler) -> Process {
        let build = self.cargo(compiler, TESTS);
        build.env("CARGO_PROFILE_CI_DEBUG_ASSERTIONS", "true")
    }

    /// Builds for the machine: `cargo` with these words.
    pub(crate) fn cargo(&self, compiler: &Compiler, words: &str) -> Process {
        let linker = format!("CARGO_TARGET_{}_LINKER", name_in_variables(self.triple));
        let build = Process::new("cargo")
            .words(words)
            .args(["--target", self.triple])
            .env("RUSTC", compiler.path)
            .env(&linker, self.linker)
            .env("CARGO_TARGET_DIR", target().join("foreign"));
        match compiler.standard {
            Standard::Installed => build,
            // The unstable option is for nightly compilers, and for those that are told so.
            Standard::Source => build
                .arg("-Zbuild-std=std,panic_unwind,test")
                .env("RUSTC_BOOTSTRAP", "1"),
        }
    }

    /// The tests of a binary that can run under QEMU.
    fn tests_of<'a>(&self, binary: &Path, skipped: impl Iterator<Item = &'a String>) -> Process {
        let skipping = skipped.flat_map(|test| ["--skip", test]);
        Process::new(self.qemu)
            .args(["-L", self.libraries])
            .arg(binary)
            .arg("--exact")
            .args(skipping)
            .env(RUNNER, format!("{} -L {}", self.qemu, self.libraries))
            .env("PROPTEST_CASES", CASES)
            .limit(LIMIT)
    }
}

/// The name of a target in cargo's environment variables.
fn name_in_variables(triple: &str) -> String {
    triple.to_uppercase().replace('-', "_")
}

/// The number of tests that test binaries have left out.
fn filtered_out(output: &str) -> usize {
    let results = output
        .lines()
        .filter(|line| line.starts_with("test result:"));
    let number = |line: &str| -> Option<usize> {
        let (before, _) = line.split_once(" filtered out")?;
        before.rsplit(' ').next()?.parse().ok()
    };
    results.filter_map(number).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_named_in_variables_as_cargo_names_it() {
        assert_eq!(
            name_in_variables("riscv64gc-unknown-linux-gnu"),
            "RISCV64GC_UNKNOWN_LINUX_GNU"
        );
    }

    #[test]
    fn tests_that_are_left_out_are_counted() {
        let output = "test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out; \
                      finished in 0.05s\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; \
                      0 measured; 1 filtered out; finished in 0.05s\n";
        assert_eq!(filtered_out(output), 3);
    }

    #[test]
    fn what_is_missing_is_named() {
        let machine = Machine {
            qemu: "fdtable-no-such-emulator",
            triple: "no-such-target",
            ..MACHINES[0]
        };
        let missing = machine.compiler().err().unwrap();
        assert_eq!(
            missing,
            "qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross rustc-web rust-web-src"
        );
    }
}
