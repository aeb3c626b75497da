//! A report as text: tables, headline figures with their goals, and remarks.

use std::collections::BTreeMap;
use std::fmt;

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table as Grid, TableStyle};
use serde::Serialize;
use serde_json::Value;

use crate::machine::Machine;
use crate::plot::Plot;
use crate::stats::Summary;

/// Lines above, below, and under the header: rows differ by their numbers.
const LINES: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// Report of one experiment.
///
/// Its JSON form has five fields: `experiment`, `machine`, `config`, `rows` and `headline`.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Name of the experiment on the command line.
    pub experiment: &'static str,
    /// The machine on which it ran.
    pub machine: Machine,
    /// Its configuration: sizes, rounds, durations.
    pub config: Value,
    /// Every measured row.
    pub rows: Vec<Value>,
    /// The headline figures.
    #[serde(serialize_with = "keys_and_values")]
    pub headline: Vec<Figure>,
    /// Subject of the experiment, in one line.
    #[serde(skip)]
    pub title: String,
    /// The rows as tables of text.
    #[serde(skip)]
    pub tables: Vec<Table>,
    /// The rows as plots.
    #[serde(skip)]
    pub plots: Vec<Plot>,
    /// Conclusions from the tables, in sentences.
    #[serde(skip)]
    pub remarks: Vec<String>,
}

/// Table on the terminal.
#[derive(Debug)]
pub struct Table {
    /// Content of the cells, with their unit.
    pub caption: String,
    /// Names of the columns.
    pub header: Vec<String>,
    /// Cells, as many in each row as in the header. The first column is text, the others numbers.
    pub rows: Vec<Vec<String>>,
}

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

impl Figure {
    /// Makes a figure of the median of `ratios`, with their spread in its meaning.
    pub fn of_ratio(key: &'static str, ratios: &Summary, goal: Goal, meaning: &str) -> Self {
        let [low, high] = [ratios.p10, ratios.p90].map(ratio);
        Figure {
            key,
            value: ratios.median,
            goal,
            meaning: format!("{meaning} (p10–p90 {low}–{high})"),
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} = {}", self.meaning, self.key, ratio(self.value))?;
        let outcome = match self.goal.reached(self.value) {
            Some(true) => "reached",
            Some(false) => "not reached",
            None => return Ok(()),
        };
        write!(f, " (goal {}: {outcome})", self.goal)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n== {}: {} ==", self.experiment, self.title)?;
        writeln!(f, "{}", machine_line(&self.machine))?;
        for table in &self.tables {
            write!(f, "{table}")?;
        }
        writeln!(f, "\nHeadline figures:")?;
        for figure in &self.headline {
            writeln!(f, "  - {figure}")?;
        }
        if !self.remarks.is_empty() {
            writeln!(f, "\nWhat this shows:")?;
        }
        for remark in &self.remarks {
            writeln!(f, "  - {remark}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}\n{}", self.caption, self.grid())
    }
}

impl Table {
    fn grid(&self) -> Grid {
        let mut grid = Grid::new();
        grid.load_style(LINES)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_header(&self.header);
        for row in &self.rows {
            grid.add_row(
                row.iter()
                    .enumerate()
                    .map(|(column, text)| cell(column, text)),
            );
        }
        grid
    }
}

fn cell(column: usize, text: &str) -> Cell {
    let alignment = if column == 0 {
        CellAlignment::Left
    } else {
        CellAlignment::Right
    };
    Cell::new(text).set_alignment(alignment)
}

/// Describes a machine in a line.
pub(crate) fn machine_line(machine: &Machine) -> String {
    let distance = match &machine.line_round_trip {
        Some(trip) => format!(
            "a cache line travels to the other CPU and back in {:.0} ns ({:.0} to {:.0}: the CPUs are {})",
            trip.median_ns, trip.min_ns, trip.max_ns, trip.distance
        ),
        None => "one CPU only: nothing here is contended".to_owned(),
    };
    let Machine {
        cpu,
        cpus,
        kernel,
        rustc,
        ..
    } = machine;
    format!(
        "{cpu}, {cpus} CPUs, {kernel}, {rustc}; {distance}{}",
        load(machine)
    )
}

fn load(machine: &Machine) -> String {
    machine
        .load_average
        .map_or_else(String::new, |[minute, ..]| {
            format!("; load average {minute:.2}")
        })
}

/// Formats a ratio with three significant digits, or so.
pub fn ratio(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 2.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Formats nanoseconds with three significant digits, or so.
pub fn nanoseconds(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Returns the figures as a map, as they stand in the JSON form.
pub fn headline_map(figures: &[Figure]) -> BTreeMap<&'static str, f64> {
    figures
        .iter()
        .map(|figure| (figure.key, figure.value))
        .collect()
}

fn keys_and_values<S: serde::Serializer>(figures: &[Figure], to: S) -> Result<S::Ok, S::Error> {
    headline_map(figures).serialize(to)
}

/// Makes a report with all kinds of content, and names that look like markup.
#[cfg(test)]
pub(crate) fn example() -> Report {
    use crate::plot::{Axis, Bar, Group, Kind};

    let words = |words: &[&str]| words.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
    let name = "RwLock<Vec<Option<Arc>>> & others";
    let figure = |key, value, goal| Figure {
        key,
        value,
        goal,
        meaning: format!("cost of {key}"),
    };
    Report {
        experiment: "lookup",
        machine: Machine::observe(),
        config: serde_json::json!({ "rounds": 9 }),
        rows: Vec::new(),
        headline: vec![
            figure("lookup.a_b", 1.62, Goal::AtMost(1.3)),
            figure("lookup.c", 7.31, Goal::AtLeast(5.0)),
            figure("lookup.d", 0.92, Goal::None),
        ],
        title: "from a number to a file".to_owned(),
        tables: vec![Table {
            caption: "Nanoseconds: <median>".to_owned(),
            header: words(&["", "1 thread", "2 threads"]),
            rows: vec![
                words(&["fdtable", "1.1", "1.9"]),
                words(&[name, "8.9 | 9.1", "127"]),
            ],
        }],
        plots: vec![Plot {
            name: "bars",
            caption: "One lookup, <ns>".to_owned(),
            kind: Kind::Bars {
                value: Axis::log("ns"),
                groups: vec![Group {
                    label: "1 thread".to_owned(),
                    bars: vec![Bar::exact("fdtable", 1.1), Bar::exact(name, 8.9)],
                }],
            },
        }],
        remarks: vec!["A remark.".to_owned()],
    }
}

#[cfg(test)]
mod tests {
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
        let figure = Figure::of_ratio("a.b", &ratios, Goal::None, "a ÷ b");
        assert_eq!(figure.to_string(), "a ÷ b (p10–p90 1.200–2.80): a.b = 2.00");
    }

    #[test]
    fn a_figure_that_could_not_be_measured_reaches_nothing() {
        assert_eq!(Goal::AtMost(1.0).reached(f64::NAN), Some(false));
        assert_eq!(Goal::AtLeast(1.0).reached(f64::NAN), Some(false));
    }

    #[test]
    fn a_table_keeps_every_cell() {
        let table = Table {
            caption: "numbers".to_owned(),
            header: vec!["name".to_owned(), "ns".to_owned()],
            rows: vec![vec!["load".to_owned(), "0.93".to_owned()]],
        };
        let text = table.grid().to_string();
        for word in ["name", "ns", "load", "0.93"] {
            assert!(text.contains(word), "{word} is missing from\n{text}");
        }
    }
}
