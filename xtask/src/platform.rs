//! `platform`: what the library costs on the hooks of a platform, beside what it costs with `std`.
//!
//! The same program is built twice (`lab/hooks`), and both run at the same time. They take turns of some
//! milliseconds: a ratio is one of two neighbouring turns, so a machine that becomes slower changes
//! both.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::process::Process;
use crate::{Result, root, target};

/// How many turns each program has in each case.
const ROUNDS: usize = 41;

/// The length of a turn in milliseconds.
const TURN: u32 = 20;

/// The cases of the program, with the name of the figure and what it is.
const CASES: &[(&str, &str, &str)] = &[
    (
        "borrowed",
        "nostd.borrowed_vs_std",
        "borrowed lookup in a section of its own",
    ),
    ("owned", "nostd.owned_vs_std", "owned lookup"),
    (
        "owned_same",
        "nostd.owned_same_vs_std",
        "owned lookup of one descriptor",
    ),
    ("open_close", "nostd.open_close_vs_std", "open and close"),
];

/// Where the document has the table.
const BEGIN: &str = "<!-- written by `cargo xtask platform --write` -->";
const END: &str = "<!-- end -->";

/// One of the two programs, which waits for its turn.
struct Subject {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

pub(crate) fn run(arguments: &[String]) -> Result {
    let writes = match arguments {
        [] => false,
        [flag] if flag == "--write" => true,
        _ => return Err("usage: cargo xtask platform [--write]".into()),
    };
    let hooks = build("platform", "")?;
    let std = build("std", "--no-default-features --features std")?;
    let first_open = Process::new(&hooks).arg("first-open").read()?;
    let (bytes, align) = first_open.trim().split_once(' ').ok_or("no two numbers")?;
    let mut subjects = [Subject::start(&hooks)?, Subject::start(&std)?];
    let mut table = String::from(
        "| figure | threads | what | platform, ns | `std`, ns | ratio | p10 to p90 |\n|---|---|---|---|---|---|---|\n",
    );
    for (case, figure, what) in CASES {
        for threads in [1, 2] {
            let row = measure(&mut subjects, case, threads)?;
            table += &format!("| `{figure}` | {threads} | {what} | {row} |\n");
        }
    }
    table += &format!(
        "| `nostd.first_open_bytes` | 1 | memory of the first table and its first open | {bytes} bytes | | | |\n"
    );
    table += &format!(
        "| `nostd.first_open_align` | 1 | the largest alignment of it | {align} bytes | | | |\n"
    );
    print!("{table}");
    for mut subject in subjects {
        drop(subject.asks);
        subject.child.wait()?;
    }
    if writes {
        write(&table)?;
    }
    Ok(())
}

/// Builds the program, in a folder that the other one does not overwrite.
fn build(name: &str, features: &str) -> Result<PathBuf> {
    let folder = target().join("platform").join(name);
    Process::cargo("build")
        .words("--release --quiet -p fdtable-hooks")
        .words(features)
        .arg("--target-dir")
        .arg(&folder)
        .run()?;
    Ok(folder.join("release/fdtable-hooks"))
}

impl Subject {
    fn start(program: &PathBuf) -> Result<Self> {
        let mut command = Command::new(program);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let asks = child.stdin.take().ok_or("no standard input")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        Ok(Self {
            child,
            asks,
            answers,
        })
    }

    /// Returns the nanoseconds of an operation in one turn.
    fn turn(&mut self, case: &str, threads: usize) -> Result<f64> {
        writeln!(self.asks, "{case} {threads} {TURN}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line.trim().parse()?)
    }
}

/// Returns the cells of a row: both medians, the median of the ratios, and their spread.
fn measure(subjects: &mut [Subject; 2], case: &str, threads: usize) -> Result<String> {
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for turn in 0..2 {
            // Neither always follows the other.
            let which = (round + turn) % 2;
            times[which].push(subjects[which].turn(case, threads)?);
        }
    }
    let mut ratios: Vec<f64> = times[0]
        .iter()
        .zip(&times[1])
        .map(|(one, other)| one / other)
        .collect();
    for list in [&mut times[0], &mut ratios] {
        list.sort_unstable_by(f64::total_cmp);
    }
    times[1].sort_unstable_by(f64::total_cmp);
    let at = |list: &[f64], part: usize| list[(list.len() - 1) * part / 10];
    Ok(format!(
        "{:.1} | {:.1} | {:.2} | {:.2} to {:.2}",
        at(&times[0], 5),
        at(&times[1], 5),
        at(&ratios, 5),
        at(&ratios, 1),
        at(&ratios, 9),
    ))
}

/// Replaces the table in the document.
fn write(table: &str) -> Result {
    let path = root().join("docs/porting.md");
    let text = fs::read_to_string(&path)?;
    let (before, rest) = text
        .split_once(BEGIN)
        .ok_or("the document has no place for the table")?;
    let (_, after) = rest
        .split_once(END)
        .ok_or("the place for the table has no end")?;
    fs::write(path, format!("{before}{BEGIN}\n\n{table}\n{END}{after}"))?;
    Ok(())
}
