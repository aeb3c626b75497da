//! A report as text: tables, headline figures with their goals, and remarks.
//!
//! [`Grid`] makes a table and bars of the same values; [`Figure`] takes goals and meanings from
//! `figures.txt`.

use std::collections::BTreeMap;
use std::fmt;

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table as Lines, TableStyle};
use serde::Serialize;
use serde_json::Value;

use crate::experiment::Experiment;
use crate::machine::Machine;
use crate::plot::{Curve, Kind, Plot};
use crate::stats::Summary;

mod figure;
mod grid;

pub use figure::{Figure, Goal};
pub(crate) use grid::Grid;

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

impl Report {
    /// Begins the report of an experiment with its rows.
    pub(crate) fn new(
        experiment: &dyn Experiment,
        title: impl Into<String>,
        config: Value,
        rows: &[impl Serialize],
        machine: Machine,
    ) -> serde_json::Result<Self> {
        let mut report = Report {
            config,
            ..Report::empty(experiment.name(), title, machine)
        };
        report.add_rows(rows)?;
        Ok(report)
    }

    /// Makes a report without content.
    pub(crate) fn empty(
        experiment: &'static str,
        title: impl Into<String>,
        machine: Machine,
    ) -> Self {
        Report {
            experiment,
            machine,
            config: Value::Null,
            rows: Vec::new(),
            headline: Vec::new(),
            title: title.into(),
            tables: Vec::new(),
            plots: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// Adds rows of another kind.
    pub(crate) fn add_rows(&mut self, rows: &[impl Serialize]) -> serde_json::Result<()> {
        for row in rows {
            self.rows.push(serde_json::to_value(row)?);
        }
        Ok(())
    }

    /// Adds a headline figure, if it was measured.
    pub(crate) fn figure(&mut self, key: &str, value: Option<f64>) {
        self.headline
            .extend(value.map(|value| Figure::new(key, value)));
    }

    /// Adds the median of ratios as a headline figure, with their spread.
    pub fn ratio(&mut self, key: &str, ratios: Option<Summary>) {
        self.headline
            .extend(ratios.map(|ratios| Figure::of_ratio(key, &ratios)));
    }

    /// Adds a plot of curves, and a table of some of their points.
    pub(crate) fn curves(&mut self, plot: Plot) {
        if let Kind::Curves { x, y, curves } = &plot.kind {
            let caption = format!("{}: {}", plot.caption, y.label);
            self.tables.push(points(caption, &x.label, curves));
            self.plots.push(plot);
        }
    }

    /// Shows measured values as a table and as a plot, if there are any.
    pub(crate) fn grid(&mut self, grid: Grid) {
        if !grid.is_empty() {
            self.tables.push(grid.table());
            self.plots.push(grid.plot());
        }
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
    /// Makes a table of lines, each as long as the header.
    pub(crate) fn new<const N: usize>(
        caption: impl Into<String>,
        header: [&str; N],
        lines: impl IntoIterator<Item = [String; N]>,
    ) -> Self {
        Table {
            caption: caption.into(),
            header: header.map(str::to_owned).to_vec(),
            rows: lines.into_iter().map(Vec::from).collect(),
        }
    }

    fn grid(&self) -> Lines {
        let mut grid = Lines::new();
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

/// Most rows of a table of points; the JSON form has every point.
const POINTS: usize = 11;

/// Makes a table of points that are evenly spread, with the first and the last.
fn points(caption: String, x: &str, curves: &[Curve]) -> Table {
    let mut all: Vec<f64> = Vec::new();
    for curve in curves {
        all.extend(curve.points.iter().map(|point| point.x));
    }
    all.sort_by(f64::total_cmp);
    all.dedup();
    let (last, lines) = (all.len().saturating_sub(1), POINTS.min(all.len()));
    let rows = (0..lines).map(|nth| {
        let at = all[last * nth / (lines - 1).max(1)];
        let cell = |curve: &Curve| {
            let point = curve.points.iter().find(|point| point.x == at);
            point.map_or("-".to_owned(), |point| nanoseconds(point.y))
        };
        line(at.to_string(), curves.iter().map(cell))
    });
    Table {
        caption,
        header: line(x, curves.iter().map(|curve| curve.name.clone())),
        rows: rows.collect(),
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

/// Makes a line of a table: a name, and cells.
pub(crate) fn line(
    name: impl Into<String>,
    cells: impl IntoIterator<Item = String>,
) -> Vec<String> {
    std::iter::once(name.into()).chain(cells).collect()
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

/// Returns a report of what `show` shows.
#[cfg(test)]
pub(crate) fn shown(show: impl FnOnce(&mut Report)) -> Report {
    let mut report = Report {
        headline: Vec::new(),
        tables: Vec::new(),
        plots: Vec::new(),
        remarks: Vec::new(),
        ..example()
    };
    show(&mut report);
    report
}

/// Makes a report with all kinds of content, and names that look like markup.
#[cfg(test)]
pub(crate) fn example() -> Report {
    use crate::plot::{Axis, Bar, Group};

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
                    bars: [("fdtable", 1.1), (name, 8.9)]
                        .map(|(name, value)| Bar {
                            name: name.to_owned(),
                            value,
                            spread: None,
                        })
                        .to_vec(),
                }],
            },
        }],
        remarks: vec!["A remark.".to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Point;

    #[test]
    fn a_table_of_points_has_the_first_and_the_last() {
        let point = |x: u32| Point {
            x: f64::from(x),
            y: f64::from(2 * x),
            spread: None,
        };
        let curve = |name: &str, to| Curve {
            name: name.to_owned(),
            points: (1..=to).map(point).collect(),
        };
        let table = points("it".to_owned(), "n", &[curve("a", 40), curve("b", 20)]);
        assert_eq!(table.header, ["n", "a", "b"]);
        assert_eq!(table.rows.len(), POINTS);
        assert_eq!(table.rows[0], ["1", "2.00", "2.00"]);
        assert_eq!(table.rows[POINTS - 1], ["40", "80.0", "-"]);
        assert_eq!(points("it".to_owned(), "n", &[curve("a", 1)]).rows.len(), 1);
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
