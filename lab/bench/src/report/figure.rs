//! Headline figures. `figures.txt` has the goal and the meaning of each.

use std::fmt;

use super::ratio;
use crate::stats::Summary;

/// The figures of all experiments: key, goal and meaning.
const LIST: &str = include_str!("../figures.txt");

/// Headline figure, which may have a goal.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its name in the JSON form: `experiment.figure`.
    pub key: &'static str,
    /// The value.
    pub value: f64,
    /// The bound that it has to meet, if any.
    pub goal: Goal,
    /// Explanation for a first-time reader.
    pub meaning: String,
}

/// Bound for a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// At most this: a cost.
    AtMost(f64),
    /// At least this: a gain.
    AtLeast(f64),
    /// No bound: shown for comparison.
    None,
}

impl Goal {
    fn parse(text: &str) -> Option<Self> {
        let Some((sign, bound)) = text.split_once(' ') else {
            return text.is_empty().then_some(Goal::None);
        };
        match sign {
            "≤" => bound.parse().ok().map(Goal::AtMost),
            "≥" => bound.parse().ok().map(Goal::AtLeast),
            _ => None,
        }
    }

    /// Returns true if `value` reaches the goal; none without a goal.
    pub fn reached(self, value: f64) -> Option<bool> {
        match self {
            Goal::AtMost(bound) => Some(value <= bound),
            Goal::AtLeast(bound) => Some(value >= bound),
            Goal::None => None,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Goal::AtMost(bound) => write!(f, "≤ {bound}"),
            Goal::AtLeast(bound) => write!(f, "≥ {bound}"),
            Goal::None => Ok(()),
        }
    }
}

/// Returns the figures of the list, without values.
fn listed() -> impl Iterator<Item = Option<Figure>> {
    let lines = LIST.lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let (key, rest) = line.split_once('|')?;
        let (goal, meaning) = rest.split_once('|')?;
        Some(Figure {
            key: key.trim(),
            value: f64::NAN,
            goal: Goal::parse(goal.trim())?,
            meaning: meaning.trim().to_owned(),
        })
    })
}

impl Figure {
    /// Makes a figure of the list.
    ///
    /// # Panics
    /// If the list has no such key.
    pub(crate) fn new(key: &str, value: f64) -> Self {
        let found = listed().flatten().find(|figure| figure.key == key);
        let found = found.unwrap_or_else(|| panic!("{key} is not in figures.txt"));
        Figure { value, ..found }
    }

    /// Makes a figure of the median of `ratios`, with their spread in its meaning.
    ///
    /// # Panics
    /// If the list has no such key.
    pub fn of_ratio(key: &str, ratios: &Summary) -> Self {
        Self::of_case(key, ratios, "")
    }

    /// Does the same, with `case` at the end of the meaning.
    ///
    /// # Panics
    /// If the list has no such key.
    pub fn of_case(key: &str, ratios: &Summary, case: &str) -> Self {
        let [low, high] = [ratios.p10, ratios.p90].map(ratio);
        let figure = Self::new(key, ratios.median);
        figure.and(&format!("{case} (p10–p90 {low}–{high})"))
    }

    /// Says in words if the goal is reached. Empty without one.
    pub(crate) fn outcome(&self) -> &'static str {
        match self.goal.reached(self.value) {
            Some(true) => "reached",
            Some(false) => "not reached",
            None => "",
        }
    }

    /// Adds to the meaning.
    #[must_use]
    pub fn and(mut self, more: &str) -> Self {
        self.meaning += more;
        self
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} = {}", self.meaning, self.key, ratio(self.value))?;
        match self.outcome() {
            "" => Ok(()),
            outcome => write!(f, " (goal {}: {outcome})", self.goal),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn figure(value: f64, goal: Goal) -> String {
        Figure {
            key: "a.b",
            value,
            goal,
            meaning: "cost of a b".to_owned(),
        }
        .to_string()
    }

    #[test]
    fn a_figure_states_if_its_goal_is_reached() {
        assert_eq!(
            figure(1.12, Goal::AtMost(1.3)),
            "cost of a b: a.b = 1.120 (goal ≤ 1.3: reached)"
        );
        assert_eq!(
            figure(39.9, Goal::AtLeast(40.0)),
            "cost of a b: a.b = 39.9 (goal ≥ 40: not reached)"
        );
        assert_eq!(figure(5.9, Goal::None), "cost of a b: a.b = 5.90");
    }

    #[test]
    fn a_figure_of_ratios_states_their_spread() {
        let ratios = Summary::of(&[1.0, 2.0, 3.0]);
        let figure = Figure::of_case("peers.mixed_2t", &ratios, " a ÷ b");
        let meaning = "90 % lookups, 2 threads: a ÷ b (p10–p90 1.200–2.80)";
        assert_eq!((figure.meaning.as_str(), figure.value), (meaning, 2.0));
        assert_eq!(figure.goal, Goal::AtLeast(1.0));
    }

    #[test]
    fn a_figure_that_could_not_be_measured_reaches_nothing() {
        assert_eq!(Goal::AtMost(1.0).reached(f64::NAN), Some(false));
        assert_eq!(Goal::AtLeast(1.0).reached(f64::NAN), Some(false));
    }

    #[test]
    fn each_line_of_the_list_is_a_figure_of_its_own() {
        let keys: Vec<_> = listed().map(|figure| figure.unwrap().key).collect();
        let all: BTreeSet<_> = keys.iter().collect();
        assert_eq!((all.len(), keys.len() > 100), (keys.len(), true));
    }
}
