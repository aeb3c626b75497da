//! The figures of a run as a page of Markdown.

use std::fmt;

use crate::report::{Figure, Report, machine_line, ratio};

/// Shows the headline figures of a run as a page of Markdown.
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
            writeln!(f, "Headline figures:\n\n{HEADER}")?;
            for figure in &report.headline {
                writeln!(f, "{}", row(figure))?;
            }
            writeln!(f)?;
        }
        writeln!(
            f,
            "[The instructions and cache lines of each operation](../lab/cost/budgets.txt) are the \
             same on every machine."
        )
    }
}

/// The columns of the headline figures.
const HEADER: &str = "|  | key | value | goal | outcome |\n| --- | ---: | ---: | ---: | ---: |";

fn row(figure: &Figure) -> String {
    let [meaning, key] = [&figure.meaning, figure.key].map(text);
    let (value, outcome) = (ratio(figure.value), figure.outcome());
    let goal = figure.goal;
    format!("| {meaning} | {key} | {value} | {goal} | {outcome} |")
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
        let text = FiguresMarkdown(&[example()]).to_string();
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
    fn nothing_is_taken_for_markup() {
        let escaped = text("RwLock<Vec> & 8.9 | lookup.a_b");
        assert_eq!(escaped, "RwLock&lt;Vec&gt; &amp; 8.9 \\| lookup.a\\_b");
    }
}
