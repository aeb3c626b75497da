//! Mutations that leave out a check, a lock or a step: markers in the source, and a list.
//!
//! A comment `// weaken: NAME` marks the code on the line that follows it. The list says for each
//! name what happens to that code, and which model must fail. Each mutation is applied to a copy of
//! the sources, which is built and run with that model.
//!
//! | operation | what it does |
//! |---|---|
//! | `delete` | deletes the statement or the arm of a match |
//! | `swap` | exchanges the statement and the next one |
//! | `insert CODE` | inserts code before the line |
//! | `OLD ==> NEW` | replaces `OLD`, which begins on the line, whatever its blanks |

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Outcome, judge, loom};
use crate::library::{self, Package};
use crate::process::{Process, test_binaries};
use crate::{Result, root, source};

/// A model is given this long; the longest takes a fifth of it on the source as it is.
const LIMIT: Duration = Duration::from_secs(180);

/// The list, below the root of the workspace: a line `NAME: MODEL`, and below it, indented, an
/// operation for each marker in their order, or one for all of them.
const PATH: &str = "xtask/mutations.txt";

/// Beginning of a marker.
const MARKER: &str = "// weaken: ";

/// A mutation of the text of one file.
pub(super) struct Structural {
    pub(super) name: String,
    /// The model that must fail: the folder of its crate, and its path there.
    pub(super) model: String,
    /// The file with the markers, below the root of the workspace.
    file: PathBuf,
    operations: Vec<Operation>,
}

enum Operation {
    Delete,
    Swap,
    Insert(String),
    Replace(String, String),
}

/// Reads the list, and finds the markers of each mutation.
pub(super) fn read() -> Result<Vec<Structural>> {
    let mut files = BTreeMap::new();
    for path in source::files("crates", "rs")? {
        for line in source::read(&path)?.lines() {
            if let Some(name) = line.trim().strip_prefix(MARKER) {
                let file = path.strip_prefix(root())?.to_owned();
                files.insert(name.to_owned(), file);
            }
        }
    }
    let mut list: Vec<Structural> = Vec::new();
    for line in source::read(&root().join(PATH))?.lines() {
        if let Some(operation) = line.strip_prefix("    ") {
            let last = list.last_mut();
            let last = last.ok_or_else(|| format!("{PATH}: of no mutation: {operation}"))?;
            last.operations.push(Operation::parse(operation)?);
        } else if let Some((name, model)) = line.split_once(": ").filter(|_| !line.starts_with('#'))
        {
            let file = files.remove(name);
            list.push(Structural {
                name: name.to_owned(),
                model: model.to_owned(),
                file: file.ok_or_else(|| format!("{PATH}: no marker has the name {name}"))?,
                operations: Vec::new(),
            });
        }
    }
    match files.into_iter().next() {
        Some((name, file)) => Err(format!("{}: {PATH} has no {name}", file.display()).into()),
        None => Ok(list),
    }
}

/// A copy of the library in a workspace of its own.
pub(super) struct Copy {
    workspace: PathBuf,
    target: PathBuf,
    packages: Vec<Package>,
}

impl Copy {
    /// Copies the sources into `directory`, and keeps what an earlier run has built there.
    pub(super) fn new(directory: &Path) -> Result<Self> {
        let workspace = directory.join("workspace");
        Ok(Self {
            packages: library::copy_to(&workspace)?,
            workspace,
            target: directory.join("target"),
        })
    }

    /// Builds the mutated source and runs the model.
    pub(super) fn try_out(&self, mutation: &Structural) -> Result<(Outcome, Duration)> {
        let path = self.workspace.join(&mutation.file);
        let original = fs::read_to_string(&path)?;
        fs::write(&path, mutation.apply(&original)?)?;
        let (package, model) = mutation.package_and_model(&self.packages)?;
        let binary = self.build(package);
        fs::write(&path, original)?;
        let binary = binary.map_err(|error| format!("{}: {error}", mutation.name))?;
        let run = Process::new(&binary).args(["--exact", model, "--nocapture"]);
        let start = Instant::now();
        let finished = run
            .env("RUST_BACKTRACE", "0")
            .limit(LIMIT)
            .quiet()
            .finish()?;
        if !finished.output.contains("running 1 test") {
            return Err(format!("{}: no model is called {}", mutation.name, mutation.model).into());
        }
        Ok((judge(&finished)?, start.elapsed()))
    }

    fn build(&self, package: &str) -> Result<PathBuf> {
        // Unused items of a mutated source do not matter.
        let build = loom(Process::cargo("test"), &self.target, "--allow warnings");
        let build = build
            .directory(&self.workspace)
            .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
            .env("CARGO_PROFILE_RELEASE_INCREMENTAL", "true");
        let binaries = test_binaries(build.words("--lib --package").arg(package))?;
        let [binary] = &binaries[..] else {
            return Err(format!("{} test binaries instead of one", binaries.len()).into());
        };
        Ok(binary.clone())
    }
}

impl Structural {
    /// The package of the model, and its path there.
    fn package_and_model<'a>(&'a self, packages: &'a [Package]) -> Result<(&'a str, &'a str)> {
        let found = packages.iter().find_map(|package| {
            let folder = package.folder.file_name()?.to_str()?;
            let path = self.model.strip_prefix(folder)?.strip_prefix("::")?;
            Some((package.name.as_str(), path))
        });
        Ok(found.ok_or_else(|| format!("{}: of no crate", self.model))?)
    }

    fn apply(&self, source: &str) -> Result<String> {
        let Self {
            name,
            file,
            operations,
            ..
        } = self;
        let places = marked(source, name);
        if places.is_empty() || ![1, places.len()].contains(&operations.len()) {
            let (markers, operations, file) = (places.len(), operations.len(), file.display());
            return Err(format!("{name}: {operations} operations, {markers} in {file}").into());
        }
        let mut mutated = source.to_owned();
        // From the last to the first, so that the places before a change stay.
        for (nth, place) in places.iter().enumerate().rev() {
            let code = mutated.split_off(*place);
            let changed = operations[nth % operations.len()].apply(&code);
            let misfit = || format!("{name}: does not fit {}", file.display());
            mutated += &changed.ok_or_else(misfit)?;
        }
        Ok(mutated)
    }
}

