//! `check`: everything that must hold before a change lands, in the order in which it fails
//! soonest. Continuous integration runs it.

use std::thread;

use crate::loom::Exploration;
use crate::process::{End, Finished, Process};
use crate::steps::{AfterFailure, Steps, Verdict};
use crate::tally::Tally;
use crate::toolchain::check_oldest;
use crate::{Result, layers, no_arguments, target, tidy};

pub(crate) fn run(arguments: &[String]) -> Result {
    no_arguments(arguments)?;
    let mut steps = Steps::new(AfterFailure::Stop);
    steps.step("format", || {
        Process::cargo("fmt").words("--all --check").run()
    })?;
    steps.step("the lock file has every dependency", || {
        let metadata = Process::cargo("metadata").words("--locked --format-version 1");
        metadata.read().map(drop)
    })?;
    steps.step(
        "layers: no unsafe and no ordering above the lowest crates",
        layers::check,
    )?;
    steps.step("style: comments, documents, subjects", tidy::check)?;
    steps.step("lints", lints)?;
    steps.judge("the library with its oldest Rust", || check_oldest(None))?;
    steps.step("documentation", documentation)?;
    steps.judge("models", || Exploration::default().explore())?;
    // The check has a build of its own and one thread; the tests wait for much of their time.
    let beside = thread::spawn(|| Beside {
        conflicts: conflicts().finish(),
        features: FEATURES
            .iter()
            .map(|features| tests(features).quiet().finish())
            .collect(),
    });

    let mut tally = Tally::default();
    // The counts of the tests that ran are printed also where some of them have failed.
    let tested = steps.judge("tests, beside conflicts and tests of features", || {
        count(&mut tally, tests(""))
    });
    let tested = tested.and_then(|()| {
        steps.step("the program, quickly", || {
            // The tests have built it. `cargo run` would build it once more, with other features of
            // its dependencies.
            Process::new(target().join("debug/fdtable"))
                .arg("--version")
                .run()
        })
    });
    let mut conflicts = None;
    let tested = tested.and_then(|()| {
        steps.step("tests of features", || {
            let beside = beside.join().map_err(|_| "a check panicked")?;
            conflicts = Some(beside.conflicts);
            for (features, finished) in FEATURES.iter().zip(beside.features) {
                let finished = finished?;
                tally.add(&finished.output);
                succeeded(&finished, &format!("cargo test {features}"))?;
            }
            Ok(())
        })
    });
    let tested = tested.and_then(|()| {
        steps.step("conflicts: those on the list and no others", || {
            let finished = conflicts.take().ok_or("it did not run")??;
            succeeded(&finished, "the check")
        })
    });
    match &tested {
        Ok(()) => print!("{}", steps.table()),
        Err(error) => eprintln!("xtask check: {error}"),
    }
    // The last line, whatever has happened: others read it.
    println!("\n{tally}");
    if tested.is_err() || tally.failed > 0 || tally.passed == 0 {
        std::process::exit(1);
    }
    Ok(())
}

/// What ran beside the tests, with its output kept.
struct Beside {
    conflicts: Result<Finished>,
    /// In the order of [`FEATURES`].
    features: Vec<Result<Finished>>,
}

fn succeeded(finished: &Finished, what: &str) -> Result {
    match finished.end {
        End::Success => Ok(()),
        _ => Err(format!("{what} failed:\n{}", finished.output).into()),
    }
}

/// Tests beside those of the default members, and of what is chosen when the table is built.
const FEATURES: &[&str] = &[
    // Not a default member of the workspace.
    "-p xtask",
    // Where memory fails, and where it is counted, without slabs.
    "-p fdtable --no-default-features --features std --test out_of_memory --test memory",
    "-p fdtable --no-default-features --features std --test table -- fork::",
    // Every block between red zones, and poisoned when it is free.
    "-p fdtable -p fdtable-slab --features fdtable-slab/debug --test table -- superblock:: against_oracle::",
    "-p fdtable-listing --features serde --test listing_serialized",
];

fn lints() -> Result {
    for what in [
        "--workspace --all-targets",
        "-p fdtable-slab -p fdtable-listing --all-features --all-targets",
        // The feature adds a file and changes no other.
        "-p fdtable-listing --no-default-features --features serde",
    ] {
        Process::cargo("clippy")
            .words(what)
            .words("-- -D warnings")
            .run()?;
    }
    // Without the features of dependencies that only tests ask for.
    Process::cargo("check").words("-p fdtable-cli").run()
}

fn documentation() -> Result {
    let doc = Process::cargo("doc")
        .words("--workspace --no-deps --quiet --features fdtable-listing/serde");
    doc.env("RUSTDOCFLAGS", "-D warnings").run()
}

/// Checks the conflicts of our code, optimized, in a small program.
fn conflicts() -> Process {
    let run = Process::cargo("run").words("--profile conflicts --quiet -p fdtable-bench");
    run.words("--no-default-features --example check_conflicts")
        .quiet()
}

fn tests(what: &str) -> Process {
    Process::cargo("test").words("--no-fail-fast").words(what)
}

/// Runs tests, and adds their counts.
fn count(tally: &mut Tally, tests: Process) -> Result<Verdict> {
    let line = tests.line();
    let finished = tests.finish()?;
    tally.add(&finished.output);
    match finished.end {
        End::Success => Ok(Verdict::Passed),
        _ => Err(format!("{line} failed").into()),
    }
}
