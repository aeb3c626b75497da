//! The plots of `fork`: forks by the number of open descriptors, and first closes.

use super::{Row, Step};
use crate::plot::{Axis, Bar, Group, Kind, Plot};

/// Draws both plots.
pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let plot = |name, caption: &str, groups| Plot {
        name,
        caption: caption.to_owned(),
        kind: Kind::Bars {
            value: Axis::log("µs"),
            groups,
        },
    };
    let closes = [
        ("right after the fork", Step::FirstClose),
        ("cache cold", Step::FirstCloseCold),
    ];
    let closes = closes
        .into_iter()
        .flat_map(|(when, step)| by_size(rows, step, when));
    vec![
        plot(
            "forks",
            "One fork of a table",
            by_size(rows, Step::Fork, ""),
        ),
        plot(
            "first-closes",
            "The first close in the child",
            closes.collect(),
        ),
    ]
}

/// Makes a group for each number of open descriptors, the smallest first.
fn by_size(rows: &[Row], step: Step, when: &str) -> Vec<Group> {
    let of_step = || rows.iter().filter(|row| row.step == step);
    let mut sizes: Vec<u32> = of_step().map(|row| row.open).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let group = |open: u32| {
        let mut rows: Vec<_> = of_step().filter(|row| row.open == open).collect();
        // The host is measured first, and stands last.
        rows.sort_by_key(|row| row.subject.starts_with("the host"));
        let separator = if when.is_empty() { "" } else { ", " };
        Group {
            label: format!("{open} open{separator}{when}"),
            bars: rows
                .iter()
                .map(|row| Bar::times(row.subject, &row.ns, 1e-3))
                .collect(),
        }
    };
    sizes.into_iter().map(group).collect()
}
