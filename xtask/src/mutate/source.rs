//! Finds the orderings and fences in Rust source, by its tokens.
//!
//! A site is an ordering other than `Relaxed` among the arguments of a call, or a call of
//! `fence::full`, `fence::light` or `fence::heavy`. Its place is the one that
//! `core::panic::Location::caller` reports for the call. Code under a `cfg` that names `test` is
//! left out.

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
    let lines = lines(source);
    let tokens = tokens(&lines);
    let partners = partners(&tokens)?;
    let mut scan = Scan {
        tokens: &tokens,
        partners: &partners,
        sites: Vec::new(),
    };
    scan.items(0, tokens.len(), "")?;
    Ok(scan.sites)
}

struct Scan<'a> {
    tokens: &'a [Token<'a>],
    /// For a bracket, the index of the bracket that closes or opens it.
    partners: &'a [usize],
    sites: Vec<Site>,
}

impl<'a> Scan<'a> {
    /// Looks at the tokens from `start` on and before `end`, which are in `function`.
    fn items(&mut self, start: usize, end: usize, function: &str) -> Result<(), String> {
        let mut at = start;
        while at < end {
            match self.text(at) {
                "#" if self.is_test_only(at) => at = self.end_of_item(self.partners[at + 1] + 1),
                "use" => at = self.end_of_item(at),
                "fn" if self.tokens[at + 1].is_word() => {
                    let name = self.text(at + 1);
                    let body = self.find(at, &["{", ";"]);
                    if self.text(body) == "{" {
                        let close = self.partners[body];
                        self.items(body + 1, close, name)?;
                        at = close;
                    } else {
                        at = body;
                    }
                }
                "fence" if self.is_fence(at) => self.add_fence(at, function),
                word if ORDERINGS.contains(&word) => self.add_ordering(at, function)?,
                _ => {}
            }
            at += 1;
        }
        Ok(())
    }

    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    /// Returns the next token from `start` on that is one of `texts`, outside of `()` and `[]`.
    fn find(&self, start: usize, texts: &[&str]) -> usize {
        let mut at = start;
        while at < self.tokens.len() && !texts.contains(&self.text(at)) {
            if matches!(self.text(at), "(" | "[") {
                at = self.partners[at];
            }
            at += 1;
        }
        at
    }

    /// Returns true for an attribute `#[cfg(...)]` that names `test`, but for `not(test)` and
    /// `any(test, ...)`.
    fn is_test_only(&self, at: usize) -> bool {
        let end = match self.text(at + 1) {
            "[" => self.partners[at + 1],
            _ => return false,
        };
        self.text(at + 2) == "cfg"
            && (at..end)
                .any(|at| self.text(at) == "test" && !["not", "any"].contains(&self.text(at - 2)))
    }

    /// Returns the last token of the item, statement or field that begins at `at`.
    fn end_of_item(&self, at: usize) -> usize {
        let end = self.find(at, &["{", ";", ","]);
        if self.text(end) == "{" {
            self.partners[end]
        } else {
            end
        }
    }

    /// Returns true for the first token of `fence::full()` and the like.
    fn is_fence(&self, at: usize) -> bool {
        self.text(at + 1) == "::" && FENCES.contains(&self.text(at + 2)) && self.text(at + 3) == "("
    }

    fn add_fence(&mut self, at: usize, function: &str) {
        let start = self.start_of_operation(at);
        let operation = self.join(start, at + 4);
        self.add(start, Part::Fence, function, operation, vec!["nothing"]);
    }

    /// Adds the site of the ordering at `at`.
    fn add_ordering(&mut self, at: usize, function: &str) -> Result<(), String> {
        let Token { line, text, .. } = self.tokens[at];
        let astray = || format!("line {line}: {text} is not an argument of a call");
        // The bracket around it, with the method or function before that.
        let open = (0..at)
            .rev()
            .find(|&open| matches!(self.text(open), "(" | "[" | "{") && self.partners[open] > at);
        let open = open.filter(|&open| open > 0 && self.text(open) == "(");
        let open = open.ok_or_else(astray)?;
        if !self.tokens[open - 1].is_word() || !matches!(self.text(at + 1), "," | ")") {
            return Err(astray());
        }
        let part = if self.orderings(open + 1, at) == 0 {
            Part::First
        } else {
            Part::Second
        };
        let start = self.start_of_operation(open - 1);
        let operation = self.join(start, self.partners[open]);
        let method = self.text(open - 1);
        let weaker = match (text, method) {
            ("Acquire" | "Release", _) => vec!["Relaxed"],
            ("AcqRel", _) => vec!["Acquire", "Release"],
            (_, "load") => vec!["Acquire"],
            (_, "store") => vec!["Release"],
            _ => vec!["AcqRel"],
        };
        // A method's place is that of its name, a function's that of its path.
        let is_method = self.text(open - 2) == ".";
        let place = if is_method { open - 1 } else { start };
        self.add(place, part, function, operation, weaker);
        self.sites.last_mut().expect("it was added").strength = text.to_owned();
        Ok(())
    }

