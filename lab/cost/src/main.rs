//! Counts what each operation of a table costs, without a clock: `fdtable-cost` writes a line of
//! counts for each operation and each number of open descriptors, the same on every machine.
//!
//! `fdtable-cost OPERATION COUNT` repeats one operation instead, in a table of [`LIVE`]
//! descriptors: under an emulator, two runs with different counts differ by the instructions of the
//! operation alone. `fdtable-cost --show OPERATION OPEN` lists the accesses of one operation.

mod meter;
mod operation;
mod rival;

use std::io::{self, Write as _};
use std::process::ExitCode;

use meter::{Cost, Meter};
use operation::{OPERATIONS, Operation, Tables};

/// Descriptors that are open where an operation is repeated: not all are in the first leaf.
const LIVE: usize = 1000;
/// How often each operation is traced. Each of its counts is the median.
const SAMPLES: usize = 15;
/// How often it is done before that: no cache of a CPU is empty, and no grace period is due.
const WARM_UP: usize = 200;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [] => trace_all(),
        [name, count] => repeat(name, count),
        [show, name, open] if show == "--show" => show_accesses(name, open),
        _ => Err("usage: fdtable-cost [[--show] OPERATION COUNT]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fdtable-cost: {error}");
            ExitCode::FAILURE
        }
    }
}

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

fn repeat(name: &str, count: &str) -> Result {
    let mut tables = Tables::new(LIVE);
    let operation = find(name)?;
    let mut meter = Meter::none();
    for nth in 0..count.parse()? {
        tables.perform(operation, &mut meter, nth);
    }
    Ok(())
}

/// Lists the accesses of the last trace, without those on the stack.
fn show_accesses(name: &str, open: &str) -> Result {
    let operation = find(name)?;
    let mut meter = Meter::tracing()?;
    let mut tables = Tables::new(open.parse()?);
    let cost = trace(&mut tables, operation, &mut meter)?;
    meter.show_last()?;
    println!("{}\n{cost}", Cost::NAMES.join(" "));
    Ok(())
}

fn find(name: &str) -> Result<&'static Operation> {
    let found = OPERATIONS.iter().find(|operation| operation.name == name);
    Ok(found.ok_or_else(|| format!("no operation is called {name}"))?)
}

/// Traces every operation.
fn trace_all() -> Result {
    let mut meter = Meter::tracing()?;
    let mut sizes: Vec<usize> = OPERATIONS.iter().flat_map(|it| it.sizes).copied().collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut lines = Vec::new();
    for size in sizes {
        let mut tables = Tables::new(size);
        for (nth, operation) in OPERATIONS.iter().enumerate() {
            if operation.sizes.contains(&size) {
                let cost = trace(&mut tables, operation, &mut meter)?;
                lines.push((nth, operation.name, size, cost));
            }
        }
    }
    lines.sort_by_key(|&(nth, _, size, _)| (nth, size));
    let mut out = io::stdout().lock();
    writeln!(out, "operation open {}", Cost::NAMES.join(" "))?;
    for (_, name, size, cost) in lines {
        writeln!(out, "{name} {size} {cost}")?;
    }
    Ok(())
}

fn trace(tables: &mut Tables, operation: &'static Operation, meter: &mut Meter) -> Result<Cost> {
    let mut none = Meter::none();
    for nth in 0..WARM_UP {
        tables.perform(operation, &mut none, nth);
    }
    for nth in WARM_UP..WARM_UP + SAMPLES {
        tables.perform(operation, meter, nth);
    }
    meter.take_median()
}
