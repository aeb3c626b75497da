//! `platform`: what the library costs on the hooks of a platform, beside what it costs with
//! `std`, and without one hook or another.
//!
//! The same program is built twice (`lab/hooks`), and two of them run at the same time. They take
//! turns of some milliseconds: a ratio is one of two neighbouring turns, so a machine that
//! becomes slower changes both.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::process::Process;
use crate::{Result, document, target, writes};

/// How many turns each program has in each case.
const ROUNDS: usize = 41;

/// The length of a turn in milliseconds.
const TURN: u32 = 20;

/// The cases of the program, and what each is.
const CASES: &[(&str, &str)] = &[
    ("borrowed", "borrowed lookup in a section of its own"),
    ("owned", "owned lookup"),
    ("owned_same", "owned lookup of one descriptor"),
    ("open_close", "open and close"),
];

/// Hooks that a kernel may lack, as the program and as the document name them.
const MISSING: &[(&str, &str)] = &[
    ("sequences", "`sequence_area`"),
    ("cpus", "`cpus` and `cpu`"),
    ("fence", "`heavy_fence`"),
    ("word", "`thread_word`"),
];

/// Mark of the tables in the document.
const DOCUMENT: &str = "docs/porting.md";
const BEGIN: &str = "<!-- written by `cargo xtask platform --write` -->";

/// A program that waits for its turn.
struct Subject {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// The times of two programs in one case.
struct Comparison {
    /// Medians of nanoseconds.
    medians: [f64; 2],
    /// The ratio of neighbouring turns: its tenth, its median, and its ninetieth part of a hundred.
    ratio: [f64; 3],
}

pub(crate) fn run(arguments: &[String]) -> Result {
    let writes = writes(arguments)?;
    let hooks = build("platform", "")?;
    let std = build("std", "--no-default-features --features std")?;
    let tables = format!("{}\n{}", beside_std(&hooks, &std)?, without(&hooks)?);
    print!("{tables}");
    if writes {
        document::replace_part(DOCUMENT, BEGIN, &tables)?;
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

fn beside_std(hooks: &Path, std: &Path) -> Result<String> {
    let mut table = String::from(
        "| figure | threads | what | platform | `std` | ratio | p10 to p90 |\n\
         |---|---|---|---|---|---|---|\n",
    );
    let mut subjects = [Subject::start(hooks, &[])?, Subject::start(std, &[])?];
    for (case, what) in CASES {
        for threads in [1, 2] {
            let Comparison { medians, ratio } = compare(&mut subjects, case, threads)?;
            writeln!(
                table,
                "| `nostd.{case}_vs_std` | {threads} | {what} | {:.1} ns | {:.1} ns | {:.2} | {:.2} to {:.2} |",
                medians[0], medians[1], ratio[1], ratio[0], ratio[2],
            )?;
        }
    }
    subjects.into_iter().try_for_each(Subject::end)?;
    let first_open = Process::new(hooks).arg("first-open").read()?;
    let (bytes, align) = first_open.trim().split_once(' ').ok_or("no two numbers")?;
    writeln!(
        table,
        "| `nostd.first_open_bytes` | 1 | memory of the first table and its first open | {bytes} | | | |"
    )?;
    writeln!(
        table,
        "| `nostd.first_open_align` | 1 | the largest alignment in it | {align} | | | |"
    )?;
    Ok(table)
}

/// Costs of the program without each of the hooks, as a multiple of the cost with all.
fn without(hooks: &Path) -> Result<String> {
    let mut table = String::from("| without |");
    for (_, what) in CASES {
        write!(table, " {what}, 1 and 2 threads |")?;
    }
    table += "\n|---|---|---|---|---|\n";
    for (missing, name) in MISSING {
        let mut subjects = [
            Subject::start(hooks, &["without", missing])?,
            Subject::start(hooks, &[])?,
        ];
        write!(table, "| {name} |")?;
        for (case, _) in CASES {
            let [one, two] = [1, 2].map(|threads| compare(&mut subjects, case, threads));
            write!(table, " {:.1} and {:.1} |", one?.ratio[1], two?.ratio[1])?;
        }
        table.push('\n');
        subjects.into_iter().try_for_each(Subject::end)?;
    }
    Ok(table)
}

impl Subject {
    fn start(program: &Path, arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn()?;
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

    fn end(mut self) -> Result {
        drop(self.asks);
        self.child.wait()?;
        Ok(())
    }
}

fn compare(subjects: &mut [Subject; 2], case: &str, threads: usize) -> Result<Comparison> {
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for turn in 0..2 {
            // Neither always follows the other.
            let which = (round + turn) % 2;
            times[which].push(subjects[which].turn(case, threads)?);
        }
    }
    let pairs = times[0].iter().zip(&times[1]);
    let ratios: Vec<f64> = pairs.map(|(one, other)| one / other).collect();
    Ok(Comparison {
        ratio: [1, 5, 9].map(|tenth| quantile(&ratios, tenth)),
        medians: [0, 1].map(|which| quantile(&times[which], 5)),
    })
}

fn quantile(samples: &[f64], tenth: usize) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[(sorted.len() - 1) * tenth / 10]
}
