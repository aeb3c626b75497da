//! A curve for each subject, over numbers or over percentiles.

use std::vec::IntoIter;

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::scale::{Ruler, has_position, short};
use super::style::{LINE, RIVALS, beside, colour, text};
use super::{Area, Drawn, WIDTH, chart};
use crate::plot::{Axis, Curve, Point, Role};

/// Height of the plot area in pixels, and the room for labels on its left.
const HEIGHT: i32 = 300;
const LEFT: i32 = 60;

/// Length of a curve's sample in the legend.
const SAMPLE: i32 = 30;

/// Lengths of dashes and of the gaps between them; the first is a solid line.
const DASHES: [(i32, i32); 4] = [(WIDTH, 0), (7, 3), (2, 3), (12, 4)];

/// Appearance of a subject among the others.
#[derive(Clone, Copy)]
struct Look {
    colour: RGBColor,
    dash: (i32, i32),
    stroke: u32,
}

impl Look {
    fn of(nth: usize, name: &str) -> Self {
        let (colour, stroke) = match Role::of(name) {
            Role::Rival => (RIVALS[nth % RIVALS.len()], 2),
            Role::Ours => (colour(name), 3),
            Role::Floor | Role::Literature => (colour(name), 2),
        };
        Look {
            colour,
            dash: DASHES[nth % DASHES.len()],
            stroke,
        }
    }

    /// Draws a line through places of a chart or of an area.
    fn line<C: Clone>(self, places: Vec<C>) -> DashedPathElement<IntoIter<C>, i32> {
        let style = self.colour.stroke_width(self.stroke);
        let (dash, gap) = self.dash;
        DashedPathElement::new(places, dash, gap, style)
    }
}

pub(super) fn height(curves: &[Curve]) -> i32 {
    HEIGHT + LINE * curves.len() as i32 + 40
}

/// Draws the curves above a legend. Ours lie on top.
pub(super) fn draw(area: &Area<'_>, x: &Axis, y: &Axis, curves: &[Curve]) -> Drawn {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let heights = points().flat_map(|it| [Some(it.y), it.spread.map(|it| it.0)]);
    let heights = heights.chain(points().map(|it| it.spread.map(|it| it.1)));
    let up = Ruler::new(y.scale, heights.flatten());
    let floor = up.range().start;
    let (above, below) = area.split_vertically(HEIGHT);
    area.draw(&Text::new(&*y.label, (8, 4), text()))?;
    below.draw(&Text::new(&*x.label, (WIDTH / 2, 10), beside(HPos::Center)))?;
    let across = Ruler::new(x.scale, points().map(|it| it.x));
    let above = above.margin(26, 0, 0, 20);
    let mut chart = chart(&above, LEFT, across, up)?;
    let mut all: Vec<_> = (0..).zip(curves).collect();
    all.sort_by_key(|(_, curve)| Role::of(&curve.name) == Role::Ours);
    for (nth, Curve { name, points }) in all {
        let look = Look::of(nth, name);
        let line = LINE * nth as i32 + 32;
        below.draw(&look.line(vec![(8, line), (8 + SAMPLE, line)]))?;
        let place = (16 + SAMPLE, line);
        below.draw(&Text::new(&**name, place, beside(HPos::Left)))?;

        let is_shown = |it: &&Point| has_position(x.scale, it.x) && has_position(y.scale, it.y);
        let shown = || points.iter().filter(is_shown);
        let ends = shown().filter_map(|it| {
            let (low, high) = it.spread?;
            Some(((it.x, low.max(floor)), (it.x, high.max(floor))))
        });
        let (mut band, upper): (Vec<_>, Vec<_>) = ends.unzip();
        band.extend(upper.into_iter().rev());
        chart.draw_series([Polygon::new(band, look.colour.mix(0.15))])?;
        chart.draw_series([look.line(shown().map(|it| (it.x, it.y)).collect())])?;
    }
    Ok(())
}

/// Describes the plot: the first and the last value of each curve.
pub(super) fn words(x: &Axis, y: &Axis, curves: &[Curve]) -> String {
    let at = |point: &Point| format!("{} at {}", short(point.y), short(point.x));
    let course = |Curve { name, points }: &Curve| {
        let (first, last) = points.first().zip(points.last())?;
        Some(format!(" {name}: {}, {}.", at(first), at(last)))
    };
    let courses: String = curves.iter().filter_map(course).collect();
    format!("{} over {}.{courses}", y.label, x.label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_has_the_same_colour_in_every_plot() {
        let ours = [(2, "fdtable"), (0, "fdtable, any free number")];
        let [one, other] = ours.map(|(nth, name)| Look::of(nth, name).colour);
        assert_eq!(one, other);
    }

    #[test]
    fn twenty_rivals_look_different() {
        let looks: Vec<_> = (0..20).map(|nth| Look::of(nth, "rival")).collect();
        for (nth, look) in looks.iter().enumerate() {
            let same = |it: &&Look| (it.colour, it.dash) == (look.colour, look.dash);
            assert_eq!(looks.iter().filter(same).count(), 1, "{nth}");
        }
    }
}
