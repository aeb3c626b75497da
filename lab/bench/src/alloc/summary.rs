//! The summary of `alloc`: tables, figures, and remarks.

use super::allocators::{
    ANY, FILES_STRUCT, LOWEST, MUTEX_SLAB, RWLOCK_VEC, SHARDED_SLAB, TWO_ADDS,
};
use super::footprint::Footprint;
use super::pairs::{Case, Work};
use super::{Alloc, Row};
use crate::report::{Figure, Goal, Table, nanoseconds};
use crate::stats::{Summary, paired_ratio};

/// The subjects that have a row in the tables.
pub(super) const SUBJECTS: [&str; 7] = [
    LOWEST,
    ANY,
    MUTEX_SLAB,
    SHARDED_SLAB,
    RWLOCK_VEC,
    FILES_STRUCT,
    TWO_ADDS,
];

pub(super) fn case(work: Work, open: u32, threads: usize) -> Case {
    Case {
        work,
        open,
        threads,
    }
}

/// Finds the samples of a subject in a case, in the order of the rounds.
pub(super) fn samples<'a>(rows: &'a [Row], name: &str, wanted: Case) -> Option<&'a [f64]> {
    rows.iter().find_map(|row| match row {
        Row::Pair {
            subject,
            case,
            rounds,
            ..
        } if *subject == name && *case == wanted => Some(&**rounds),
        _ => None,
    })
}

pub(super) fn footprint(rows: &[Row], name: &str) -> Option<Footprint> {
    rows.iter().find_map(|row| match row {
        Row::Footprint { subject, footprint } if *subject == name => Some(*footprint),
        _ => None,
    })
}

/// Makes a table of pairs for each kind of work, and one of memory if measured.
pub(super) fn tables(rows: &[Row], most: u32) -> Vec<Table> {
    let mut tables = vec![
        pairs(rows, Work::Move, most),
        pairs(rows, Work::Clone, most),
    ];
    tables.extend(footprint(rows, LOWEST).map(|ours| footprints(rows, &ours)));
    tables
}

fn pairs(rows: &[Row], work: Work, most: u32) -> Table {
    let columns = [case(work, 1, 1), case(work, most, 1), case(work, 1, 2)];
    let cell = |name, case| {
        samples(rows, name, case).map_or("-".to_owned(), |ns| {
            let Summary {
                p10, median, p90, ..
            } = Summary::of(ns);
            let [p10, median, p90] = [p10, median, p90].map(nanoseconds);
            format!("{median} ({p10}–{p90})")
        })
    };
    let line = |&name: &&'static str| {
        let cells = columns.map(|case| cell(name, case));
        std::iter::once(name.to_owned()).chain(cells).collect()
    };
    let how = match work {
        Work::Move => "the same reference moves in and out",
        Work::Clone => "the table gets a reference of its own, which is dropped at the close",
    };
    let header = [
        "ns".to_owned(),
        "1 open, 1 thread".to_owned(),
        format!("{most} open, 1 thread"),
        "1 open each, 2 threads".to_owned(),
    ];
    Table {
        caption: format!(
            "Nanoseconds of an open and a close, {how}: median (10th–90th percentile)"
        ),
        header: header.to_vec(),
        rows: SUBJECTS.iter().map(line).collect(),
    }
}

fn footprints(rows: &[Row], ours: &Footprint) -> Table {
    let line = |&name: &&'static str| {
        let Footprint {
            bytes_per_slot,
            kept_bytes,
            ..
        } = footprint(rows, name)?;
        Some(vec![
            name.to_owned(),
            format!("{bytes_per_slot:.2}"),
            format!("{:.1}", kept_bytes / 1024.0),
        ])
    };
    let header = [
        "".to_owned(),
        format!("bytes per slot, {} open", ours.slots),
        format!("KiB kept, back at {}", ours.remaining),
    ];
    Table {
        caption: "Memory of the table beyond the objects, headers of the heap included".to_owned(),
        header: header.to_vec(),
        rows: SUBJECTS.iter().filter_map(line).collect(),
    }
}

