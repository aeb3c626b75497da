//! The program `fdtable`: runs the experiments and prints their tables.

#![forbid(unsafe_code)]

use clap::Parser;

mod arguments;
mod bench;
mod progress;

use arguments::{Arguments, Command};

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command.unwrap_or_default() {
        Command::Bench(chosen) => bench::run(&chosen),
    }
}
