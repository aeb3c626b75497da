//! Suppressions: findings that are known, and not printed.
//!
//! A line is `KIND:PATTERN`, as for the sanitizers: a finding of the kind is suppressed if a
//! function, source file or program of one of its stacks, or the name of its file, has the pattern.
//! In it `*` is any text; `^` at its begin and `$` at its end are those of the name. `*` as a kind
//! is any. Lines that are empty or begin with `#` count nothing.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};

use super::message::Message;
use super::symbols::Frame;

/// The kinds of findings.
const KINDS: [&str; 7] = [
    "double-close",
    "use-after-close",
    "close-during-use",
    "lost-lock",
    "inherited",
    "limit",
    "leak",
];

/// Faults of common programs, which are harmless there: in a pipeline, bash closes its end twice.
const COMMON: &str = "double-close:/bash$";

/// Lines of files.
#[derive(Debug, Default)]
pub(super) struct Suppressions(Vec<(String, String)>);

impl Suppressions {
    /// Returns those of common programs.
    pub(super) fn common() -> Self {
        let mut all = Self::default();
        all.add(COMMON).expect("a valid line");
        all
    }

    /// Adds the lines of a file.
    pub(super) fn read(&mut self, path: &Path) -> anyhow::Result<()> {
        for (index, line) in fs::read_to_string(path)?.lines().enumerate() {
            self.add(line)
                .with_context(|| format!("line {}", index + 1))?;
        }
        Ok(())
    }

    fn add(&mut self, line: &str) -> anyhow::Result<()> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let Some((kind, pattern)) = line.split_once(':') else {
            bail!("not KIND:PATTERN: {line}");
        };
        let is_known = kind == "*" || KINDS.contains(&kind);
        ensure!(is_known, "unknown kind {kind}: one of {}", KINDS.join(", "));
        self.0.push((kind.to_owned(), pattern.to_owned()));
        Ok(())
    }

    /// Returns true if a finding is suppressed.
    pub(super) fn have(&self, message: &Message, stacks: &[Vec<Frame>]) -> bool {
        let frames = stacks.iter().flatten();
        let names = frames.flat_map(|frame| [&frame.function, &frame.source, &frame.module]);
        let names: Vec<&str> = names.flatten().map(String::as_str).collect();
        self.0.iter().any(|(kind, pattern)| {
            let is_of_kind = kind == "*" || *kind == message.kind;
            let mut all = names.iter().copied().chain([message.file.as_str()]);
            is_of_kind && all.any(|name| matches(name, pattern))
        })
    }
}

/// Returns true if a name has a pattern.
fn matches(name: &str, pattern: &str) -> bool {
    let (from_start, pattern) = match pattern.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let (to_end, pattern) = match pattern.strip_suffix('$') {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let parts: Vec<&str> = pattern.split('*').collect();
    let mut rest = name;
    for (index, part) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        let found = match (index == 0 && from_start, is_last && to_end) {
            (true, true) => (rest == *part).then_some(0),
            (true, false) => rest.starts_with(part).then_some(0),
            (false, true) => rest.ends_with(part).then(|| rest.len() - part.len()),
            (false, false) => rest.find(part),
        };
        match found {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_part_of_a_name_with_stars_and_ends() {
        for (pattern, name, expected) in [
            ("close", "really_close", true),
            ("^close", "really_close", false),
            ("^really*close$", "really_close", true),
            ("close$", "close_it", false),
            ("^close$", "close", true),
            ("lib*.so", "/usr/lib/libz.so.1", true),
            ("lib*.a", "/usr/lib/libz.so.1", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(name, pattern), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_line_names_a_kind_and_a_pattern() {
        let mut all = Suppressions::default();
        for line in ["", "# text", "leak:f", "*:libz.so"] {
            all.add(line).expect(line);
        }
        assert_eq!(all.0.len(), 2);
        assert!(all.add("leak").is_err());
        assert!(all.add("leaks:f").is_err());
    }
}
