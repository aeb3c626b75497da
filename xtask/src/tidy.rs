//! `tidy`: what a machine can see of the style of comments, documents and commit subjects.
//!
//! The prose that stands breaks rules in many places. How many findings of which rule each part of
//! the repository may have is in `tidy-allowed.txt`, and these numbers only fall: more findings
//! than that fail, and fewer ask for `cargo xtask tidy --lower`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use crate::process::{End, Process};
use crate::{Result, fail_with, root, source};

mod rules;

use rules::RULES;

/// The commit after which subjects are checked.
const SUBJECTS_SINCE: &str = "5373399";

const LONGEST_SUBJECT: usize = 72;

const ALLOWED: &str = "xtask/tidy-allowed.txt";

/// The folders whose folders are crates.
const FOLDERS_OF_CRATES: &[&str] = &["crates", "examples", "kernel", "lab"];

const HEAD_OF_ALLOWED: &str = "\
# How many findings `cargo xtask tidy` accepts: part of the repository, rule, number.
# The numbers only fall. `cargo xtask tidy --lower` writes those that did.
";

/// How many findings there are, of a part of the repository and a rule.
type Counts = BTreeMap<(String, String), usize>;

pub(crate) fn run(arguments: &[String]) -> Result {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => check(),
        ["--lower"] => lower(),
        ["--list"] => list(""),
        ["--list", part] => list(part),
        _ => Err("it takes nothing, --lower, or --list [PART]".into()),
    }
}

/// Checks prose and subjects.
pub(crate) fn check() -> Result {
    let (found, allowed) = (counts(&findings()?), allowed()?);
    let mut wrong = Vec::new();
    for ((part, rule), count, limit) in compared(&found, &allowed) {
        if count > limit {
            wrong.push(format!(
                "{part}: {count} findings of `{rule}` where {limit} are allowed \
                 (cargo xtask tidy --list {part})"
            ));
        } else if count < limit {
            println!("{part}: {count} findings of `{rule}`, {limit} allowed: tidy --lower");
        }
    }
    wrong.extend(bad_subjects()?);
    fail_with(&wrong)
}

/// Writes the numbers that have fallen.
fn lower() -> Result {
    let (found, allowed) = (counts(&findings()?), allowed()?);
    let mut text = String::from(HEAD_OF_ALLOWED);
    for ((part, rule), count, limit) in compared(&found, &allowed) {
        if count.min(limit) > 0 {
            writeln!(text, "{part:<24} {rule:<16} {}", count.min(limit))?;
        }
    }
    fs::write(root().join(ALLOWED), text)?;
    Ok(())
}

/// Prints the findings of the parts whose names begin with `part`.
fn list(part: &str) -> Result {
    for finding in findings()?
        .iter()
        .filter(|finding| finding.part.starts_with(part))
    {
        println!(
            "{}:{}: {}: {}",
            finding.file,
            finding.line,
            finding.rule,
            finding.text.trim()
        );
    }
    Ok(())
}

/// One line that breaks a rule.
struct Finding {
    part: String,
    rule: &'static str,
    file: String,
    line: usize,
    text: String,
}

fn findings() -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    for (part, path) in files()? {
        let text = source::read(&path)?;
        let prose = if path.extension().is_some_and(|extension| extension == "rs") {
            rules::of_source(&text)
        } else {
            rules::of_document(&text)
        };
        for (index, line) in prose.into_iter().enumerate() {
            for rule in RULES {
                for _ in 0..(rule.1)(&line) {
                    found.push(Finding {
                        part: part.clone(),
                        rule: rule.0,
                        file: source::shown(&path),
                        line: index + 1,
                        text: line.text.clone(),
                    });
                }
            }
        }
    }
    Ok(found)
}

/// Sources and documents, each with the part of the repository that it counts for: a crate, a
/// directory of the root, or `.` for files in the root.
fn files() -> Result<Vec<(String, PathBuf)>> {
    let mut parts = vec!["docs".to_owned(), "xtask".to_owned()];
    let mut files = documents_in(".")?;
    for folder in FOLDERS_OF_CRATES {
        files.extend(documents_in(folder)?);
        for entry in fs::read_dir(root().join(folder))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                parts.push(format!("{folder}/{}", entry.file_name().to_string_lossy()));
            }
        }
    }
    for part in parts {
        for extension in ["rs", "md"] {
            let found = source::files(&part, extension)?;
            files.extend(found.into_iter().map(|path| (part.clone(), path)));
        }
    }
    let generated = root().join(GENERATED);
    files.retain(|(_, path)| *path != generated);
    Ok(files)
}

/// The page of figures, which a program writes: it has the name that the CPU gives itself.
const GENERATED: &str = "docs/figures.md";

/// The documents in this folder, but not below it, with the folder as their part.
fn documents_in(folder: &str) -> Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root().join(folder))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            files.push((folder.to_owned(), path));
        }
    }
    Ok(files)
}

fn counts(findings: &[Finding]) -> Counts {
    let mut counts = Counts::new();
    for finding in findings {
        *counts
            .entry((finding.part.clone(), finding.rule.to_owned()))
            .or_default() += 1;
    }
    counts
}

fn allowed() -> Result<Counts> {
    let text = source::read(&root().join(ALLOWED))?;
    let mut counts = Counts::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [part, rule, number] = words[..] else {
            return Err(format!("{ALLOWED}: not a part, a rule and a number: {line}").into());
        };
        counts.insert((part.to_owned(), rule.to_owned()), number.parse()?);
    }
    Ok(counts)
}

/// All that was found or is allowed: what it is, how many there are, how many are allowed.
fn compared(found: &Counts, allowed: &Counts) -> Vec<((String, String), usize, usize)> {
    let mut keys: Vec<_> = found.keys().chain(allowed.keys()).cloned().collect();
    keys.sort();
    keys.dedup();
    let number = |counts: &Counts, key: &(String, String)| counts.get(key).copied().unwrap_or(0);
    keys.into_iter()
        .map(|key| {
            let (count, limit) = (number(found, &key), number(allowed, &key));
            (key, count, limit)
        })
        .collect()
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

    #[test]
    fn what_is_found_or_allowed_is_compared() {
        let key = |part: &str| (part.to_owned(), "who".to_owned());
        let found = Counts::from([(key("a"), 2), (key("b"), 1)]);
        let allowed = Counts::from([(key("b"), 3), (key("c"), 4)]);
        let expected = [(key("a"), 2, 0), (key("b"), 1, 3), (key("c"), 0, 4)];
        assert_eq!(compared(&found, &allowed), expected);
    }
}
