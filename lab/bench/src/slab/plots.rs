//! The plots of `slab`: times by case for each size, memory, and the walk with colours.

use super::summary::{SIZES, SUBJECTS, footprint, samples, walks};
use super::work::Case;
use super::{FILE, Row, SMALL};
use crate::plot::{Axis, Bar, Group, Kind, Plot};
use crate::stats::Summary;

/// Cases of one thread alone, and of two beside each other.
const PAIRS: [(&str, Case); 3] = [
    ("a pair, 1 thread", Case::Pair),
    (
        "a pair with the object written, 1 thread",
        Case::PairWritten,
    ),
    ("a pair, 2 threads", Case::PairTwoThreads),
];

/// Cases with many live objects, or with another thread that frees.
const MANY: [(&str, Case); 4] = [
    ("1,000 allocated, and freed in order", Case::Batch),
    (
        "1,000 allocated, and freed in a shuffled order",
        Case::BatchShuffled,
    ),
    ("handed over to a thread that frees", Case::Handover),
    ("the same with the object written", Case::HandoverWritten),
];

/// Draws all measured parts.
pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let mut plots = vec![
        times(rows, "pairs-small", SMALL, &PAIRS),
        times(rows, "many-small", SMALL, &MANY),
        times(rows, "pairs-file", FILE, &PAIRS),
        times(rows, "many-file", FILE, &MANY),
    ];
    plots.extend(memory(rows));
    plots.extend(colours(rows));
    plots
}

fn times(rows: &[Row], name: &'static str, size: usize, cases: &[(&str, Case)]) -> Plot {
    let group = |&(label, case): &(&str, Case)| {
        let bar = |&subject: &&'static str| {
            let ns = samples(rows, subject, size, case)?;
            Some(Bar::of(subject, &Summary::of(ns)))
        };
        Group {
            label: label.to_owned(),
            bars: SUBJECTS.iter().filter_map(bar).collect(),
        }
    };
    Plot {
        name,
        caption: format!("An object of {size} bytes allocated and freed"),
        kind: Kind::Bars {
            value: Axis::log("ns for an object"),
            groups: cases.iter().map(group).collect(),
        },
    }
}

fn memory(rows: &[Row]) -> Option<Plot> {
    let group = |size: usize| {
        let bar = |&subject: &&'static str| {
            let overhead = footprint(rows, subject, size)?.overhead();
            Some(Bar::exact(subject, overhead * 100.0))
        };
        Group {
            label: format!("objects of {size} bytes"),
            bars: SUBJECTS.iter().filter_map(bar).collect(),
        }
    };
    let groups = SIZES.map(group).to_vec();
    groups
        .iter()
        .any(|group| !group.bars.is_empty())
        .then(|| Plot {
            name: "memory",
            caption: "Memory beyond the objects, with all of them alive".to_owned(),
            kind: Kind::Bars {
                value: Axis::linear("percent of the objects' own"),
                groups,
            },
        })
}

fn colours(rows: &[Row]) -> Option<Plot> {
    let walks = walks(rows)?;
    Some(Plot {
        name: "colours",
        caption: format!("A walk over the first objects of {} slabs", walks.slabs),
        kind: Kind::Bars {
            value: Axis::linear("ns of a step"),
            groups: vec![Group {
                label: String::new(),
                bars: vec![
                    Bar::of(
                        format!("fdtable, {} colours", walks.colours),
                        &walks.with.ns,
                    ),
                    Bar::of("no colours", &walks.without.ns),
                ],
            }],
        },
    })
}
