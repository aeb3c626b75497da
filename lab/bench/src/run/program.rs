//! The programs of `run` and `tree`: packaged ones as they are, and some that time single calls.
//! `programs.txt` lists them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::child::output;

/// The list.
const LIST: &str = include_str!("programs.txt");

/// The texts of our own.
const TEXTS: [(&str, &str); 4] = [
    ("calls.c", include_str!("../../programs/calls.c")),
    ("calls.py", include_str!("../../programs/calls.py")),
    ("scripts.sh", include_str!("../../programs/scripts.sh")),
    ("tree.c", include_str!("../../programs/tree.c")),
];

/// Source of a time.
#[derive(Clone, Copy)]
pub(super) enum Clock {
    /// The duration of the whole process.
    Process,
    /// The last word on the standard output, in this many nanoseconds.
    Printed { last_word_in_ns: f64 },
}

/// The headline figure of a program.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    TimesFaster(&'static str),
    TimesSlower(&'static str),
    Nanoseconds(&'static str),
    MillisecondsMore(&'static str),
}

/// One program with its arguments.
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) file: PathBuf,
    words: Vec<String>,
    /// The folder of the host that it sees through an overlay.
    pub(super) overlay: Option<PathBuf>,
    pub(super) clock: Clock,
    pub(super) bound: Bound,
}

impl Program {
    /// Lists its arguments for a folder.
    pub(super) fn words(&self, folder: &str) -> impl Iterator<Item = String> {
        let words = self.words.iter();
        words.map(move |word| word.replace("{}", folder))
    }
}

/// Finds an installed program.
pub(super) fn installed(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/bin", "/bin", "/usr/sbin", "/usr/local/bin"];
    let mut paths = folders.iter().map(|folder| Path::new(folder).join(name));
    paths.find(|path| path.is_file())
}

/// Lists the programs of an experiment with so many percent of their work, and a sentence for each
/// that is missing. Writes and compiles into `own`. Blocks for a second.
///
/// # Errors
/// If `own` cannot be written, or the list is wrong.
pub(super) fn all(
    experiment: &str,
    work: u32,
    own: &Path,
) -> anyhow::Result<(Vec<Program>, Vec<String>)> {
    let insert = "INSERT INTO t(a, b) VALUES (random(), 'some words of text');\n";
    let inserts = insert.repeat((200 * work).max(1) as usize);
    let text = format!(
        "DROP TABLE IF EXISTS t;\nCREATE TABLE t(a, b);\n{inserts}SELECT count(*) FROM t;\n"
    );
    fs::write(own.join("inserts.sql"), text)?;
    let (mut programs, mut missing) = (Vec::new(), Vec::new());
    for line in LIST.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&'static str> = line.split('|').map(str::trim).collect();
        match fields[..] {
            [of, _, file, package, ..] if of == experiment => match find(file, own)? {
                Some(found) => programs.push(program(&fields, found, work, own).context(line)?),
                None => {
                    missing.push(format!("No row for {file}: `apt-get install {package}`."));
                }
            },
            _ => {}
        }
    }
    missing.dedup();
    Ok((programs, missing))
}

/// Finds the program that runs a file, and the script that is its first argument. None if it is not
/// installed.
fn find(name: &str, own: &Path) -> anyhow::Result<Option<(PathBuf, Option<PathBuf>)>> {
    let path = own.join(name);
    if let Some((_, text)) = TEXTS.iter().find(|(other, _)| *other == name) {
        fs::write(&path, text)?;
    }
    let interpreter = match name.split_once('.') {
        Some((_, "py")) => "python3",
        Some((_, "sh")) => "bash",
        Some((program, _)) => return compiled(&path, &own.join(program)),
        None => return Ok(installed(name).map(|file| (file, None))),
    };
    Ok(installed(interpreter).map(|file| (file, Some(path))))
}

/// Compiles a program in C, unless it is there. Blocks for a second.
fn compiled(source: &Path, file: &Path) -> anyhow::Result<Option<(PathBuf, Option<PathBuf>)>> {
    let mut compiler = Command::new("cc");
    compiler.arg("-O2").arg(source).arg("-o").arg(file);
    let is_compiled = file.is_file() || output(&mut compiler)?.is_some();
    Ok(is_compiled.then(|| (file.to_owned(), None)))
}

/// Reads a line of the list. None if it has another form.
fn program(
    fields: &[&'static str],
    (file, script): (PathBuf, Option<PathBuf>),
    work: u32,
    own: &Path,
) -> Option<Program> {
    let [_, name, _, _, arguments, count, time, figure] = fields[..] else {
        return None;
    };
    let count = (count.parse::<u64>().ok()? * u64::from(work) / 100).max(1);
    let arguments = arguments
        .replace('#', &count.to_string())
        .replace("{own}", own.to_str()?);
    let arguments = arguments.split_whitespace();
    let arguments = arguments.map(|word| word.replace("%20", " "));
    let script = script.map(|script| script.display().to_string());
    let figure: Vec<&'static str> = figure.split_whitespace().collect();
    Some(Program {
        name,
        file,
        words: script.into_iter().chain(arguments).collect(),
        overlay: figure.contains(&"--overlay").then(|| own.join("overlay")),
        clock: match time {
            "process" => Clock::Process,
            "ns" => Clock::Printed {
                last_word_in_ns: 1.0,
            },
            "s" => Clock::Printed {
                last_word_in_ns: 1e9,
            },
            _ => return None,
        },
        bound: match figure[..] {
            ["faster", key, ..] => Bound::TimesFaster(key),
            ["slower", key, ..] => Bound::TimesSlower(key),
            ["ns", key, ..] => Bound::Nanoseconds(key),
            ["ms", key, ..] => Bound::MillisecondsMore(key),
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_list_is_a_program_with_a_figure() {
        let own = Path::new("/own");
        let lines = LIST.lines().filter(|line| !line.starts_with('#'));
        for line in lines.filter(|line| !line.is_empty()) {
            let fields: Vec<_> = line.split('|').map(str::trim).collect();
            let read = program(&fields, ("/bin/it".into(), None), 20, own);
            let read = read.unwrap_or_else(|| panic!("{line}"));
            let (Bound::TimesFaster(key)
            | Bound::TimesSlower(key)
            | Bound::Nanoseconds(key)
            | Bound::MillisecondsMore(key)) = read.bound;
            assert!(key.starts_with(fields[0]), "{line}");
            assert!(
                read.words("/f").all(|word| !word.contains(['{', '#'])),
                "{line}"
            );
        }
    }

    #[test]
    fn a_blank_in_an_argument_separates_nothing() {
        let fields = [
            "run",
            "it",
            "it",
            "it",
            "{}/a b%20{own} #",
            "50",
            "s",
            "ns it",
        ];
        let read = program(&fields, ("/it".into(), None), 10, Path::new("/own")).unwrap();
        let words: Vec<_> = read.words("/fdt").collect();
        assert_eq!(words, ["/fdt/a", "b /own", "5"]);
    }
}
