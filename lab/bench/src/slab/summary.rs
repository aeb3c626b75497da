//! The summary of `slab`: tables, figures, and remarks.

use super::cachegrind::Geometry;
use super::colour::Walks;
use super::footprint::Footprint;
use super::objects::{BOX, JEMALLOC, MIMALLOC, MUTEX_SLAB, NOTHING, OURS, SHARDED_SLAB};
use super::work::Case;
use super::{FILE, Row, SMALL};
use crate::report::{Figure, Goal, Table, nanoseconds};
use crate::stats::{Summary, paired_ratio};

/// Subjects that have a row in the tables.
pub(super) const SUBJECTS: [&str; 7] = [
    OURS,
    MIMALLOC,
    JEMALLOC,
    BOX,
    SHARDED_SLAB,
    MUTEX_SLAB,
    NOTHING,
];

/// Sizes of objects.
pub(super) const SIZES: [usize; 2] = [SMALL, FILE];

/// Finds the samples of a subject in a case, in the order of the rounds.
pub(super) fn samples<'a>(
    rows: &'a [Row],
    name: &str,
    size: usize,
    wanted: Case,
) -> Option<&'a [f64]> {
    rows.iter().find_map(|row| match row {
        Row::Time {
            subject,
            bytes,
            case,
            rounds,
            ..
        } if *subject == name && *bytes == size && *case == wanted => Some(&**rounds),
        _ => None,
    })
}

pub(super) fn footprint(rows: &[Row], name: &str, size: usize) -> Option<Footprint> {
    rows.iter().find_map(|row| match row {
        Row::Memory { subject, footprint } if *subject == name && footprint.bytes == size => {
            Some(*footprint)
        }
        _ => None,
    })
}

pub(super) fn walks(rows: &[Row]) -> Option<&Walks> {
    rows.iter().find_map(|row| match row {
        Row::Colours(walks) => Some(walks),
        _ => None,
    })
}

/// Makes two tables of times for each size, one of memory and one of walks.
pub(super) fn tables(rows: &[Row]) -> Vec<Table> {
    let mut tables = Vec::new();
    for size in SIZES {
        tables.push(pairs(rows, size));
        tables.push(many(rows, size));
    }
    tables.extend(memory(rows));
    tables.extend(walks(rows).map(colours));
    tables
}

fn pairs(rows: &[Row], size: usize) -> Table {
    let columns = [
        ("1 thread", Case::Pair),
        ("1 thread, written", Case::PairWritten),
        ("2 threads", Case::PairTwoThreads),
    ];
    times(
        rows,
        size,
        format!("Nanoseconds to allocate and free an object of {size} bytes"),
        &columns,
    )
}

fn many(rows: &[Row], size: usize) -> Table {
    let columns = [
        ("1,000 in order", Case::Batch),
        ("1,000 shuffled", Case::BatchShuffled),
        ("handover", Case::Handover),
        ("handover, written", Case::HandoverWritten),
    ];
    times(
        rows,
        size,
        format!(
            "Nanoseconds per object of {size} bytes, where many are alive or another thread frees"
        ),
        &columns,
    )
}

fn times(rows: &[Row], size: usize, what: String, columns: &[(&str, Case)]) -> Table {
    let line = |&name: &&'static str| {
        let cell = |&(_, case): &(&str, Case)| {
            samples(rows, name, size, case).map_or("-".to_owned(), |ns| spread(&Summary::of(ns)))
        };
        std::iter::once(name.to_owned())
            .chain(columns.iter().map(cell))
            .collect()
    };
    let names = columns.iter().map(|(name, _)| (*name).to_owned());
    Table {
        caption: what + ": median (10th–90th percentile)",
        header: std::iter::once("ns".to_owned()).chain(names).collect(),
        rows: SUBJECTS.iter().map(line).collect(),
    }
}

fn spread(ns: &Summary) -> String {
    let [p10, median, p90] = [ns.p10, ns.median, ns.p90].map(nanoseconds);
    format!("{median} ({p10}–{p90})")
}

/// Makes the table of memory, if it could be measured.
fn memory(rows: &[Row]) -> Option<Table> {
    let live = footprint(rows, OURS, SMALL)?.live;
    let line = |&name: &&'static str| {
        let cells = SIZES.map(|size| {
            let overhead = footprint(rows, name, size)?.overhead();
            Some(format!("{:.1} %", overhead * 100.0))
        });
        let [small, file] = cells;
        Some(vec![name.to_owned(), small?, file?])
    };
    let subjects = SUBJECTS.iter().filter(|&&name| name != NOTHING);
    let sizes = SIZES.map(|size| format!("{size} bytes"));
    Some(Table {
        caption: format!("Memory beyond the objects, in percent of {live} objects that are alive"),
        header: std::iter::once(String::new()).chain(sizes).collect(),
        rows: subjects.filter_map(line).collect(),
    })
}

