//! Lists of exceptions, each with its reason.

use std::collections::BTreeMap;
use std::fs;

use crate::{Result, root};

/// The keys on a list, whose path is below the root of the workspace, each with its reason.
pub(crate) fn read(path: &str) -> Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(root().join(path))?;
    parse(&text).map_err(|error| format!("{path}: {error}").into())
}

/// Reads paragraphs: lines of a reason, each after `# `, then the keys that it holds for. A
/// paragraph without keys is a comment.
fn parse(text: &str) -> std::result::Result<BTreeMap<String, String>, String> {
    let mut list = BTreeMap::new();
    for paragraph in text.split("\n\n") {
        let lines = paragraph.lines().filter(|line| !line.is_empty());
        let (reason, keys): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with('#'));
        let reason = reason.join("\n");
        for key in keys {
            if reason.is_empty() {
                return Err(format!("without a reason: {key}"));
            }
            if list.insert(key.to_owned(), reason.clone()).is_some() {
                return Err(format!("twice: {key}"));
            }
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_reason_of_their_paragraph() {
        let list = parse("# What this is.\n\n# One\n# reason.\na\nb\n\n# Another.\nc\n").unwrap();
        let list: Vec<_> = list.iter().map(|(key, why)| (&key[..], &why[..])).collect();
        assert_eq!(
            list,
            [
                ("a", "# One\n# reason."),
                ("b", "# One\n# reason."),
                ("c", "# Another.")
            ]
        );
    }

    #[test]
    fn a_key_needs_a_reason_and_is_there_once() {
        assert_eq!(parse("a\n").unwrap_err(), "without a reason: a");
        assert_eq!(parse("# Why.\na\na\n").unwrap_err(), "twice: a");
    }
}
