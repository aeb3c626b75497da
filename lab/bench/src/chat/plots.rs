//! Plots: throughput, and where the profiler's samples were.

use super::form::Form;
use super::summary::{ProfileRow, Row};
use crate::plot::{Axis, Bar, Group, Kind, Plot, Scale};
use crate::stats::Summary;

/// Draws all measured plots.
pub(super) fn plots(rows: &[Row], profiles: &[ProfileRow]) -> Vec<Plot> {
    let mut plots = vec![throughput(rows)];
    if !profiles.is_empty() {
        plots.push(profile(profiles));
    }
    plots
}

fn throughput(rows: &[Row]) -> Plot {
    let group = |form: Form| Group {
        label: form.name().to_owned(),
        bars: (rows.iter().filter(|row| row.form == form))
            .map(|row| bar(row.table, &row.messages_per_second, 1e-6))
            .collect(),
    };
    Plot {
        name: "throughput",
        caption: "Messages that the users of a chat receive, by the table in which all sockets are"
            .to_owned(),
        kind: Kind::Bars {
            value: axis("million messages/s"),
            groups: Form::ALL.map(group).into(),
        },
    }
}

fn profile(rows: &[ProfileRow]) -> Plot {
    type Share = fn(&ProfileRow) -> &Summary;
    let parts: [(&str, Share); 4] = [
        ("lookup", |row| &row.lookup),
        ("buffers", |row| &row.buffers),
        ("sleep and wake", |row| &row.sleep),
        ("the rest", |row| &row.rest),
    ];
    let group = |(label, share): (&str, Share)| Group {
        label: label.to_owned(),
        bars: (rows.iter().map(|row| bar(row.table, share(row), 100.0))).collect(),
    };
    Plot {
        name: "profile",
        caption: "Where a sampling profiler found the threads of the classic chat".to_owned(),
        kind: Kind::Bars {
            value: axis("% of the samples"),
            groups: parts.map(group).into(),
        },
    }
}

fn axis(label: &str) -> Axis {
    Axis {
        label: label.to_owned(),
        scale: Scale::Linear,
    }
}

fn bar(name: &str, of: &Summary, unit: f64) -> Bar {
    Bar {
        name: name.to_owned(),
        value: of.median * unit,
        spread: Some((of.p10 * unit, of.p90 * unit)),
    }
}
