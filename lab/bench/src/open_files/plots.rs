//! The plots of `open-files`: lists, opens, and the throughput of workloads.

use super::add_remove::Case;
use super::lists::Lists;
use super::open_close::Layer;
use super::summary::{SUBJECTS, added, opened, turns};
use super::workload::Kind as Workload;
use super::{OpenFiles, Row};
use crate::plot::{Axis, Bar, Group, Kind, Plot};
use crate::stats::Summary;

/// Draws all measured parts.
pub(super) fn plots(rows: &[Row], config: &OpenFiles) -> Vec<Plot> {
    let mut plots = vec![
        plot(
            "lists",
            "A file added to a list of open files, and removed",
            Axis::log("ns for a file"),
            lists(rows),
        ),
        plot(
            "opens",
            "An open and a close by one thread",
            Axis::linear("ns for a pair"),
            opens(rows),
        ),
        plot(
            "workloads",
            "Workloads on each kind of list",
            Axis::log("operations per second"),
            workloads(rows, config),
        ),
    ];
    plots.retain(|plot| !matches!(&plot.kind, Kind::Bars { groups, .. } if groups.is_empty()));
    plots
}

/// Makes a plot of those groups that have a bar.
fn plot(name: &'static str, caption: &str, value: Axis, mut groups: Vec<Group>) -> Plot {
    groups.retain(|group| !group.bars.is_empty());
    Plot {
        name,
        caption: caption.to_owned(),
        kind: Kind::Bars { value, groups },
    }
}

fn lists(rows: &[Row]) -> Vec<Group> {
    let cases = [
        ("1 thread", Case::OneThread),
        ("2 threads", Case::TwoThreads),
        ("opened by one thread, closed by another", Case::Handover),
    ];
    let group = |(label, case): (&str, Case)| {
        let bar =
            |&name: &&'static str| Some(Bar::of(name, &Summary::of(added(rows, name, case)?)));
        Group {
            label: label.to_owned(),
            bars: SUBJECTS.iter().filter_map(bar).collect(),
        }
    };
    cases.map(group).to_vec()
}

fn opens(rows: &[Row]) -> Vec<Group> {
    let layers = [("a bare table", Layer::Table), ("the vfs", Layer::Vfs)];
    let group = |(label, layer): (&str, Layer)| {
        let bar = |lists: Lists| {
            let ns = opened(rows, lists.name(), layer)?;
            Some(Bar::of(lists.name(), &Summary::of(ns)))
        };
        Group {
            label: label.to_owned(),
            bars: Lists::ALL.into_iter().filter_map(bar).collect(),
        }
    };
    layers.map(group).to_vec()
}

fn workloads(rows: &[Row], config: &OpenFiles) -> Vec<Group> {
    let kinds = [
        (
            format!("dbench, {} clients: lines", config.clients),
            Workload::Dbench,
        ),
        ("a build: compilations".to_owned(), Workload::Build),
    ];
    let group = |(label, kind): (String, Workload)| {
        let bar = |lists: Lists| {
            let turns = turns(rows, lists.name(), kind)?;
            Some(Bar::of(lists.name(), &turns.operations_per_second))
        };
        Group {
            label,
            bars: Lists::ALL.into_iter().filter_map(bar).collect(),
        }
    };
    kinds.map(group).to_vec()
}
