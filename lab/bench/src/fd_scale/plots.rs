//! The plots of `fd-scale`: cost against open descriptors, beside that of Linux in 2007.

use super::opener::{BARE, FILES_STRUCT, HOST, RWLOCK_VEC, VFS};
use super::range::Place;
use super::{Row, State};
use crate::plot::{Axis, Curve, Kind, Plot, Point};

/// Subjects of the plots.
const SUBJECTS: [&str; 5] = [BARE, VFS, FILES_STRUCT, RWLOCK_VEC, HOST];

/// Linux 2.6.21 in the original experiment: descriptors, and nanoseconds hot and cold.
const LINUX_2007: [(f64, f64, f64); 2] = [(1.0, 1_400.0, 4_600.0), (1e6, 8_200.0, 13_600.0)];

/// Name of the curve from the literature.
const LITERATURE: &str = "Linux 2.6.21, sys_open, 2007 (literature)";

/// Draws the hot cost, and the cold one.
pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    vec![
        plot(rows, State::Hot, "hot"),
        plot(rows, State::Cold, "cold"),
    ]
}

fn plot(rows: &[Row], state: State, name: &'static str) -> Plot {
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
            curves: measured.chain([literature(state)]).collect(),
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

fn literature(state: State) -> Curve {
    let point = |(x, hot, cold)| Point {
        x,
        y: match state {
            State::Hot => hot,
            State::Cold => cold,
        },
        spread: None,
    };
    Curve {
        name: LITERATURE.to_owned(),
        points: LINUX_2007.map(point).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Role;
    use crate::stats::Summary;

    fn row(open: u32, step: u32, place: Place, open_ns: f64) -> Row {
        Row {
            subject: BARE,
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
        let points = points(&rows, State::Hot, BARE);
        let places: Vec<_> = points.iter().map(|it| (it.x, it.y)).collect();
        assert_eq!(places, [(1.0, 6.0), (100.0, 9.0)]);
        assert_eq!(points[1].spread, Some((9.0, 9.0)));
    }

    #[test]
    fn values_from_the_literature_are_marked() {
        assert_eq!(Role::of(&literature(State::Hot).name), Role::Literature);
    }
}
