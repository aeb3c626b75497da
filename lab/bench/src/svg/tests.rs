use roxmltree::Document;

use super::*;
use crate::plot::{Axis, Bar, Curve, Group, Point};

const NAMES: [&str; 12] = [
    "fdtable",
    "fdtable, any free number",
    "RwLock<HashMap<RawFd, Arc>>",
    "RwLock<Vec<Option<Arc>>> & \"friends\"",
    "files_struct under a rwlock, lock held",
    "slab under parking_lot's mutex",
    "sharded-slab",
    "papaya",
    "scc",
    "dashmap",
    "floor: two-level array load",
    "Linux 2.6.21, 2007 (literature)",
];

fn curves(xs: [f64; 3]) -> Vec<Curve> {
    let curve = |(nth, name): (usize, &&str)| Curve {
        name: (*name).to_owned(),
        points: xs
            .map(|x| {
                let y = (nth + 1) as f64 * 3.0;
                let spread = Some((y * 0.9, y * 1.2));
                Point { x, y, spread }
            })
            .to_vec(),
    };
    NAMES.iter().enumerate().map(curve).collect()
}

fn plots() -> [Plot; 2] {
    let bars = |nth: usize, name: &&str| Bar {
        name: (*name).to_owned(),
        value: 10_f64.powi(nth as i32 - 2),
        spread: Some((
            10_f64.powi(nth as i32 - 2) * 0.5,
            10_f64.powi(nth as i32 - 2) * 3.0,
        )),
    };
    let group = |label: &str| Group {
        label: label.to_owned(),
        bars: NAMES
            .iter()
            .enumerate()
            .map(|(nth, name)| bars(nth, name))
            .collect(),
    };
    let plot = |name, kind| Plot {
        name,
        caption: "what <is> & what is not".to_owned(),
        kind,
    };
    [
        plot(
            "growth",
            Kind::Curves {
                x: Axis::log("open descriptors"),
                y: Axis::log("ns"),
                curves: curves([1.0, 1000.0, 1e6]),
            },
        ),
        plot(
            "bars",
            Kind::Bars {
                value: Axis::log("ns of a lookup, on one CPU"),
                groups: vec![group("1 thread"), group("2 threads, <same> & other")],
            },
        ),
    ]
}

/// Every form of every plot.
fn texts() -> Vec<String> {
    plots()
        .iter()
        .flat_map(|plot| [file(plot), inline(plot).into_string()])
        .collect()
}

fn number(node: roxmltree::Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name)
        .and_then(|it| it.parse().ok())
        .unwrap_or(0.0)
}

#[test]
fn every_plot_is_well_formed_and_has_every_name() {
    for text in texts() {
        let picture = Document::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let shown: String = picture
            .descendants()
            .filter(|node| node.has_tag_name("text") || node.tag_name().name() == "text")
            .filter_map(|node| node.text())
            .map(str::trim)
            .collect();
        let bare = |text: &str| text.replace(' ', "");
        for name in NAMES {
            assert!(bare(&shown).contains(&bare(name)), "{name}: {shown}");
        }
    }
}

#[test]
fn a_plot_has_a_title_and_its_values_in_words() {
    for text in texts() {
        let picture = Document::parse(&text).unwrap();
        let of = |name: &str| {
            let found = picture
                .descendants()
                .find(|it| it.tag_name().name() == name);
            found
                .and_then(|it| it.text())
                .unwrap_or_default()
                .to_owned()
        };
        assert_eq!(of("title"), "what <is> & what is not");
        assert!(of("desc").contains("files_struct under a rwlock, lock held"));
        assert_eq!(picture.root_element().attribute("role"), Some("img"));
    }
}

#[test]
fn no_text_is_cut() {
    for text in texts() {
        let picture = Document::parse(&text).unwrap();
        let view = picture.root_element().attribute("viewBox").unwrap();
        let size: Vec<f64> = view.split(' ').map(|it| it.parse().unwrap()).collect();
        for node in picture
            .descendants()
            .filter(|it| it.tag_name().name() == "text")
        {
            // An upper bound for the line below the text's position.
            let (x, y) = (number(node, "x"), number(node, "y"));
            let line = match node.attribute("dy") {
                Some("0.76em") => y + 9.2,
                _ => y + 4.0,
            };
            let width = f64::from(style::width(node.text().unwrap_or_default().trim()));
            let left = match node.attribute("text-anchor") {
                Some("end") => x - width,
                Some("middle") => x - width / 2.0,
                _ => x,
            };
            assert!(left >= 0.0 && left + width <= size[2], "{node:?} in {view}");
            assert!(line >= 12.0 && line + 4.0 <= size[3], "{node:?} in {view}");
        }
    }
}

#[test]
fn ours_is_on_top() {
    let [growth, ..] = plots();
    let text = file(&growth);
    let picture = Document::parse(&text).unwrap();
    let mut lines = picture
        .descendants()
        .filter(|it| it.tag_name().name() == "polyline");
    let ours = style::colour("fdtable");
    let ours = format!("#{:02X}{:02X}{:02X}", ours.0, ours.1, ours.2);
    let last = lines.next_back().unwrap();
    assert_eq!(last.attribute("stroke"), Some(&*ours));
}

#[test]
fn a_file_needs_nothing_else() {
    for plot in plots() {
        let text = file(&plot);
        let picture = Document::parse(&text).unwrap();
        let root = picture.root_element();
        assert_eq!(root.tag_name().namespace(), Some(NAMESPACE));
        assert_eq!(text.matches("http").count(), 1, "the namespace alone");
        assert!(text.contains("prefers-color-scheme:dark"));
    }
}

#[test]
fn values_without_a_position_are_left_out() {
    let point = |x, y| Point { x, y, spread: None };
    let plot = Plot {
        name: "growth",
        caption: String::new(),
        kind: Kind::Curves {
            x: Axis::log("n"),
            y: Axis::log("ns"),
            curves: vec![Curve {
                name: "fdtable".to_owned(),
                points: vec![point(1.0, -3.0), point(10.0, 0.0), point(100.0, 5.0)],
            }],
        },
    };
    let text = file(&plot);
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    Document::parse(&text).unwrap();
}
