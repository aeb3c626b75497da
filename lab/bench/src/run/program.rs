//! The programs of `run`: packaged ones as they are, and two that time single calls.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::report::Goal;

/// Measure of a run.
#[derive(Clone, Copy)]
pub(super) enum Clock {
    /// The time of the process.
    Process,
    /// The last word that it prints, in a unit of so many nanoseconds.
    Printed { last_word_in_ns: f64 },
}

/// A headline figure of a program.
pub(super) enum Bound {
    /// The host's time ÷ ours.
    TimesFaster {
        key: &'static str,
        goal: Goal,
        meaning: &'static str,
    },
    /// Our time ÷ the host's.
    TimesSlower {
        key: &'static str,
        goal: Goal,
        meaning: &'static str,
    },
    /// Our time.
    Nanoseconds {
        key: &'static str,
        goal: Goal,
        meaning: &'static str,
    },
    /// Our time beyond the host's.
    MillisecondsMore {
        key: &'static str,
        goal: Goal,
        meaning: &'static str,
    },
}

pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) file: PathBuf,
    /// Its arguments. `{}` is the folder for its files.
    pub(super) words: Vec<String>,
    /// A directory of the host that we show with an overlay, as the folder for its files.
    pub(super) overlay: Option<PathBuf>,
    pub(super) clock: Clock,
    pub(super) bounds: Vec<Bound>,
}

