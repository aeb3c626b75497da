//! The summary of `slab`: tables, figures, and remarks.

use super::colour::{Walked, Walks};
use super::footprint::Footprint;
use super::objects::{BOX, JEMALLOC, MIMALLOC, MUTEX_SLAB, NOTHING, OURS, SHARDED_SLAB};
use super::work::Case;
use super::{FILE, Row, SMALL};
use crate::plot::Axis;
use crate::report::{Figure, Grid, Report, Table, nanoseconds};
use crate::stats::{Samples, Summary, median};

/// Subjects, in the order of the tables.
const SUBJECTS: [&str; 7] = [
    OURS,
    MIMALLOC,
    JEMALLOC,
    BOX,
    SHARDED_SLAB,
    MUTEX_SLAB,
    NOTHING,
];

/// Sizes of an object.
const SIZES: [usize; 2] = [SMALL, FILE];

/// The plots of each size: an object at a time, and many.
const PLOTS: [[&str; 2]; 2] = [["pairs-small", "many-small"], ["pairs-file", "many-file"]];

fn samples<'a>(rows: &'a [Row], name: &str, size: usize, wanted: Case) -> Option<&'a Samples> {
    rows.iter().find_map(|row| match row {
        Row::Time {
            subject,
            bytes,
            case,
            ns,
        } if *subject == name && *bytes == size && *case == wanted => Some(ns),
        _ => None,
    })
}

fn footprint<'a>(rows: &'a [Row], name: &str, size: usize) -> Option<&'a Footprint> {
    rows.iter().find_map(|row| match row {
        Row::Memory { subject, footprint } if *subject == name && footprint.bytes == size => {
            Some(footprint)
        }
        _ => None,
    })
}

fn walks(rows: &[Row]) -> Option<&Walks> {
    rows.iter().find_map(|row| match row {
        Row::Colours(walks) => Some(walks),
        _ => None,
    })
}

/// Shows everything that follows from the rows.
pub(super) fn show(rows: &[Row], report: &mut Report) {
    let (one, many) = Case::ALL.split_at(3);
    for (size, [pairs, batches]) in SIZES.into_iter().zip(PLOTS) {
        let times = |name, caption: String, cases: &[Case]| {
            let subjects = SUBJECTS.map(|name| (name, name));
            let cases = cases.iter().map(|case| (case.name(), *case));
            Grid::new(
                name,
                caption,
                Axis::log("ns"),
                cases,
                subjects,
                |name, case| samples(rows, name, size, *case).map(Samples::summary),
            )
        };
        let caption = format!("Nanoseconds to allocate and free an object of {size} bytes");
        report.grid(times(pairs, caption, one));
        let caption = format!(
            "Nanoseconds per object of {size} bytes, where many are alive or another thread frees"
        );
        report.grid(times(batches, caption, many));
    }
    report.tables.extend(memory(rows));
    report.tables.extend(walks(rows).map(colours));
    figures(rows, report);
    report.remarks = remarks(rows);
}

fn memory(rows: &[Row]) -> Option<Table> {
    let live = footprint(rows, OURS, SMALL)?.live;
    let line = |&name: &&'static str| {
        let overhead = |size| Some(footprint(rows, name, size)?.overhead() * 100.0);
        let [small, file] = SIZES.map(overhead);
        Some([
            name.to_owned(),
            format!("{:.1} %", small?),
            format!("{:.1} %", file?),
        ])
    };
    let subjects = SUBJECTS.iter().filter(|&&name| name != NOTHING);
    let [small, file] = SIZES.map(|size| format!("{size} bytes"));
    Some(Table::new(
        format!("Memory beyond the objects, in percent of {live} objects that are alive"),
        ["", &small, &file],
        subjects.filter_map(line),
    ))
}

