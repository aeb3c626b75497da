//! `check`: everything that must hold before a change lands, in the order in which it fails
//! soonest. Continuous integration runs it.

use std::fs;
use std::thread;
use std::time::Instant;

use crate::degraded::{self, Extent};
use crate::library::Package;
use crate::loom::{self, Exploration};
use crate::process::{self, End, Process, TestBinary};
use crate::steps::{AfterFailure, Steps, Verdict};
use crate::tally::Tally;
use crate::{
    Result, budget, cost, figures, kernel, layers, library, no_arguments, package, pool, source,
    target, tidy, toolchain,
};

pub(crate) fn run(arguments: &[String]) -> Result {
    no_arguments(arguments)?;
    let mut steps = Steps::new(AfterFailure::Stop);
    steps.step("format", || {
        Process::cargo("fmt").words("--all --check").run()?;
        let of_kernel = "--manifest-path examples/kernel/Cargo.toml --check";
        Process::cargo("fmt").words(of_kernel).run()
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
    steps.step("documents have the figures of one run", figures::check)?;
    steps.step("budgets: lines, conditions, long files", budget::check)?;
    steps.step("the tests build the library as its users do", same_features)?;
    steps.step("lints", lints)?;
    steps.step("documentation", documentation)?;
    // The tests wait for much of their time. All that follows runs whatever fails in it.
    let others = thread::spawn(beside_the_tests);
    let mut tally = Tally::default();
    let mut lane = Steps::lane();
    let mut binaries = Vec::new();
    lane.step("build of the tests", || {
        binaries = process::build_tests(tests(WITHOUT_EXPERIMENTS))?;
        Ok(())
    })?;
    lane.step("tests", || run_tests(&mut binaries, &mut tally))?;
    for form in &degraded::FORMS[..degraded::SHORT_FORMS] {
        lane.judge(&format!("tests of the library, {}", form.name), || {
            form.test(&binaries, Extent::Short, None, &mut tally)
        })?;
    }
    lane.step("the program, quickly", || {
        // The tests have built it. `cargo run` would build it once more, with other features of
        // its dependencies.
        Process::new(target().join("debug/fdtable"))
            .arg("--version")
            .run()
    })?;
    // After the tests: it puts another library in the place of theirs.
    lane.step("misuses of the table for C, with checks", || {
        run_quietly(tests(&with_checks()), &mut tally)
    })?;
    let (others, tests_of_others) = others.join().map_err(|_| "a check panicked")??;
    tally += tests_of_others;
    for lane in [lane, others] {
        steps.merge(lane, |_| None);
    }
    print!("{}", steps.table());
    let end = steps.finish();
    if let Err(error) = &end {
        eprintln!("xtask check: {error}");
    }
    // The last line, whatever has happened: others read it.
    println!("\n{tally}");
    if end.is_err() || tally.failed > 0 || tally.passed == 0 {
        std::process::exit(1);
    }
    Ok(())
}

/// Runs what has a build of its own, or few tests. It prints no more than its steps unless one
/// fails.
fn beside_the_tests() -> Result<(Steps, Tally)> {
    let mut steps = Steps::lane();
    let mut tally = Tally::default();
    steps.judge("the archives, and a program on them", package::check)?;
    steps.judge("models", models)?;
    steps.judge("budgets: instructions and cache lines", cost::check)?;
    steps.judge("the example kernel, with 4 CPUs", || {
        kernel::boot(4, "release")
    })?;
    steps.judge("the example kernel in C", kernel::boot_in_c)?;
    for features in FEATURES {
        steps.step(&format!("tests of {features}"), || {
            run_quietly(tests(features), &mut tally)
        })?;
    }
    // The lowest crate, which is what calls the C library. The long checks run all tests.
    steps.judge(&format!("units for {MUSL}"), || {
        test_for_musl("-p fdtable-sync --lib", &mut tally)
    })?;
    Ok((steps, tally))
}

/// Builds and tests with another C library what the words for cargo name, where the target is
/// installed.
pub(crate) fn test_for_musl(what: &str, tally: &mut Tally) -> Result<Verdict> {
    if !toolchain::is_installed(MUSL) {
        return Ok(Verdict::Skipped(format!(
            "the target is not installed (rustup target add {MUSL})"
        )));
    }
    run_quietly(tests(what).args(["--target", MUSL]), tally)?;
    Ok(Verdict::Passed)
}

/// Runs the binaries of tests and those in the documentation, as many at a time as there are CPUs:
/// most binaries have few tests, or some that wait. Prints what each has printed when it ends.
fn run_tests(binaries: &mut [TestBinary], tally: &mut Tally) -> Result {
    if binaries.is_empty() {
        return Err("there are no tests".into());
    }
    let place = |binary: &TestBinary| {
        let name = loom::stem(&binary.path);
        let of_long = LONGEST.iter().position(|&long| name == long);
        of_long.unwrap_or(LONGEST.len())
    };
    binaries.sort_by_key(place);
    let of_binaries = binaries.iter().map(|binary| {
        let name = source::shown(&binary.path);
        (name, Process::new(&binary.path).directory(&binary.package))
    });
    let documentation = tests(WITHOUT_EXPERIMENTS).arg("--doc");
    let of_documentation = ("documentation".to_owned(), documentation);
    let ended = pool::each(of_binaries.chain([of_documentation]), |(name, process)| {
        let start = Instant::now();
        let finished = process.quiet().finish()?;
        let seconds = start.elapsed().as_secs_f64();
        // One print: another thread prints too.
        println!("\n{name}, {seconds:.1} s:\n{}", finished.output);
        Ok((name, finished))
    })?;
    let mut failed = Vec::new();
    for (name, finished) in ended {
        tally.add(&finished.output);
        if finished.end != End::Success {
            failed.push(name);
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("tests fail: {}", failed.join(", ")).into())
    }
}

/// The binaries of tests that take longest, which start first: none of them runs alone at the end.
const LONGEST: &[&str] = &[
    "run",
    "posix",
    "c_programs",
    "table",
    "lowest_judge",
    "experiments",
];

/// Explores the models to their own bounds, but for the long ones.
fn models() -> Result<Verdict> {
    let log = target().join("models.log");
    // A log that an earlier run has left.
    let _ = fs::remove_file(&log);
    let exploration = Exploration {
        log: Some(log.clone()),
        is_short: true,
        ..Exploration::default()
    };
    exploration.explore().inspect_err(|_| {
        print!("{}", fs::read_to_string(&log).unwrap_or_default());
    })
}

/// Runs tests, and prints what they have printed if one fails.
fn run_quietly(tests: Process, tally: &mut Tally) -> Result {
    let finished = tests.quiet().finish()?;
    tally.add(&finished.output);
    match finished.end {
        End::Success => Ok(()),
        _ => {
            print!("{}", finished.output);
            Err("cargo test failed".into())
        }
    }
}

/// The default members without the experiments, which take a fifth of the time of the build and
/// are linted here. The long checks test them.
const WITHOUT_EXPERIMENTS: &str = "--workspace --exclude fdtable-bench --exclude fdtable-hooks \
    --exclude xtask --no-default-features --features \
    fdtable-sync/default,fdtable-slab/default,fdtable-objects/default,fdtable/default,\
    fdtable-listing/default,fdtable-interests/default,fdtable-capi/default";

/// The C programs that use the table, on a library that checks its caller. With the features of the
/// other tests, only this library is built again.
fn with_checks() -> String {
    let programs = "misuse:: operations::a_table freed::objects_are_freed";
    format!("{WITHOUT_EXPERIMENTS},fdtable-capi/debug --test c_programs -- {programs}")
}

/// Its C library registers no area for restartable sequences, and counts CPUs in another way.
const MUSL: &str = "x86_64-unknown-linux-musl";

/// The crates of the library, and the memory that processes of the kernel share.
pub(crate) const LIBRARY: &str = "-p fdtable-shm -p fdtable-sync -p fdtable-slab -p fdtable-objects \
                       -p fdtable -p fdtable-listing -p fdtable-interests";

/// Checks that the tests build each crate of the library with the features that it has where cargo
/// builds it alone. The members of a workspace that are built together share their features.
fn same_features() -> Result {
    let features = |what: &str, package: &str| -> Result<String> {
        let tree = Process::cargo("tree")
            .words("--locked --prefix none --format {p}|{f}")
            .words(what)
            .read()?;
        let of_package = |line: &&str| line.split(' ').next() == Some(package);
        let line = tree.lines().filter(of_package).find_map(|line| {
            let features = line.split_once('|')?.1.trim_end_matches(" (*)");
            Some(features.trim_start_matches("default,").to_owned())
        });
        line.ok_or_else(|| format!("{package} is not in the tree").into())
    };
    for Package { name, .. } in library::crates()? {
        let alone = features(&format!("-p {name}"), &name)?;
        let together = features(WITHOUT_EXPERIMENTS, &name)?;
        if alone != together {
            return Err(format!("{name} has {alone} alone, and {together} in the tests").into());
        }
    }
    Ok(())
}

/// Tests beside those of the default members, and of what is chosen when the table is built.
const FEATURES: &[&str] = &[
    // Not a default member of the workspace.
    "-p xtask",
    "-p fdtable-listing --features serde --test listing_serialized",
    // On the hooks of a platform, without `std`. The long checks run the tests of tables too.
    "-p fdtable-hooks --test hooks --test shortage --test sequences --test races --test linearizable",
    "-p fdtable-hooks --no-default-features --test alone",
];

fn lints() -> Result {
    for what in [
        "--workspace --all-targets --features fdtable-cli/experiments",
        // The program of a first run.
        "-p fdtable-cli --all-targets",
        "-p fdtable-slab -p fdtable-listing --all-features --all-targets",
        // With checks of its caller. Of the workspace, because that has checked what is below.
        "--workspace --features fdtable-capi/debug --test c_programs",
        // The feature adds a file and changes no other.
        "-p fdtable-listing --no-default-features --features serde",
        // On the hooks of a platform, without `std`, and without either.
        "-p fdtable-hooks --all-targets",
        "-p fdtable --no-default-features --features slab",
        "-p fdtable-interests --no-default-features",
        // The table for C in a kernel, which has no unwinding.
        "-p fdtable-capi --no-default-features --features kernel --profile freestanding",
    ] {
        Process::cargo("clippy")
            .words(what)
            .words("-- -D warnings")
            .run()?;
    }
    kernel::lint()
}

fn documentation() -> Result {
    let doc = Process::cargo("doc").words(
        "--workspace --no-deps --quiet --features fdtable-listing/serde,fdtable-cli/experiments",
    );
    doc.env("RUSTDOCFLAGS", "-D warnings").run()
}

fn tests(what: &str) -> Process {
    Process::cargo("test").words("--no-fail-fast").words(what)
}
