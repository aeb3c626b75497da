//! `full`: the checks that take long, in one run of hours.
//!
//! Each step is run, also after one that fails. There are two lanes, as most steps use one CPU: the
//! models, and then what is built for other targets; and beside them all other steps, of which the
//! first lane takes some when its own are done. The output of a step goes to
//! `target/full/STEP.log`; a table of all steps with their times comes at the end.
//!
//! The two longest steps build in different directories of the target, the models in `loom/loom`
//! and the mutations in `loom/release`, so neither waits for cargo's lock of the other. Two steps
//! that build in one directory wait for each other's builds alone, not for the tests.

use std::fs;
use std::iter;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use crate::loom::Exploration;
use crate::process::{End, Process};
use crate::steps::{Steps, Verdict, judge_all, sum_up};
use crate::tally::Tally;
use crate::toolchain::{self, is_installed};
use crate::{
    Result, check, degraded, foreign, instructions, library, listed, package, programs, root,
    source,
};

/// The list of all steps.
const LIST: &str = include_str!("../full-steps.txt");

struct Step {
    name: &'static str,
    summary: &'static str,
    commands: Vec<&'static str>,
    /// Runs it instead of commands.
    function: Option<fn() -> Result<Verdict>>,
}

/// The steps that run beside all others.
const BESIDE: &[&str] = &[
    "models",
    "kernel",
    "bare-metal",
    "targets",
    "musl",
    "foreign",
];

fn steps() -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in LIST.lines() {
        if let (Some(command), Some(step)) = (line.strip_prefix("    "), steps.last_mut()) {
            step.commands.push(command);
        } else if let Some((name, summary)) =
            line.split_once(": ").filter(|_| !line.starts_with('#'))
        {
            steps.push(Step {
                name,
                summary,
                commands: Vec::new(),
                function: function(name),
            });
        }
    }
    steps
}

fn function(step: &str) -> Option<fn() -> Result<Verdict>> {
    Some(match step {
        "models" => models,
        "leaks" => leaks,
        "kernel" => kernel,
        "bare-metal" => bare_metal,
        "targets" => targets,
        "musl" => musl,
        "degraded" => degraded,
        "foreign" => foreign,
        "package" => package::check,
        "programs" => others,
        _ => return None,
    })
}

impl Step {
    fn run(&self) -> Result<Verdict> {
        match self.function {
            Some(function) => function(),
            None => all(self.commands.iter().map(|line| self.command(line))),
        }
    }

    /// A command of the list: variables, `cargo`, and its words.
    fn command(&self, line: &str) -> Process {
        let (variables, words) = line.split_once("cargo ").unwrap_or(("", line));
        let variables = variables.split_whitespace();
        let variables = variables.filter_map(|word| word.split_once('='));
        variables.fold(cargo(self.name, words), |process, (name, value)| {
            process.env(name, value)
        })
    }
}

/// The deeper bound of preemptions.
const PREEMPTIONS: u32 = 4;
const LIMIT_OF_A_MODEL: Duration = Duration::from_secs(10 * 60);
const LIMIT_OF_ALL_MODELS: Duration = Duration::from_secs(60 * 60);

/// Targets for builds without `std`: the host, and one without an operating system of each
/// architecture that the table knows.
const BARE_METAL: &[&str] = &[
    "x86_64-unknown-linux-gnu",
    "x86_64-unknown-none",
    "aarch64-unknown-none",
    "riscv64gc-unknown-none-elf",
];

/// Targets with `std`: other systems, and other architectures of Linux.
const TARGETS: &[&str] = &[
    "aarch64-apple-darwin",
    "x86_64-pc-windows-msvc",
    "wasm32-unknown-unknown",
    "i686-unknown-linux-gnu",
    "armv7-unknown-linux-gnueabihf",
    "aarch64-unknown-linux-gnu",
    "riscv64gc-unknown-linux-gnu",
];

/// Tests that leak on purpose.
const LEAKING: &str = "xtask/leaking-tests.txt";

pub(crate) fn run(arguments: &[String]) -> Result {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let chosen = match &words[..] {
        ["--list"] => {
            for step in steps() {
                println!("{:<14} {}", step.name, step.summary);
            }
            return Ok(());
        }
        _ => chosen(&words)?,
    };
    fs::create_dir_all(root().join("target/full"))?;
    for step in &chosen {
        let log = log_of(step.name);
        if log.exists() {
            fs::remove_file(&log)?;
        }
    }
    let steps = run_lanes(&chosen.iter().collect::<Vec<_>>())?;
    print!("{}", steps.table());
    steps.finish()
}

