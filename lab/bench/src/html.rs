//! Reports as one self-contained HTML page: plots are inline, and the page loads no script, style
//! or font.
//!
//! A plot that is wider than the screen scrolls. Each plot is also written to a file of its own,
//! for other pages.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::compare::Comparison;
use crate::machine::Machine;
use crate::plot::Plot;
use crate::report::{Figure, Report, Table, machine_line, ratio};
use crate::svg;

/// Layout of the page.
const STYLE: &str = include_str!("html/style.css");

/// Name of the page in its folder.
const PAGE: &str = "index.html";

/// Existing folder for a page and its plots.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Creates the folder, unless it exists.
    ///
    /// # Errors
    /// If it cannot be created, or is not a folder.
    pub fn make(path: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
        Ok(Folder(path.to_owned()))
    }

    /// Writes the page, and each plot as `<experiment>-<name>.svg`. Replaces files of that name.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, reports: &[Report], compared: Option<&Comparison>) -> anyhow::Result<()> {
        self.write_file(PAGE, &page(reports, compared))?;
        for report in reports {
            for plot in &report.plots {
                let name = format!("{}-{}.svg", report.experiment, plot.name);
                self.write_file(&name, &svg::file(plot))?;
            }
        }
        Ok(())
    }

    fn write_file(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.0.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }
}

/// Returns the whole page.
pub fn page(reports: &[Report], compared: Option<&Comparison>) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "fdtable: measurements" }
                style { (PreEscaped(STYLE)) (PreEscaped(svg::STYLE)) }
            }
            body {
                header {
                    h1 { "fdtable: measurements" }
                    @if let Some(report) = reports.last() { (machine(&report.machine)) }
                }
                (contents(reports, compared))
                main {
                    (goals(reports))
                    @if let Some(compared) = compared { (comparison(compared)) }
                    @for report in reports { (section(report)) }
                }
            }
        }
    };
    page.into_string()
}

fn machine(machine: &Machine) -> Markup {
    html! {
        p.machine { (machine_line(machine)) "." }
        p.note {
            "Subjects took turns within one run, in another order in each round; a ratio is the \
             median of the ratios within the rounds. Whiskers and bands reach from the 10th to \
             the 90th percentile."
        }
    }
}

fn contents(reports: &[Report], compared: Option<&Comparison>) -> Markup {
    html! {
        nav aria-label="Contents" {
            ul {
                li { a href="#goals" { "Goals" } }
                @if compared.is_some() { li { a href="#compared" { "Compared" } } }
                @for report in reports {
                    li {
                        a href={ "#" (report.experiment) } { (report.experiment) }
                        @let (reached, all) = score(report.headline.iter());
                        @if all > 0 { " " span.note { (reached) "/" (all) } }
                    }
                }
            }
        }
    }
}

/// Counts the reached goals, and all goals.
fn score<'a>(figures: impl Iterator<Item = &'a Figure>) -> (usize, usize) {
    let judged = figures.filter_map(|it| it.goal.reached(it.value));
    judged.fold((0, 0), |(reached, all), is_reached| {
        (reached + usize::from(is_reached), all + 1)
    })
}

/// Lists every figure that has a goal.
fn goals(reports: &[Report]) -> Markup {
    let figures = || reports.iter().flat_map(|report| &report.headline);
    let (reached, all) = score(figures());
    let judged = figures().filter(|it| !it.outcome().is_empty());
    html! {
        section id="goals" {
            h2 { "Goals" }
            p { (reached) " of " (all) " goals are reached." }
            (grid(&figures_table(judged, "Every figure that has a goal")))
        }
    }
}

fn section(report: &Report) -> Markup {
    html! {
        section id=(report.experiment) {
            h2 { (report.experiment) ": " (report.title) }
            div.plots { @for plot in &report.plots { (figure(plot)) } }
            (grid(&figures_table(report.headline.iter(), "Headline figures")))
            @if !report.remarks.is_empty() {
                h3 { "What this shows" }
                ul.remarks { @for remark in &report.remarks { li { (remark) } } }
            }
            h3 { "Tables" }
            @for table in &report.tables { (grid(table)) }
            details {
                summary { "Machine and configuration of this run" }
                p.machine { (machine_line(&report.machine)) "." }
                pre tabindex="0" { (configuration(report)) }
            }
        }
    }
}

fn configuration(report: &Report) -> String {
    serde_json::to_string_pretty(&report.config).unwrap_or_default()
}

fn figure(plot: &Plot) -> Markup {
    html! {
        figure tabindex="0" {
            figcaption { (plot.caption) }
            (svg::inline(plot))
        }
    }
}

fn figures_table<'a>(figures: impl Iterator<Item = &'a Figure>, caption: &str) -> Table {
    let line = |figure: &Figure| {
        let outcome = match figure.goal.reached(figure.value) {
            Some(true) => "✓ reached",
            Some(false) => "✗ not reached",
            None => "no goal",
        };
        let Figure {
            key,
            value,
            goal,
            meaning,
        } = figure;
        [
            format!("{meaning}: {key}"),
            ratio(*value),
            goal.to_string(),
            outcome.to_owned(),
        ]
    };
    let header = ["Figure", "Value", "Goal", "Outcome"];
    Table::new(caption, header, figures.map(line))
}

fn grid(table: &Table) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(table.caption) {
            table {
                caption { (table.caption) }
                thead { tr { @for name in &table.header { th scope="col" { (name) } } } }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (column, cell) in row.iter().enumerate() {
                                @if column == 0 { th scope="row" { (cell) } }
                                @else if cell.starts_with('✓') { td.reached { (cell) } }
                                @else if cell.starts_with('✗') { td.missed { (cell) } }
                                @else { td.number { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn comparison(compared: &Comparison) -> Markup {
    html! {
        section id="compared" {
            h2 { "Compared with " (compared.name) }
            @for warning in &compared.warnings { p.warning { (warning) } }
            @for table in &compared.tables { (grid(table)) }
            ul.remarks { @for remark in &compared.remarks { li { (remark) } } }
        }
    }
}

#[cfg(test)]
mod tests;
