//! The plots of `peers`: bars for each case, and the worst opens while a table grows.

use super::super::Row;
use super::super::case::Case;
use crate::plot::{Axis, Bar, Group, Kind, Plot, Scale};

/// Makes both plots.
pub(in super::super) fn plots(rows: &[Row], most: u32) -> Vec<Plot> {
    vec![times(rows), growths(rows, most)]
}

fn times(rows: &[Row]) -> Plot {
    let bar = |case: Case, row: &Row| {
        let timing = row.timings.iter().find(|timing| timing.case == case)?;
        Some(Bar {
            name: row.name.to_owned(),
            value: timing.ns.median,
            spread: Some((timing.ns.p10, timing.ns.p90)),
        })
    };
    let group = |&case: &Case| Group {
        label: format!("{}, {}", case.work, super::threads(case.threads)),
        bars: rows.iter().filter_map(|row| bar(case, row)).collect(),
    };
    Plot {
        name: "times",
        caption: "Nanoseconds of an operation, an open with its close as one".to_owned(),
        kind: Kind::Bars {
            value: logarithmic("ns per operation"),
            groups: Case::ALL.iter().map(group).collect(),
        },
    }
}

fn growths(rows: &[Row], most: u32) -> Plot {
    let worst = |row: &Row| {
        let maxima = || row.growths.iter().map(|tail| tail.max_ns as f64 / 1e3);
        let value = maxima().reduce(f64::min)?;
        Some(Bar {
            name: row.name.to_owned(),
            value,
            spread: maxima().reduce(f64::max).map(|most| (value, most)),
        })
    };
    Plot {
        name: "growth",
        caption: format!("The worst open while a table grows to {most} descriptors"),
        kind: Kind::Bars {
            value: logarithmic("µs"),
            groups: vec![Group {
                label: String::new(),
                bars: rows.iter().filter_map(worst).collect(),
            }],
        },
    }
}

fn logarithmic(label: &str) -> Axis {
    Axis {
        label: label.to_owned(),
        scale: Scale::Log,
    }
}