/// Picks the headline figures.
pub(super) fn figures(rows: &[Row], most: u32) -> Vec<Figure> {
    let ratio = |key, [over, under]: [(&str, Case); 2], goal, meaning: &str| {
        let of = |(name, case)| samples(rows, name, case);
        let ratio = paired_ratio(of(over)?, of(under)?);
        Some(Figure::of_ratio(key, &ratio, goal, meaning))
    };
    let (one, many) = (case(Work::Move, 1, 1), case(Work::Move, most, 1));
    let (two, cloned) = (case(Work::Move, 1, 2), case(Work::Clone, 1, 1));
    let memory = |key, bytes: fn(&Footprint) -> f64, goal, meaning: &str| {
        footprint(rows, LOWEST).map(|footprint| Figure {
            key,
            value: bytes(&footprint),
            goal,
            meaning: meaning.to_owned(),
        })
    };
    let figures = [
        ratio(
            "alloc.lowest_pair_ns_ratio_1M_vs_1",
            [(LOWEST, many), (LOWEST, one)],
            Goal::AtMost(1.15),
            &format!(
                "An open and a close, lowest free descriptor: cost at {most} open ÷ cost at 1"
            ),
        ),
        ratio(
            "alloc.any_pair_ns_ratio_1M_vs_1",
            [(ANY, many), (ANY, one)],
            Goal::None,
            "The same with any free descriptor",
        ),
        scaling(rows, ANY, [one, two]).map(|scaling| {
            Figure::of_ratio(
                "alloc.any_2t_scaling",
                &scaling,
                Goal::AtLeast(1.9),
                "Any free descriptor: pairs per second of two threads ÷ those of one",
            )
        }),
        ratio(
            "alloc.pair_vs_slab_1t",
            [(MUTEX_SLAB, one), (LOWEST, one)],
            Goal::AtLeast(1.0),
            "One thread, lowest free descriptor: times faster than slab under a mutex",
        ),
        ratio(
            "alloc.any_pair_vs_slab_1t",
            [(MUTEX_SLAB, one), (ANY, one)],
            Goal::None,
            "One thread, any free descriptor: times faster than slab under a mutex",
        ),
        ratio(
            "alloc.clone_pair_vs_slab_1t",
            [(MUTEX_SLAB, cloned), (LOWEST, cloned)],
            Goal::None,
            "One thread, lowest free descriptor, with a reference taken and dropped: times faster \
             than slab under a mutex",
        ),
        ratio(
            "alloc.any_pair_vs_slab_2t",
            [(MUTEX_SLAB, two), (ANY, two)],
            Goal::AtLeast(4.0),
            "Two threads, any free descriptor: times faster than slab under a mutex",
        ),
        ratio(
            "alloc.any_pair_vs_sharded_slab_2t",
            [(SHARDED_SLAB, two), (ANY, two)],
            Goal::None,
            "Two threads, any free descriptor: times faster than sharded-slab",
        ),
        memory(
            "alloc.bytes_per_slot",
            |footprint| footprint.bytes_per_slot,
            Goal::AtMost(12.0),
            "Bytes of a full table per slot, beyond the objects",
        ),
        memory(
            "alloc.kept_bytes",
            |footprint| footprint.kept_bytes,
            Goal::None,
            "Bytes that a table keeps after almost all of its descriptors were closed",
        ),
    ];
    figures.into_iter().flatten().collect()
}

/// Computes the throughput of two threads as a multiple of that of one. Samples are nanoseconds of
/// a busy CPU, so two threads that do not disturb each other have the same samples as one.
fn scaling(rows: &[Row], name: &str, [one, two]: [Case; 2]) -> Option<Summary> {
    let busy = crate::turn::busy_cpus(2) as f64;
    let alone: Vec<f64> = samples(rows, name, one)?
        .iter()
        .map(|ns| ns * busy)
        .collect();
    Some(paired_ratio(&alone, samples(rows, name, two)?))
}

/// Draws conclusions from the tables.
pub(super) fn remarks(rows: &[Row], alloc: &Alloc) -> Vec<String> {
    let mut remarks = vec![format!(
        "With {} open, the only free descriptor is in the middle, and a pair allocates that one \
         again. Nanoseconds are those of one CPU. slab, sharded-slab and \"any free number\" \
         do not promise the lowest; the others do.",
        alloc.most
    )];
    let of = |name| {
        let scaling = scaling(rows, name, [case(Work::Move, 1, 1), case(Work::Move, 1, 2)])?;
        Some(format!("{:.2} {name}", scaling.median))
    };
    let all: Vec<_> = SUBJECTS.iter().filter_map(|name| of(name)).collect();
    remarks.push(format!(
        "Pairs per second of two threads ÷ those of one: {}.",
        all.join("; ")
    ));
    if footprint(rows, LOWEST).is_none() {
        remarks.push("Memory was not measured: only glibc reports its memory in use.".to_owned());
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(subject: &'static str, threads: usize, rounds: &[f64]) -> Row {
        Row::Pair {
            subject,
            case: case(Work::Move, 1, threads),
            ns: Summary::of(rounds),
            rounds: rounds.to_vec(),
        }
    }

    #[test]
    fn two_threads_that_do_not_disturb_each_other_scale_with_the_cpus() {
        let rows = [row(ANY, 1, &[10.0, 20.0]), row(ANY, 2, &[10.0, 20.0])];
        let cases = [1, 2].map(|threads| case(Work::Move, 1, threads));
        let scaling = scaling(&rows, ANY, cases).unwrap();
        assert_eq!(scaling.median, crate::turn::busy_cpus(2) as f64);
    }

    #[test]
    fn figures_without_a_measurement_are_left_out() {
        let rows = [row(MUTEX_SLAB, 1, &[30.0]), row(LOWEST, 1, &[10.0])];
        let figures = figures(&rows, 100);
        let keys: Vec<_> = figures.iter().map(|figure| figure.key).collect();
        assert_eq!(keys, ["alloc.pair_vs_slab_1t"]);
        assert_eq!(figures[0].value, 3.0);
    }
}