    fn add(
        &mut self,
        place: usize,
        part: Part,
        function: &str,
        operation: String,
        weaker: Vec<&'static str>,
    ) {
        let Token { line, column, .. } = self.tokens[place];
        self.sites.push(Site {
            line,
            column,
            part,
            function: function.to_owned(),
            operation,
            weaker,
            strength: "fence".to_owned(),
        });
    }

    /// Counts the orderings between two tokens of one list of arguments, `Relaxed` among them.
    fn orderings(&self, start: usize, end: usize) -> usize {
        let mut count = 0;
        let mut at = start;
        while at < end {
            match self.text(at) {
                "(" | "[" | "{" => at = self.partners[at],
                "Relaxed" => count += 1,
                word if ORDERINGS.contains(&word) => count += 1,
                _ => {}
            }
            at += 1;
        }
        count
    }

    /// Returns the first token of the path or of the chain of fields and methods that ends at `at`.
    fn start_of_operation(&self, at: usize) -> usize {
        let mut start = at;
        while start >= 2 && matches!(self.text(start - 1), "." | "::") {
            let mut before = start - 2;
            while matches!(self.text(before), ")" | "]" | "?") {
                before = self.partners[before].saturating_sub(1);
            }
            start = before;
        }
        start
    }

    /// Joins tokens into one line, without what is in `{}`.
    fn join(&self, start: usize, last: usize) -> String {
        let mut line = String::new();
        let mut before = "";
        let mut at = start;
        while at <= last {
            let text = self.text(at);
            if before == "," && text == ")" {
                line.truncate(line.len() - 1);
            } else if needs_space(before, text) {
                line.push(' ');
            }
            line.push_str(text);
            before = text;
            at = if text == "{" {
                self.partners[at]
            } else {
                at + 1
            };
        }
        line
    }
}

/// Returns true if a space stands between two tokens on one line.
fn needs_space(before: &str, text: &str) -> bool {
    if matches!(before, "" | "." | "::" | "(" | "[" | "!" | "&") {
        return false;
    }
    match text {
        "." | "::" | ")" | "]" | "}" | "?" | "!" | "," => false,
        "(" | "[" => before == ",",
        _ => true,
    }
}

/// A token and its place. Columns count characters from 1, as the compiler does.
#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    text: &'a str,
    line: usize,
    column: usize,
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
fn tokens(lines: &[Line]) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (line, Line { code, .. }) in (1..).zip(lines) {
        let (mut column, mut rest) = (1, code.as_str());
        while let Some(first) = rest.chars().next() {
            let length = match first {
                ':' if rest.starts_with("::") => 2,
                _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                _ => first.len_utf8(),
            };
            let (text, after) = rest.split_at(length);
            if !first.is_whitespace() {
                tokens.push(Token { text, line, column });
            }
            column += text.chars().count();
            rest = after;
        }
    }
    tokens
}

/// Returns the other bracket of each bracket.
fn partners(tokens: &[Token<'_>]) -> Result<Vec<usize>, String> {
    let mut partners: Vec<usize> = (0..tokens.len()).collect();
    let mut open = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => open.push(at),
            ")" | "]" | "}" => {
                let partner = open.pop().filter(|&partner| {
                    matches!(
                        (tokens[partner].text, token.text),
                        ("(", ")") | ("[", "]") | ("{", "}")
                    )
                });
                let partner = partner
                    .ok_or_else(|| format!("line {}: nothing opens {}", token.line, token.text))?;
                partners[partner] = at;
                partners[at] = partner;
            }
            _ => {}
        }
    }
    match open.pop() {
        Some(at) => Err(format!("line {}: nothing closes it", tokens[at].line)),
        None => Ok(partners),
    }
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
