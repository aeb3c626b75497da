//! `tidy`: what a machine can see of the style of comments, documents and commit subjects.

use std::fs;
use std::path::PathBuf;

use crate::process::{End, Process};
use crate::{Result, fail_with, no_arguments, root, source};

mod rules;

use rules::RULES;

/// The commit after which subjects are checked.
const SUBJECTS_SINCE: &str = "5373399";

const LONGEST_SUBJECT: usize = 72;

/// The folders with sources and documents.
const FOLDERS: &[&str] = &["crates", "docs", "examples", "kernel", "lab", "xtask"];

/// The page of figures, which a program writes: it has the name that the CPU gives itself.
const GENERATED: &str = "docs/figures.md";

pub(crate) fn run(arguments: &[String]) -> Result {
    no_arguments(arguments)?;
    check()
}

/// Checks prose and subjects.
pub(crate) fn check() -> Result {
    let mut wrong = Vec::new();
    for path in files()? {
        let (name, text) = (source::shown(&path), source::read(&path)?);
        let prose = match name.ends_with(".rs") {
            true => rules::of_source(&text),
            false => rules::of_document(&text),
        };
        for (number, line) in (1..).zip(&prose) {
            let broken = RULES.iter().filter(|(_, breaks)| breaks(line));
            let text = line.text.trim();
            wrong.extend(broken.map(|(rule, _)| format!("{name}:{number}: {rule}: {text}")));
        }
    }
    wrong.extend(bad_subjects()?);
    fail_with(&wrong)
}

/// Sources and documents.
fn files() -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root())? {
        let path = entry?.path();
        files.extend(Some(path).filter(|path| path.extension().is_some_and(|of| of == "md")));
    }
    for folder in FOLDERS {
        files.extend(source::files(folder, "rs")?);
        files.extend(source::files(folder, "md")?);
    }
    files.retain(|path| !path.ends_with(GENERATED));
    Ok(files)
}

/// Faults of the subjects of commits after [`SUBJECTS_SINCE`].
fn bad_subjects() -> Result<Vec<String>> {
    let range = format!("{SUBJECTS_SINCE}..HEAD");
    let log = Process::new("git")
        .args(["log", "--format=%h %s", &range])
        .quiet()
        .finish()?;
    if log.end != End::Success {
        println!("subjects of commits not checked: {SUBJECTS_SINCE} is not in this clone");
        return Ok(Vec::new());
    }
    let wrong = log.output.lines().filter_map(|line| {
        let (hash, subject) = line.split_once(' ')?;
        Some(format!("{hash}: {}: {subject}", fault_of_subject(subject)?))
    });
    Ok(wrong.collect())
}

fn fault_of_subject(subject: &str) -> Option<String> {
    if subject.starts_with("Merge branch") {
        Some("a merge whose subject is the name of a branch".to_owned())
    } else if subject.ends_with('.') {
        Some("ends with a period".to_owned())
    } else if subject.chars().count() > LONGEST_SUBJECT {
        Some(format!("longer than {LONGEST_SUBJECT} characters"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_short_and_no_sentences() {
        assert_eq!(fault_of_subject("rcu: document the acquire"), None);
        assert!(fault_of_subject("rcu: document the acquire.").is_some());
        assert!(fault_of_subject("Merge branch 'x'").is_some());
        assert_eq!(fault_of_subject(&"a".repeat(72)), None);
        assert!(fault_of_subject(&"a".repeat(73)).is_some());
    }
}
