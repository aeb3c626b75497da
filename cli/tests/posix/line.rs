//! Parses the output of the program.

/// One check: its section, the source text of the call, and the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) section: String,
    /// Ends with `#2` and so on if the section made the same call before.
    pub(crate) call: String,
    pub(crate) result: String,
}

/// Parses the output of the program. A line that is not a check becomes an entry without a call, so
/// that no output is lost.
pub(crate) fn parse(output: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for text in output.lines() {
        let (section, call, result) = split(text).unwrap_or(("", "", text));
        let before = lines
            .iter()
            .filter(|line| line.section == section && is_same_call(&line.call, call))
            .count();
        let call = match before {
            0 => call.to_owned(),
            _ => format!("{call}#{}", before + 1),
        };
        lines.push(Line {
            section: section.to_owned(),
            call,
            result: result.to_owned(),
        });
    }
    lines
}

fn split(text: &str) -> Option<(&str, &str, &str)> {
    let (section, rest) = text.split_once(": ")?;
    let (call, result) = rest.rsplit_once(" -> ")?;
    Some((section, call, result))
}

/// Returns the call without its repetition number.
pub(crate) fn without_number(call: &str) -> &str {
    match call.rsplit_once('#') {
        Some((call, number)) if number.parse::<u32>().is_ok() => call,
        _ => call,
    }
}

fn is_same_call(numbered: &str, call: &str) -> bool {
    without_number(numbered) == call
}
