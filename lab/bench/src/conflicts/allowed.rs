//! The list of allowed conflicts: for each kind, the number of its cases and the reason.
//!
//! The list is exact. The check fails if there is a conflict that is not on the list, if a line has
//! another number of cases than it states, and if the number of commuting cases changes.

use anyhow::{Context, bail};

use super::matrix::Matrix;
use super::operation::{Argument, Call, Operation};
use super::setup::{Case, Setup};
use super::verdict::Verdict;

/// The list for our table.
const OURS: &str = include_str!("allowed.txt");

/// The parsed list.
pub(super) struct Allowed {
    /// Number of commuting cases.
    commutative: usize,
    lines: Vec<Line>,
}

/// One kind of conflict.
#[derive(Debug)]
pub(super) struct Line {
    /// Number of its cases.
    pub(super) cases: usize,
    /// Empty for any.
    setups: Vec<Setup>,
    calls: [Pattern; 2],
    /// Why the conflict exists.
    pub(super) reason: String,
    /// The text of the line in the list.
    text: String,
}

/// Calls of a kind.
#[derive(Debug)]
struct Pattern {
    /// Empty for any.
    operations: Vec<Operation>,
    /// Empty for any.
    arguments: Vec<Argument>,
}

impl Allowed {
    /// Parses the list for our table.
    ///
    /// # Errors
    /// If a line is invalid.
    pub(super) fn ours() -> anyhow::Result<Self> {
        Self::parse(OURS)
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let lines = text.lines().map(str::trim);
        let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let first = lines.next().context("the list is empty")?;
        let commutative = first
            .strip_suffix("cases commute")
            .and_then(|count| count.trim().parse().ok())
            .with_context(|| format!("not a number of cases: {first}"))?;
        Ok(Allowed {
            commutative,
            lines: lines.map(Line::parse).collect::<anyhow::Result<_>>()?,
        })
    }

    /// Returns the lines, each with the number of cases that it has now.
    pub(super) fn counted(&self, matrix: &Matrix) -> Vec<(&Line, usize)> {
        let mut counts = vec![0; self.lines.len()];
        for case in conflicts(matrix) {
            if let Some(line) = self.lines.iter().position(|line| line.is_of(case)) {
                counts[line] += 1;
            }
        }
        self.lines.iter().zip(counts).collect()
    }

    /// Lists the differences between the matrix and the list.
    pub(super) fn differences(&self, matrix: &Matrix) -> Vec<String> {
        let is_new = |case: &&Case| !self.lines.iter().any(|line| line.is_of(case));
        let new = conflicts(matrix).filter(is_new);
        let mut differences: Vec<_> = new.map(|case| format!("new conflict: {case}")).collect();
        for (line, found) in self.counted(matrix) {
            if found == 0 {
                differences.push(format!("no conflict matches: {}", line.text));
            } else if found != line.cases {
                differences.push(format!("now {found}: {}", line.text));
            }
        }
        let commutative = matrix.sum().commutative;
        if commutative != self.commutative {
            let expected = self.commutative;
            differences.push(format!("{commutative} cases commute, not {expected}"));
        }
        differences
    }
}

fn conflicts(matrix: &Matrix) -> impl Iterator<Item = &Case> {
    let trials = matrix.trials.iter();
    trials.filter_map(|(case, verdict)| match verdict {
        Verdict::Shared(_) => Some(case),
        Verdict::Ordered | Verdict::Free => None,
    })
}

impl Line {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let columns: Vec<_> = text.split('|').map(str::trim).collect();
        let [cases, setups, one, other, reason] = columns[..] else {
            bail!("not five columns: {text}");
        };
        let within = || format!("in {text}");
        Ok(Line {
            cases: cases.parse().with_context(within)?,
            setups: named(setups, &Setup::ALL, Setup::name).with_context(within)?,
            calls: [
                Pattern::parse(one).with_context(within)?,
                Pattern::parse(other).with_context(within)?,
            ],
            reason: reason.to_owned(),
            text: text.to_owned(),
        })
    }

    fn is_of(&self, case: &Case) -> bool {
        let [first, second] = &case.calls;
        let [one, other] = &self.calls;
        let there = one.is_of(first) && other.is_of(second);
        let back = one.is_of(second) && other.is_of(first);
        is_any_of(&self.setups, &case.setup) && (there || back)
    }
}

