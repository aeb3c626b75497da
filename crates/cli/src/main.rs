//! The program `fdtable`: runs the experiments and prints their tables.

#![forbid(unsafe_code)]

use clap::Parser;
use fdtable_bench::slab::part;

mod arguments;
mod bench;
mod progress;

use arguments::{Arguments, Command};

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command.unwrap_or_default() {
        Command::Bench(chosen) => bench::run(&chosen),
        Command::Part(chosen) => {
            print!("{}", part::Part::from(chosen).run()?);
            Ok(())
        }
    }
}
