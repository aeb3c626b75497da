//! A curve for each subject, over numbers or over percentiles.

use std::f64::consts::{PI, TAU};
use std::vec::IntoIter;

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::scale::{Foot, Ruler, short};
use super::style::{LINE, RIVALS, TEXT, beside, colour, text, widest, width};
use super::{Area, Drawing, Drawn, WIDTH, chart};
use crate::plot::{Axis, Curve, Point, Role};

/// Height of the plot area in pixels.
const HEIGHT: i32 = 300;

/// Most markers of a curve.
const MARKED: usize = 16;

/// Length of a curve's sample in the legend, and distance of two entries, in pixels.
const SAMPLE: i32 = 30;
const GAP: i32 = 18;

/// Lengths of dashes and of the gaps between them; the first is a solid line.
const DASHES: [(i32, i32); 4] = [(WIDTH, 0), (7, 3), (2, 3), (12, 4)];

/// Markers: how many corners they have, and the angle of the first one.
const SHAPES: [(u32, f64); 4] = [(12, 0.0), (4, PI / 4.0), (3, -PI / 2.0), (4, 0.0)];

/// Appearance of a subject among the others.
#[derive(Clone, Copy, PartialEq)]
struct Look {
    colour: RGBColor,
    dash: (i32, i32),
    shape: (u32, f64),
    stroke: u32,
}

impl Look {
    fn new(colour: RGBColor, dash: usize, shape: usize, stroke: u32) -> Self {
        Look {
            colour,
            dash: DASHES[dash % DASHES.len()],
            shape: SHAPES[shape % SHAPES.len()],
            stroke,
        }
    }

    /// Draws a line through places of a chart or of an area.
    fn line<C: Clone>(self, places: &[C]) -> DashedPathElement<IntoIter<C>, i32> {
        let style = self.colour.stroke_width(self.stroke);
        let (dash, gap) = self.dash;
        DashedPathElement::new(places.to_vec(), dash, gap, style)
    }

    /// Draws a marker around a place of an area.
    fn marker(self, (x, y): (i32, i32)) -> Polygon<(i32, i32)> {
        let (corners, first) = self.shape;
        let corner = |nth| {
            let (sin, cos) = (first + TAU * f64::from(nth) / f64::from(corners)).sin_cos();
            (
                x + (5.0 * cos).round() as i32,
                y + (5.0 * sin).round() as i32,
            )
        };
        let corners: Vec<_> = (0..corners).map(corner).collect();
        Polygon::new(corners, self.colour)
    }
}

/// Chooses a different look for each name of a plot, with up to 20 rivals.
fn looks<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Look> {
    let (mut ours, mut rivals) = (0.., 0..);
    let mut look = |name| match Role::of(name) {
        Role::Ours => {
            let nth = ours.next().unwrap_or(0);
            Look::new(colour(name), nth, nth, 3)
        }
        Role::Floor => Look::new(colour(name), 2, 1, 2),
        Role::Literature => Look::new(colour(name), 1, 3, 2),
        Role::Rival => {
            let nth = rivals.next().unwrap_or(0);
            Look::new(RIVALS[nth % RIVALS.len()], nth / RIVALS.len(), nth + 1, 2)
        }
    };
    names.map(&mut look).collect()
}

fn points(curves: &[Curve]) -> impl Iterator<Item = &Point> {
    curves.iter().flat_map(|curve| &curve.points)
}