fn colours(walks: &Walks) -> Table {
    let misses = |misses: Option<u64>| misses.map_or("-".to_owned(), |it| it.to_string());
    let line = |name: String, walked: &super::colour::Walked| {
        vec![name, spread(&walked.ns), misses(walked.misses)]
    };
    let Geometry {
        sets,
        ways,
        line: bytes,
    } = walks.simulated;
    Table {
        caption: format!(
            "A walk over the first objects of {} slabs: nanoseconds of a step, median (10th–90th \
             percentile); misses of {} times around, in a cache of {sets} sets of {ways} lines of \
             {bytes} bytes",
            walks.slabs, walks.counted
        ),
        header: ["", "ns", "misses"].map(str::to_owned).to_vec(),
        rows: vec![
            line(format!("{} colours", walks.colours), &walks.with),
            line("no colours".to_owned(), &walks.without),
        ],
    }
}

/// Picks the headline figures.
pub(super) fn figures(rows: &[Row]) -> Vec<Figure> {
    let ratio = |key, case, rival, goal, meaning: &str| {
        let (size, ratio) = worst_ratio(rows, case, rival)?;
        let meaning = format!("{meaning}: our time ÷ that of {rival}, {size} bytes");
        Some(Figure::of_ratio(key, &ratio, goal, &meaning))
    };
    let at_most_one = Goal::AtMost(1.0);
    let figures = [
        ratio(
            "slab.pair_vs_mimalloc",
            Case::Pair,
            MIMALLOC,
            at_most_one,
            "An object allocated and freed, one thread",
        ),
        ratio(
            "slab.pair_vs_jemalloc",
            Case::Pair,
            JEMALLOC,
            Goal::None,
            "The same",
        ),
        ratio(
            "slab.pair_written_vs_mimalloc",
            Case::PairWritten,
            MIMALLOC,
            Goal::None,
            "The same with the object written",
        ),
        ratio(
            "slab.pair_2t_vs_mimalloc",
            Case::PairTwoThreads,
            MIMALLOC,
            Goal::None,
            "The first, two threads",
        ),
        ratio(
            "slab.batch_vs_mimalloc",
            Case::Batch,
            MIMALLOC,
            Goal::None,
            "1,000 allocated, then freed in order",
        ),
        ratio(
            "slab.batch_shuffled_vs_mimalloc",
            Case::BatchShuffled,
            MIMALLOC,
            Goal::None,
            "The same in a shuffled order",
        ),
        ratio(
            "slab.cross_thread_vs_mimalloc",
            Case::Handover,
            MIMALLOC,
            at_most_one,
            "Allocated by one thread, freed by another",
        ),
        ratio(
            "slab.cross_thread_vs_jemalloc",
            Case::Handover,
            JEMALLOC,
            Goal::None,
            "The same",
        ),
        ratio(
            "slab.cross_thread_written_vs_mimalloc",
            Case::HandoverWritten,
            MIMALLOC,
            Goal::None,
            "The same with the object written",
        ),
        walks(rows).and_then(misses_ratio),
        walks(rows).map(|walks| {
            let ratio = paired_ratio(&walks.with.rounds, &walks.without.rounds);
            Figure::of_ratio(
                "slab.colour_time_ratio",
                &ratio,
                Goal::None,
                "Time of that walk with colours ÷ without",
            )
        }),
        overhead(rows),
    ];
    figures.into_iter().flatten().collect()
}

/// Compares ours with a rival at each size, and returns the size at which ours is worse.
fn worst_ratio(rows: &[Row], case: Case, rival: &str) -> Option<(usize, Summary)> {
    let ratio = |size| {
        let of = |name| samples(rows, name, size, case);
        Some((size, paired_ratio(of(OURS)?, of(rival)?)))
    };
    SIZES
        .into_iter()
        .filter_map(ratio)
        .max_by(|(_, a), (_, b)| a.median.total_cmp(&b.median))
}

fn misses_ratio(walks: &Walks) -> Option<Figure> {
    Some(Figure {
        key: "slab.colour_miss_ratio",
        value: walks.with.misses? as f64 / walks.without.misses? as f64,
        goal: Goal::AtMost(0.25),
        meaning: format!(
            "Misses of a walk over {} slabs with colours ÷ without",
            walks.slabs
        ),
    })
}

/// Returns our memory at the size at which it is worse.
fn overhead(rows: &[Row]) -> Option<Figure> {
    let (size, overhead) = SIZES
        .into_iter()
        .filter_map(|size| Some((size, footprint(rows, OURS, size)?.overhead())))
        .max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    Some(Figure {
        key: "slab.memory_overhead",
        value: overhead,
        goal: Goal::AtMost(0.06),
        meaning: format!("Memory beyond the objects ÷ the objects', {size} bytes"),
    })
}

/// Draws conclusions from the tables.
pub(super) fn remarks(rows: &[Row]) -> Vec<String> {
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
    use super::super::colour::Walked;
    use super::*;

    fn time(subject: &'static str, bytes: usize, case: Case, rounds: &[f64]) -> Row {
        Row::Time {
            subject,
            bytes,
            case,
            ns: Summary::of(rounds),
            rounds: rounds.to_vec(),
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
            ns: Summary::of(rounds),
            rounds: rounds.to_vec(),
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
        let figures = figures(rows);
        figures.iter().find(|it| it.key == key).map(|it| it.value)
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
