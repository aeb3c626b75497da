//! The programs of `run`: packaged ones as they are, and two that time single calls.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Measure of a run.
#[derive(Clone, Copy)]
pub(super) enum Clock {
    /// The time of the process.
    Process,
    /// The last word that it prints, in a unit of so many nanoseconds.
    Printed { last_word_in_ns: f64 },
}

/// The headline figure of a program, by its key.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    /// The host's time ÷ ours.
    TimesFaster(&'static str),
    /// Our time ÷ the host's.
    TimesSlower(&'static str),
    /// Our time in nanoseconds.
    Nanoseconds(&'static str),
    /// Our time beyond the host's, in milliseconds.
    MillisecondsMore(&'static str),
}

pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) file: PathBuf,
    /// Its arguments. `{}` is the folder for its files.
    pub(super) words: Vec<String>,
    /// A directory of the host that we show with an overlay, as the folder for its files.
    pub(super) overlay: Option<PathBuf>,
    pub(super) clock: Clock,
    pub(super) bound: Bound,
}

impl Program {
    /// Makes a program whose words are separated by spaces.
    pub(super) fn new(
        name: &'static str,
        file: &Path,
        words: &str,
        clock: Clock,
        bound: Bound,
    ) -> Self {
        Program {
            name,
            file: file.to_owned(),
            words: words.split_whitespace().map(str::to_owned).collect(),
            overlay: None,
            clock,
            bound,
        }
    }

    /// Lists its arguments for a folder.
    pub(super) fn words(&self, folder: &str) -> impl Iterator<Item = String> {
        self.words
            .iter()
            .map(move |word| word.replace("{}", folder))
    }
}

pub(super) const NANOSECONDS: Clock = Clock::Printed {
    last_word_in_ns: 1.0,
};
pub(super) const SECONDS: Clock = Clock::Printed {
    last_word_in_ns: 1e9,
};

/// Finds an installed program.
pub(super) fn installed(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/bin", "/bin", "/usr/sbin", "/usr/local/bin"];
    let mut paths = folders.iter().map(|folder| Path::new(folder).join(name));
    paths.find(|path| path.is_file())
}

/// Lists the programs with so many percent of their work, and a sentence for each that is missing.
/// Compiles those in C into `folder`. Blocks for a second.
pub(super) fn all(work: u32, folder: &Path) -> (Vec<Program>, Vec<String>) {
    let mut programs = Vec::new();
    let mut missing = Vec::new();
    match compiled(folder, "calls", include_str!("../../programs/calls.c")) {
        Ok(file) => programs.extend(calls_in_c(work, &file)),
        Err(reason) => missing.push(format!("No calls in C: {reason}.")),
    }
    let script = folder.join("calls.py");
    match installed("python3") {
        Some(file) if fs::write(&script, include_str!("../../programs/calls.py")).is_ok() => {
            programs.extend(calls_in_python(work, &file, &script));
        }
        _ => missing.push(absent("python3", "python3")),
    }
    let keys = ["run.hackbench_pipe_vs_host", "run.hackbench_socket_vs_host"];
    for (name, package, some) in [
        ("dd", "coreutils", dd(work).into_iter().collect()),
        (
            "sqlite3",
            "sqlite3",
            sqlite(work, folder).into_iter().collect(),
        ),
        ("hackbench", HACKBENCH_PACKAGE, hackbench(work, "-T", keys)),
        (
            "true",
            "coreutils",
            just_true().into_iter().collect::<Vec<_>>(),
        ),
    ] {
        if some.is_empty() {
            missing.push(absent(name, package));
        }
        programs.extend(some);
    }
    (programs, missing)
}

/// The package of Debian with `hackbench`.
pub(super) const HACKBENCH_PACKAGE: &str = "rt-tests";

/// Says that a program is not installed, and which package of Debian has it.
pub(super) fn absent(name: &str, package: &str) -> String {
    format!("No row for {name}, which is not installed: `apt-get install {package}`.")
}

/// Compiles a program in C into `folder`. Blocks for a second.
pub(super) fn compiled(folder: &Path, name: &str, text: &str) -> Result<PathBuf, String> {
    let file = folder.join(name);
    let source = file.with_extension("c");
    fs::write(&source, text).map_err(|error| error.to_string())?;
    let mut compiler = Command::new("cc");
    compiler.arg("-O2").arg(&source).arg("-o").arg(&file);
    match compiler.output() {
        Ok(output) if output.status.success() => Ok(file),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(format!("no C compiler ({error}): `apt-get install gcc`")),
    }
}

/// So many percent of a number.
pub(super) fn part(work: u32, of: u64) -> String {
    (of * u64::from(work) / 100).max(1).to_string()
}

fn calls_in_c(work: u32, file: &Path) -> Vec<Program> {
    let program = |name, what: &str, count, folder: &str, bound| {
        let words = format!("{what} {} {folder}", part(work, count));
        Program::new(name, file, &words, NANOSECONDS, bound)
    };
    let faster = Bound::TimesFaster;
    let call = Bound::Nanoseconds("run.call_ns");
    let (open, stat) = ("run.open_close_vs_host", "run.stat_vs_host");
    let (create, read) = ("run.create_unlink_vs_host", "run.host_file_overhead");
    // The last is in memory of the host on both sides.
    let host = "pread, 4 KiB of a host file";
    vec![
        program("fcntl(F_GETFD)", "getfd", 5_000_000, "{}", call),
        program("open and close", "open_close", 400_000, "{}", faster(open)),
        program("stat", "stat", 400_000, "{}", faster(stat)),
        program(
            "create and unlink",
            "create_unlink",
            100_000,
            "{}",
            faster(create),
        ),
        program(
            host,
            "pread",
            1_000_000,
            "/dev/shm",
            Bound::TimesSlower(read),
        ),
    ]
}

fn calls_in_python(work: u32, file: &Path, script: &Path) -> Vec<Program> {
    let program = |name, what: &str, count, bound| {
        let words = format!("{} {what} {} {{}}", script.display(), part(work, count));
        Program::new(name, file, &words, NANOSECONDS, bound)
    };
    let pwrite = Bound::TimesFaster("run.python_pwrite_vs_host");
    let pipe = Bound::TimesFaster("run.pipe_vs_host");
    let compute = Bound::TimesSlower("run.compute_overhead");
    vec![
        program("python: pwrite", "pwrite", 500_000, pwrite),
        program("python: pipe", "pipe", 300_000, pipe),
        program("python: compute", "compute", 50_000, compute),
    ]
}

fn dd(work: u32) -> Option<Program> {
    let count = part(work, 2_000_000);
    let words = format!("if=/dev/zero of=/dev/null bs=1 status=none count={count}");
    let bound = Bound::TimesFaster("run.dd_vs_host");
    let name = "dd bs=1, zero to null";
    let dd = installed("dd")?;
    Some(Program::new(name, &dd, &words, Clock::Process, bound))
}

fn sqlite(work: u32, folder: &Path) -> Option<Program> {
    let rows: usize = part(work, 20_000).parse().ok()?;
    let script = folder.join("inserts.sql");
    let insert = "INSERT INTO t(a, b) VALUES (random(), 'some words of text');\n";
    let text = format!(
        "DROP TABLE IF EXISTS t;\nCREATE TABLE t(a, b);\n{}SELECT count(*) FROM t;\n",
        insert.repeat(rows)
    );
    fs::write(&script, text).ok()?;
    let bound = Bound::TimesFaster("run.sqlite_insert_vs_host");
    let sqlite = installed("sqlite3")?;
    let read = format!(".read {}", script.display());
    Some(Program {
        words: vec!["{}/fdtable-run.db".to_owned(), read],
        ..Program::new("sqlite3: inserts", &sqlite, "", Clock::Process, bound)
    })
}

/// Makes both runs of hackbench, with threads (`-T`) or processes (`-P`).
pub(super) fn hackbench(work: u32, of: &str, [pipes, sockets]: [&'static str; 2]) -> Vec<Program> {
    let Some(file) = installed("hackbench") else {
        return Vec::new();
    };
    let words = format!("{of} -g 10 -l {}", part(work, 1000));
    let program =
        |name, words: &str, key| Program::new(name, &file, words, SECONDS, Bound::TimesFaster(key));
    vec![
        program("hackbench, pipes", &format!("{words} -p"), pipes),
        program("hackbench, sockets", &words, sockets),
    ]
}

fn just_true() -> Option<Program> {
    let bound = Bound::MillisecondsMore("run.start_ms");
    let file = installed("true")?;
    Some(Program::new("true", &file, "", Clock::Process, bound))
}