fn colours(walks: &Walks) -> Table {
    let line = |name: String, walked: &Walked| {
        let misses = walked.misses.map_or("-".to_owned(), |it| it.to_string());
        [name, walked.ns.summary().spread(nanoseconds), misses]
    };
    let simulated = walks.simulated;
    Table::new(
        format!(
            "A walk over the first objects of {} slabs: nanoseconds of a step, median (10th–90th \
             percentile); misses of {} times around, in a cache of {} sets of {} lines of {} bytes",
            walks.slabs, walks.counted, simulated.sets, simulated.ways, simulated.line
        ),
        ["", "ns", "misses"],
        [
            line(format!("{} colours", walks.colours), &walks.with),
            line("no colours".to_owned(), &walks.without),
        ],
    )
}

fn figures(rows: &[Row], report: &mut Report) {
    for (name, case) in [
        ("pair", Case::Pair),
        ("pair_written", Case::PairWritten),
        ("pair_2t", Case::PairTwoThreads),
        ("batch", Case::Batch),
        ("batch_shuffled", Case::BatchShuffled),
        ("cross_thread", Case::Handover),
        ("cross_thread_written", Case::HandoverWritten),
    ] {
        let mut figure = |key: &str, rival| {
            let worst = worst_ratio(rows, case, rival);
            let of = |(size, ratio)| Figure::of_case(key, &ratio, &format!(", {size} bytes"));
            report.headline.extend(worst.map(of));
        };
        figure(&format!("slab.{name}_vs_mimalloc"), MIMALLOC);
        if let Case::Pair | Case::Handover = case {
            figure(&format!("slab.{name}_vs_jemalloc"), JEMALLOC);
        }
    }
    let pair = |name| Some(median(samples(rows, name, FILE, Case::Pair)?.rounds()));
    report.figure("slab.pair_ns", pair(OURS));
    report.figure("slab.pair_libc_ns", pair(BOX));
    let walks = walks(rows);
    let step = |walked: &Walked| median(walked.ns.rounds());
    report.figure("slab.walk_ns", walks.map(|walks| step(&walks.with)));
    report.figure(
        "slab.walk_plain_ns",
        walks.map(|walks| step(&walks.without)),
    );
    let misses = |walks: &Walks| Some(walks.with.misses? as f64 / walks.without.misses? as f64);
    report.figure("slab.colour_miss_ratio", walks.and_then(misses));
    let times = walks.map(|walks| walks.with.ns.over(&walks.without.ns));
    report.ratio("slab.colour_time_ratio", times);
    let overhead = |size| Some((size, footprint(rows, OURS, size)?.overhead()));
    let worst = SIZES.into_iter().filter_map(overhead);
    let worst = worst.max_by(|(_, a), (_, b)| a.total_cmp(b));
    report.headline.extend(worst.map(|(size, overhead)| {
        Figure::new("slab.memory_overhead", overhead).and(&format!(", {size} bytes"))
    }));
}

/// Computes our time over a rival's, at the size where it is larger.
fn worst_ratio(rows: &[Row], case: Case, rival: &str) -> Option<(usize, Summary)> {
    let ratio = |size| {
        let of = |name| samples(rows, name, size, case);
        Some((size, of(OURS)?.over(of(rival)?)))
    };
    SIZES
        .into_iter()
        .filter_map(ratio)
        .max_by(|(_, a), (_, b)| a.median.total_cmp(&b.median))
}

