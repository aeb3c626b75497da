//! A curve for each subject, over numbers or over percentiles.

use maud::{Markup, html};

use super::scale::{Foot, Ruler, short};
use super::series_style::{SeriesStyle, series_styles};
use super::{Drawing, Width, px, text};
use crate::plot::{Axis, Curve, Point, Role};

/// Height of the plot area in pixels.
const WIDE_HEIGHT: f64 = 300.0;
const NARROW_HEIGHT: f64 = 240.0;

/// Room for a tick's label on the horizontal axis, in pixels.
const TICK_ROOM: f64 = 56.0;

/// Most markers of a curve.
const MARKED: usize = 16;

/// Length of a curve's sample in the legend, in pixels.
const SAMPLE: f64 = 30.0;

/// Distance between two entries of the legend, in pixels.
const GAP: f64 = 18.0;

/// Draws values over numbers.
pub(super) fn growth(x: &Axis, y: &Axis, curves: &[Curve], width: Width) -> Drawing {
    let across = Ruler::new(x.scale, points(curves).map(|it| it.x), Foot::AtSmallest);
    draw(across, &x.label, y, curves, width, short)
}

/// Draws values over percentiles.
pub(super) fn percentiles(y: &Axis, curves: &[Curve], width: Width) -> Drawing {
    let across = Ruler::nines(points(curves).map(|it| it.x));
    let label = "part of the samples that is at most as large";
    draw(across, label, y, curves, width, |part| {
        format!("{} %", short(part * 100.0))
    })
}

fn points(curves: &[Curve]) -> impl Iterator<Item = &Point> {
    curves.iter().flat_map(|curve| &curve.points)
}

/// Lists the values on the vertical axis, with the ends of spreads.
fn heights(curves: &[Curve]) -> impl Iterator<Item = f64> {
    points(curves).flat_map(|point| {
        let (low, high) = point.spread.unwrap_or((point.y, point.y));
        [low, point.y, high]
    })
}

/// The plot area in pixels, and its two rulers.
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    across: Ruler,
    up: Ruler,
}

impl Area {
    fn x(&self, value: f64) -> Option<f64> {
        Some(self.left + self.across.place(value)? * (self.right - self.left))
    }

    fn y(&self, value: f64) -> Option<f64> {
        Some(self.bottom - self.up.place(value)? * (self.bottom - self.top))
    }

    /// Returns the position of a point, if it has one on both axes.
    fn at(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        Some((self.x(x)?, self.y(y)?))
    }
}

fn draw(
    across: Ruler,
    label: &str,
    y: &Axis,
    curves: &[Curve],
    width: Width,
    written: impl Fn(f64) -> String,
) -> Drawing {
    let up = Ruler::new(y.scale, heights(curves), Foot::AtSmallest);
    let height = match width {
        Width::Wide => WIDE_HEIGHT,
        Width::Narrow => NARROW_HEIGHT,
    };
    let ticks = up.ticks(7);
    let widest = ticks
        .iter()
        .map(|tick| text::width(&tick.label))
        .fold(0.0, f64::max);
    let width = width.pixels();
    let top = 2.0 * text::LINE;
    let area = Area {
        left: widest + 14.0,
        right: width - 20.0,
        top,
        bottom: top + height,
        across,
        up,
    };
    let styles = series_styles(curves.iter().map(|curve| &*curve.name));
    let (legend, height) = legend(curves, &styles, area.bottom + 54.0, width);
    let body = html! {
        (frame(&area, label, &y.label))
        @for (curve, style) in in_front_last(curves, &styles) {
            g class=(style.class) { (line(&area, curve, style)) }
        }
        (legend)
    };
    Drawing {
        width,
        height,
        body,
        words: words(curves, &y.label, label, written),
    }
}

/// Draws axes, grid and labels.
fn frame(area: &Area, across_label: &str, up_label: &str) -> Markup {
    let most = ((area.right - area.left) / TICK_ROOM) as usize;
    let across = area.across.ticks(most.max(2));
    let up = area.up.ticks(7);
    let [left, right, top, bottom] = [area.left, area.right, area.top, area.bottom].map(px);
    let middle = f64::midpoint(area.left, area.right);
    html! {
        @for tick in &up {
            @if let Some(y) = area.y(tick.value) {
                line.grid x1=(left) x2=(right) y1=(px(y)) y2=(px(y)) {}
                text.faint x=(px(area.left - 7.0)) y=(px(y + 4.0)) text-anchor="end" { (tick.label) }
            }
        }
        @for tick in &across {
            @if let Some(x) = area.x(tick.value) {
                line.grid x1=(px(x)) x2=(px(x)) y1=(top) y2=(bottom) {}
                text.faint x=(px(x)) y=(px(area.bottom + 18.0)) text-anchor="middle" { (tick.label) }
            }
        }
        line.axis x1=(left) x2=(right) y1=(bottom) y2=(bottom) {}
        line.axis x1=(left) x2=(left) y1=(top) y2=(bottom) {}
        text x="8" y="16" { (up_label) }
        text x=(px(middle)) y=(px(area.bottom + 36.0)) text-anchor="middle" { (across_label) }
    }
}

