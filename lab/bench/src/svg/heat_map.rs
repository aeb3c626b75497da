//! A shaded cell for each unordered pair of names: the lower triangle of a matrix.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::style::{LIGHT, NONE, RIVALS, beside, widest, width};
use super::{AXIS_HEIGHT, Drawing, Label, Labels, WIDTH, chart, rows};
use crate::plot::Shade;

/// Height of a row, in pixels.
const ROW: i32 = 19;

/// Draws the rows from top to bottom, and below the columns the indices of the rows.
pub(super) fn drawing<'a>(names: &'a [String], cells: &'a [Vec<Option<Shade>>]) -> Drawing<'a> {
    let name = |(nth, name): (usize, &String)| format!("{name} {}", nth + 1);
    let names: Vec<String> = names.iter().enumerate().map(name).collect();
    let words = words(&names, cells);
    Drawing {
        height: ROW * names.len() as i32 + AXIS_HEIGHT + 8,
        words,
        draw: Box::new(move |area| {
            let left = widest(names.iter().map(String::as_str)) + 16;
            let up = rows(names.iter().map(String::as_str));
            let column = |(nth, (y, _)): (usize, &Label)| (1.0 - y, (nth + 1).to_string());
            let across = Labels(up.0.iter().enumerate().map(column).collect());
            let area = area.margin(8, 0, 0, 10);
            let mut chart = chart(&area, left, [across.clone(), up.clone()], [false, false])?;
            let half = 0.5 / names.len() as f64;
            for (row, (y, _)) in cells.iter().zip(&up.0) {
                for (shade, (x, _)) in row.iter().zip(&across.0) {
                    let corners = [(x - half, y - half), (x + half, y + half)];
                    let mut fill = |colour: RGBAColor| {
                        let mut cell = Rectangle::new(corners, colour.filled());
                        cell.set_margin(1, 0, 1, 0);
                        chart.draw_series([cell]).map(drop)
                    };
                    let Some(shade) = shade else {
                        fill(NONE.mix(1.0))?;
                        continue;
                    };
                    fill(LIGHT.mix(1.0))?;
                    if shade.depth > 0.0 {
                        // A slightly dark cell must be visible too.
                        fill(RIVALS[0].mix(0.25 + 0.75 * shade.depth.min(1.0)))?;
                    }
                    if width(&shade.label) <= (WIDTH - left) / names.len() as i32 {
                        let label = Text::new(shade.label.clone(), (0, 0), beside(HPos::Center));
                        chart.draw_series([EmptyElement::at((*x, *y)) + label])?;
                    }
                }
            }
            Ok(())
        }),
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
