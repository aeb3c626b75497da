//! The plots of `lookup`: a bar for each subject, by case.

use super::Row;
use super::case::Case;
use crate::plot::{Axis, Bar, Group, Kind, Plot};

/// Most threads of a plotted case; cases of more are only in the tables.
const THREADS: usize = 2;

/// Draws a plot for each number of live descriptors.
pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let mut sizes: Vec<u32> = rows.iter().map(|row| row.case.live).collect();
    sizes.dedup();
    let names = ["few", "many"];
    let plot = |(name, live)| plot(rows, name, live);
    names.into_iter().zip(sizes).map(plot).collect()
}

fn plot(rows: &[Row], name: &'static str, live: u32) -> Plot {
    let of = |row: &&Row| row.case.live == live && row.case.threads <= THREADS;
    let mut groups: Vec<(Case, Group)> = Vec::new();
    for row in rows.iter().filter(of) {
        let bar = Bar::of(row.subject, &row.ns);
        match groups.iter_mut().find(|(case, _)| *case == row.case) {
            Some((_, group)) => group.bars.push(bar),
            None => groups.push((
                row.case,
                Group {
                    label: label(&row.case),
                    bars: vec![bar],
                },
            )),
        }
    }
    Plot {
        name,
        caption: format!("One lookup with {live} open descriptors"),
        kind: Kind::Bars {
            value: Axis::log("ns of one CPU for a lookup"),
            groups: groups.into_iter().map(|(_, group)| group).collect(),
        },
    }
}

fn label(case: &Case) -> String {
    match case.threads {
        1 => "1 thread".to_owned(),
        threads => format!("{threads} threads, {} descriptors", case.pattern),
    }
}
