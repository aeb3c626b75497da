//! Plots as SVG, drawn by `plotters`.
//!
//! Our curves have the same colour everywhere and lie on top; floors are grey; the others differ in
//! colour, dash and marker, so that a reader need not distinguish colours. The colours in a picture
//! are those for a light page; the style sheet replaces each for a dark one.
//!
//! 1. [`scale`]: from values to positions along an axis, and its ticks.
//! 2. [`style`]: colours, and the size of text.
//! 3. [`curves`] and [`bars`]: the kinds of plots.

use std::io;
use std::ops::Range;

use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;

use crate::plot::{Kind, Plot};

mod bars;
mod curves;
mod scale;
mod style;

/// Colours of everything in a plot on a dark page.
pub(crate) const STYLE: &str = include_str!("svg/style.css");

/// XML namespace of the format, without which a file is not an image.
const NAMESPACE: &str = "http://www.w3.org/2000/svg";

/// Width of every plot in pixels.
const WIDTH: i32 = 720;

/// Height of the labels of a horizontal axis in pixels.
const AXIS_HEIGHT: i32 = 24;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Labels, Labels>>;
type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<io::Error>>;

/// Content of a plot, before it is drawn.
struct Drawing<'a> {
    height: i32,
    /// The plot in words, for readers who do not see it.
    words: String,
    draw: Box<dyn Fn(&Area<'_>) -> Drawn + 'a>,
}

/// Label of an axis, at a position from 0 to 1.
type Label = (f64, String);

/// Axis from 0 to 1.
#[derive(Clone)]
struct Labels(Vec<Label>);

impl Ranged for Labels {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (low, high): (i32, i32)) -> i32 {
        low + (f64::from(high - low) * place).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let is_bold = !hint.weight().allow_light_points();
        let places = self.0.iter().map(|(place, _)| *place);
        places.filter(|_| is_bold).collect()
    }

    fn range(&self) -> Range<f64> {
        0.0..1.0
    }
}

impl ValueFormatter<f64> for Labels {
    fn format_ext(&self, place: &f64) -> String {
        let label = self.0.iter().find(|(other, _)| other == place);
        label.map_or(String::new(), |(_, text)| text.clone())
    }
}

/// Draws a plot as the text of a self-contained SVG file, which follows the reader's theme.
pub fn file(plot: &Plot) -> String {
    let style = html! { style { (PreEscaped(STYLE)) } };
    picture(plot, Some(NAMESPACE), &style).into_string() + "\n"
}

/// Draws a plot as a part of a page that has the [`STYLE`].
pub(crate) fn inline(plot: &Plot) -> Markup {
    picture(plot, None, &html! {})
}

fn picture(plot: &Plot, namespace: Option<&str>, style: &Markup) -> Markup {
    let Drawing {
        height,
        words,
        draw,
    } = match &plot.kind {
        Kind::Curves { x, y, curves } => curves::drawing(x, y, curves),
        Kind::Bars { value, groups } => bars::drawing(value, groups),
    };
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, (WIDTH as u32, height as u32));
    let area = area.into_drawing_area();
    let ground = match namespace {
        Some(_) => area.fill(&style::GROUND),
        None => Ok(()),
    };
    ground
        .and_then(|()| draw(&area))
        .and_then(|()| area.present())
        .expect("a string takes everything");
    drop(area);
    let body = text.split_once('>').map_or("", |(_, body)| body);
    let body = body.trim_end().trim_end_matches("</svg>");
    html! {
        svg xmlns=[namespace] class="plot" role="img" viewBox={ "0 0 " (WIDTH) " " (height) }
            width=[namespace.map(|_| WIDTH)] height=[namespace.map(|_| height)] {
            title { (plot.caption) }
            desc { (words) }
            (style)
            (PreEscaped(body))
        }
    }
}

/// Draws axes with labels and lines, `left` pixels from the left edge.
fn chart<'a, 'b>(
    area: &'a Area<'b>,
    left: i32,
    [across, up]: [Labels; 2],
    has_lines: [bool; 2],
) -> Drawn<Chart<'a, 'b>> {
    let mut chart = ChartBuilder::on(area)
        .x_label_area_size(AXIS_HEIGHT)
        .y_label_area_size(left)
        .build_cartesian_2d(across, up)?;
    let mut mesh = chart.configure_mesh();
    if !has_lines[0] {
        mesh.disable_x_mesh();
    }
    if !has_lines[1] {
        mesh.disable_y_mesh();
    }
    mesh.bold_line_style(style::GRID)
        .axis_style(style::AXIS)
        .label_style(style::text(style::TEXT))
        .set_all_tick_mark_size(4)
        .draw()?;
    Ok(chart)
}

/// Returns a label for each row, from top to bottom.
fn rows<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Labels {
    let number = names.len() as f64;
    let place = |nth: usize| 1.0 - (nth as f64 + 0.5) / number;
    let row = |(nth, name): (usize, &str)| (place(nth), name.to_owned());
    Labels(names.enumerate().map(row).collect())
}

#[cfg(test)]
mod tests;
