//! The rules, each of which finds what breaks it in one line of prose.

use crate::source;

/// As wide as the code: `max_width` of rustfmt.toml.
const WIDTH: usize = 100;

/// A line of a comment or of a document.
#[derive(Debug)]
pub(super) struct Prose {
    /// The whole line.
    pub(super) text: String,
    /// Its words, without code and punctuation.
    words: Vec<String>,
    /// The words of each sentence that begins in it, also of those in the lines that follow.
    sentences: Vec<Sentence>,
    width: Width,
}

/// The words of a sentence.
#[derive(Debug, Default, Clone)]
struct Sentence {
    words: Vec<String>,
    has_comma: bool,
}

/// Importance of the width of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Width {
    /// A comment, which keeps to the width of code.
    Bounded,
    /// Code, which rustfmt looks after; or a document, whose tables have long lines.
    Free,
}

/// A rule: its name, and a function that returns true for a line that breaks it.
pub(super) type Rule = (&'static str, fn(&Prose) -> bool);

pub(super) const RULES: &[Rule] = &[
    ("who", headless_who),
    ("tells-whether", |line| {
        sequence(line, &["tells"], &["whether"])
    }),
    ("processor", |line| {
        words(line, &["processor", "processors"])
    }),
    ("for-ever", |line| sequence(line, &["for"], &["ever"])),
    ("somebody", |line| {
        words(line, &["somebody", "nobody", "everybody"])
    }),
    ("headless", headless_sentences),
    ("is-to-be", |line| {
        sequence(line, &["is", "are", "was", "were"], &["to", "be"])
    }),
    ("width", too_wide),
];

/// Persons: `who` is no finding where it follows one of these words.
const PERSONS: &[&str] = &[
    "author",
    "authors",
    "caller",
    "callers",
    "embedder",
    "embedders",
    "maintainer",
    "maintainers",
    "people",
    "person",
    "programmer",
    "programmers",
    "reader",
    "readers",
    "user",
    "users",
];

/// The comments of Rust source, with a line for each line.
pub(super) fn of_source(text: &str) -> Vec<Prose> {
    let lines = source::lines(text);
    let with_texts = lines.iter().zip(text.lines());
    let mut prose: Vec<Prose> = with_texts
        .map(|(line, text)| Prose {
            text: text.to_owned(),
            words: split(&line.comment),
            sentences: Vec::new(),
            width: if line.comment.is_empty() {
                Width::Free
            } else {
                Width::Bounded
            },
        })
        .collect();
    find_sentences(&mut prose, lines.into_iter().map(|line| line.comment));
    prose
}

/// Gives each line the sentences that begin in it. `texts` has the prose of each line.
fn find_sentences(prose: &mut [Prose], texts: impl Iterator<Item = String>) {
    // The line in which the sentence began that is not at its end yet.
    let mut open: Option<(usize, Sentence)> = None;
    let mut in_code = false;
    for (index, text) in texts.enumerate() {
        let text = text.trim();
        let fence = text.starts_with("```");
        in_code ^= fence;
        let is_apart = text.is_empty() || fence || in_code || text.starts_with(['#', '|']);
        let is_item = text.starts_with(['-', '*', '>']);
        if is_apart || is_item {
            close(prose, open.take());
        }
        if is_apart {
            continue;
        }
        for word in text.trim_start_matches(['-', '*', '>']).split_whitespace() {
            let (_, sentence) = open.get_or_insert_with(|| (index, Sentence::default()));
            let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '`');
            sentence.words.push(bare.to_lowercase());
            sentence.has_comma |= word.ends_with(',');
            if word
                .trim_end_matches([')', '*', '"'])
                .ends_with(['.', '?', '!'])
            {
                close(prose, open.take());
            }
        }
    }
    close(prose, open);
}

fn close(prose: &mut [Prose], sentence: Option<(usize, Sentence)>) {
    if let Some((line, sentence)) = sentence {
        prose[line].sentences.push(sentence);
    }
}

/// The text of a document in Markdown without blocks of code, with a line for each line.
pub(super) fn of_document(text: &str) -> Vec<Prose> {
    let mut in_code = false;
    let lines = text.lines().map(|text| {
        let fence = text.trim_start().starts_with("```");
        in_code ^= fence;
        let words = if in_code || fence {
            Vec::new()
        } else {
            split(text)
        };
        Prose {
            text: text.to_owned(),
            words,
            sentences: Vec::new(),
            width: Width::Free,
        }
    });
    let mut prose: Vec<Prose> = lines.collect();
    find_sentences(&mut prose, text.lines().map(str::to_owned));
    prose
}

