//! The Rust sources of the repository, line by line, with code and comments apart.

use std::fs;
use std::iter;
use std::path::{Path, PathBuf};

use crate::{Result, root};

/// One line of a source file.
#[derive(Default, PartialEq, Eq, Debug)]
pub(crate) struct Line {
    /// The code, each character in its column. Characters of comments and in literals are blanks.
    pub(crate) code: String,
    /// The text of comments, without their slashes.
    pub(crate) comment: String,
}

/// All files below `directory` (from the root) whose names end in `extension`, in order. Links are
/// left out: the file itself is elsewhere.
///
/// # Errors
///
/// Fails if a directory cannot be read, which includes that it does not exist.
pub(crate) fn files(directory: &str, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut left = vec![root().join(directory)];
    while let Some(directory) = left.pop() {
        let entries = fs::read_dir(&directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        for entry in entries {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                left.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|of_path| of_path == extension)
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The text of a file.
///
/// # Errors
///
/// Names the file that cannot be read.
pub(crate) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// The path as the root sees it, to show it.
pub(crate) fn shown(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .display()
        .to_string()
}

/// Returns true if `word` is in `text`, with no letter, digit or underscore at either side.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(start, _)| {
        !text[..start].ends_with(part_of_word)
            && !text[start + word.len()..].starts_with(part_of_word)
    })
}

/// Place of the scanner in the source.
#[derive(Clone, Copy)]
enum State {
    Code,
    LineComment,
    /// Inside so many block comments.
    BlockComment(usize),
    /// A string or byte string that a quote ends.
    String,
    /// A raw string that a quote and so many hashes end.
    RawString(usize),
}

/// Splits Rust source into lines of code and comments.
pub(crate) fn lines(source: &str) -> Vec<Line> {
    let mut lines = vec![Line::default()];
    let mut state = State::Code;
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let line = lines.last_mut().expect("there is always a line");
        let mut length = first.len_utf8();
        if first == '\n' {
            lines.push(Line::default());
            if let State::LineComment = state {
                state = State::Code;
            }
            rest = &rest[length..];
            continue;
        }
        // The last character of what is taken; blanks stand for those before it.
        let mut last = ' ';
        match state {
            State::Code => {
                if let Some(prefix) = line_comment(rest) {
                    (state, length) = (State::LineComment, prefix);
                } else if rest.starts_with("/*") {
                    (state, length) = (State::BlockComment(1), 2);
                } else if let Some((hashes, prefix)) = raw_string(rest, &line.code) {
                    (state, length, last) = (State::RawString(hashes), prefix, '"');
                } else if let Some(literal) = character(rest) {
                    (length, last) = (literal, '\'');
                } else {
                    last = first;
                    if first == '"' {
                        state = State::String;
                    }
                }
            }
            State::LineComment => line.comment.push(first),
            State::BlockComment(depth) => {
                if rest.starts_with("*/") {
                    state = if depth == 1 {
                        State::Code
                    } else {
                        State::BlockComment(depth - 1)
                    };
                    length = 2;
                } else if rest.starts_with("/*") {
                    (state, length) = (State::BlockComment(depth + 1), 2);
                } else {
                    line.comment.push(first);
                }
            }
            State::String => {
                if first == '\\' && !rest.starts_with("\\\n") {
                    length += rest[1..].chars().next().map_or(0, char::len_utf8);
                } else if first == '"' {
                    (state, last) = (State::Code, '"');
                }
            }
            State::RawString(hashes) => {
                let quote = rest.strip_prefix('"');
                let after = |text: &str| text.bytes().take_while(|&byte| byte == b'#').count();
                if quote.is_some_and(|text| after(text) >= hashes) {
                    (state, length, last) = (State::Code, 1 + hashes, '"');
                }
            }
        }
        let (taken, after) = rest.split_at(length);
        line.code
            .extend(iter::repeat_n(' ', taken.chars().count() - 1));
        line.code.push(last);
        rest = after;
    }
    if source.ends_with('\n') {
        lines.pop();
    }
    lines
}

/// The length of the slashes that a line comment begins with.
fn line_comment(rest: &str) -> Option<usize> {
    ["///", "//!", "//"]
        .iter()
        .find(|slashes| rest.starts_with(**slashes))
        .map(|slashes| slashes.len())
}

/// The number of hashes of a raw string that begins here, and the length up to its text.
fn raw_string(rest: &str, before: &str) -> Option<(usize, usize)> {
    if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') && !before.ends_with(['b', 'c'])
    {
        return None;
    }
    let hashes = rest.strip_prefix('r')?;
    let count = hashes.bytes().take_while(|&byte| byte == b'#').count();
    hashes[count..]
        .starts_with('"')
        .then_some((count, count + 2))
}

/// The length of a character literal that begins here; a lifetime is none.
fn character(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('\'')?;
    let first = inner.chars().next()?;
    if first == '\\' {
        // The escaped character itself can be a quote.
        let end = inner.char_indices().skip(2).find(|&(_, c)| c == '\'')?.0;
        return Some(end + 2);
    }
    inner[first.len_utf8()..]
        .starts_with('\'')
        .then_some(first.len_utf8() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(source: &str) -> Vec<String> {
        let lines = lines(source).into_iter();
        lines.map(|line| line.code.trim_end().to_owned()).collect()
    }

    fn comments(source: &str) -> Vec<String> {
        lines(source).into_iter().map(|line| line.comment).collect()
    }

    #[test]
    fn comments_are_apart_from_code() {
        assert_eq!(code("a(); // b\n/// c\nd\n"), ["a();", "", "d"]);
        assert_eq!(comments("a(); // b\n/// c\nd\n"), [" b", " c", ""]);
        assert_eq!(comments("x /* a\nb /* c */ d */ y"), [" a", "b  c  d "]);
    }

    #[test]
    fn literals_have_no_contents_but_their_width() {
        assert_eq!(
            code(r#"f("a // \" b", 'c', '"', '\'', b"d")"#),
            [r#"f("         ",   ',   ',    ', b" ")"#]
        );
        assert_eq!(code("f(r#\"a \" // é\"#, x)"), ["f(  \"         \", x)"]);
        assert_eq!(code("f(\"a\\\n  b // c\") // d"), ["f(\"", "        \")"]);
    }

    #[test]
    fn a_lifetime_is_not_a_character() {
        assert_eq!(
            code("fn f<'a>(x: &'a str, c: 'b')"),
            ["fn f<'a>(x: &'a str, c:   ')"]
        );
    }

    #[test]
    fn a_word_is_a_whole_word() {
        assert!(has_word("a unsafe{", "unsafe"));
        assert!(!has_word("deny(unsafe_code)", "unsafe"));
        assert!(!has_word("preprocessor", "processor"));
    }
}
