//! Plots as SVG, drawn by `plotters`.
//!
//! Our curves have the same colour everywhere and lie on top; floors are grey; the others differ in
//! colour and dash, so that a reader need not distinguish colours. The colours in a picture
//! are those for a light page; the style sheet replaces each for a dark one.
//!
//! 1. [`scale`]: from values to positions along an axis, and its ticks.
//! 2. [`style`]: colours, and the size of text.
//! 3. [`curves`] and [`bars`]: the kinds of plots.

use std::io;

use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::plot::{Kind, Plot};

mod bars;
mod curves;
mod scale;
mod style;

use scale::{Ruler, short};

/// Colours of everything in a plot on a dark page.
pub(crate) const STYLE: &str = include_str!("svg/style.css");

/// XML namespace of the format, without which a file is not an image.
const NAMESPACE: &str = "http://www.w3.org/2000/svg";

/// Width of every plot in pixels.
const WIDTH: i32 = 720;

/// Height of the labels of a horizontal axis in pixels.
const AXIS_HEIGHT: i32 = 24;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Ruler, Ruler>>;
type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<io::Error>>;

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
    let (height, words) = match &plot.kind {
        Kind::Curves { x, y, curves } => (curves::height(curves), curves::words(x, y, curves)),
        Kind::Bars { value, groups } => (bars::height(groups), bars::words(value, groups)),
    };
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, (WIDTH as u32, height as u32));
    let area = area.into_drawing_area();
    let drawn = match &plot.kind {
        Kind::Curves { x, y, curves } => curves::draw(&area, x, y, curves),
        Kind::Bars { value, groups } => bars::draw(&area, value, groups),
    };
    drawn
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

/// Draws axes with labels and lines, `left` pixels from the left edge. Rows have neither.
fn chart<'a, 'b>(area: &'a Area<'b>, left: i32, across: Ruler, up: Ruler) -> Drawn<Chart<'a, 'b>> {
    let is_rows = up.range().end < up.range().start;
    let mut chart = ChartBuilder::on(area)
        .x_label_area_size(AXIS_HEIGHT)
        .y_label_area_size(left)
        .build_cartesian_2d(across, up)?;
    chart
        .configure_mesh()
        .y_labels(if is_rows { 0 } else { 7 })
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .bold_line_style(style::GRID)
        .axis_style(style::AXIS)
        .label_style(style::text())
        .set_all_tick_mark_size(4)
        .draw()?;
    Ok(chart)
}

#[cfg(test)]
mod tests;
