//! Finds the orderings and fences in Rust source, by its tokens.
//!
//! A site is an ordering other than `Relaxed` among the arguments of a call, or a call of
//! `fence::full`, `fence::light` or `fence::heavy`. Its place is the one that
//! `core::panic::Location::caller` reports for the call. Code under a `cfg` that names `test` is
//! left out.

use std::mem;

use crate::source::{Line, lines};

/// The orderings that can be weakened.
const ORDERINGS: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];

/// The fences of the crate, in the module `fence`.
const FENCES: [&str; 3] = ["full", "light", "heavy"];

/// An ordering or a fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Site {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) part: Part,
    /// The function around it.
    pub(super) function: String,
    /// The call, without spaces: `self.anchor.load(Acquire)`.
    pub(super) operation: String,
    /// Weaker orderings that can take its place.
    pub(super) weaker: Vec<&'static str>,
    /// The ordering as it is, or the fence.
    pub(super) strength: String,
}

/// Which part of a call it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The first ordering among its arguments.
    First,
    /// The second: of an exchange that fails.
    Second,
    /// The call is a fence.
    Fence,
}

impl Part {
    /// The name that a run of the models knows it by.
    pub(super) fn name(self) -> &'static str {
        match self {
            Part::First => "first",
            Part::Second => "second",
            Part::Fence => "fence",
        }
    }
}

/// Finds the sites of a file.
///
/// # Errors
///
/// If brackets do not match, or an ordering is not an argument of a call.
pub(super) fn sites(source: &str) -> Result<Vec<Site>, String> {
    let mut sites = Vec::new();
    scan(&tokens(&lines(source))?, "", None, &mut sites)?;
    Ok(sites)
}

/// Adds the sites among some tokens of `function`. If a bracket is around them, it is the last of
/// the tokens `call`.
fn scan(
    tokens: &[Token<'_>],
    function: &str,
    call: Option<&[Token<'_>]>,
    sites: &mut Vec<Site>,
) -> Result<(), String> {
    let text = |at: usize| text(tokens, at);
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token.text {
            "#" if tokens.get(at + 1).is_some_and(is_test_only) => at = end_of_item(tokens, at + 2),
            "use" => at = end_of_item(tokens, at),
            "fn" if tokens.get(at + 1).is_some_and(Token::is_word) => {
                let name = text(at + 1);
                at = find(tokens, at, &["{", ";"]);
                if let Some(body) = tokens.get(at) {
                    scan(&body.inside, name, None, sites)?;
                }
            }
            "fence"
                if text(at + 1) == "::"
                    && FENCES.contains(&text(at + 2))
                    && text(at + 3) == "(" =>
            {
                let call = &tokens[..at + 4];
                sites.push(Site::new(call, Part::Fence, function));
            }
            word if ORDERINGS.contains(&word) => {
                let is_argument = matches!(text(at + 1), "" | ",");
                let call = call.filter(|call| is_argument && is_call(call));
                let astray = || format!("line {}: {word} is not an argument of a call", token.line);
                let call = call.ok_or_else(astray)?;
                let is_ordering =
                    |token: &Token<'_>| token.text == "Relaxed" || ORDERINGS.contains(&token.text);
                let part = if tokens[..at].iter().any(is_ordering) {
                    Part::Second
                } else {
                    Part::First
                };
                sites.push(Site {
                    weaker: weaker(word, call[call.len() - 2].text),
                    strength: word.to_owned(),
                    ..Site::new(call, part, function)
                });
            }
            _ => scan(&token.inside, function, Some(&tokens[..=at]), sites)?,
        }
        at += 1;
    }
    Ok(())
}

fn weaker(ordering: &str, method: &str) -> Vec<&'static str> {
    match (ordering, method) {
        ("Acquire" | "Release", _) => vec!["Relaxed"],
        ("AcqRel", _) => vec!["Acquire", "Release"],
        (_, "load") => vec!["Acquire"],
        (_, "store") => vec!["Release"],
        _ => vec!["AcqRel"],
    }
}