impl Pattern {
    /// Parses `operation, operation (argument, argument)`, where `*` is any, and no argument is
    /// any.
    fn parse(text: &str) -> anyhow::Result<Self> {
        let (operations, arguments) = match text.split_once('(') {
            Some((operations, rest)) => {
                let arguments = rest.strip_suffix(')').context("a bracket is open")?;
                (operations, arguments)
            }
            None => (text, "*"),
        };
        Ok(Pattern {
            operations: named(operations, &Operation::ALL, Operation::name)?,
            arguments: named(arguments, &Argument::ALL, Argument::name)?,
        })
    }

    fn is_of(&self, call: &Call) -> bool {
        is_any_of(&self.operations, &call.operation) && is_any_of(&self.arguments, &call.argument)
    }
}

fn is_any_of<V: PartialEq>(any_of: &[V], value: &V) -> bool {
    any_of.is_empty() || any_of.contains(value)
}

/// Parses names. An empty text is any.
fn named<V: Copy>(text: &str, all: &[V], name: fn(V) -> &'static str) -> anyhow::Result<Vec<V>> {
    if text.trim() == "*" {
        return Ok(Vec::new());
    }
    let find = |word: &str| {
        let found = all.iter().find(|it| name(**it) == word);
        found
            .copied()
            .with_context(|| format!("no such name: {word}"))
    };
    text.split(',').map(|word| find(word.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(operation: Operation, argument: Argument) -> Call {
        Call {
            operation,
            argument,
        }
    }

    /// A matrix of one conflict, a free case and one that does not commute.
    fn matrix() -> Matrix {
        let get = call(Operation::OwnedGet, Argument::Common);
        let put = call(Operation::Put, Argument::Own);
        let trial = |calls, verdict| {
            let setup = Setup::Steady;
            (Case { setup, calls }, verdict)
        };
        Matrix {
            subject: "a table",
            trials: vec![
                trial([get, get], Verdict::Shared(Vec::new())),
                trial([get, put], Verdict::Free),
                trial([put, put], Verdict::Ordered),
            ],
        }
    }

    fn differences(list: &str) -> Vec<String> {
        Allowed::parse(list).unwrap().differences(&matrix())
    }

    #[test]
    fn a_list_that_is_exact_has_no_difference() {
        let list = "# a list\n2 cases commute\n1 | steady | owned get, put (common) | * | a reason";
        assert_eq!(differences(list), [""; 0]);
    }

    #[test]
    fn each_difference_is_listed() {
        assert_eq!(
            differences("2 cases commute"),
            ["new conflict: steady: owned get (common) / owned get (common)"]
        );
        let stale = "2 cases commute\n1 | * | * | * | all\n1 | * | put | * | stale";
        assert_eq!(
            differences(stale),
            ["no conflict matches: 1 | * | put | * | stale"]
        );
        let more = "2 cases commute\n2 | * | * | * | all";
        assert_eq!(differences(more), ["now 1: 2 | * | * | * | all"]);
        let vanished = "3 cases commute\n1 | * | * | * | all";
        assert_eq!(differences(vanished), ["2 cases commute, not 3"]);
    }

    #[test]
    fn an_invalid_line_is_refused() {
        for list in [
            "",
            "many cases commute",
            "2 cases commute\n1 | * | *",
            "2 cases commute\none | * | * | * | a reason",
            "2 cases commute\n1 | * | cloze | * | a reason",
            "2 cases commute\n1 | * | close (own | * | a reason",
        ] {
            assert!(Allowed::parse(list).is_err(), "{list}");
        }
    }

    #[test]
    fn our_list_can_be_read() {
        assert!(
            Allowed::ours()
                .unwrap()
                .lines
                .iter()
                .all(|line| !line.reason.is_empty())
        );
    }
}
