//! Reports as Markdown, for pages and discussions on code hosts.

use std::fmt;

use crate::compare::Comparison;
use crate::report::{Figure, Report, Table, machine_line, ratio};

/// Shows a report as Markdown.
#[derive(Debug)]
pub struct Markdown<'a>(pub &'a Report);

/// Shows a comparison as Markdown.
#[derive(Debug)]
pub struct ComparedMarkdown<'a>(pub &'a Comparison);

/// Counts that no machine changes, of which `cargo xtask cost` checks that none grows.
const COSTS: &str = include_str!("../../cost/budgets.txt");

/// Shows the headline figures of a run, and the counts, as a page of Markdown.
#[derive(Debug)]
pub struct FiguresMarkdown<'a>(pub &'a [Report]);

impl fmt::Display for FiguresMarkdown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# Figures of one run\n")?;
        writeln!(
            f,
            "Written by `fdtable bench --figures FILE`, not by hand. \
             [What they mean and what limits them](performance.md).\n"
        )?;
        if let Some(first) = self.0.first() {
            writeln!(f, "{}\n", text(&machine_line(&first.machine)))?;
        }
        for report in self.0 {
            writeln!(f, "## {}: {}\n", report.experiment, text(&report.title))?;
            write_table(f, &headline(&report.headline))?;
        }
        writeln!(
            f,
            "## cost: counts of each operation, the same on every machine\n"
        )?;
        write_table(f, &costs())
    }
}

impl fmt::Display for Markdown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        writeln!(f, "## {}: {}\n", report.experiment, text(&report.title))?;
        writeln!(f, "{}\n", text(&machine_line(&report.machine)))?;
        for table in &report.tables {
            write_table(f, table)?;
        }
        write_table(f, &headline(&report.headline))?;
        for remark in &report.remarks {
            writeln!(f, "- {}", text(remark))?;
        }
        writeln!(f)
    }
}

impl fmt::Display for ComparedMarkdown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let compared = self.0;
        writeln!(f, "## Compared with {}\n", text(&compared.name))?;
        for warning in &compared.warnings {
            writeln!(f, "**{}**\n", text(warning))?;
        }
        for table in &compared.tables {
            write_table(f, table)?;
        }
        for remark in &compared.remarks {
            writeln!(f, "- {}", text(remark))?;
        }
        writeln!(f)
    }
}

/// Makes a table of the headline figures.
fn headline(figures: &[Figure]) -> Table {
    let outcome = |figure: &Figure| match figure.goal.reached(figure.value) {
        Some(true) => "reached",
        Some(false) => "not reached",
        None => "",
    };
    let line = |figure: &Figure| {
        vec![
            figure.meaning.clone(),
            figure.key.to_owned(),
            ratio(figure.value),
            figure.goal.to_string(),
            outcome(figure).to_owned(),
        ]
    };
    let header = ["", "key", "value", "goal", "outcome"];
    Table {
        caption: "Headline figures".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: figures.iter().map(line).collect(),
    }
}

/// Makes a table of the counts.
fn costs() -> Table {
    let cells = |line: &str| line.split(' ').map(str::to_owned).collect();
    let mut lines = COSTS.lines().filter(|line| !line.starts_with('#'));
    Table {
        caption:
            "One operation in a table with so many open descriptors; `written` are lines, and \
                  `chain` is the longest chain of loads that depend on each other"
                .to_owned(),
        header: lines.next().map(cells).unwrap_or_default(),
        rows: lines.map(cells).collect(),
    }
}

fn write_table(f: &mut fmt::Formatter<'_>, table: &Table) -> fmt::Result {
    writeln!(f, "{}:\n", text(&table.caption))?;
    write_row(f, &table.header)?;
    let rule = |column| if column == 0 { " --- |" } else { " ---: |" };
    let rules: String = (0..table.header.len()).map(rule).collect();
    writeln!(f, "|{rules}")?;
    for row in &table.rows {
        write_row(f, row)?;
    }
    writeln!(f)
}

fn write_row(f: &mut fmt::Formatter<'_>, cells: &[String]) -> fmt::Result {
    let cells: String = cells.iter().map(|it| format!(" {} |", text(it))).collect();
    writeln!(f, "|{cells}")
}

/// Escapes characters that are markup in Markdown or would end a cell.
fn text(plain: &str) -> String {
    let mut escaped = String::with_capacity(plain.len());
    for character in plain.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\n' => escaped.push(' '),
            '|' | '*' | '_' | '`' | '\\' | '[' | ']' | '~' => escaped.extend(['\\', character]),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    #[test]
    fn the_page_of_figures_has_each_with_its_outcome() {
        let page = FiguresMarkdown(&[example(), example()]).to_string();
        let reports = [example(), example()];
        let figures = reports.iter().flat_map(|report| &report.headline);
        for figure in figures.clone() {
            assert!(page.contains(&text(figure.key)), "{page}");
        }
        let outcomes = page.lines().filter(|line| line.ends_with("reached |"));
        let goals = figures.filter(|figure| figure.goal != crate::report::Goal::None);
        assert_eq!(outcomes.count(), goals.count());
    }

    #[test]
    fn every_row_has_as_many_cells_as_the_header() {
        let text = Markdown(&example()).to_string();
        let bars = |line: &str| line.replace("\\|", "").matches('|').count();
        let lines: Vec<_> = text.lines().collect();
        for (nth, line) in lines
            .iter()
            .enumerate()
            .filter(|(_, it)| it.starts_with("| ---"))
        {
            let rows = lines[nth + 1..].iter().take_while(|it| it.starts_with('|'));
            for row in rows.chain([&lines[nth - 1]]) {
                assert_eq!(bars(row), bars(line), "{row}");
            }
        }
    }

    #[test]
    fn nothing_of_a_report_is_missing_or_taken_for_markup() {
        let text = Markdown(&example()).to_string();
        for part in [
            "## lookup: from a number to a file",
            "RwLock&lt;Vec&lt;Option&lt;Arc&gt;&gt;&gt; &amp; others",
            "8.9 \\| 9.1",
            "lookup.a\\_b",
            "not reached",
            "≤ 1.3",
            "- A remark.",
        ] {
            assert!(text.contains(part), "{part} is missing from\n{text}");
        }
    }
}
