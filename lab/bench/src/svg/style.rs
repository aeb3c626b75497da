//! Colours, and the size of text.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::plot::Role;

pub(super) const TEXT: RGBColor = RGBColor(0x24, 0x29, 0x2f);
pub(super) const GRID: RGBColor = RGBColor(0xd8, 0xde, 0xe4);
pub(super) const AXIS: RGBColor = RGBColor(0x6e, 0x77, 0x81);
const OURS: RGBColor = RGBColor(0x0b, 0x61, 0xa4);
const FLOOR: RGBColor = RGBColor(0x8c, 0x95, 0x9f);
/// A rival in a plot that has its name beside it.
const RIVAL: RGBColor = RGBColor(0xb7, 0xa2, 0x84);
/// The first is also that of a dark cell.
pub(super) const RIVALS: [RGBColor; 5] = [
    RGBColor(0xc8, 0x50, 0x1e),
    RGBColor(0x12, 0x80, 0x5c),
    RGBColor(0xa5, 0x55, 0x9a),
    RGBColor(0xc5, 0x8a, 0x00),
    RGBColor(0x6b, 0x4a, 0x33),
];

/// Distance of two lines of text in pixels.
pub(super) const LINE: i32 = 16;

/// Returns the style of text, below its position and right of it.
pub(super) fn text() -> TextStyle<'static> {
    // The backend divides it by 1.24.
    ("sans-serif", 12.0 * 1.24).into_font().color(&TEXT)
}

/// Returns the style of text whose middle is at the height of its position.
pub(super) fn beside(position: HPos) -> TextStyle<'static> {
    text().pos(Pos::new(position, VPos::Center))
}

/// Returns an upper bound for the width of `text` in pixels, in whatever font the reader has.
pub(super) fn width(text: &str) -> i32 {
    let em = |character: char| match character {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | 'I' => 0.33,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' => 0.42,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.96,
        '<' | '>' | '=' | '+' | '÷' | '≤' | '≥' | '→' | '×' => 0.84,
        'A'..='Z' => 0.72,
        _ => 0.63,
    };
    (text.chars().map(em).sum::<f64>() * 12.0).ceil() as i32
}

/// Returns the colour of a subject whose name is beside it, so all rivals may have one.
pub(super) fn colour(name: &str) -> RGBColor {
    match Role::of(name) {
        Role::Ours => OURS,
        Role::Floor => FLOOR,
        Role::Literature => TEXT,
        Role::Rival => RIVAL,
    }
}