/// Runs steps in their lanes, and returns all of them in the order of the table.
fn run_lanes(steps: &[&Step]) -> Result<Steps> {
    let (beside, others): (Vec<&Step>, Vec<&Step>) =
        steps.iter().partition(|step| BESIDE.contains(&step.name));
    let others = Mutex::new(others.into_iter());
    let next = || others.lock().ok()?.next();
    thread::scope(|scope| {
        let beside = scope.spawn(|| run_lane(beside.into_iter().chain(iter::from_fn(next))));
        let others = run_lane(iter::from_fn(next));
        let beside = beside
            .join()
            .map_err(|_| "the lane of the models panicked")?;
        let mut all = others?;
        all.merge(beside?, |name| {
            steps.iter().position(|step| step.name == name)
        });
        Ok(all)
    })
}

/// Runs steps one after the other.
fn run_lane<'a>(lane: impl Iterator<Item = &'a Step>) -> Result<Steps> {
    let mut steps = Steps::lane();
    for step in lane {
        println!(
            "log of {}: {}",
            step.name,
            source::shown(&log_of(step.name))
        );
        steps.judge(step.name, || step.run())?;
    }
    Ok(steps)
}

/// The steps that the arguments ask for, in the order of the table.
fn chosen(words: &[&str]) -> Result<Vec<Step>> {
    let mut steps = steps();
    let mut names = Vec::new();
    for pair in words.chunks(2) {
        let ["--only", name] = pair else {
            return Err("it takes --list, or --only STEP once or more".into());
        };
        if !steps.iter().any(|step| step.name == *name) {
            return Err(format!("no step is called {name}; --list names them").into());
        }
        names.push(*name);
    }
    steps.retain(|step| names.is_empty() || names.contains(&step.name));
    Ok(steps)
}

fn log_of(step: &str) -> PathBuf {
    root().join(format!("target/full/{step}.log"))
}

/// `cargo` with these words, for a step, into its log.
fn cargo(step: &str, words: &str) -> Process {
    Process::new("cargo").words(words).log(log_of(step)).quiet()
}

/// Runs all processes; fails if one does, and names those.
fn all(processes: impl IntoIterator<Item = Process>) -> Result<Verdict> {
    let mut failed = Vec::new();
    for process in processes {
        let line = process.line();
        println!("{line}");
        if process.finish()?.end != End::Success {
            println!("FAILED: {line}");
            failed.push(line);
        }
    }
    sum_up(&failed, &[])
}

/// Explores to their own bounds the models that `check` explores less far, and then all of them
/// deeper, which not all finish.
fn models() -> Result<Verdict> {
    let own_bounds = Exploration {
        only_long: true,
        limit: Some(LIMIT_OF_A_MODEL),
        log: Some(log_of("models")),
        ..Exploration::default()
    };
    let verdict = own_bounds.explore()?;
    if !matches!(verdict, Verdict::Passed) {
        return Ok(verdict);
    }
    let exploration = Exploration {
        preemptions: Some(PREEMPTIONS),
        limit: Some(LIMIT_OF_A_MODEL),
        limit_of_all: Some(LIMIT_OF_ALL_MODELS),
        log: Some(log_of("models")),
        ..Exploration::default()
    };
    exploration.explore()
}

/// The tests of the two lower layers under the sanitizers of addresses and of leaks, which are one
/// on Linux.
///
/// Files and nodes are in the global allocator, of which the sanitizer knows what is given out;
/// slabs would hide a use after free from it.
fn leaks() -> Result<Verdict> {
    let Some(nightly) = toolchain::installed("nightly") else {
        return Ok(Verdict::Skipped("there is no nightly toolchain".to_owned()));
    };
    let sanitized = |leaks: &str| {
        let process = cargo("leaks", &format!("+{nightly} test --no-fail-fast"));
        process
            .words("-p fdtable-sync -p fdtable-objects -p fdtable --no-default-features")
            .words("--features fdtable/std --lib --tests")
            .words("--target x86_64-unknown-linux-gnu")
            .env("RUSTFLAGS", "-Zsanitizer=address")
            .env("RUSTDOCFLAGS", "-Zsanitizer=address")
            .env("ASAN_OPTIONS", format!("detect_leaks={leaks}"))
            .env("CARGO_TARGET_DIR", root().join("target/sanitized"))
            .arg("--")
    };
    let leaking = listed::read(LEAKING)?;
    let skipping = leaking.keys().flat_map(|test| ["--skip", test]);
    all([
        sanitized("1").args(skipping),
        sanitized("0").args(leaking.keys()),
    ])
}