impl Operation {
    fn parse(text: &str) -> Result<Self> {
        Ok(match (text, text.split_once(" ==>")) {
            ("delete", _) => Self::Delete,
            ("swap", _) => Self::Swap,
            (_, Some((old, new))) => Self::Replace(old.to_owned(), new.trim().to_owned()),
            (_, None) => {
                let code = text.strip_prefix("insert ");
                Self::Insert(code.ok_or_else(|| format!("{PATH}: {text}"))?.to_owned())
            }
        })
    }

    /// Changes the code behind a marker; returns `None` if the operation does not fit.
    fn apply(&self, code: &str) -> Option<String> {
        Some(match self {
            Self::Delete => code[statement(code)?..].to_owned(),
            Self::Swap => {
                let (first, rest) = code.split_at(statement(code)?);
                let start = start_of_code(rest);
                let (between, rest) = rest.split_at(start);
                let (second, rest) = rest.split_at(statement(rest)?);
                [second, between, first, rest].concat()
            }
            Self::Insert(inserted) => format!("{inserted}\n{code}"),
            Self::Replace(old, new) => {
                let Range { start, end } = find(code, old)?;
                [&code[..start], new, &code[end..]].concat()
            }
        })
    }
}

/// Returns where the code behind each marker of a name begins.
fn marked(source: &str, name: &str) -> Vec<usize> {
    let behind = |(at, marker): (usize, &str)| {
        let end = at + marker.len();
        let is_whole = source[end..].starts_with('\n');
        is_whole.then(|| end + start_of_code(&source[end..]))
    };
    let marker = format!("{MARKER}{name}");
    source.match_indices(&marker).filter_map(behind).collect()
}

/// Returns the length of the blanks and comments at the start.
fn start_of_code(source: &str) -> usize {
    let mut rest = source.trim_start();
    while rest.starts_with("//") {
        rest = rest
            .split_once('\n')
            .map_or("", |(_, after)| after.trim_start());
    }
    source.len() - rest.len()
}

/// Returns the length of the statement or the arm of a match at the start.
fn statement(code: &str) -> Option<usize> {
    let mut depth = 0;
    let is_end = |&(_, character): &(usize, char)| {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        depth == 0 && matches!(character, ';' | ',')
    };
    code.char_indices().find(is_end).map(|(at, _)| at + 1)
}

/// Returns the part of the code that begins on the first line and is `text` but for blanks.
fn find(code: &str, text: &str) -> Option<Range<usize>> {
    let line = code.lines().next()?;
    let starts = line
        .char_indices()
        .filter(|(_, first)| !first.is_whitespace());
    starts.map(|(start, _)| start).find_map(|start| {
        let mut end = start;
        for expected in text.split_whitespace().flat_map(str::chars) {
            let rest = code[end..].trim_start();
            end = code.len() - rest.strip_prefix(expected)?.len();
        }
        Some(start..end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutation_changes_its_file() {
        for mutation in read().unwrap() {
            let source = source::read(&root().join(&mutation.file)).unwrap();
            let mutated = mutation.apply(&source).unwrap();
            assert_ne!(mutated, source, "{}", mutation.name);
        }
    }

    fn mutated(source: &str, operations: &[&str]) -> Result<String> {
        let operations = operations.iter().map(|text| Operation::parse(text));
        let mutation = Structural {
            name: "a".to_owned(),
            model: String::new(),
            file: PathBuf::new(),
            operations: operations.collect::<Result<_>>()?,
        };
        Ok(mutation.apply(source)?.replace("// weaken: a\n", ""))
    }

    #[test]
    fn an_operation_changes_the_code_behind_its_marker() {
        let source = "f();\n// weaken: a\n// weaken: ab\n// Why.\ng(x, [y;\n2]);\nh();\n";
        let [before, after] = ["f();\n// weaken: ab\n// Why.\n", "\nh();\n"];
        for (operation, changed) in [
            ("delete", ""),
            ("insert k();", "k();\ng(x, [y;\n2]);"),
            ("x, ==>", "g( [y;\n2]);"),
            ("y; 2 ==> z", "g(x, [z]);"),
            ("[y; 2] ==> z", "g(x, z);"),
        ] {
            let expected = [before, changed, after].concat();
            assert_eq!(mutated(source, &[operation]).unwrap(), expected);
        }
        let swapped = [before, "h();\ng(x, [y;\n2]);\n"].concat();
        assert_eq!(mutated(source, &["swap"]).unwrap(), swapped);
    }

    #[test]
    fn each_marker_has_its_operation_or_all_have_one() {
        let source = "// weaken: a\nf();\n// weaken: a\ng();\n";
        let both = mutated(source, &["f ==> h", "delete"]).unwrap();
        assert_eq!(both, "h();\n\n");
        assert_eq!(mutated(source, &["() ==> (1)"]).unwrap(), "f(1);\ng(1);\n");
        assert!(mutated(source, &["delete"; 3]).is_err());
        assert!(mutated(source, &["g ==> h"]).is_err());
        assert!(mutated("f();\n", &["delete"]).is_err());
    }
}
