//! The summary of `peers`: tables, plots, figures, and remarks.

use super::Row;
use super::case::{Case, Work};
use super::ours::{ANY, LOWEST};
use super::rival::{Missing, Side};
use super::theirs::{MUTEX_SLAB, SHARDED_SLAB};
use crate::plot::{Axis, Bar, Group, Kind, Plot};
use crate::report::{Figure, Grid, Report, Table, nanoseconds, ratio};
use crate::stats::{Samples, Summary, median};
use crate::tail::Tail;
use crate::turn::busy_cpus;

/// The work that is compared side by side, in one table each.
const KINDS: [(&str, &[Work]); 2] = [
    ("lookups", &[Work::Borrowed, Work::Owned]),
    (
        "changes",
        &[
            Work::OpenClose,
            Work::OpenCloseClone,
            Work::OpenCloseNew,
            Work::Mixed,
        ],
    ),
];

/// The headline figures, with their cases.
const FIGURES: [(&str, Case); 7] = [
    ("peers.borrowed_1t", Case::of(Work::Borrowed, 1)),
    ("peers.borrowed_2t", Case::of(Work::Borrowed, 2)),
    ("peers.owned_1t", Case::of(Work::Owned, 1)),
    ("peers.owned_2t", Case::of(Work::Owned, 2)),
    ("peers.open_close_1t", Case::of(Work::OpenClose, 1)),
    ("peers.open_close_2t", Case::of(Work::OpenClose, 2)),
    ("peers.mixed_2t", Case::of(Work::Mixed, 2)),
];

impl Row {
    fn ns(&self, case: Case) -> Option<&Samples> {
        let timing = self.timings.iter().find(|timing| timing.case == case);
        timing.map(|timing| &timing.ns)
    }

    fn median(&self, case: Case) -> Option<f64> {
        self.ns(case).map(|ns| ns.summary().median)
    }
}

/// Finds the fastest of a side in a case, by the median.
fn best(rows: &[Row], side: Side, case: Case) -> Option<&Row> {
    let of_side = rows.iter().filter(|row| row.side == side);
    let timed = of_side.filter_map(|row| Some((row.median(case)?, row)));
    let (_, row) = timed.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
    Some(row)
}

/// Compares the best rival with the best of ours, in pairs: above 1 where ours is faster.
fn against_best(rows: &[Row], case: Case) -> Option<(&Row, &Row, Summary)> {
    let ours = best(rows, Side::Ours, case)?;
    let theirs = best(rows, Side::Theirs, case)?;
    Some((ours, theirs, theirs.ns(case)?.over(ours.ns(case)?)))
}

/// Shows times, ratios, memory and growth, with figures from the best of each side: where
/// the keys of a rival need not be the lowest, ours need not be either.
pub(super) fn show(rows: &[Row], most: u32, report: &mut Report) {
    for (kind, works) in KINDS {
        let cases = Case::ALL.into_iter();
        let cases: Vec<Case> = cases.filter(|case| works.contains(&case.work)).collect();
        report.grid(Grid::new(
            kind,
            format!("Nanoseconds of an operation, an open with its close as one: {kind}"),
            Axis::log("ns"),
            cases.iter().map(|case| (title(*case), *case)),
            rows.iter().map(|row| (row.name, row)),
            |row, case| row.ns(*case).map(Samples::summary),
        ));
    }
    report.tables.push(sizes(rows, most));
    report.plots.push(growths(rows, most));
    for (key, case) in FIGURES {
        let compared = against_best(rows, case);
        report
            .headline
            .extend(compared.map(|(ours, theirs, ratios)| {
                Figure::of_case(key, &ratios, &format!(" {} ÷ {}", theirs.name, ours.name))
            }));
    }
    allocation(rows, report);
}

/// Adds the figures of our table as an allocator of descriptors.
fn allocation(rows: &[Row], report: &mut Report) {
    let find = |name: &str| rows.iter().find(|row| row.name == name);
    let pairs = |name, threads| find(name)?.ns(Case::of(Work::OpenClose, threads));
    // Nanoseconds are those of one CPU: the same on two CPUs are twice the operations.
    let both = pairs(ANY, 1).zip(pairs(ANY, 2));
    let scaling = both.map(|(one, two)| one.over(two).times(busy_cpus(2) as f64));
    report.ratio("alloc.any_2t_scaling", scaling);
    for (key, rival, threads) in [
        ("alloc.any_pair_vs_slab_1t", MUTEX_SLAB, 1),
        ("alloc.any_pair_vs_slab_2t", MUTEX_SLAB, 2),
        ("alloc.any_pair_vs_sharded_slab_2t", SHARDED_SLAB, 2),
    ] {
        let both = pairs(rival, threads).zip(pairs(ANY, threads));
        report.ratio(key, both.map(|(theirs, ours)| theirs.over(ours)));
    }
    let clones = |name| find(name)?.ns(Case::of(Work::OpenCloseClone, 1));
    let both = clones(MUTEX_SLAB).zip(clones(LOWEST));
    let ratio = both.map(|(theirs, ours)| theirs.over(ours));
    report.ratio("alloc.clone_pair_vs_slab_1t", ratio);
    let bytes = find(LOWEST).and_then(|row| row.bytes_per_descriptor);
    report.figure("alloc.bytes_per_slot", bytes);
}