fn kernel() -> Result<Verdict> {
    for (cpus, profile) in [(1, "release"), (2, "release"), (16, "release"), (4, "dev")] {
        match crate::kernel::boot(cpus, profile)? {
            Verdict::Passed => {}
            other => return Ok(other),
        }
    }
    crate::kernel::boot_in_c()
}

fn bare_metal() -> Result<Verdict> {
    let features = "--no-default-features --features fdtable/slab,fdtable-listing/serde";
    let with_platform = format!("{features},fdtable/platform");
    check_for("bare-metal", BARE_METAL, &[features, &with_platform])
}

fn targets() -> Result<Verdict> {
    check_for("targets", TARGETS, &[""])
}

/// Checks the library, without warnings, for those of the targets that are installed.
fn check_for(step: &str, targets: &[&str], features: &[&str]) -> Result<Verdict> {
    let targets = targets.iter().copied();
    let (installed, missing): (Vec<_>, Vec<_>) = targets.partition(|it| is_installed(it));
    println!("installed: {}", installed.join(", "));
    let crates = library::crates()?;
    all(features.iter().map(|features| {
        let names = crates.iter().flat_map(|package| ["-p", &package.name]);
        let targets = installed.iter().flat_map(|target| ["--target", target]);
        let check = cargo(step, "check").args(names).args(targets);
        check
            .words(features)
            .env("RUSTFLAGS", "-D warnings")
            .env("CARGO_TARGET_DIR", root().join("target/targets"))
    }))?;
    let missing = missing
        .iter()
        .map(|target| format!("{target} is not installed"));
    sum_up(&[], &missing.collect::<Vec<_>>())
}

fn musl() -> Result<Verdict> {
    check::test_for_musl(check::LIBRARY, &mut Tally::default())
}

fn degraded() -> Result<Verdict> {
    degraded::in_all_forms(Some(&log_of("degraded")))
}

fn foreign() -> Result<Verdict> {
    let verdict = foreign::run(&log_of("foreign"))?;
    if matches!(verdict, Verdict::Passed) {
        instructions::run(&[])?;
    }
    Ok(verdict)
}

fn others() -> Result<Verdict> {
    judge_all(programs::PROGRAMS.iter().map(|&name| {
        println!("{name}");
        let program = programs::script(name).log(log_of("programs"));
        (name, programs::judge(program.quiet()))
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn steps_are_chosen_by_name_and_keep_their_order() {
        let names = |words: &[&str]| -> Result<Vec<&str>> {
            Ok(chosen(words)?.iter().map(|step| step.name).collect())
        };
        assert_eq!(names(&[]).unwrap().len(), steps().len());
        let two = names(&["--only", "stress", "--only", "models"]).unwrap();
        assert_eq!(two, ["models", "stress"]);
        assert!(names(&["--only", "nothing"]).is_err());
        assert!(names(&["--only"]).is_err());
    }

    #[test]
    fn every_step_has_a_function_or_commands() {
        for step in steps() {
            let has_function = step.function.is_some();
            assert!(has_function == step.commands.is_empty(), "{}", step.name);
        }
        assert!(steps().iter().any(|step| BESIDE.contains(&step.name)));
    }

    #[test]
    fn a_command_has_its_variables() {
        let step = step("it", || Ok(Verdict::Passed));
        let line = "A=1 B=x/y cargo test -p it -- it::";
        assert_eq!(step.command(line).line(), line);
    }

    fn step(name: &'static str, run: fn() -> Result<Verdict>) -> Step {
        Step {
            name,
            summary: "",
            commands: Vec::new(),
            function: Some(run),
        }
    }

    #[test]
    fn the_models_run_beside_the_others_and_fail_the_whole_too() {
        static MEET: Barrier = Barrier::new(2);
        let first = step("first", || {
            MEET.wait();
            Ok(Verdict::Passed)
        });
        let models = step(BESIDE[0], || {
            MEET.wait();
            Err("a model".into())
        });
        let last = step("last", || Err("broken".into()));
        let steps = run_lanes(&[&first, &models, &last]).unwrap();
        let error = steps.finish().unwrap_err().to_string();
        assert_eq!(error, "failed: models, last");
        assert!(steps.table().find("first") < steps.table().find(BESIDE[0]));
    }

    #[test]
    fn a_lane_that_is_done_takes_steps_of_the_other() {
        static MEET: Barrier = Barrier::new(2);
        let meet = || {
            MEET.wait();
            Ok(Verdict::Passed)
        };
        let others = [step("first", meet), step("second", meet)];
        let steps = run_lanes(&[&others[0], &others[1]]).unwrap();
        assert!(steps.finish().is_ok());
    }
}
