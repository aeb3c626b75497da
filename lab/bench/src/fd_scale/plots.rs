//! The plots of `fd-scale`: cost against open descriptors, beside that of Linux in 2007.

use super::range::Place;
use super::summary::SUBJECTS;
use super::{Row, State};
use crate::plot::{Axis, Curve, Kind, Plot, Point};

/// Linux 2.6.21 in the original experiment: descriptors and nanoseconds, hot.
const LINUX_2007_HOT: [(f64, f64); 2] = [(1.0, 1_400.0), (1e6, 8_200.0)];
/// The same with a cold cache.
const LINUX_2007_COLD: [(f64, f64); 2] = [(1.0, 4_600.0), (1e6, 13_600.0)];

/// Name of the curve from the literature.
const LITERATURE: &str = "Linux 2.6.21, sys_open, 2007 (literature)";

/// Draws the hot cost, and the cold one.
pub(super) fn plots(rows: &[Row]) -> [Plot; 2] {
    [
        plot(rows, State::Hot, "hot", LINUX_2007_HOT),
        plot(rows, State::Cold, "cold", LINUX_2007_COLD),
    ]
}

fn plot(rows: &[Row], state: State, name: &'static str, linux: [(f64, f64); 2]) -> Plot {
    let measured = SUBJECTS.iter().map(|&subject| Curve {
        name: subject.to_owned(),
        points: points(rows, state, subject),
    });
    Plot {
        name,
        caption: format!(
            "One open while N descriptors are open, cache {name}, at the worse of the middle and \
             the end of the range. Linux of 2007 on a machine of its time, from the literature"
        ),
        kind: Kind::Curves {
            x: Axis::log("open descriptors"),
            y: Axis::log("ns of one open, without the clock"),
            curves: measured.chain([literature(linux)]).collect(),
        },
    }
}

/// Lists the cost at each step, without the twins. Those are measured in a step of more
/// descriptors.
fn points(rows: &[Row], state: State, subject: &str) -> Vec<Point> {
    let fits = |row: &&Row| row.subject == subject && row.state == state && row.open == row.step;
    let of = |place| {
        rows.iter()
            .filter(fits)
            .filter(move |row| row.place == place)
    };
    let worse = of(Place::Middle).zip(of(Place::End)).map(|(middle, end)| {
        if middle.open_ns > end.open_ns {
            middle
        } else {
            end
        }
    });
    let point = |row: &Row| Point {
        x: f64::from(row.open),
        y: row.open_ns,
        spread: Some((row.ns.p10 - row.clock_ns, row.ns.p90 - row.clock_ns)),
    };
    worse.map(point).collect()
}

fn literature(points: [(f64, f64); 2]) -> Curve {
    let point = |(x, y)| Point { x, y, spread: None };
    Curve {
        name: LITERATURE.to_owned(),
        points: points.map(point).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opener::OURS;
    use crate::plot::Role;
    use crate::stats::Summary;

    fn row(open: u32, step: u32, place: Place, open_ns: f64) -> Row {
        Row {
            subject: OURS,
            open,
            step,
            state: State::Hot,
            place,
            ns: Summary::of(&[open_ns + 20.0]),
            clock_ns: 20.0,
            open_ns,
        }
    }

    #[test]
    fn a_point_is_the_worse_place_and_a_twin_is_none() {
        let rows = [
            row(1, 1, Place::Middle, 5.0),
            row(1, 1, Place::End, 6.0),
            row(100, 100, Place::Middle, 9.0),
            row(100, 100, Place::End, 8.0),
            row(1, 100, Place::Middle, 50.0),
            row(1, 100, Place::End, 50.0),
        ];
        let points = points(&rows, State::Hot, OURS);
        let places: Vec<_> = points.iter().map(|it| (it.x, it.y)).collect();
        assert_eq!(places, [(1.0, 6.0), (100.0, 9.0)]);
        assert_eq!(points[1].spread, Some((9.0, 9.0)));
    }

    #[test]
    fn values_from_the_literature_are_marked() {
        assert_eq!(Role::of(&literature(LINUX_2007_HOT).name), Role::Literature);
    }
}
