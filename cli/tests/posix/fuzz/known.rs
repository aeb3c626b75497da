//! The list of known differences, `tests/posix/c_fuzz/differences.txt`.
//!
//! A difference is a line `call | host's result | fdtable's result`, in which `*` stands for any
//! text and `?` for one byte, and below it, indented, a script whose last call shows it. A comment
//! explains all differences below it, up to the next empty line.

use super::Difference;

const FILE: &str = include_str!("../c_fuzz/differences.txt");

/// Scripts without a difference: see `tests/posix/c_fuzz/equal.txt`.
const EQUAL: &str = include_str!("../c_fuzz/equal.txt");

/// Reads the scripts without a difference. Lines that begin with `#` are comments.
pub(crate) fn equal_scripts() -> Vec<Vec<String>> {
    let lines: Vec<_> = EQUAL
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    let scripts = lines.split(|line| line.is_empty());
    let scripts = scripts.filter(|script| !script.is_empty());
    let owned = |script: &[&str]| script.iter().map(|&line| line.to_owned()).collect();
    scripts.map(owned).collect()
}

pub(crate) struct Known {
    call: String,
    host: String,
    ours: String,
    /// Shows the difference with its last call.
    pub(crate) script: Vec<String>,
}

/// Reads the list.
pub(crate) fn read() -> Vec<Known> {
    parse(FILE)
}

fn parse(text: &str) -> Vec<Known> {
    let mut all: Vec<Known> = Vec::new();
    let mut has_reason = false;
    for line in text.lines() {
        if line.is_empty() || line.starts_with('#') {
            has_reason = !line.is_empty();
        } else if let Some(call) = line.strip_prefix("    ") {
            let last = all
                .last_mut()
                .expect("a difference comes before its script");
            last.script.push(call.to_owned());
        } else {
            assert!(has_reason, "without a reason: {line}");
            let parts: Vec<_> = line.split(" | ").map(str::to_owned).collect();
            let Ok([call, host, ours]) = <[String; 3]>::try_from(parts) else {
                panic!("a difference is `call | host | fdtable`: {line}");
            };
            all.push(Known {
                call,
                host,
                ours,
                script: Vec::new(),
            });
        }
    }
    all
}

impl Known {
    pub(crate) fn matches(&self, found: &Difference) -> bool {
        matches(&self.call, super::call_of(&found.call))
            && matches(&self.host, &found.host)
            && matches(&self.ours, &found.ours)
    }

    /// Returns the line of the list.
    pub(crate) fn line(&self) -> String {
        format!("{} | {} | {}", self.call, self.host, self.ours)
    }
}

/// Returns an entry of a difference at the end of a reduced script: a start for one in the list,
/// which should be as exact as possible.
pub(crate) fn entry(script: &[[String; 3]]) -> String {
    let calls: Vec<_> = script.iter().map(|[call, ..]| call.clone()).collect();
    let [host, ours] = [1, 2].map(|side| script.iter().map(|it| it[side].clone()).collect());
    let Some(found) = Difference::first(&calls, &[host, ours]) else {
        return format!("# not always so: {calls:?}\n");
    };
    let call = match super::function_of(&found.call).split_once(' ') {
        Some((name, selector)) => format!("{name}(*, {selector}, *)"),
        None => format!("{}(*)", super::function_of(&found.call)),
    };
    let [host, ours] = cut(&found.host, &found.ours);
    let script = calls[..=found.at].join("\n    ");
    format!("{call} | {host} | {ours}\n    {script}\n")
}

/// Replaces what follows the first different word of two results by `*`.
fn cut(host: &str, ours: &str) -> [String; 2] {
    let pairs = host.split(' ').zip(ours.split(' '));
    let same: usize = pairs.take_while(|(host, ours)| host == ours).count();
    [host, ours].map(|result| {
        let words: Vec<_> = result.split(' ').collect();
        let same = same + usize::from(words.get(same) == Some(&"-1"));
        match words.len() > same + 1 {
            true => format!("{} *", words[..=same].join(" ")),
            false => result.to_owned(),
        }
    })
}

/// Returns true if the text is that of the pattern, in which `*` is any text and `?` one byte.
fn matches(pattern: &str, text: &str) -> bool {
    fn is_match(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], text) => text.is_empty(),
            ([b'*', rest @ ..], _) => (0..=text.len()).any(|at| is_match(rest, &text[at..])),
            ([b'?', pattern @ ..], [_, text @ ..]) => is_match(pattern, text),
            ([one, pattern @ ..], [other, text @ ..]) => one == other && is_match(pattern, text),
            _ => false,
        }
    }
    is_match(pattern.as_bytes(), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text() {
        assert!(matches("dup(*)", "dup(s1)") && matches("*", "") && matches("a*c*", "abcd"));
        assert!(matches("a?c", "abc") && !matches("a?", "a") && !matches("?", ""));
        assert!(!matches("dup(*)", "dup2(s1)") && !matches("a", "ab") && !matches("*c", "ab"));
    }

    #[test]
    fn a_difference_has_a_script() {
        let all = parse("# An essay.\n\n# Why.\ndup(*) | 1 | 2\n    dup(s1)\ndup(s3) | 2 | 4\n");
        let lines: Vec<_> = all.iter().map(Known::line).collect();
        assert_eq!(lines, ["dup(*) | 1 | 2", "dup(s3) | 2 | 4"]);
        assert_eq!(all[0].script, ["dup(s1)"]);
    }

    #[test]
    #[should_panic(expected = "without a reason")]
    fn a_difference_needs_a_reason() {
        parse("# Why.\ndup(*) | 1 | 2\n\ndup(*) | 2 | 2\n");
    }
}
