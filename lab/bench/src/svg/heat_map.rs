//! A shaded cell for each unordered pair of names: the lower triangle of a matrix.

use maud::{Markup, html};

use super::{Drawing, Width, px, text};
use crate::plot::Shade;

/// Height of a row, in pixels.
const ROW: f64 = 19.0;

/// Relative size of the text in a cell.
const SMALL: f64 = 0.75;

/// Draws the rows from top to bottom, and above the columns the indices of the rows.
pub(super) fn draw(names: &[String], rows: &[Vec<Option<Shade>>], width: Width) -> Drawing {
    let width = width.pixels();
    let name = |(nth, name): (usize, &String)| format!("{name} {}", nth + 1);
    let names: Vec<_> = names.iter().enumerate().map(name).collect();
    let widest = names
        .iter()
        .map(|name| text::width(name))
        .fold(0.0, f64::max);
    let left = widest + 16.0;
    let column = (width - left - 10.0) / names.len().max(1) as f64;
    let top = 8.0;
    let place = |row: usize, column_number: usize| Place {
        x: left + column * column_number as f64,
        y: top + ROW * row as f64,
        width: column,
    };
    let bottom = top + ROW * rows.len() as f64;
    let body = html! {
        @for (nth, row) in rows.iter().enumerate() {
            text x=(px(left - 8.0)) y=(px(top + ROW * nth as f64 + 14.0)) text-anchor="end" {
                (names[nth])
            }
            @for (column, shade) in row.iter().enumerate() {
                (cell(&place(nth, column), shade.as_ref()))
            }
            @let below = place(nth, nth);
            text.faint x=(px(below.x + below.width / 2.0)) y=(px(bottom + 14.0))
                text-anchor="middle" { (nth + 1) }
        }
    };
    Drawing {
        width,
        height: bottom + 22.0,
        body,
        words: words(&names, rows),
    }
}

/// Position of a cell.
struct Place {
    x: f64,
    y: f64,
    width: f64,
}

fn cell(place: &Place, shade: Option<&Shade>) -> Markup {
    let (x, y) = (px(place.x + 0.5), px(place.y + 0.5));
    let (width, height) = (px(place.width - 1.0), px(ROW - 1.0));
    let Some(shade) = shade else {
        return html! { rect.none x=(x) y=(y) width=(width) height=(height) {} };
    };
    let fits = text::width(&shade.label) * SMALL <= place.width;
    html! {
        rect.free x=(x) y=(y) width=(width) height=(height) {}
        @if shade.depth > 0.0 {
            // A slightly dark cell must be visible too.
            rect.shade x=(x) y=(y) width=(width) height=(height)
                fill-opacity=(format!("{:.2}", 0.25 + 0.75 * shade.depth.min(1.0))) {}
        }
        @if fits {
            text x=(px(place.x + place.width / 2.0)) y=(px(place.y + 13.0))
                text-anchor="middle" font-size=(px(text::SIZE * SMALL)) { (shade.label) }
        }
    }
}

/// Describes every cell that is not light.
fn words(names: &[String], rows: &[Vec<Option<Shade>>]) -> String {
    let mut dark = Vec::new();
    for (row, name) in rows.iter().zip(names) {
        for (shade, other) in row.iter().zip(names) {
            if let Some(shade) = shade.as_ref().filter(|shade| shade.depth > 0.0) {
                dark.push(format!("{name} and {other}: {}.", shade.label));
            }
        }
    }
    match dark.is_empty() {
        true => "All cells are light.".to_owned(),
        false => format!("Dark are: {}", dark.join(" ")),
    }
}
