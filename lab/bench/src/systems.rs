//! The five systems that the library implements, on one screen: what was reported of each then,
//! what it replaced, and what a run found.
//!
//! All values are headline figures. `systems.txt` lists them; the reports have the rest.

use std::fmt;
use std::path::Path;

use crate::report::{Figure, Report, machine_line, ratio};

const LIST: &str = include_str!("systems.txt");

/// The command that runs every experiment in full.
pub const EVERYTHING: &str =
    "cargo run --release --features experiments -- bench --html target/report";

/// The screen at the end of a short run.
#[derive(Debug)]
pub struct Screen<'a> {
    /// The reports of the run.
    pub reports: &'a [Report],
    /// The folder with the full tables and the plots.
    pub folder: &'a Path,
    /// Duration of the run.
    pub seconds: f64,
}

impl Screen<'_> {
    fn find(&self, key: &str) -> Option<&Figure> {
        let mut figures = self.reports.iter().flat_map(|report| &report.headline);
        figures.find(|figure| figure.key == key)
    }

    /// Returns the line of a quantity in the list, or the line itself if it is a heading.
    fn line(&self, listed: &str) -> String {
        let fields: Vec<&str> = listed.split('|').map(str::trim).collect();
        let [what, then, replaced, ours, better, goal] = fields[..] else {
            return listed.to_owned();
        };
        let [replaced, ours, goal] = [replaced, ours, goal].map(|key| self.find(key));
        let gain = replaced.zip(ours).map(|(replaced, ours)| match better {
            "more" => ours.value / replaced.value,
            _ => replaced.value / ours.value,
        });
        let judged = goal.and_then(|figure| {
            let word = match figure.goal.reached(figure.value)? {
                true => "met",
                false => "missed",
            };
            Some(format!("{} {} {word}", ratio(figure.value), figure.goal))
        });
        let verdict = match (judged, gain) {
            (Some(judged), _) => judged,
            (None, Some(gain)) if gain < 1.0 => "worse".to_owned(),
            (None, Some(_)) => "better".to_owned(),
            (None, None) => "not measured".to_owned(),
        };
        let case = ours.and_then(|figure| figure.meaning.rsplit_once(':'));
        let case = case.filter(|_| what.ends_with(':'));
        let what = format!("{what}{}", case.map_or("", |(_, case)| case));
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), ratio);
        let values = [replaced, ours].map(|figure| shown(figure.map(|figure| figure.value)));
        let ([replaced, ours], gain) = (values, shown(gain));
        format!("  {what:<43} {then:>7} {replaced:>8} {ours:>8} {gain:>6}  {verdict}")
    }
}

impl fmt::Display for Screen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(first) = self.reports.first() {
            writeln!(f, "{}\n", machine_line(&first.machine))?;
        }
        writeln!(f, "{:49}then replaced     ours  ratio  figure, goal", "")?;
        for listed in lines() {
            writeln!(f, "{}", self.line(listed))?;
        }
        let folder = self.folder.display();
        writeln!(
            f,
            "\nThen: what was reported, on a machine of that time. Ratio: how many times as good ours is as\n\
             what it replaced, by medians. Before a goal is its figure of docs/figures.md, most often the\n\
             median of ratios within a round.\n\n\
             Full tables: {folder}/tables.txt\n\
             Plots:       {folder}/index.html\n\n\
             It took {:.0} s. All experiments in full, with two dozen other tables as rivals, take 15 minutes\n\
             after a longer build:\n\n    {EVERYTHING}",
            self.seconds
        )
    }
}

fn lines() -> impl Iterator<Item = &'static str> {
    let lines = LIST.lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    fn screen(headline: Vec<Figure>) -> String {
        let reports = [Report {
            headline,
            ..example()
        }];
        let screen = Screen {
            reports: &reports,
            folder: Path::new("target/fdtable"),
            seconds: 80.0,
        };
        screen.to_string()
    }

    #[test]
    fn the_screen_is_short_and_has_every_figure() {
        let fields = lines().flat_map(|line| line.split('|').skip(2));
        let keys = fields.map(str::trim).filter(|key| key.contains('.'));
        let text = screen(keys.map(|key| Figure::new(key, 1.5)).collect());
        assert!(!text.contains("not measured"), "{text}");
        // The first line describes the machine.
        let long = text.lines().skip(1).find(|line| line.chars().count() > 100);
        assert_eq!(long, None);
        assert!(text.lines().count() <= 50, "{text}");
    }

    #[test]
    fn a_line_has_its_ratio_verdict_and_case() {
        let text = screen(vec![
            Figure::new("chat.million_messages", 15.0),
            Figure::new("chat.files_struct_million_messages", 10.0),
            Figure::new("chat.vs_files_struct", 1.4),
            Figure::new("slab.pair_ns", 10.0),
            Figure::new("slab.pair_libc_ns", 5.0),
            Figure::new("libmicro.best_ns", 10.0).and(" dup, 1 thread"),
        ]);
        let has = |words: &str| {
            text.lines()
                .any(|line| words.split(' ').all(|it| line.contains(it)))
        };
        assert!(has("chat 10.0 15.0 1.500 1.400 ≥ 1.318 met"), "{text}");
        assert!(has("object 5.00 10.0 0.500 worse"), "{text}");
        assert!(has("best: dup, 1 thread 10.0 not measured"), "{text}");
    }
}