fn remarks(rows: &[Row]) -> Vec<String> {
    let mut remarks = vec![
        "Ratios are those of the size at which ours is worse. Nanoseconds are those of one CPU; of a \
         handover, those of wall time. slab and sharded-slab return keys, whose \
         objects are found at the price of a lookup that is not in the figures. mimalloc and \
         jemalloc are called without the indirection of a global heap."
            .to_owned(),
    ];
    let is_timed = |name| samples(rows, name, SMALL, Case::Pair).is_some();
    if is_timed(OURS) && !is_timed(JEMALLOC) {
        remarks.push(
            "jemalloc is not in this program: two minutes of a CPU build it, with a C compiler, \
             `make` and `cargo run --release --features jemalloc -- bench slab`."
                .to_owned(),
        );
    }
    if footprint(rows, OURS, SMALL).is_none() {
        remarks.push(
            "Memory was not measured: only Linux reports it, in /proc/self/smaps_rollup."
                .to_owned(),
        );
    }
    if walks(rows).is_some_and(|walks| walks.without.misses.is_none()) {
        remarks.push(
            "Misses were not counted, which valgrind does: `apt-get install valgrind`, or the \
             package of that name elsewhere."
                .to_owned(),
        );
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::super::cachegrind::FIRST;
    use super::*;
    use crate::report::shown;

    fn time(subject: &'static str, bytes: usize, case: Case, rounds: &[f64]) -> Row {
        Row::Time {
            subject,
            bytes,
            case,
            ns: rounds.to_vec().into(),
        }
    }

    fn memory(subject: &'static str, bytes: usize, resident: usize) -> Row {
        let footprint = Footprint {
            bytes,
            live: 1000,
            resident,
            taken: None,
        };
        Row::Memory { subject, footprint }
    }

    fn colours(with: Option<u64>, without: Option<u64>) -> Row {
        let walked = |rounds: &[f64], misses| Walked {
            ns: rounds.to_vec().into(),
            misses,
        };
        Row::Colours(Walks {
            slabs: 64,
            colours: 32,
            counted: 1000,
            simulated: FIRST,
            with: walked(&[1.0, 10.0], with),
            without: walked(&[2.0, 20.0], without),
        })
    }

    fn value(rows: &[Row], key: &str) -> Option<f64> {
        let report = shown(|report| show(rows, report));
        report
            .headline
            .iter()
            .find(|it| it.key == key)
            .map(|it| it.value)
    }

    #[test]
    fn a_rival_is_compared_within_each_round_at_the_worse_size() {
        let rows = [
            time(OURS, SMALL, Case::Pair, &[1.0, 10.0]),
            time(MIMALLOC, SMALL, Case::Pair, &[2.0, 20.0]),
            time(OURS, FILE, Case::Pair, &[3.0, 30.0]),
            time(MIMALLOC, FILE, Case::Pair, &[4.0, 40.0]),
            time(OURS, SMALL, Case::Handover, &[9.0]),
        ];
        assert_eq!(value(&rows, "slab.pair_vs_mimalloc"), Some(0.75));
        assert_eq!(value(&rows, "slab.pair_vs_jemalloc"), None);
        assert_eq!(value(&rows, "slab.cross_thread_vs_mimalloc"), None);
    }

    #[test]
    fn memory_is_that_of_the_worse_size() {
        let rows = [
            memory(OURS, SMALL, 64_000 + 640),
            memory(OURS, FILE, 104_000 + 5200),
            memory(MIMALLOC, FILE, 208_000),
        ];
        let overhead = value(&rows, "slab.memory_overhead").unwrap();
        assert!((overhead - 0.05).abs() < 1e-9, "{overhead}");
    }

    #[test]
    fn colours_are_judged_by_misses_and_timed_besides() {
        let rows = [colours(Some(25), Some(100))];
        assert_eq!(value(&rows, "slab.colour_miss_ratio"), Some(0.25));
        assert_eq!(value(&rows, "slab.colour_time_ratio"), Some(0.5));
        assert_eq!(remarks(&rows).len(), 2);
    }

    #[test]
    fn a_heap_that_was_not_built_is_named() {
        let ours = time(OURS, SMALL, Case::Pair, &[1.0]);
        let theirs = time(JEMALLOC, SMALL, Case::Pair, &[1.0]);
        let names = |rows: &[Row]| remarks(rows).iter().any(|it| it.contains("--features"));
        assert!(names(std::slice::from_ref(&ours)));
        assert!(!names(&[ours, theirs]));
    }

    #[test]
    fn a_missing_tool_is_named_and_has_no_figure() {
        let rows = [colours(None, None)];
        assert_eq!(value(&rows, "slab.colour_miss_ratio"), None);
        assert_eq!(value(&rows, "slab.colour_time_ratio"), Some(0.5));
        let remarks = remarks(&rows);
        assert!(
            remarks
                .iter()
                .any(|it| it.contains("apt-get install valgrind"))
        );
    }
}