/// Draws a curve with its spread and its markers.
fn line(area: &Area, curve: &Curve, style: &SeriesStyle) -> Markup {
    let places: Vec<_> = curve
        .points
        .iter()
        .filter_map(|it| area.at(it.x, it.y))
        .collect();
    let band = band(area, curve);
    let every = places.len().div_ceil(MARKED).max(1);
    html! {
        @if band.len() > 2 { path.band d={ (path(&band)) "Z" } {} }
        path.line d=(path(&places)) stroke-dasharray=[style.dash] {}
        @for &(x, y) in places.iter().step_by(every) { (style.marker(x, y)) }
    }
}

/// Lists the corners of the area between the lower and the upper ends of the spreads.
fn band(area: &Area, curve: &Curve) -> Vec<(f64, f64)> {
    let ends = |point: &Point| {
        let (low, high) = point.spread?;
        Some((area.at(point.x, low)?, area.at(point.x, high)?))
    };
    let (lower, upper): (Vec<_>, Vec<_>) = curve.points.iter().filter_map(ends).unzip();
    lower.into_iter().chain(upper.into_iter().rev()).collect()
}

fn path(places: &[(f64, f64)]) -> String {
    let step = |(nth, (x, y)): (usize, &(f64, f64))| {
        let command = if nth == 0 { 'M' } else { 'L' };
        format!("{command}{} {}", px(*x), px(*y))
    };
    places.iter().enumerate().map(step).collect()
}

/// Draws the legend below `top`, with as many entries in a line as fit. Also returns the height of
/// the whole plot.
fn legend(curves: &[Curve], styles: &[SeriesStyle], top: f64, width: f64) -> (Markup, f64) {
    let (mut x, mut y) = (8.0, top);
    let mut entries = Vec::new();
    for (curve, style) in curves.iter().zip(styles) {
        let lines = text::wrap(&curve.name, width - SAMPLE - 24.0);
        let widest = lines.iter().map(|it| text::width(it)).fold(0.0, f64::max);
        let takes = SAMPLE + 8.0 + widest + GAP;
        if x > 8.0 && x + takes > width {
            (x, y) = (8.0, y + text::LINE + 4.0);
        }
        entries.push(entry(&lines, style, x, y));
        y += text::LINE * (lines.len() - 1) as f64;
        x += takes;
    }
    (html! { @for entry in &entries { (entry) } }, y + 14.0)
}

fn entry(lines: &[String], style: &SeriesStyle, x: f64, y: f64) -> Markup {
    let (middle, end, words) = (x + SAMPLE / 2.0, x + SAMPLE, x + SAMPLE + 8.0);
    let line_y = px(y - 4.0);
    html! {
        g class=(style.class) {
            line.line x1=(px(x)) x2=(px(end)) y1=(line_y) y2=(line_y) stroke-dasharray=[style.dash] {}
            (style.marker(middle, y - 4.0))
            @for (nth, line) in lines.iter().enumerate() {
                text x=(px(words)) y=(px(y + text::LINE * nth as f64)) { (line) }
            }
        }
    }
}

/// Puts the curves in the order in which they are drawn: ours on top.
fn in_front_last<'a>(
    curves: &'a [Curve],
    styles: &'a [SeriesStyle],
) -> Vec<(&'a Curve, &'a SeriesStyle)> {
    let mut pairs: Vec<_> = curves.iter().zip(styles).collect();
    pairs.sort_by_key(|(curve, _)| Role::of(&curve.name) == Role::Ours);
    pairs
}

/// Describes the first and the last value of each curve.
fn words(curves: &[Curve], up: &str, across: &str, written: impl Fn(f64) -> String) -> String {
    let at = |point: &Point| format!("{} at {}", short(point.y), written(point.x));
    let course = |curve: &Curve| {
        let ends = curve.points.first().zip(curve.points.last());
        ends.map(|(first, last)| format!(" {}: {}, {}.", curve.name, at(first), at(last)))
    };
    let courses: String = curves.iter().filter_map(course).collect();
    format!("{up} over {across}.{courses}")
}
