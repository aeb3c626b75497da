//! The program `fdtable`: runs programs and the experiments, and prints tables.

#![forbid(unsafe_code)]

use clap::Parser;

mod arguments;
#[cfg(feature = "systems")]
mod bench;
mod check;
#[cfg(feature = "experiments")]
mod conflicts;
mod doctor;
mod observing;
#[cfg(feature = "systems")]
mod progress;
mod run;

use arguments::{Arguments, Command};

fn main() -> anyhow::Result<()> {
    let command = Arguments::try_parse().unwrap_or_else(|error| refuse(&error));
    match command.command {
        #[cfg(feature = "systems")]
        Some(Command::Bench(chosen)) => bench::run(&chosen),
        #[cfg(feature = "experiments")]
        Some(Command::Conflicts(chosen)) => conflicts::run(&chosen),
        Some(Command::Run(chosen)) => run::run(chosen),
        Some(Command::Doctor) => doctor::run(),
        Some(Command::Check(chosen)) => check::run(chosen),
        #[cfg(feature = "systems")]
        Some(Command::Part { part }) => {
            print!("{}", fdtable_bench::part::run(&part)?);
            Ok(())
        }
        #[cfg(feature = "systems")]
        None => bench::first(),
        #[cfg(not(feature = "systems"))]
        None => Ok(<Arguments as clap::CommandFactory>::command().print_help()?),
    }
}

/// Ends the program with help, or with the error of its command line: for `run` and `check` with the
/// exit code of `env(1)`.
fn refuse(error: &clap::Error) -> ! {
    // An error has no receiver.
    let _ = error.print();
    let is_run = std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == "run" || word == "check");
    std::process::exit(match error.exit_code() {
        code if code != 0 && is_run => 125,
        code => code,
    })
}
