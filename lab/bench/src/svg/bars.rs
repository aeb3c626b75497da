//! A bar for each subject, in groups, with names on the left.

use maud::{Markup, html};

use super::scale::{Foot, Ruler, Tick, short};
use super::{Drawing, Width, px, text};
use crate::plot::{Axis, Bar, Group, Role};

/// Fraction of the width that names may take.
const NAMES: f64 = 0.4;

/// Height of a bar, in pixels.
const THICK: f64 = 13.0;

/// Room for a tick's label, in pixels.
const TICK_ROOM: f64 = 52.0;

/// Horizontal extent of the bars in pixels, and their ruler.
struct Area {
    left: f64,
    right: f64,
    ruler: Ruler,
}

impl Area {
    /// Returns the position of a value; one without a position is at the lower end.
    fn x(&self, value: f64) -> f64 {
        self.left + self.ruler.place(value).unwrap_or(0.0) * (self.right - self.left)
    }

    fn ticks(&self) -> Vec<Tick> {
        let most = ((self.right - self.left) / TICK_ROOM) as usize;
        self.ruler.ticks(most.max(2))
    }
}

/// Text to the left of a bar.
struct Name {
    lines: Vec<String>,
}

impl Name {
    fn of(bar: &Bar, most: f64) -> Self {
        Name {
            lines: text::wrap(&bar.name, most),
        }
    }

    fn width(&self) -> f64 {
        self.lines
            .iter()
            .map(|it| text::width(it))
            .fold(0.0, f64::max)
    }

    /// Returns the height of the row.
    fn height(&self) -> f64 {
        (self.lines.len() as f64 * text::LINE).max(THICK) + 6.0
    }
}

/// Draws all groups, one below the other.
pub(super) fn draw(value: &Axis, groups: &[Group], width: Width) -> Drawing {
    let width = width.pixels();
    let bars = || groups.iter().flat_map(|group| &group.bars);
    let ends = |bar: &Bar| {
        let (low, high) = bar.spread.unwrap_or((bar.value, bar.value));
        [low, bar.value, high]
    };
    let names = bars()
        .map(|bar| Name::of(bar, width * NAMES).width())
        .fold(0.0, f64::max);
    let values = bars()
        .map(|bar| text::width(&short(bar.value)))
        .fold(0.0, f64::max);
    let area = Area {
        left: names + 16.0,
        right: width - values - 16.0,
        ruler: Ruler::new(value.scale, bars().flat_map(ends), Foot::Below),
    };
    let mut y = 6.0;
    let mut parts = Vec::new();
    for group in groups {
        if !group.label.is_empty() {
            let lines = text::wrap(&group.label, width - 16.0);
            parts.push(heading(&lines, y));
            y += text::LINE * lines.len() as f64 + 5.0;
        }
        let names: Vec<_> = group
            .bars
            .iter()
            .map(|bar| Name::of(bar, width * NAMES))
            .collect();
        let height: f64 = names.iter().map(Name::height).sum();
        parts.push(grid(&area, y, y + height));
        for (bar, name) in group.bars.iter().zip(&names) {
            parts.push(row(&area, bar, name, y));
            y += name.height();
        }
        y += 8.0;
    }
    let body = html! {
        @for part in &parts { (part) }
        (axis(&area, value, y - 4.0))
    };
    Drawing {
        width,
        height: y + 40.0,
        body,
        words: words(value, groups),
    }
}

fn heading(lines: &[String], y: f64) -> Markup {
    html! {
        @for (nth, line) in lines.iter().enumerate() {
            text.strong x="8" y=(px(y + 12.0 + text::LINE * nth as f64)) { (line) }
        }
    }
}

/// Draws the lines behind the bars of one group.
fn grid(area: &Area, top: f64, bottom: f64) -> Markup {
    let (top, bottom) = (px(top), px(bottom));
    let left = px(area.left);
    html! {
        @for tick in area.ticks() {
            @let x = px(area.x(tick.value));
            line.grid x1=(x) x2=(x) y1=(top) y2=(bottom) {}
        }
        line.axis x1=(left) x2=(left) y1=(top) y2=(bottom) {}
    }
}

/// Draws the labels below all bars.
fn axis(area: &Area, value: &Axis, bottom: f64) -> Markup {
    let middle = middle_of_label(area, &value.label);
    html! {
        @for tick in area.ticks() {
            @let x = px(area.x(tick.value));
            text.faint x=(x) y=(px(bottom + 14.0)) text-anchor="middle" { (tick.label) }
        }
        text x=(px(middle)) y=(px(bottom + 33.0)) text-anchor="middle" { (value.label) }
    }
}

/// Returns the middle of the axis, or the nearest position at which its label is not cut.
fn middle_of_label(area: &Area, label: &str) -> f64 {
    let half = text::width(label) / 2.0 + 4.0;
    let last = area.right + 12.0 - half;
    f64::midpoint(area.left, area.right).min(last).max(half)
}

fn row(area: &Area, bar: &Bar, name: &Name, y: f64) -> Markup {
    let middle = y + name.height() / 2.0;
    let first_line = middle + 4.0 - text::LINE * (name.lines.len() - 1) as f64 / 2.0;
    let length = area.x(bar.value) - area.left;
    let (_, high) = bar.spread.unwrap_or((bar.value, bar.value));
    let value_x = area.x(bar.value).max(area.x(high)) + 7.0;
    html! {
        @for (nth, line) in name.lines.iter().enumerate() {
            text x=(px(area.left - 8.0)) y=(px(first_line + text::LINE * nth as f64))
                text-anchor="end" { (line) }
        }
        g class=(class(bar)) {
            rect.bar x=(px(area.left)) y=(px(middle - THICK / 2.0))
                width=(px(length.max(1.0))) height=(px(THICK)) {}
        }
        @if let Some((low, high)) = bar.spread {
            (whisker([area.x(low), area.x(high)], middle))
        }
        text x=(px(value_x)) y=(px(middle + 4.0)) { (short(bar.value)) }
    }
}

/// Names are beside the bars, so all other subjects may have one colour.
fn class(bar: &Bar) -> &'static str {
    match Role::of(&bar.name) {
        Role::Ours => "ours",
        Role::Floor => "floor",
        Role::Literature => "literature",
        Role::Rival => "rival",
    }
}

fn whisker([low, high]: [f64; 2], y: f64) -> Markup {
    let (low, high) = (px(low), px(high));
    let (top, bottom) = (px(y - 3.5), px(y + 3.5));
    html! {
        path.whisker d={
            "M" (low) " " (top) "V" (bottom) "M" (low) " " (px(y)) "H" (high)
            "M" (high) " " (top) "V" (bottom)
        } {}
    }
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
