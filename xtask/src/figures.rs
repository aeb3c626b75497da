//! `figures`: the figures in documents, which are those of one run.
//!
//! A figure follows a comment with its key, `<!-- figure: KEY -->`. The run is the page that
//! `fdtable bench --figures` writes.

use std::collections::BTreeMap;
use std::fs;

use crate::{Result, no_arguments, root, source};

/// The page of the run.
const RUN: &str = "docs/figures.md";

const README: &str = "README.md";

/// The documents that have no other figures.
const FILLED: &[&str] = &[
    README,
    "docs/choosing.md",
    "docs/design.md",
    "docs/guide.md",
    "docs/limitations.md",
    "docs/run.md",
];

const BEGIN: &str = "<!-- figure: ";
const END: &str = " -->";

/// Units that make a number a figure.
const UNITS: &[&str] = &[" ns", " µs", " ms", " seconds", " minutes", " times"];

type Values<'a> = BTreeMap<String, &'a str>;

/// Writes the figures of the run into all documents.
pub(crate) fn run(arguments: &[String]) -> Result {
    no_arguments(arguments)?;
    each_document(|name, old, new| {
        if old != new {
            fs::write(root().join(name), new)?;
            println!("{name}");
        }
        Ok(())
    })
}

/// Fails if a document has other figures than the run.
pub(crate) fn check() -> Result {
    each_document(|name, old, new| {
        if old != new {
            return Err(format!("{name} has other figures than {RUN}: cargo xtask figures").into());
        }
        match unmarked(old) {
            Some(line) if FILLED.contains(&name) => {
                Err(format!("{name} has a figure without its key: {line}").into())
            }
            _ => Ok(()),
        }
    })
}

fn each_document(mut each: impl FnMut(&str, &str, &str) -> Result) -> Result {
    let page = source::read(&root().join(RUN))?;
    let values = values(&page);
    let mut documents = source::files("docs", "md")?;
    documents.push(root().join(README));
    for path in documents {
        let name = source::shown(&path);
        let old = source::read(&path)?;
        let new = filled(&old, &values).map_err(|error| format!("{name}: {error}"))?;
        each(&name, &old, &new)?;
    }
    Ok(())
}

/// Finds the values in the tables of the page.
fn values(page: &str) -> Values<'_> {
    page.lines().filter_map(value).collect()
}

/// Returns the key and the value of a row, whose last cells are these, the goal and the outcome.
fn value(row: &str) -> Option<(String, &str)> {
    let mut cells = row.rsplit('|').map(str::trim).skip(3);
    let (value, key) = (cells.next()?, cells.next()?);
    key.contains('.').then(|| (key.replace('\\', ""), value))
}

/// Replaces each figure by that of the run.
fn filled(document: &str, values: &Values<'_>) -> Result<String> {
    let mut parts = document.split(BEGIN);
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (key, rest) = part.split_once(END).ok_or("a comment has no end")?;
        let value = values
            .get(key)
            .ok_or_else(|| format!("{RUN} has no {key}"))?;
        filled.extend([BEGIN, key, END, value, &rest[length(rest)..]]);
    }
    Ok(filled)
}

/// Returns the length of the number at the beginning, without the period of a sentence.
fn length(text: &str) -> usize {
    let number = |c: char| c.is_ascii_digit() || c == '.';
    let end = text.find(|c| !number(c)).unwrap_or(text.len());
    text[..end].trim_end_matches('.').len()
}

/// Finds a line of prose in which a number with a unit has no key.
fn unmarked(document: &str) -> Option<&str> {
    document.lines().find(|line| {
        let mut parts = line.split(BEGIN);
        let begin = parts.next().into_iter();
        let others = parts.filter_map(|part| part.split_once(END));
        let mut prose = begin.chain(others.map(|(_, rest)| &rest[length(rest)..]));
        prose.any(|text| {
            UNITS.iter().any(|unit| {
                let mut places = text.match_indices(unit);
                places.any(|(at, _)| text[..at].ends_with(|c: char| c.is_ascii_digit()))
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "| A \\| b | a.b\\_c | 1.573 | ≥ 1.318 | reached |\n| c | a.d | 16.0 |  |  |";

    #[test]
    fn a_figure_is_the_one_of_the_run_with_its_key() {
        let values = values(PAGE);
        let old = "x <!-- figure: a.b_c -->9. It is <!-- figure: a.d -->1.5 µs | 3";
        let new = "x <!-- figure: a.b_c -->1.573. It is <!-- figure: a.d -->16.0 µs | 3";
        assert_eq!(filled(old, &values).unwrap(), new);
        assert_eq!(filled(new, &values).unwrap(), new);
        assert!(filled("<!-- figure: a.e -->1", &values).is_err());
    }

    #[test]
    fn a_figure_without_a_key_is_found() {
        assert_eq!(
            unmarked("of 64\n<!-- figure: a.d -->16.0 µs, 20 times"),
            Some("<!-- figure: a.d -->16.0 µs, 20 times")
        );
        assert_eq!(
            unmarked("it builds in 3 minutes"),
            Some("it builds in 3 minutes")
        );
        assert_eq!(unmarked("of 64 slots\n<!-- figure: a.d -->16.0 µs"), None);
    }
}
