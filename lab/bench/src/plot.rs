//! Plots of a report as data, independent of how they are drawn.

use crate::stats::Summary;

/// Plot with a caption.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Name of its file, without an extension: small letters, digits and hyphens, unique within
    /// the experiment.
    pub name: &'static str,
    /// Its content, in one sentence.
    pub caption: String,
    /// The data of the plot.
    pub kind: Kind,
}

/// Kind of a plot, with its data.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A curve for each subject: growth, scaling, a course over time.
    Curves {
        /// The horizontal axis.
        x: Axis,
        /// The vertical axis.
        y: Axis,
        /// Each subject's points.
        curves: Vec<Curve>,
    },
    /// A bar for each subject, in groups that share a label, with the spread of its samples.
    Bars {
        /// The axis along which bars have their length.
        value: Axis,
        /// Groups, from top to bottom.
        groups: Vec<Group>,
    },
}

/// Axis with its unit and scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The quantity with its unit: "open descriptors", "ns".
    pub label: String,
    /// Distribution of values along the axis.
    pub scale: Scale,
}

/// Distribution of values along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps for equal differences.
    Linear,
    /// Equal steps for equal ratios; every value is above 0.
    Log,
}

/// Subject with its points, in the order of the horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Name of the subject.
    pub name: String,
    /// The points.
    pub points: Vec<Point>,
}

/// Point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Position on the horizontal axis.
    pub x: f64,
    /// The median, on the vertical axis.
    pub y: f64,
    /// Lower and upper end of the spread, if it was measured.
    pub spread: Option<(f64, f64)>,
}

/// Bars that are compared with each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The measured operation. Empty if there is one group only.
    pub label: String,
    /// A bar for each subject.
    pub bars: Vec<Bar>,
}

/// Subject with one value.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Name of the subject.
    pub name: String,
    /// The median.
    pub value: f64,
    /// Lower and upper end of the spread, if it was measured.
    pub spread: Option<(f64, f64)>,
}

/// Role of a subject among the others, which decides how it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// This project: always in the same colour, and on top.
    Ours,
    /// A lower bound.
    Floor,
    /// From the literature: not measured here.
    Literature,
    /// Any other subject.
    Rival,
}

/// Suffix of the names of values that were not measured here.
pub const LITERATURE: &str = "(literature)";

impl Role {
    /// Derives the role from a subject's name: `fdtable...`, `floor: ...`, `... (literature)`.
    pub fn of(name: &str) -> Self {
        if name.starts_with("fdtable") {
            Role::Ours
        } else if name.starts_with("floor") {
            Role::Floor
        } else if name.ends_with(LITERATURE) {
            Role::Literature
        } else {
            Role::Rival
        }
    }
}

impl Axis {
    /// Makes an axis with equal steps for equal differences.
    pub fn linear(label: impl Into<String>) -> Self {
        Axis {
            label: label.into(),
            scale: Scale::Linear,
        }
    }

    /// Makes an axis with equal steps for equal ratios.
    pub fn log(label: impl Into<String>) -> Self {
        Axis {
            label: label.into(),
            scale: Scale::Log,
        }
    }
}

impl Bar {
    /// Makes a bar of a median with its spread.
    pub fn of(name: impl Into<String>, summary: &Summary) -> Self {
        Bar {
            name: name.into(),
            value: summary.median,
            spread: Some((summary.p10, summary.p90)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_implies_the_role() {
        let roles = [
            "fdtable::slab",
            "floor: two atomic adds",
            "Linux of 2007 (literature)",
            "slab under std's mutex",
        ]
        .map(Role::of);
        assert_eq!(
            roles,
            [Role::Ours, Role::Floor, Role::Literature, Role::Rival]
        );
    }
}