impl Program {
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
    let [pipes, sockets] = [Ends::Pipes, Ends::Sockets].map(|ends| hackbench(work, ends));
    for (name, package, some) in [
        ("dd", "coreutils", vec![dd(work)]),
        ("sqlite3", "sqlite3", vec![sqlite(work, folder)]),
        ("hackbench", HACKBENCH_PACKAGE, vec![pipes, sockets]),
        ("true", "coreutils", vec![just_true()]),
    ] {
        if some.iter().any(Option::is_none) {
            missing.push(absent(name, package));
        }
        programs.extend(some.into_iter().flatten());
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
    let program = |name, what: &str, count, folder: &str, bounds| Program {
        name,
        file: file.to_owned(),
        words: vec![what.to_owned(), part(work, count), folder.to_owned()],
        overlay: None,
        clock: NANOSECONDS,
        bounds,
    };
    let faster = |key, goal, meaning| {
        vec![Bound::TimesFaster {
            key,
            goal: Goal::AtLeast(goal),
            meaning,
        }]
    };
    vec![
        program(
            "fcntl(F_GETFD)",
            "getfd",
            5_000_000,
            "{}",
            vec![Bound::Nanoseconds {
                key: "run.call_ns",
                goal: Goal::AtMost(30.0),
                meaning: "A call at a rewritten site, fcntl(F_GETFD)",
            }],
        ),
        program(
            "open and close",
            "open_close",
            400_000,
            "{}",
            faster(
                "run.open_close_vs_host",
                1.2,
                "Open and close of a file in memory: times faster than the host",
            ),
        ),
        program(
            "stat",
            "stat",
            400_000,
            "{}",
            faster(
                "run.stat_vs_host",
                1.2,
                "stat of a file in memory: times faster than the host",
            ),
        ),
        program(
            "create and unlink",
            "create_unlink",
            100_000,
            "{}",
            faster(
                "run.create_unlink_vs_host",
                2.0,
                "A file made, closed and removed: times faster than the host",
            ),
        ),
        // In memory of the host on both sides.
        program(
            "pread, 4 KiB of a host file",
            "pread",
            1_000_000,
            "/dev/shm",
            vec![Bound::TimesSlower {
                key: "run.host_file_overhead",
                goal: Goal::AtMost(1.1),
                meaning: "A read of 4 KiB of a host file ÷ the same without us",
            }],
        ),
    ]
}

fn calls_in_python(work: u32, file: &Path, script: &Path) -> Vec<Program> {
    let program = |name, what: &str, count, bound| Program {
        name,
        file: file.to_owned(),
        words: vec![
            script.display().to_string(),
            what.to_owned(),
            part(work, count),
            "{}".to_owned(),
        ],
        overlay: None,
        clock: NANOSECONDS,
        bounds: vec![bound],
    };
    vec![
        program(
            "python: pwrite",
            "pwrite",
            500_000,
            Bound::TimesFaster {
                key: "run.python_pwrite_vs_host",
                goal: Goal::AtLeast(2.0),
                meaning: "pwrite of a byte in Python: times faster than the host",
            },
        ),
        program(
            "python: pipe",
            "pipe",
            300_000,
            Bound::TimesFaster {
                key: "run.pipe_vs_host",
                goal: Goal::AtLeast(2.5),
                meaning: "A byte written to a pipe and read, in Python: times faster than the host",
            },
        ),
        program(
            "python: compute",
            "compute",
            50_000,
            Bound::TimesSlower {
                key: "run.compute_overhead",
                goal: Goal::AtMost(1.01),
                meaning: "A computation in Python, without calls ÷ the same without us",
            },
        ),
    ]
}

fn dd(work: u32) -> Option<Program> {
    let count = format!("count={}", part(work, 2_000_000));
    let words = [
        "if=/dev/zero",
        "of=/dev/null",
        "bs=1",
        "status=none",
        &count,
    ];
    Some(Program {
        name: "dd bs=1, zero to null",
        file: installed("dd")?,
        words: words.map(str::to_owned).to_vec(),
        overlay: None,
        clock: Clock::Process,
        bounds: vec![Bound::TimesFaster {
            key: "run.dd_vs_host",
            goal: Goal::AtLeast(2.5),
            meaning: "dd of bytes from /dev/zero to /dev/null: times faster than the host",
        }],
    })
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
    Some(Program {
        name: "sqlite3: inserts",
        file: installed("sqlite3")?,
        words: vec![
            "{}/fdtable-run.db".to_owned(),
            format!(".read {}", script.display()),
        ],
        overlay: None,
        clock: Clock::Process,
        bounds: vec![Bound::TimesFaster {
            key: "run.sqlite_insert_vs_host",
            goal: Goal::AtLeast(2.0),
            meaning: "sqlite3, each insert a transaction: times faster than the host",
        }],
    })
}

/// Channel of hackbench's threads.
#[derive(Clone, Copy)]
enum Ends {
    Pipes,
    Sockets,
}

fn hackbench(work: u32, ends: Ends) -> Option<Program> {
    let loops = part(work, 1000);
    let mut words = vec!["-T", "-g", "10", "-l", &loops];
    let (name, bound) = match ends {
        Ends::Pipes => {
            words.push("-p");
            let bound = Bound::TimesFaster {
                key: "run.hackbench_pipe_vs_host",
                goal: Goal::AtLeast(2.0),
                meaning: "hackbench with 400 threads over pipes: times faster than the host",
            };
            ("hackbench, pipes", bound)
        }
        Ends::Sockets => {
            let bound = Bound::TimesFaster {
                key: "run.hackbench_socket_vs_host",
                goal: Goal::AtLeast(5.0),
                meaning: "hackbench with 400 threads over sockets: times faster than the host",
            };
            ("hackbench, sockets", bound)
        }
    };
    Some(Program {
        name,
        file: installed("hackbench")?,
        words: words.into_iter().map(str::to_owned).collect(),
        overlay: None,
        clock: SECONDS,
        bounds: vec![bound],
    })
}

fn just_true() -> Option<Program> {
    Some(Program {
        name: "true",
        file: installed("true")?,
        words: Vec::new(),
        overlay: None,
        clock: Clock::Process,
        bounds: vec![Bound::MillisecondsMore {
            key: "run.start_ms",
            goal: Goal::AtMost(3.0),
            meaning: "The start of a program beyond the host's",
        }],
    })
}
