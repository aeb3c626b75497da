//! The plots of `alloc`: pairs by case, and memory.

use super::pairs::Work;
use super::summary::{SUBJECTS, case, footprint, samples};
use super::{Alloc, Row};
use crate::plot::{Axis, Bar, Group, Kind, Plot};
use crate::stats::Summary;

/// Draws the pairs of both kinds of work, and memory if it could be measured.
pub(super) fn plots(rows: &[Row], alloc: &Alloc) -> Vec<Plot> {
    let how = "An open and a close";
    let moved = format!("{how}: the same reference moves in and out");
    let cloned = format!("{how}: the table gets a reference of its own");
    let mut plots = vec![
        pairs(rows, "pairs", Work::Move, alloc.most, moved),
        pairs(rows, "cloned-pairs", Work::Clone, alloc.most, cloned),
    ];
    plots.extend(memory(rows));
    plots
}

fn pairs(rows: &[Row], name: &'static str, work: Work, most: u32, caption: String) -> Plot {
    let group = |label: String, open, threads| {
        let bar = |&subject: &&'static str| {
            let ns = samples(rows, subject, case(work, open, threads))?;
            Some(Bar::of(subject, &Summary::of(ns)))
        };
        Group {
            label,
            bars: SUBJECTS.iter().filter_map(bar).collect(),
        }
    };
    Plot {
        name,
        caption,
        kind: Kind::Bars {
            value: Axis::log("ns of one CPU for a pair"),
            groups: vec![
                group("1 open, 1 thread".to_owned(), 1, 1),
                group(format!("{most} open, 1 thread"), most, 1),
                group("1 open each, 2 threads".to_owned(), 1, 2),
            ],
        },
    }
}

fn memory(rows: &[Row]) -> Option<Plot> {
    let bar = |&subject: &&'static str| {
        Some(Bar::exact(
            subject,
            footprint(rows, subject)?.bytes_per_slot,
        ))
    };
    let bars: Vec<Bar> = SUBJECTS.iter().filter_map(bar).collect();
    (!bars.is_empty()).then(|| Plot {
        name: "memory",
        caption: "Memory of a full table for each slot, beyond the objects".to_owned(),
        kind: Kind::Bars {
            value: Axis::linear("bytes per slot"),
            groups: vec![Group {
                label: String::new(),
                bars,
            }],
        },
    })
}