fn sizes(rows: &[Row], most: u32) -> Table {
    let line = |row: &Row| {
        let bytes = row.bytes_per_descriptor.map(|bytes| format!("{bytes:.1}"));
        if row.growths.is_empty() && bytes.is_none() {
            return None;
        }
        let [median, late, worst] = growth(row);
        let bytes = bytes.unwrap_or("-".to_owned());
        Some([row.name.to_owned(), bytes, median, late, worst])
    };
    let header = ["", "bytes each", "median, ns", "99.99 %, µs", "worst, µs"];
    let caption = format!(
        "A table with {most} descriptors: memory beyond the objects, and its opens one by one, the \
         clock included; medians of the growths, of the worst the smallest"
    );
    Table::new(caption, header, rows.iter().filter_map(line))
}

fn growth(row: &Row) -> [String; 3] {
    let Some(worst) = row.growths.iter().map(|tail| tail.max_ns).min() else {
        return ["-"; 3].map(str::to_owned);
    };
    let of = |part: fn(&Tail) -> u64| {
        let parts: Vec<f64> = row.growths.iter().map(|tail| part(tail) as f64).collect();
        median(&parts)
    };
    [
        nanoseconds(of(|tail| tail.median_ns)),
        nanoseconds(of(|tail| tail.p9999_ns) / 1e3),
        nanoseconds(worst as f64 / 1e3),
    ]
}

/// Draws the worst opens while a table grows.
fn growths(rows: &[Row], most: u32) -> Plot {
    let worst = |row: &Row| {
        let maxima = || row.growths.iter().map(|tail| tail.max_ns as f64 / 1e3);
        let value = maxima().reduce(f64::min)?;
        Some(Bar {
            name: row.name.to_owned(),
            value,
            spread: maxima().reduce(f64::max).map(|most| (value, most)),
        })
    };
    Plot {
        name: "growth",
        caption: format!("The worst open while a table grows to {most} descriptors"),
        kind: Kind::Bars {
            value: Axis::log("µs"),
            groups: vec![Group {
                label: String::new(),
                bars: rows.iter().filter_map(worst).collect(),
            }],
        },
    }
}

/// Reports where a rival is ahead, what is missing, and what has failed.
pub(super) fn remarks(rows: &[Row], missing: &[Missing], failures: &[String]) -> Vec<String> {
    let mut remarks: Vec<String> = Case::ALL
        .iter()
        .filter_map(|&case| ahead(rows, case))
        .collect();
    let missing = missing.iter();
    remarks.extend(
        missing.map(|Missing { name, reason }| format!("{name} did not take part: {reason}")),
    );
    remarks.extend(failures.iter().map(|failure| format!("failed: {failure}")));
    remarks
}

/// Names the rivals that are faster than the best of ours.
fn ahead(rows: &[Row], case: Case) -> Option<String> {
    let ours = best(rows, Side::Ours, case)?;
    let median = ours.median(case)?;
    let theirs = rows.iter().filter(|row| row.side == Side::Theirs);
    let faster = theirs.filter_map(|row| {
        let times = median / row.median(case)?;
        (times > 1.0).then(|| format!("{} is {} times as fast", row.name, ratio(times)))
    });
    let faster: Vec<String> = faster.collect();
    let (title, name) = (title(case), ours.name);
    (!faster.is_empty()).then(|| format!("{title}: {} as {name}", faster.join(", ")))
}

/// Names a case in a table and in a sentence.
fn title(case: Case) -> String {
    let plural = if case.threads == 1 { "" } else { "s" };
    format!("{}, {} thread{plural}", case.work, case.threads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::Timing;
    use crate::report::shown;

    fn row(name: &'static str, threads: usize, rounds: &[f64]) -> Row {
        let timing = Timing {
            case: Case::of(Work::OpenClose, threads),
            ns: rounds.to_vec().into(),
        };
        Row {
            name,
            side: Side::Ours,
            timings: vec![timing],
            growths: Vec::new(),
            bytes_per_descriptor: None,
        }
    }

    #[test]
    fn two_threads_that_do_not_disturb_each_other_scale_with_the_cpus() {
        let mut both = row(ANY, 1, &[10.0, 20.0]);
        both.timings.extend(row(ANY, 2, &[10.0, 20.0]).timings);
        let report = shown(|report| allocation(&[both], report));
        assert_eq!(report.headline[0].key, "alloc.any_2t_scaling");
        assert_eq!(report.headline[0].value, busy_cpus(2) as f64);
    }

    #[test]
    fn figures_without_a_measurement_are_left_out() {
        let rows = [row(MUTEX_SLAB, 1, &[30.0]), row(ANY, 1, &[10.0])];
        let report = shown(|report| allocation(&rows, report));
        let keys: Vec<_> = report.headline.iter().map(|figure| figure.key).collect();
        assert_eq!(keys, ["alloc.any_pair_vs_slab_1t"]);
        assert_eq!(report.headline[0].value, 3.0);
    }
}
