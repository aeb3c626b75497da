//! The program `fdtable`: runs the experiments and prints their tables.

#![forbid(unsafe_code)]

use clap::Parser;
use fdtable_bench::lmbench::subject;

mod arguments;
mod bench;
mod conflicts;
mod observing;
mod progress;
mod run;
mod time_left;

use arguments::{Arguments, Command};

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command.unwrap_or_default() {
        Command::Bench(chosen) => bench::run(&chosen),
        Command::Conflicts(chosen) => conflicts::run(&chosen),
        Command::Run(chosen) => run::run(chosen),
        Command::Part(chosen) => {
            print!("{}", chosen.run()?);
            Ok(())
        }
        Command::LmbenchSubject { configuration } => subject::serve(configuration),
    }
}
