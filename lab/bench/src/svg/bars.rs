//! A bar for each subject, in groups, with names on the left.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::scale::{Ruler, short};
use super::style::{TEXT, beside, colour, width};
use super::{AXIS_HEIGHT, Area, Drawn, WIDTH, chart};
use crate::plot::{Axis, Bar, Group};

/// Distance of two bars in pixels, and the height of the label below them.
const ROW: i32 = 19;
const LABEL: i32 = 24;

/// Counts the rows: the bars, and the names of groups that have one.
fn rows(groups: &[Group]) -> usize {
    let of = |group: &Group| group.bars.len() + usize::from(!group.label.is_empty());
    groups.iter().map(of).sum()
}

pub(super) fn height(groups: &[Group]) -> i32 {
    ROW * rows(groups) as i32 + AXIS_HEIGHT + LABEL
}

pub(super) fn draw(area: &Area<'_>, value: &Axis, groups: &[Group]) -> Drawn {
    let bars = || groups.iter().flat_map(|group| &group.bars);
    let spread = |bar: &Bar| bar.spread.unwrap_or((bar.value, bar.value));
    let left = bars().map(|bar| width(&bar.name)).max().unwrap_or(0) + 12;
    let right = bars().map(|bar| width(&short(bar.value))).max();
    let right = right.unwrap_or(0) + 16;
    let values = bars().flat_map(|bar| [bar.value, spread(bar).0, spread(bar).1]);
    let ruler = Ruler::new(value.scale, values);
    let foot = ruler.range().start;
    let (above, below) = area.split_vertically(height(groups) - LABEL);
    let down = Ruler::rows(rows(groups));
    let above = above.margin(0, 0, 0, right);
    let mut chart = chart(&above, left, ruler, down)?;
    let mut row = 0.0;
    for group in groups {
        if !group.label.is_empty() {
            let label = Text::new(group.label.clone(), (8 - left, 0), beside(HPos::Left));
            chart.draw_series([EmptyElement::at((foot, row + 0.5)) + label])?;
            row += 1.0;
        }
        for bar in &group.bars {
            let middle = row + 0.5;
            let (low, high) = spread(bar);
            let [low, x, high] = [low, bar.value, high].map(|value| value.max(foot));
            let style = colour(&bar.name).filled();
            let ends = [(foot, row + 0.16), (x, row + 0.84)];
            chart.draw_series([Rectangle::new(ends, style)])?;
            if bar.spread.is_some() {
                chart.draw_series([ErrorBar::new_horizontal(middle, low, x, high, TEXT, 7)])?;
            }
            let name = Text::new(bar.name.clone(), (-8, 0), beside(HPos::Right));
            chart.draw_series([EmptyElement::at((foot, middle)) + name])?;
            let number = Text::new(short(bar.value), (7, 0), beside(HPos::Left));
            chart.draw_series([EmptyElement::at((x.max(high), middle)) + number])?;
            row += 1.0;
        }
    }
    let half = width(&value.label) / 2 + 4;
    let middle = i32::midpoint(left, WIDTH - right).clamp(half, WIDTH - half);
    below.draw(&Text::new(
        &*value.label,
        (middle, 10),
        beside(HPos::Center),
    ))
}

/// Describes the plot: the values of each group.
pub(super) fn words(value: &Axis, groups: &[Group]) -> String {
    let bar = |bar: &Bar| match bar.spread.map(|(low, high)| [low, high].map(short)) {
        Some([low, high]) => format!("{} {} ({low} to {high})", bar.name, short(bar.value)),
        None => format!("{} {}", bar.name, short(bar.value)),
    };
    let group = |group: &Group| {
        let bars: Vec<_> = group.bars.iter().map(bar).collect();
        format!(" {}: {}.", group.label, bars.join("; "))
    };
    let groups: String = groups.iter().map(group).collect();
    format!("{}.{groups}", value.label)
}
