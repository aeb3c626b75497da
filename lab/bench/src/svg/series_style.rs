//! Colour, dash and marker of each subject.

use maud::{Markup, html};

use super::px;
use crate::plot::Role;

/// Number of colours for the rivals.
const COLOURS: usize = 5;

/// Dashes of curves; the first is a solid line.
const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];

/// Shapes of markers.
const SHAPES: usize = 4;

/// Appearance of a subject among the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeriesStyle {
    /// Classes of the style sheet.
    pub(super) class: String,
    /// Dash pattern of the curve; none is solid.
    pub(super) dash: Option<&'static str>,
    shape: usize,
}

/// Chooses a different style for each name of a plot, with up to 20 rivals.
pub(super) fn series_styles<'a>(names: impl Iterator<Item = &'a str>) -> Vec<SeriesStyle> {
    let (mut ours, mut rivals) = (0, 0);
    let next = |counter: &mut usize| {
        *counter += 1;
        *counter - 1
    };
    let mut style = |name| match Role::of(name) {
        Role::Ours => {
            let nth = next(&mut ours);
            SeriesStyle::new("ours".to_owned(), nth, nth)
        }
        Role::Floor => SeriesStyle::new("floor".to_owned(), 2, 1),
        Role::Literature => SeriesStyle::new("literature".to_owned(), 1, 3),
        Role::Rival => {
            let nth = next(&mut rivals);
            SeriesStyle::new(format!("rival{}", nth % COLOURS), nth / COLOURS, nth + 1)
        }
    };
    names.map(&mut style).collect()
}

impl SeriesStyle {
    fn new(class: String, dash: usize, shape: usize) -> Self {
        let dash = DASHES[dash % DASHES.len()];
        SeriesStyle {
            class,
            dash: (!dash.is_empty()).then_some(dash),
            shape: shape % SHAPES,
        }
    }

    /// Draws a marker around a position.
    pub(super) fn marker(&self, x: f64, y: f64) -> Markup {
        let at = |points: &[(f64, f64)]| {
            let points = points
                .iter()
                .map(|(dx, dy)| format!("{},{}", px(x + dx), px(y + dy)));
            points.collect::<Vec<_>>().join(" ")
        };
        match self.shape {
            0 => html! { circle.dot cx=(px(x)) cy=(px(y)) r="4" {} },
            1 => html! {
                polygon.dot points=(at(&[(-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)])) {}
            },
            2 => html! { polygon.dot points=(at(&[(0.0, -4.8), (4.4, 3.6), (-4.4, 3.6)])) {} },
            _ => html! {
                polygon.dot points=(at(&[(0.0, -5.0), (5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)])) {}
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_has_the_same_colour_in_every_plot() {
        let class = |names: &[&str]| {
            series_styles(names.iter().copied())[names.len() - 1]
                .class
                .clone()
        };
        assert_eq!(
            class(&["a", "b", "fdtable"]),
            class(&["fdtable, any free number"])
        );
    }

    #[test]
    fn twenty_rivals_look_different() {
        let names: Vec<String> = (0..20).map(|nth| format!("rival {nth}")).collect();
        let styles = series_styles(names.iter().map(String::as_str));
        for (nth, style) in styles.iter().enumerate() {
            let same = |it: &&SeriesStyle| (&it.class, it.dash) == (&style.class, style.dash);
            assert_eq!(styles.iter().filter(same).count(), 1, "{nth}");
        }
    }
}
