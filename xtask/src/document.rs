//! Parts of documents that commands write, between a comment that names the command and an end.

use std::fs;

use crate::{Result, root};

const END: &str = "<!-- end -->";

/// Replaces the text between the comment `begin` and the next end.
///
/// # Errors
///
/// Fails if the document cannot be read or written, or has no such part.
pub(crate) fn replace_part(document: &str, begin: &str, text: &str) -> Result {
    let path = root().join(document);
    let old = fs::read_to_string(&path).map_err(|error| format!("{document}: {error}"))?;
    let new = replaced(&old, begin, text).ok_or_else(|| format!("{document} has no {begin}"))?;
    fs::write(path, new).map_err(|error| format!("{document}: {error}").into())
}

fn replaced(document: &str, begin: &str, text: &str) -> Option<String> {
    let (before, rest) = document.split_once(begin)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!(
        "{before}{begin}\n\n{}\n\n{END}{after}",
        text.trim_end()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_that_a_comment_begins_is_replaced() {
        let document = "a <!-- x --> old <!-- end --> b <!-- y --> kept <!-- end --> c";
        let new = replaced(document, "<!-- x -->", "new\n");
        let expected = "a <!-- x -->\n\nnew\n\n<!-- end --> b <!-- y --> kept <!-- end --> c";
        assert_eq!(new.as_deref(), Some(expected));
        assert_eq!(replaced(document, "<!-- z -->", "new"), None);
    }
}
