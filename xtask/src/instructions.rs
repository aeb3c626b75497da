//! `instructions`: how many instructions an operation takes on each architecture, without
//! restartable sequences.
//!
//! User-mode QEMU runs one instruction at a time and logs each. Two runs with different numbers of
//! operations differ by those of the operations alone (`lab/cost`). QEMU gives threads no
//! rseq area, on x86-64 either, so all columns show the same paths of the library. A count is no
//! time: an atomic operation counts as much as an addition.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::foreign::{Compiler, MACHINES, Machine};
use crate::{Result, document, target, writes};

/// The machine that the others are compared with, which is the usual host.
const HOST: Machine = Machine {
    triple: "x86_64-unknown-linux-gnu",
    qemu: "qemu-x86_64",
    linker: "cc",
    libraries: "/",
    packages: "qemu-user gcc",
};

/// The operations of the program, and what each is. The first is the loop around the others.
const OPERATIONS: &[(&str, &str)] = &[
    ("nothing", ""),
    ("get_rcu", "borrowed lookup in a section of its own"),
    ("get", "owned lookup, and its drop"),
    ("open_and_close", "open of an existing file, and close"),
    ("open_new_and_close", "open of a new file, and close"),
];

/// How often the two runs do an operation.
const COUNTS: [u32; 2] = [500, 1500];

/// Mark of the table in the document.
const DOCUMENT: &str = "docs/porting.md";
const BEGIN: &str = "<!-- written by `cargo xtask instructions --write` -->";

pub(crate) fn run(arguments: &[String]) -> Result {
    let writes = writes(arguments)?;
    let mut columns = Vec::new();
    for machine in [&HOST].into_iter().chain(MACHINES) {
        let compiler = machine
            .compiler()
            .map_err(|packages| format!("{} needs {packages}", machine.triple))?;
        columns.push((machine.triple, instructions(machine, &compiler)?));
    }
    let table = table(&columns)?;
    print!("{table}");
    if writes {
        document::replace_part(DOCUMENT, BEGIN, &table)?;
    }
    Ok(())
}

/// A line for each operation, and a column for each machine.
fn table(columns: &[(&str, Vec<u64>)]) -> Result<String> {
    let mut table = String::from("| instructions |");
    for (triple, _) in columns {
        let (architecture, _) = triple.split_once('-').unwrap_or((triple, ""));
        write!(table, " {architecture} |")?;
    }
    writeln!(table, "\n|---|{}", "---|".repeat(columns.len()))?;
    for (row, (_, what)) in OPERATIONS.iter().skip(1).enumerate() {
        write!(table, "| {what} |")?;
        for (_, instructions) in columns {
            write!(table, " {} |", instructions[row])?;
        }
        table.push('\n');
    }
    Ok(table)
}

/// Returns the instructions of each operation, without those of the loop around it.
fn instructions(machine: &Machine, compiler: &Compiler) -> Result<Vec<u64>> {
    let build = "build --release --quiet -p fdtable-cost";
    machine.cargo(compiler, build).run()?;
    let program = target()
        .join("foreign")
        .join(machine.triple)
        .join("release/fdtable-cost");
    let mut all = Vec::new();
    for (operation, _) in OPERATIONS {
        let [few, many] = COUNTS.map(|count| executed(machine, &program, operation, count));
        all.push((many? - few?) / u64::from(COUNTS[1] - COUNTS[0]));
    }
    let around = all.remove(0);
    Ok(all.into_iter().map(|count| count - around).collect())
}

/// Returns how many instructions a run of the program executes.
fn executed(machine: &Machine, program: &Path, operation: &str, count: u32) -> Result<u64> {
    // On one CPU: a thread that moves to another finds other caches, and fills them.
    let mut child = Command::new("taskset")
        .args(["--cpu-list", "0", machine.qemu])
        .args(["-L", machine.libraries])
        .args(["-singlestep", "-d", "exec,nochain", "-D", "/dev/stdout"])
        .arg(program)
        .args([operation, &count.to_string()])
        .stdout(Stdio::piped())
        .spawn()?;
    let log = child.stdout.take().ok_or("no standard output")?;
    let mut executed = 0;
    for line in BufReader::new(log).split(b'\n') {
        executed += u64::from(line?.starts_with(b"Trace "));
    }
    let status = child.wait()?;
    if !status.success() || executed == 0 {
        return Err(format!(
            "{} {operation}: {status}, {executed} executed",
            machine.qemu
        )
        .into());
    }
    Ok(executed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_column_for_each_machine() {
        let columns = [("a-b", vec![1, 2, 3, 4]), ("c-d", vec![5, 6, 7, 8])];
        let table = table(&columns).unwrap();
        let mut lines = table.lines();
        assert_eq!(lines.next(), Some("| instructions | a | c |"));
        assert_eq!(lines.next(), Some("|---|---|---|"));
        assert_eq!(lines.count(), OPERATIONS.len() - 1);
        assert!(table.contains("and close | 4 | 8 |"));
    }
}
