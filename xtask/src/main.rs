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

/// All subcommands, in the order in which the help lists them.
const COMMANDS: &[Command] = &[
    Command {
        name: "budget",
        arguments: "",
        summary: "count the code, and compare it with the budgets",
        run: budget::run,
    },
    Command {
        name: "check",
        arguments: "",
        summary: "run everything that continuous integration runs",
        run: check::run,
    },
    Command {
        name: "cost",
        arguments: "[--write | --show OPERATION OPEN]",
        summary: "count instructions and cache lines of operations, against the budgets",
        run: cost::run,
    },
    Command {
        name: "degraded",
        arguments: "",
        summary: "test the library without rseq, without membarrier, and on one CPU",
        run: degraded::run,
    },
    Command {
        name: "figures",
        arguments: "",
        summary: "write the figures of the run in docs/figures.md into the other documents",
        run: figures::run,
    },
    Command {
        name: "full",
        arguments: "[--list | --only STEP...]",
        summary: "run the checks that take hours",
        run: full::run,
    },
    Command {
        name: "instructions",
        arguments: "[--write]",
        summary: "count the instructions of operations on each architecture, under QEMU",
        run: instructions::run,
    },
    Command {
        name: "kernel",
        arguments: "[--cpus N] [--debug] | --c",
        summary: "boot the example kernel in QEMU, with 4 CPUs, or the one in C",
        run: kernel::run,
    },
    Command {
        name: "layers",
        arguments: "",
        summary: "check that `unsafe` and memory orderings stay in the lowest layer",
        run: layers::run,
    },
    Command {
        name: "loom",
        arguments: "[NAME] [--preemptions N]",
        summary: "explore all models, or those whose path contains NAME",
        run: loom::run,
    },
    Command {
        name: "mutate",
        arguments: "[--list] [WORD]",
        summary: "weaken each ordering and fence: a model must fail",
        run: mutate::mutate,
    },
    Command {
        name: "package",
        arguments: "",
        summary: "make the archives that are published, and build a program on them",
        run: package::run,
    },
    Command {
        name: "platform",
        arguments: "[--write]",
        summary: "time the library on the hooks of a platform, beside `std`",
        run: platform::run,
    },
    Command {
        name: "programs",
        arguments: "[NAME [ARGUMENTS]]",
        summary: "run programs that others wrote on fdtable",
        run: programs::run,
    },
    Command {
        name: "tidy",
        arguments: "[--lower | --list [PART]]",
        summary: "check the style of comments, documents and commit subjects",
        run: tidy::run,
    },
];

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
