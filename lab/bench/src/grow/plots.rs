//! The plots of `grow`: opens and lookups over the percentiles.

use super::Row;
use crate::plot::{Axis, Curve, Kind, Plot, Point};
use crate::tail::Durations;

/// Draws both plots.
pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let plot = |name, caption: &str, durations: fn(&Row) -> &Durations| Plot {
        name,
        caption: caption.to_owned(),
        kind: Kind::Percentiles {
            y: Axis::log("ns, the clock included"),
            curves: rows.iter().map(|row| curve(row, durations(row))).collect(),
        },
    };
    vec![
        plot(
            "opens",
            "One open while a table grows, all runs together",
            |row| &row.opens,
        ),
        plot(
            "lookups",
            "One lookup on the other CPU meanwhile, all runs together",
            |row| &row.look_ups,
        ),
    ]
}

fn curve(row: &Row, durations: &Durations) -> Curve {
    let point = |(x, y)| Point { x, y, spread: None };
    Curve {
        name: row.subject.to_owned(),
        points: durations.quantiles().map(point).collect(),
    }
}
