//! The manual page.

use std::collections::BTreeSet;

use crate::compile::try_run;
use crate::symbols::{HEADER, declared};

const PAGE: &str = include_str!("../../man/fdtable.3");

/// The page declares what the header does, and describes it.
#[test]
fn the_manual_page_has_the_declarations_of_the_header() {
    let (_, synopsis) = PAGE.split_once(".SH SYNOPSIS").unwrap();
    let (synopsis, description) = synopsis.split_once(".SH DESCRIPTION").unwrap();
    let plain: String = synopsis.lines().map(without_fonts).collect();
    assert_eq!(declarations(&plain), declarations(HEADER));

    let words = description.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let described: BTreeSet<&str> = words.collect();
    let missing: Vec<_> = declared().difference(&described).copied().collect();
    assert!(missing.is_empty(), "not described: {missing:?}");
}

/// Returns a line of the synopsis as C: `.BI "int f(int " fd );` is `int f(int fd);`.
fn without_fonts(line: &str) -> String {
    let Some(line) = line.strip_prefix(".B ") else {
        let parts = line.strip_prefix(".BI ").unwrap_or_default().split('"');
        let joined = parts.enumerate().map(|(index, part)| match index % 2 {
            0 => part.replace(' ', ""),
            _ => part.to_owned(),
        });
        return joined.chain(["\n".to_owned()]).collect();
    };
    format!("{line}\n")
}

/// Returns the declarations of functions and of types of functions, without line breaks.
fn declarations(text: &str) -> BTreeSet<String> {
    let is_c = |line: &&str| !line.trim_start().starts_with(['#', '/', '*', '}', 'e']);
    let lines: Vec<&str> = text.lines().filter(is_c).collect();
    let statements = lines.join(" ");
    let functions = statements.split(';').filter(|it| it.contains('('));
    let words = functions.map(|it| it.split_whitespace().collect::<Vec<_>>().join(" "));
    words.collect()
}

#[test]
fn the_manual_page_is_formatted_without_a_warning() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/man/fdtable.3");
    if try_run("groff", &["--version"]).is_err() {
        eprintln!("skipped: groff is not installed");
        return;
    }
    let arguments = ["-man", "-Tutf8", "-ww", "-z", path];
    let done = std::process::Command::new("groff").args(arguments).output();
    let warnings = String::from_utf8(done.unwrap().stderr).unwrap();
    assert_eq!(warnings, "");
}