pub(super) fn drawing<'a>(x: &'a Axis, y: &'a Axis, curves: &'a [Curve]) -> Drawing<'a> {
    let across = Ruler::new(x.scale, points(curves).map(|it| it.x), Foot::AtSmallest);
    let spread = |point: &Point| point.spread.unwrap_or((point.y, point.y));
    let heights = points(curves).flat_map(|it| [it.y, spread(it).0, spread(it).1]);
    let up = Ruler::new(y.scale, heights, Foot::AtSmallest);
    let looks = looks(curves.iter().map(|curve| &*curve.name));
    let (entries, legend) = legend(curves);
    Drawing {
        height: HEIGHT + legend + 30,
        words: words(curves, &y.label, &x.label),
        draw: Box::new(move |area| {
            area.draw(&Text::new(&*y.label, (8, 4), text(TEXT)))?;
            let (chart, below) = area.split_vertically(HEIGHT + 10);
            let middle = beside(HPos::Center);
            below.draw(&Text::new(&*x.label, (WIDTH / 2, 10), middle))?;
            for ((curve, look), (x, y)) in curves.iter().zip(&looks).zip(&entries) {
                below.draw(&look.line(&[(*x, *y), (x + SAMPLE, *y)]))?;
                below.draw(&look.marker((x + SAMPLE / 2, *y)))?;
                let place = (x + SAMPLE + 8, *y);
                below.draw(&Text::new(&*curve.name, place, beside(HPos::Left)))?;
            }
            draw(&chart.margin(26, 0, 0, 20), (across, up), curves, &looks)
        }),
    }
}

fn draw(area: &Area<'_>, (across, up): (Ruler, Ruler), curves: &[Curve], looks: &[Look]) -> Drawn {
    let labels = [across.labels(11), up.labels(7)];
    let left = widest(labels[1].0.iter().map(|(_, label)| &**label)) + 12;
    let mut chart = chart(area, left, labels, [true, true])?;
    let at = |x, y| Some((across.place(x)?, up.place(y)?));
    let mut pairs: Vec<_> = curves.iter().zip(looks).collect();
    // Ours is on top.
    pairs.sort_by_key(|(curve, _)| Role::of(&curve.name) == Role::Ours);
    for (Curve { points, .. }, look) in pairs {
        let ends = points.iter().filter_map(|point| {
            let (low, high) = point.spread?;
            Some((at(point.x, low)?, at(point.x, high)?))
        });
        let (mut band, mut upper): (Vec<_>, Vec<_>) = ends.unzip();
        upper.reverse();
        band.extend(upper);
        let places: Vec<_> = points.iter().filter_map(|it| at(it.x, it.y)).collect();
        let every = places.len().div_ceil(MARKED).max(1);
        chart.draw_series([Polygon::new(band, look.colour.mix(0.15))])?;
        chart.draw_series([look.line(&places)])?;
        let (screen, plane) = (area.use_screen_coord(), chart.plotting_area());
        for place in places.iter().step_by(every) {
            screen.draw(&look.marker(plane.map_coordinate(place)))?;
        }
    }
    Ok(())
}

/// Places the entries of the legend, with as many in a line as fit. Also returns its height.
fn legend(curves: &[Curve]) -> (Vec<(i32, i32)>, i32) {
    let (mut x, mut y) = (8, 32);
    let mut places = Vec::new();
    for curve in curves {
        let takes = SAMPLE + 8 + width(&curve.name) + GAP;
        if x > 8 && x + takes > WIDTH {
            (x, y) = (8, y + LINE);
        }
        places.push((x, y));
        x += takes;
    }
    (places, y)
}

/// Describes the first and the last value of each curve.
fn words(curves: &[Curve], up: &str, across: &str) -> String {
    let at = |point: &Point| format!("{} at {}", short(point.y), short(point.x));
    let course = |curve: &Curve| {
        let ends = curve.points.first().zip(curve.points.last());
        ends.map(|(first, last)| format!(" {}: {}, {}.", curve.name, at(first), at(last)))
    };
    let courses: String = curves.iter().filter_map(course).collect();
    format!("{up} over {across}.{courses}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_has_the_same_colour_in_every_plot() {
        let colour = |names: &[&str]| looks(names.iter().copied()).pop().map(|it| it.colour);
        assert_eq!(
            colour(&["a", "b", "fdtable"]),
            colour(&["fdtable, any free number"])
        );
    }

    #[test]
    fn twenty_rivals_look_different() {
        let names: Vec<String> = (0..20).map(|nth| format!("rival {nth}")).collect();
        let looks = looks(names.iter().map(String::as_str));
        for (nth, look) in looks.iter().enumerate() {
            let same = |it: &&Look| (it.colour, it.dash) == (look.colour, look.dash);
            assert_eq!(looks.iter().filter(same).count(), 1, "{nth}");
        }
    }
}
