//! A bar for each subject, in groups, with names on the left.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::scale::{Foot, Ruler, short};
use super::style::{TEXT, beside, colour, text, widest, width};
use super::{AXIS_HEIGHT, Area, Drawing, Drawn, WIDTH, chart, rows};
use crate::plot::{Axis, Bar, Group};

/// Height of a bar with the space around it, in pixels.
const ROW: i32 = 19;

/// Draws all groups, one below the other.
pub(super) fn drawing<'a>(value: &'a Axis, groups: &'a [Group]) -> Drawing<'a> {
    let bars = || groups.iter().flat_map(|group| &group.bars);
    let left = widest(bars().map(|bar| &*bar.name)) + 12;
    let right = bars().map(|bar| width(&short(bar.value))).max();
    let right = right.unwrap_or(0) + 16;
    let ruler = Ruler::new(value.scale, bars().flat_map(ends), Foot::Below);
    let height: i32 = groups.iter().map(height).sum();
    Drawing {
        height: height + 24,
        words: words(value, groups),
        draw: Box::new(move |area| {
            let mut rest = area.clone();
            for group in groups {
                let (part, below) = rest.split_vertically(self::height(group));
                draw(&part.margin(4, 0, 0, right), left, &ruler, group)?;
                rest = below;
            }
            let half = width(&value.label) / 2 + 4;
            let middle = i32::midpoint(left, WIDTH - right);
            let place = (middle.min(WIDTH - half).max(half), 10);
            rest.draw(&Text::new(&*value.label, place, beside(HPos::Center)))
        }),
    }
}

/// Returns the height of a group with its axis, in pixels.
fn height(group: &Group) -> i32 {
    4 + heading(group) + ROW * group.bars.len() as i32 + AXIS_HEIGHT
}

/// Returns the height of a group's label in pixels.
fn heading(group: &Group) -> i32 {
    if group.label.is_empty() { 0 } else { 20 }
}

/// Lists what must be on the axis.
fn ends(bar: &Bar) -> [f64; 3] {
    let (low, high) = bar.spread.unwrap_or((bar.value, bar.value));
    [low, bar.value, high]
}

fn draw(area: &Area<'_>, left: i32, ruler: &Ruler, group: &Group) -> Drawn {
    area.draw(&Text::new(&*group.label, (8, 0), text(TEXT)))?;
    let (_, area) = area.split_vertically(heading(group));
    let names = group.bars.iter().map(|bar| &*bar.name);
    let names = rows(names);
    let mut chart = chart(&area, left, [ruler.labels(9), names.clone()], [true, false])?;
    let half = 0.34 / names.0.len() as f64;
    for (bar, (y, _)) in group.bars.iter().zip(names.0) {
        // A value without a position is at the lower end.
        let [low, x, high] = ends(bar).map(|value| ruler.place(value).unwrap_or(0.0));
        let style = colour(&bar.name).filled();
        chart.draw_series([Rectangle::new([(0.0, y - half), (x, y + half)], style)])?;
        if bar.spread.is_some() {
            chart.draw_series([ErrorBar::new_horizontal(y, low, x, high, TEXT, 7)])?;
        }
        let value = Text::new(short(bar.value), (7, 0), beside(HPos::Left));
        chart.draw_series([EmptyElement::at((x.max(high), y)) + value])?;
    }
    Ok(())
}

/// Describes every value.
fn words(value: &Axis, groups: &[Group]) -> String {
    let bar = |bar: &Bar| match bar.spread {
        Some((low, high)) => {
            let [middle, low, high] = [bar.value, low, high].map(short);
            format!("{} {middle} ({low} to {high})", bar.name)
        }
        None => format!("{} {}", bar.name, short(bar.value)),
    };
    let group = |group: &Group| {
        let bars: Vec<_> = group.bars.iter().map(bar).collect();
        let label = if group.label.is_empty() { "" } else { ": " };
        format!(" {}{label}{}.", group.label, bars.join("; "))
    };
    let groups: String = groups.iter().map(group).collect();
    format!("{}.{groups}", value.label)
}
