//! The plots of `sparse`: time and memory of a high descriptor.

use super::Row;
use crate::plot::{Axis, Bar, Group, Kind, Plot};

/// Draws times, and memory if it could be measured.
pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let plot = |name, caption: &str, value: &str, bars| Plot {
        name,
        caption: caption.to_owned(),
        kind: Kind::Bars {
            value: Axis::log(value),
            groups: vec![Group {
                label: String::new(),
                bars,
            }],
        },
    };
    let name = |row: &Row| format!("{} to {}", row.subject, row.fd);
    let time = |row: &Row| Bar::times(name(row), &row.ns, 1e-3);
    let memory = |row: &Row| Some(Bar::exact(name(row), row.bytes?.open));
    let times = rows.iter().map(time).collect();
    let weights: Vec<Bar> = rows.iter().filter_map(memory).collect();
    let mut plots = vec![plot(
        "times",
        "The first open at a high descriptor in a fresh table",
        "µs",
        times,
    )];
    if !weights.is_empty() {
        let caption = "Memory of a table with descriptor 0 and a high one";
        plots.push(plot("memory", caption, "bytes", weights));
    }
    plots
}
