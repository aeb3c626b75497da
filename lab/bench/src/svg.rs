//! Plots as SVG: drawn for a wide page, for a narrow one, or as a file of its own.
//!
//! Colours are classes in one style sheet, which follows the reader's theme. Our curves have the
//! same colour everywhere and lie on top; floors are grey; the others differ in colour, dash and
//! marker, so that a reader need not distinguish colours.
//!
//! 1. [`scale`]: from values to positions along an axis, and its ticks.
//! 2. [`text`]: the width of words, and how names are broken into lines.
//! 3. [`series_style`]: colour, dash and marker of each subject.
//! 4. [`curves`], [`bars`] and [`heat_map`]: the kinds of plots.

use maud::{Markup, PreEscaped, html};

use crate::plot::{Kind, Plot};

mod bars;
mod curves;
mod heat_map;
mod scale;
mod series_style;
mod text;

/// Colours of everything in a plot, light and dark.
pub(crate) const STYLE: &str = include_str!("svg/style.css");

/// XML namespace of the format, without which a file is not an image.
const NAMESPACE: &str = "http://www.w3.org/2000/svg";

/// Width for which a plot is drawn. Text has the same size in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// A desktop, or a page of documentation.
    Wide,
    /// A phone.
    Narrow,
}

impl Width {
    /// Returns the pixels.
    fn pixels(self) -> f64 {
        match self {
            Width::Wide => 720.0,
            Width::Narrow => 360.0,
        }
    }
}

/// Content of a plot, and its size.
struct Drawing {
    width: f64,
    height: f64,
    body: Markup,
    /// The plot in words, for readers who do not see it.
    words: String,
}

/// Draws a plot as the text of a self-contained SVG file, which follows the reader's theme.
pub fn file(plot: &Plot) -> String {
    let Drawing {
        width,
        height,
        body,
        words,
    } = draw(plot, Width::Wide);
    let view = view(width, height);
    let picture = html! {
        svg xmlns=(NAMESPACE) class="plot" role="img" viewBox=(view) width=(width) height=(height) {
            title { (plot.caption) }
            desc { (words) }
            style { (PreEscaped(STYLE)) }
            rect.ground width=(width) height=(height) rx="6" {}
            (body)
        }
    };
    picture.into_string() + "\n"
}

/// Draws a plot as a part of a page that has the [`STYLE`].
pub(crate) fn inline(plot: &Plot, room: Width) -> Markup {
    let Drawing {
        width,
        height,
        body,
        words,
    } = draw(plot, room);
    let class = match room {
        Width::Wide => "plot wide",
        Width::Narrow => "plot narrow",
    };
    html! {
        svg class=(class) role="img" viewBox=(view(width, height)) {
            title { (plot.caption) }
            desc { (words) }
            (body)
        }
    }
}

fn view(width: f64, height: f64) -> String {
    format!("0 0 {} {}", px(width), px(height))
}

fn draw(plot: &Plot, width: Width) -> Drawing {
    match &plot.kind {
        Kind::Curves { x, y, curves } => curves::growth(x, y, curves, width),
        Kind::Percentiles { y, curves } => curves::percentiles(y, curves, width),
        Kind::Bars { value, groups } => bars::draw(value, groups, width),
        Kind::HeatMap { names, rows } => heat_map::draw(names, rows, width),
    }
}

/// Writes a length in pixels, to a tenth.
fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests;
