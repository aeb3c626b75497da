//! The list of differences: where fdtable returns another result than the host, and why.
//!
//! A line is `theme/section | call | host's result | fdtable's result`. A comment explains all
//! lines below it, up to the next empty line.

use std::cell::Cell;

use crate::line::Line;

const FILE: &str = include_str!("c/differences.txt");

pub(crate) struct Difference {
    pub(crate) theme: String,
    pub(crate) section: String,
    pub(crate) call: String,
    pub(crate) host: String,
    pub(crate) ours: String,
    pub(crate) reason: usize,
    seen: Cell<bool>,
}

pub(crate) struct Differences {
    /// Explanations, one for each group of lines.
    pub(crate) reasons: Vec<String>,
    pub(crate) all: Vec<Difference>,
}

impl Differences {
    pub(crate) fn read() -> Self {
        Self::parse(FILE)
    }

    fn parse(text: &str) -> Self {
        let mut found = Self {
            reasons: Vec::new(),
            all: Vec::new(),
        };
        for group in text.split("\n\n") {
            found.read_group(group);
        }
        found
    }

    fn read_group(&mut self, group: &str) {
        let comment = |line: &&str| line.starts_with('#');
        let reason: Vec<_> = group
            .lines()
            .take_while(comment)
            .map(|line| line.trim_start_matches('#').trim())
            .collect();
        let lines: Vec<_> = group
            .lines()
            .filter(|line| !comment(line) && !line.is_empty())
            .collect();
        if lines.is_empty() {
            return; // the essay at the head
        }
        assert!(!reason.is_empty(), "without a reason: {}", lines[0]);
        self.reasons.push(reason.join(" "));
        for line in lines {
            // The call may contain `|`.
            let (place, rest) = line.split_once(" | ").expect(line);
            let parts: Vec<_> = rest.rsplitn(3, " | ").map(str::trim).collect();
            let [ours, host, call] = parts[..] else {
                panic!("a difference is `theme/section | call | host | fdtable`: {line}");
            };
            let (theme, section) = place.split_once('/').expect("theme/section");
            self.all.push(Difference {
                theme: theme.to_owned(),
                section: section.to_owned(),
                call: call.to_owned(),
                host: host.to_owned(),
                ours: ours.to_owned(),
                reason: self.reasons.len() - 1,
                seen: Cell::new(false),
            });
        }
    }

    /// Returns the known difference of a check.
    pub(crate) fn of(&self, theme: &str, section: &str, call: &str) -> Option<&Difference> {
        self.all
            .iter()
            .find(|known| known.theme == theme && known.section == section && known.call == call)
    }

    /// Returns what is wrong with our results, as lines in the format of the list.
    pub(crate) fn complaints(&self, theme: &str, host: &[Line], ours: &[Line]) -> Vec<String> {
        let mut complaints = Vec::new();
        for theirs in host {
            let own = find(ours, theirs).map_or("(no line)", |line| &line.result);
            if let Some(known) = self.of(theme, &theirs.section, &theirs.call)
                && known.ours == own
            {
                known.seen.set(true);
            } else if theirs.result != own {
                complaints.push(told(theme, theirs, &theirs.result, own));
            }
        }
        for line in ours {
            if find(host, line).is_none() {
                complaints.push(told(theme, line, "(no line)", &line.result));
            }
        }
        for known in &self.all {
            if known.theme == theme && !known.seen.get() {
                let (section, call) = (&known.section, &known.call);
                complaints.push(format!(
                    "no longer so: {theme}/{section} | {call} | {} | {}",
                    known.host, known.ours
                ));
            }
        }
        complaints
    }
}

/// Returns the line of the same check.
pub(crate) fn find<'a>(lines: &'a [Line], of: &Line) -> Option<&'a Line> {
    lines
        .iter()
        .find(|line| line.section == of.section && line.call == of.call)
}

fn told(theme: &str, line: &Line, host: &str, ours: &str) -> String {
    format!("{theme}/{} | {} | {host} | {ours}", line.section, line.call)
}

#[cfg(test)]
mod tests {
    use super::Differences;
    use crate::line;

    const KNOWN: &str = "# The essay.\n\n# It is so.\ntheme/section | dup(3) | 4 | 5\n";

    fn complaints(host: &str, ours: &str) -> Vec<String> {
        let known = Differences::parse(KNOWN);
        known.complaints("theme", &line::parse(host), &line::parse(ours))
    }

    #[test]
    fn a_known_difference_is_accepted() {
        let none: [&str; 0] = [];
        assert_eq!(
            complaints("section: dup(3) -> 4", "section: dup(3) -> 5"),
            none
        );
    }

    #[test]
    fn an_unexplained_difference_is_reported_in_the_format_of_the_list() {
        let host = "section: dup(3) -> 4\nsection: dup(3) -> 6";
        let ours = "section: dup(3) -> 5\nsection: dup(3) -> -1 EBADF";
        assert_eq!(
            complaints(host, ours),
            ["theme/section | dup(3)#2 | 6 | -1 EBADF"]
        );
    }

    #[test]
    fn a_difference_that_no_longer_exists_is_reported() {
        let same = "section: dup(3) -> 4";
        assert_eq!(
            complaints(same, same),
            ["no longer so: theme/section | dup(3) | 4 | 5"]
        );
    }

    #[test]
    fn a_section_that_ends_early_lacks_its_lines_and_has_one_more() {
        let host = "section: dup(3) -> 4\nsection: dup(9) -> -1 EBADF";
        let ours = "section: dup(3) -> 5\nsection: dup(9) -> (section ended by SIGSEGV)";
        let told = "theme/section | dup(9) | -1 EBADF | (section ended by SIGSEGV)";
        assert_eq!(complaints(host, ours), [told]);
    }
}