impl Site {
    /// Makes a site of the call at the end of some tokens, as if it were of a fence.
    fn new(tokens: &[Token<'_>], part: Part, function: &str) -> Self {
        let name = tokens.len() - 2;
        let start = start_of_operation(tokens, name);
        // A method's place is that of its name, a function's that of its path.
        let is_method = name > 0 && tokens[name - 1].text == ".";
        let Token { line, column, .. } = tokens[if is_method { name } else { start }];
        Site {
            line,
            column,
            part,
            function: function.to_owned(),
            operation: join(&tokens[start..]),
            weaker: vec!["nothing"],
            strength: "fence".to_owned(),
        }
    }
}

fn text<'a>(tokens: &[Token<'a>], at: usize) -> &'a str {
    tokens.get(at).map_or("", |token| token.text)
}

/// Returns the next token from `start` on that is one of `texts`.
fn find(tokens: &[Token<'_>], start: usize, texts: &[&str]) -> usize {
    let is_it = |&at: &usize| texts.contains(&text(tokens, at));
    (start..tokens.len()).find(is_it).unwrap_or(tokens.len())
}

/// Returns the last token of the item, statement or field that begins at `at`.
fn end_of_item(tokens: &[Token<'_>], at: usize) -> usize {
    find(tokens, at, &["{", ";", ","])
}

/// Returns true if the last of the tokens is the bracket of a call.
fn is_call(tokens: &[Token<'_>]) -> bool {
    matches!(tokens, [.., name, open] if open.text == "(" && name.is_word())
}

/// Returns true for the bracket of an attribute `#[cfg(...)]` that names `test`, but for
/// `not(test)` and `any(test, ...)`.
fn is_test_only(token: &Token<'_>) -> bool {
    fn names_test(tokens: &[Token<'_>], around: &str) -> bool {
        let is_alone = |nth| nth == 0 && ["not", "any"].contains(&around);
        (0..tokens.len()).any(|nth| match tokens[nth].text {
            "test" => !is_alone(nth),
            _ => nth > 0 && names_test(&tokens[nth].inside, tokens[nth - 1].text),
        })
    }
    token.text == "[" && text(&token.inside, 0) == "cfg" && names_test(&token.inside, "")
}

/// Returns the first token of the path or of the chain of fields and methods that ends at `at`.
fn start_of_operation(tokens: &[Token<'_>], at: usize) -> usize {
    let mut start = at;
    while start >= 2 && matches!(tokens[start - 1].text, "." | "::") {
        start -= 2;
        while start > 0 && matches!(tokens[start].text, "(" | "[" | "?") {
            start -= 1;
        }
    }
    start
}

/// Joins tokens into one line, without what is in `{}`.
fn join(tokens: &[Token<'_>]) -> String {
    let mut line = String::new();
    let mut before = "";
    for Token { text, inside, .. } in tokens {
        if needs_space(before, text) {
            line.push(' ');
        }
        line += text;
        match *text {
            "(" => line += &format!("{})", join(inside).trim_end_matches(',')),
            "[" => line += &format!("{}]", join(inside)),
            "{" => line.push('}'),
            _ => {}
        }
        before = text;
    }
    line
}

/// Returns true if a space stands between two tokens on one line.
fn needs_space(before: &str, text: &str) -> bool {
    match text {
        _ if matches!(before, "" | "." | "::" | "!" | "&") => false,
        "." | "::" | "?" | "!" | "," => false,
        "(" | "[" => before == ",",
        _ => true,
    }
}

/// A token and its place. Columns count characters from 1, as the compiler does.
#[derive(Debug)]
struct Token<'a> {
    text: &'a str,
    line: usize,
    column: usize,
    /// The tokens between an opening bracket and its partner, which is left out.
    inside: Vec<Token<'a>>,
}

impl Token<'_> {
    fn is_word(&self) -> bool {
        self.text.starts_with(is_word)
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Splits code into words and marks.
fn tokens(lines: &[Line]) -> Result<Vec<Token<'_>>, String> {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    // The tokens before and with each bracket that is open.
    let mut around = Vec::new();
    for (line, Line { code, .. }) in (1..).zip(lines) {
        let (mut column, mut rest) = (1, code.as_str());
        while let Some(first) = rest.chars().next() {
            let length = match first {
                ':' if rest.starts_with("::") => 2,
                _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                _ => first.len_utf8(),
            };
            let (text, after) = rest.split_at(length);
            if let Some(opening) = opening(text) {
                let inside = mem::replace(&mut tokens, around.pop().unwrap_or_default());
                let open = tokens.last_mut().filter(|token| token.text == opening);
                let astray = || format!("line {line}: nothing opens {text}");
                open.ok_or_else(astray)?.inside = inside;
            } else if !first.is_whitespace() {
                tokens.push(Token {
                    text,
                    line,
                    column,
                    inside: Vec::new(),
                });
                if matches!(text, "(" | "[" | "{") {
                    around.push(mem::take(&mut tokens));
                }
            }
            column += text.chars().count();
            rest = after;
        }
    }
    match around.last().and_then(|tokens| tokens.last()) {
        Some(open) => Err(format!("line {}: nothing closes it", open.line)),
        None => Ok(tokens),
    }
}

fn opening(closing: &str) -> Option<&'static str> {
    Some(match closing {
        ")" => "(",
        "]" => "[",
        "}" => "{",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(source: &str) -> Vec<String> {
        let sites = sites(source).unwrap();
        let key = |site: &Site| {
            let Site {
                line,
                column,
                part,
                function,
                operation,
                ..
            } = site;
            format!("{line}:{column} {} {function} {operation}", part.name())
        };
        sites.iter().map(key).collect()
    }

    #[test]
    fn a_method_is_at_its_name_and_a_fence_at_its_path() {
        let source = "fn look(&self) {\n    self\n        .word\n        .load(Acquire);\n    fence::full();\n}";
        assert_eq!(
            keys(source),
            [
                "4:10 first look self.word.load(Acquire)",
                "5:5 fence look fence::full()"
            ]
        );
    }

    #[test]
    fn both_orderings_of_an_exchange_are_sites() {
        let source = "fn f() { x.compare_exchange(old(a, b), [new][0], AcqRel, Acquire,); }";
        assert_eq!(
            keys(source),
            [
                "1:12 first f x.compare_exchange(old(a, b), [new][0], AcqRel, Acquire)",
                "1:12 second f x.compare_exchange(old(a, b), [new][0], AcqRel, Acquire)",
            ]
        );
    }

    #[test]
    fn the_second_ordering_is_second_after_one_that_is_relaxed() {
        assert_eq!(
            keys("fn f() { x.compare_exchange(0, 1, Relaxed, Acquire); }"),
            ["1:12 second f x.compare_exchange(0, 1, Relaxed, Acquire)"]
        );
    }

    #[test]
    fn comments_literals_imports_and_tests_are_left_out() {
        let source = "use a::{Acquire, Release};\n\
            // x.load(Acquire)\n\
            /* x.load(Acquire) */\n\
            fn f<'a>() { g(\"x.load(Acquire)\", r#\"\"(\"#, '\"', '\\'', b'('); }\n\
            #[cfg(all(test, not(loom)))]\n\
            mod tests { fn f() { x.load(Acquire); } }\n\
            #[cfg(not(test))]\n\
            fn h() { x.load(Acquire); }\n\
            #[cfg(any(test, not(loom)))]\n\
            fn k() { x.load(Acquire); }";
        let found = [
            "8:12 first h x.load(Acquire)",
            "10:12 first k x.load(Acquire)",
        ];
        assert_eq!(keys(source), found);
    }

    #[test]
    fn an_operation_is_the_whole_chain_without_the_bodies_of_closures() {
        let source = "fn f() { let x = a.b(c)[d]?.g(Release, |e| { e + 1 }); }";
        let [site] = &sites(source).unwrap()[..] else {
            panic!("one site");
        };
        assert_eq!(site.operation, "a.b(c)[d]?.g(Release, | e | {})");
    }

    #[test]
    fn an_ordering_that_is_no_argument_is_an_error() {
        let error = sites("fn f() {\n let order = Acquire; }").unwrap_err();
        assert_eq!(error, "line 2: Acquire is not an argument of a call");
    }

    #[test]
    fn what_is_weaker_depends_on_the_operation() {
        let weaker = |source: &str| sites(source).unwrap().remove(0).weaker;
        assert_eq!(weaker("x.swap(1, AcqRel);"), ["Acquire", "Release"]);
        assert_eq!(weaker("x.load(SeqCst);"), ["Acquire"]);
        assert_eq!(weaker("x.store(1, SeqCst);"), ["Release"]);
        assert_eq!(weaker("x.swap(1, SeqCst);"), ["AcqRel"]);
        assert_eq!(weaker("x.swap(1, Release);"), ["Relaxed"]);
        assert_eq!(weaker("fence::light();"), ["nothing"]);
    }
}
