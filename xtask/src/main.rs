//! The chores of this repository, each a command of `cargo xtask`.
//!
//! A command is a function that takes its arguments; [`COMMANDS`] is the table of all. Programs are
//! started through [`process`], and what consists of several steps runs them through [`steps`].

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod budget;
mod check;
mod cost;
mod degraded;
mod document;
mod figures;
mod foreign;
mod full;
mod instructions;
mod kernel;
mod layers;
mod library;
mod listed;
mod loom;
mod mutate;
mod package;
mod platform;
mod pool;
mod process;
mod programs;
mod source;
mod steps;
mod tally;
mod tidy;
mod toolchain;

/// The result of a chore; the error says what failed, for a person to read.
type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// One subcommand.
struct Command {
    name: &'static str,
    /// The arguments, as the usage line shows them.
    arguments: &'static str,
    /// Its effect, in a line.
    summary: &'static str,
    run: fn(&[String]) -> Result,
}

macro_rules! commands {
    ($($name:literal $arguments:literal $run:path: $summary:literal,)+) => {
        &[$(Command {
            name: $name,
            arguments: $arguments,
            summary: $summary,
            run: $run,
        },)+]
    };
}

/// All subcommands, in the order in which the help lists them.
const COMMANDS: &[Command] = commands! {
    "budget" "" budget::run:
        "count the code, and compare it with the budgets",
    "check" "" check::run:
        "run everything that continuous integration runs",
    "cost" "[--write | --show OPERATION OPEN]" cost::run:
        "count instructions and cache lines of operations, against the budgets",
    "degraded" "" degraded::run:
        "test the library without rseq, without membarrier, and on one CPU",
    "figures" "" figures::run:
        "write the figures of the run in docs/figures.md into the other documents",
    "full" "[--list | --only STEP...]" full::run:
        "run the checks that take hours",
    "instructions" "[--write]" instructions::run:
        "count the instructions of operations on each architecture, under QEMU",
    "kernel" "[--cpus N] [--debug] | --c" kernel::run:
        "boot the example kernel in QEMU, with 4 CPUs, or the one in C",
    "layers" "" layers::run:
        "check that `unsafe` and memory orderings stay in the lowest layer",
    "loom" "[NAME] [--preemptions N]" loom::run:
        "explore all models, or those whose path contains NAME",
    "mutate" "[--list] [WORD]" mutate::mutate:
        "weaken each ordering and fence: a model must fail",
    "package" "" package::run:
        "make the archives that are published, and build a program on them",
    "platform" "[--write]" platform::run:
        "time the library on the hooks of a platform, beside `std`",
    "programs" "[NAME [ARGUMENTS]]" programs::run:
        "run programs that others wrote on fdtable",
    "tidy" "" tidy::run:
        "check the style of comments, documents and commit subjects",
};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        eprint!("xtask: no command is called {name}\n\n{}", usage());
        return ExitCode::from(2);
    };
    match (command.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> String {
    let mut text = String::from("usage: cargo xtask COMMAND [ARGUMENTS]\n\n");
    for command in COMMANDS {
        let call = format!("{} {}", command.name, command.arguments);
        writeln!(text, "  {call:<34} {}", command.summary).expect("a string takes any text");
    }
    text
}

/// Fails with these lines, if there are any.
fn fail_with(lines: &[String]) -> Result {
    match lines {
        [] => Ok(()),
        lines => Err(lines.join("\n").into()),
    }
}

/// Returns true for the one argument `--write`, and false for none.
fn writes(arguments: &[String]) -> Result<bool> {
    match arguments {
        [] => Ok(false),
        [flag] if flag == "--write" => Ok(true),
        _ => Err("it takes --write, or nothing".into()),
    }
}

/// Fails if a command that takes no arguments is given one.
fn no_arguments(arguments: &[String]) -> Result {
    match arguments.first() {
        None => Ok(()),
        Some(argument) => Err(format!("it takes no arguments, but was given {argument}").into()),
    }
}

/// The root of the workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this crate is a directory of the root")
}

/// The directory of what cargo builds.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |path| root().join(path))
}
