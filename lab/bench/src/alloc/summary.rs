//! The summary of `alloc`: tables, figures, and remarks.

use super::allocators::{ANY, FILES_STRUCT, LOWEST, MUTEX_SLAB, RWLOCK_VEC, SHARDED_SLAB};
use super::footprint::Footprint;
use super::pairs::{Case, Work};
use super::{Alloc, Row};
use crate::plot::Axis;
use crate::report::{Grid, Report, Table};
use crate::stats::{Samples, Summary};

/// Subjects, in the order of the tables.
const SUBJECTS: [&str; 6] = [
    LOWEST,
    ANY,
    MUTEX_SLAB,
    SHARDED_SLAB,
    RWLOCK_VEC,
    FILES_STRUCT,
];

fn case(work: Work, open: u32, threads: usize) -> Case {
    Case {
        work,
        open,
        threads,
    }
}

fn samples<'a>(rows: &'a [Row], name: &str, wanted: Case) -> Option<&'a Samples> {
    rows.iter().find_map(|row| match row {
        Row::Pair { subject, case, ns } if *subject == name && *case == wanted => Some(ns),
        _ => None,
    })
}

fn footprint<'a>(rows: &'a [Row], name: &str) -> Option<&'a Footprint> {
    rows.iter().find_map(|row| match row {
        Row::Footprint { subject, footprint } if *subject == name => Some(footprint),
        _ => None,
    })
}

/// Shows everything that follows from the rows.
pub(super) fn show(rows: &[Row], alloc: &Alloc, report: &mut Report) {
    report.grid(pairs(
        rows,
        "pairs",
        Work::Move,
        alloc.most,
        "Nanoseconds of an open and a close, the same reference moves in and out",
    ));
    report.grid(pairs(
        rows,
        "cloned-pairs",
        Work::Clone,
        alloc.most,
        "Nanoseconds of an open and a close, the table gets a reference of its own, which is \
         dropped at the close",
    ));
    figures(rows, alloc.most, report);
    remarks(rows, alloc, report);
    let Some(ours) = footprint(rows, LOWEST) else {
        return report.remarks.push(crate::memory::UNKNOWN.to_owned());
    };
    report.tables.push(footprints(rows, ours));
    report.figure("alloc.bytes_per_slot", Some(ours.bytes_per_slot));
    report.figure("alloc.kept_bytes", Some(ours.kept_bytes));
}

fn pairs(rows: &[Row], name: &'static str, work: Work, most: u32, caption: &str) -> Grid {
    let cases = [
        ("1 open, 1 thread".to_owned(), case(work, 1, 1)),
        (format!("{most} open, 1 thread"), case(work, most, 1)),
        ("1 open each, 2 threads".to_owned(), case(work, 1, 2)),
    ];
    let subjects = SUBJECTS.map(|name| (name, name));
    Grid::new(
        name,
        caption,
        Axis::log("ns"),
        cases,
        subjects,
        |name, case| samples(rows, name, *case).map(Samples::summary),
    )
}

fn footprints(rows: &[Row], ours: &Footprint) -> Table {
    let line = |&name: &&'static str| {
        let it = footprint(rows, name)?;
        let kept = format!("{:.1}", it.kept_bytes / 1024.0);
        Some([name.to_owned(), format!("{:.2}", it.bytes_per_slot), kept])
    };
    let slots = format!("bytes per slot, {} open", ours.slots);
    let kept = format!("KiB kept, back at {}", ours.remaining);
    Table::new(
        "Memory of the table beyond the objects, headers of the heap included",
        ["", &slots, &kept],
        SUBJECTS.iter().filter_map(line),
    )
}

fn figures(rows: &[Row], most: u32, report: &mut Report) {
    let over = |(name, case): (&str, Case), (other, as_case): (&str, Case)| {
        Some(samples(rows, name, case)?.over(samples(rows, other, as_case)?))
    };
    let (one, many) = (case(Work::Move, 1, 1), case(Work::Move, most, 1));
    let (two, cloned) = (case(Work::Move, 1, 2), case(Work::Clone, 1, 1));
    let growth = |name| over((name, many), (name, one));
    let faster = |name, rival, case| over((rival, case), (name, case));
    report.ratio("alloc.lowest_pair_ns_ratio_1M_vs_1", growth(LOWEST));
    report.ratio("alloc.any_pair_ns_ratio_1M_vs_1", growth(ANY));
    report.ratio("alloc.any_2t_scaling", scaling(rows, ANY));
    let lowest = faster(LOWEST, MUTEX_SLAB, cloned);
    report.ratio("alloc.clone_pair_vs_slab_1t", lowest);
    let any = |rival, case| faster(ANY, rival, case);
    report.ratio("alloc.any_pair_vs_slab_1t", any(MUTEX_SLAB, one));
    report.ratio("alloc.any_pair_vs_slab_2t", any(MUTEX_SLAB, two));
    let any = any(SHARDED_SLAB, two);
    report.ratio("alloc.any_pair_vs_sharded_slab_2t", any);
}

/// Operations per second of two threads over those of one. Nanoseconds are those of one CPU, so
/// the same nanoseconds on two CPUs are twice the operations.
fn scaling(rows: &[Row], name: &str) -> Option<Summary> {
    let [one, two] = [1, 2].map(|threads| samples(rows, name, case(Work::Move, 1, threads)));
    Some(one?.over(two?).times(crate::turn::busy_cpus(2) as f64))
}

fn remarks(rows: &[Row], alloc: &Alloc, report: &mut Report) {
    report.remarks.push(format!(
        "With {} open, the only free descriptor is in the middle, and a pair allocates that one \
         again. Nanoseconds are those of one CPU. slab, sharded-slab and \"any free number\" \
         do not promise the lowest; the others do.",
        alloc.most
    ));
    let of = |&name: &&str| Some(format!("{:.2} {name}", scaling(rows, name)?.median));
    let all: Vec<_> = SUBJECTS.iter().filter_map(of).collect();
    report.remarks.push(format!(
        "Pairs per second of two threads ÷ those of one: {}.",
        all.join("; ")
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Effort;
    use crate::report::shown;

    fn row(subject: &'static str, threads: usize, rounds: &[f64]) -> Row {
        Row::Pair {
            subject,
            case: case(Work::Move, 1, threads),
            ns: rounds.to_vec().into(),
        }
    }

    #[test]
    fn two_threads_that_do_not_disturb_each_other_scale_with_the_cpus() {
        let rows = [row(ANY, 1, &[10.0, 20.0]), row(ANY, 2, &[10.0, 20.0])];
        let scaling = scaling(&rows, ANY).unwrap();
        assert_eq!(scaling.median, crate::turn::busy_cpus(2) as f64);
    }

    #[test]
    fn figures_without_a_measurement_are_left_out() {
        let rows = [row(MUTEX_SLAB, 1, &[30.0]), row(ANY, 1, &[10.0])];
        let report = shown(|report| show(&rows, &Alloc::new(Effort::default()), report));
        let keys: Vec<_> = report.headline.iter().map(|figure| figure.key).collect();
        assert_eq!(keys, ["alloc.any_pair_vs_slab_1t"]);
        assert_eq!(report.headline[0].value, 3.0);
    }
}
