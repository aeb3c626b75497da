//! The plot of `posix`: each call on each side.

use super::Row;
use crate::plot::{Axis, Bar, Group, Kind, Plot};

/// Draws a group of bars for each call.
pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let mut calls: Vec<&str> = Vec::new();
    for row in rows {
        if !calls.contains(&row.call) {
            calls.push(row.call);
        }
    }
    let group = |call: &str| Group {
        label: call.to_owned(),
        bars: rows
            .iter()
            .filter(|row| row.call == call)
            .map(|row| Bar::of(row.side, &row.ns))
            .collect(),
    };
    vec![Plot {
        name: "calls",
        caption: "One call through the C interface, beside the host's and beside Rust".to_owned(),
        kind: Kind::Bars {
            value: Axis::log("ns"),
            groups: calls.into_iter().map(group).collect(),
        },
    }]
}