/// The words of a text in lower case, without what is between backticks.
fn split(text: &str) -> Vec<String> {
    let outside = text.split('`').step_by(2).collect::<Vec<_>>().join(" ` ");
    outside
        .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '`'))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

fn words(line: &Prose, wanted: &[&str]) -> bool {
    let mut words = line.words.iter();
    words.any(|word| wanted.contains(&word.as_str()))
}

/// Finds one of the words `first` before the words `rest`.
fn sequence(line: &Prose, first: &[&str], rest: &[&str]) -> bool {
    let mut windows = line.words.windows(1 + rest.len());
    windows.any(|words| first.contains(&words[0].as_str()) && words[1..] == *rest)
}

/// A `who` without a person before it: a sentence has to name its actor.
fn headless_who(line: &Prose) -> bool {
    let before = [""]
        .into_iter()
        .chain(line.words.iter().map(String::as_str));
    let mut pairs = before.zip(&line.words);
    pairs.any(|(before, word)| word == "who" && !PERSONS.contains(&before))
}

/// Sentences whose subject is a clause: it hides the noun. One that begins with `Where` and goes on
/// after a comma has another subject. Questions of a test's documentation name what breaks.
fn headless_sentences(line: &Prose) -> bool {
    const RELATIVE: &[&str] = &[
        "of", "that", "which", "who", "whose", "in", "with", "from", "for",
    ];
    let is_headless = |sentence: &Sentence| {
        let word = |index: usize| sentence.words.get(index).map_or("", String::as_str);
        match word(0) {
            "what" => word(1) != "breaks",
            "whether" => true,
            "where" => !sentence.has_comma,
            "those" => RELATIVE.contains(&word(1)),
            _ => false,
        }
    };
    line.sentences.iter().any(is_headless)
}

/// A comment that is too wide, unless no space lets it break: a link.
fn too_wide(line: &Prose) -> bool {
    let text = line.text.trim_start();
    let after_slashes = text.trim_start_matches(['/', '!']).trim_start();
    let wide = line.width == Width::Bounded && line.text.chars().count() > WIDTH;
    // Neither a long link nor a row of a table can be wrapped.
    wide && after_slashes.contains(' ') && !after_slashes.starts_with('|')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(prose: &[Prose]) -> Vec<&'static str> {
        let of_line = |line| RULES.iter().filter(move |rule| (rule.1)(line));
        prose.iter().flat_map(of_line).map(|rule| rule.0).collect()
    }

    #[test]
    fn an_actor_without_a_name_is_found() {
        assert_eq!(
            findings(&of_source("// Who closes it frees it.\n")),
            ["who"]
        );
        assert_eq!(findings(&of_source("/// For those who read.\n")), ["who"]);
        assert!(findings(&of_source("/// For callers who block.\n")).is_empty());
    }

    #[test]
    fn words_of_the_old_prose_are_found() {
        assert_eq!(
            findings(&of_source("//! Tells whether it is full.\n")),
            ["tells-whether"]
        );
        assert_eq!(
            findings(&of_document("Each processor.\n\nFor ever.")),
            ["processor", "for-ever"]
        );
        assert_eq!(findings(&of_document("Nobody waits.")), ["somebody"]);
    }

    #[test]
    fn a_subject_that_is_a_clause_is_found() {
        for text in [
            "// What no parent waits for\n// is reaped.\n",
            "/// The number. Those of the host\n/// come first.\n",
            "/// Whether it is in a call.\n",
            "//! Where a thread sleeps.\n",
        ] {
            assert_eq!(findings(&of_source(text)), ["headless"], "{text}");
        }
        for text in [
            "/// Where memory is short,\n/// the call fails.\n",
            "/// What breaks if this is wrong: a lost wake-up.\n",
            "/// Those threads do not exist.\n",
            "/// It tells\n/// what it was.\n",
        ] {
            assert!(findings(&of_source(text)).is_empty(), "{text}");
        }
        assert_eq!(
            findings(&of_source("// It is to be called once.\n")),
            ["is-to-be"]
        );
    }

    #[test]
    fn code_is_not_prose() {
        assert!(findings(&of_source("let who = processor(); // `NOBODY` has it\n")).is_empty());
        assert!(findings(&of_document("```\nwho\n```\nThe preprocessor.")).is_empty());
    }

    #[test]
    fn a_wide_comment_is_found_unless_it_is_a_link_or_a_row() {
        let wide = "a ".repeat(60);
        assert_eq!(findings(&of_source(&format!("// {wide}\n"))), ["width"]);
        assert!(findings(&of_source(&format!("// {}\n", "a".repeat(120)))).is_empty());
        assert!(findings(&of_source(&format!("//! | {wide} |\n"))).is_empty());
        assert!(findings(&of_document(&wide)).is_empty());
    }
}
