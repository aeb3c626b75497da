//! The summary of `open-files`: tables, figures, and remarks.

use super::add_remove::Case;
use super::lists::{Lists, MUTEX_SLAB, NO_LIST, ONE_LIST, PER_CPU, STD_MUTEX_SLAB};
use super::open_close::Layer;
use super::workload::{Kind, Locality, Turns};
use super::{OpenFiles, Row, loadfile};
use crate::report::{Figure, Goal, Table, nanoseconds, ratio};
use crate::stats::{Summary, median, paired_ratio};

/// Subjects that have a row in the table of lists.
pub(super) const SUBJECTS: [&str; 5] = [PER_CPU, ONE_LIST, MUTEX_SLAB, STD_MUTEX_SLAB, NO_LIST];

/// Subjects with one lock for all CPUs.
const ONE_LOCK: [&str; 3] = [ONE_LIST, MUTEX_SLAB, STD_MUTEX_SLAB];

/// Finds the samples of a list, in the order of the rounds.
pub(super) fn added<'a>(rows: &'a [Row], name: &str, wanted: Case) -> Option<&'a [f64]> {
    rows.iter().find_map(|row| match row {
        Row::AddRemove {
            subject,
            case,
            rounds,
            ..
        } if *subject == name && *case == wanted => Some(&**rounds),
        _ => None,
    })
}

pub(super) fn opened<'a>(rows: &'a [Row], name: &str, wanted: Layer) -> Option<&'a [f64]> {
    rows.iter().find_map(|row| match row {
        Row::OpenClose {
            subject,
            layer,
            rounds,
            ..
        } if *subject == name && *layer == wanted => Some(&**rounds),
        _ => None,
    })
}

pub(super) fn turns<'a>(rows: &'a [Row], name: &str, wanted: Kind) -> Option<&'a Turns> {
    rows.iter().find_map(|row| match row {
        Row::Workload {
            subject,
            workload,
            turns,
        } if *subject == name && *workload == wanted => Some(turns),
        _ => None,
    })
}

/// Returns the net cost of a list: its samples minus the floor of the same round.
fn net(rows: &[Row], name: &str, case: Case) -> Option<Vec<f64>> {
    let of = added(rows, name, case)?.iter();
    let floor = added(rows, NO_LIST, case)?;
    Some(of.zip(floor).map(|(ns, floor)| ns - floor).collect())
}

/// Finds the fastest subject with one lock for all.
fn best_of_one_lock(rows: &[Row], case: Case) -> Option<(&'static str, &[f64])> {
    let of = |name| Some((name, added(rows, name, case)?));
    let fastest = |(_, a): &(_, &[f64]), (_, b): &(_, &[f64])| median(a).total_cmp(&median(b));
    ONE_LOCK.into_iter().filter_map(of).min_by(fastest)
}

/// Makes a table of each part that was measured.
pub(super) fn tables(rows: &[Row], config: &OpenFiles) -> Vec<Table> {
    let mut tables = vec![lists(rows), layers(rows)];
    tables.extend([Kind::Dbench, Kind::Build].map(|kind| workload(rows, kind, config)));
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn lists(rows: &[Row]) -> Table {
    let columns = [
        ("1 thread", Case::OneThread),
        ("2 threads", Case::TwoThreads),
        ("handed over", Case::Handover),
    ];
    let line = |&name: &&'static str| {
        let cells = columns.map(|(_, case)| {
            let net = nanoseconds(median(&net(rows, name, case)?));
            Some([spread(added(rows, name, case)?), net])
        });
        let cells = cells.into_iter().collect::<Option<Vec<_>>>()?;
        let cells = cells.into_iter().flatten();
        Some(std::iter::once(name.to_owned()).chain(cells).collect())
    };
    let names = columns.map(|(name, _)| [name.to_owned(), "net".to_owned()]);
    Table {
        caption: "Nanoseconds of a file that is added to a list and removed: median (10th–90th \
                  percentile), and the median of the net cost beyond the floor of the same round"
            .to_owned(),
        header: std::iter::once("ns".to_owned())
            .chain(names.into_iter().flatten())
            .collect(),
        rows: SUBJECTS.iter().filter_map(line).collect(),
    }
}

fn layers(rows: &[Row]) -> Table {
    let line = |lists: Lists| {
        let cells = [Layer::Table, Layer::Vfs].map(|layer| {
            let ns = opened(rows, lists.name(), layer)?;
            let cost = paired_ratio(ns, opened(rows, NO_LIST, layer)?);
            Some([spread(ns), ratio(cost.median)])
        });
        let cells = cells.into_iter().collect::<Option<Vec<_>>>()?;
        let cells = cells.into_iter().flatten();
        Some(
            std::iter::once(lists.name().to_owned())
                .chain(cells)
                .collect(),
        )
    };
    let header = ["ns", "bare table", "÷ floor", "vfs", "÷ floor"];
    Table {
        caption:
            "Nanoseconds of an open and a close by one thread: median (10th–90th percentile), \
                  and as a multiple of the floor of the same round"
                .to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: Lists::ALL.into_iter().filter_map(line).collect(),
    }
}

fn workload(rows: &[Row], kind: Kind, config: &OpenFiles) -> Table {
    let line = |lists: Lists| {
        let turns = turns(rows, lists.name(), kind)?;
        let throughput = spread_of(&turns.operations_per_second, |it| format!("{it:.0}"));
        let times = [turns.user_seconds, turns.system_seconds];
        let [user, system] = times.map(|seconds| format!("{seconds:.2}"));
        let [locks, removals, cpu, node] = locality(turns.locality.as_ref());
        let name = lists.name().to_owned();
        Some(vec![
            name, locks, removals, cpu, node, throughput, user, system,
        ])
    };
    let what = match kind {
        Kind::Dbench => format!("dbench, {} clients: operations are lines", config.clients),
        Kind::Build => {
            let jobs = super::Build::default().jobs;
            format!("A build with {jobs} jobs: operations are compilations")
        }
    };
    let header = [
        "",
        "locks taken",
        "removals",
        "cpu-hits",
        "node-hits",
        "operations/s",
        "user s",
        "system s",
    ];
    Table {
        caption: format!(
            "{what}; throughput as median (10th–90th percentile), all else of {} turns of {} ms \
             together",
            config.workload_rounds, config.workload_ms
        ),
        header: header.map(str::to_owned).to_vec(),
        rows: Lists::ALL.into_iter().filter_map(line).collect(),
    }
}

/// Makes the cells of locks, removals and hits.
fn locality(locality: Option<&Locality>) -> [String; 4] {
    let none = || "-".to_owned();
    let hits = |hits: &Option<Summary>| hits.map_or_else(none, |it| percent(it.median));
    let Some(counted) = locality else {
        return [none(), none(), none(), none()];
    };
    [
        counted.locks.to_string(),
        counted.removals.to_string(),
        hits(&counted.cpu_hits),
        hits(&counted.node_hits),
    ]
}

fn percent(fraction: f64) -> String {
    format!("{:.2} %", fraction * 100.0)
}

fn spread(ns: &[f64]) -> String {
    spread_of(&Summary::of(ns), nanoseconds)
}

fn spread_of(summary: &Summary, shown: fn(f64) -> String) -> String {
    let [p10, median, p90] = [summary.p10, summary.median, summary.p90].map(shown);
    format!("{median} ({p10}–{p90})")
}

/// Picks the headline figures.
pub(super) fn figures(rows: &[Row], config: &OpenFiles) -> Vec<Figure> {
    let clients = format!("dbench with {} clients", config.clients);
    let figures = [
        hits(
            rows,
            "open_files.dbench_cpu_hits",
            Kind::Dbench,
            |it| it.cpu_hits,
            Goal::AtLeast(0.996),
            &format!("{clients}: fraction of the removals on the CPU where the file was opened"),
        ),
        hits(
            rows,
            "open_files.dbench_node_hits",
            Kind::Dbench,
            |it| it.node_hits,
            Goal::None,
            "The same on its memory node",
        ),
        hits(
            rows,
            "open_files.build_cpu_hits",
            Kind::Build,
            |it| it.cpu_hits,
            Goal::None,
            "A build: fraction of the removals on the CPU where the file was opened",
        ),
        against_one_lock(
            rows,
            "open_files.add_remove_2t_vs_global",
            Case::TwoThreads,
            Goal::AtLeast(3.0),
            "Two threads that create files and drop them",
        ),
        net_against_one_lock(rows),
        against_one_lock(
            rows,
            "open_files.cross_cpu_vs_global",
            Case::Handover,
            Goal::AtLeast(1.0),
            "Every removal on the other CPU",
        ),
        cost(
            rows,
            "open_files.one_thread_cost",
            Layer::Vfs,
            Goal::AtMost(1.05),
            "An open and a close by the vfs, one thread: with a list for each CPU ÷ with none",
        ),
        cost(
            rows,
            "open_files.one_thread_cost_bare",
            Layer::Table,
            Goal::None,
            "The same in a bare table",
        ),
        throughput(
            rows,
            "open_files.dbench_vs_global",
            Kind::Dbench,
            &format!("{clients}: operations per second, a list for each CPU ÷ one list"),
        ),
        throughput(
            rows,
            "open_files.build_vs_global",
            Kind::Build,
            "A build: compilations per second, a list for each CPU ÷ one list",
        ),
    ];
    figures.into_iter().flatten().collect()
}

fn hits(
    rows: &[Row],
    key: &'static str,
    kind: Kind,
    of: fn(&Locality) -> Option<Summary>,
    goal: Goal,
    meaning: &str,
) -> Option<Figure> {
    let hits = of(turns(rows, PER_CPU, kind)?.locality.as_ref()?)?;
    let [low, high] = [hits.p10, hits.p90].map(percent);
    Some(Figure {
        key,
        value: hits.median,
        goal,
        meaning: format!("{meaning} (p10–p90 {low}–{high})"),
    })
}

/// Compares the throughput of a list for each CPU with the fastest list under one lock.
fn against_one_lock(
    rows: &[Row],
    key: &'static str,
    case: Case,
    goal: Goal,
    what: &str,
) -> Option<Figure> {
    let (rival, theirs) = best_of_one_lock(rows, case)?;
    let ratio = paired_ratio(theirs, added(rows, PER_CPU, case)?);
    let meaning = format!("{what}: throughput, a list for each CPU ÷ {rival}");
    Some(Figure::of_ratio(key, &ratio, goal, &meaning))
}

/// Compares the net costs of the lists: medians, since in a single round it may be nothing.
fn net_against_one_lock(rows: &[Row]) -> Option<Figure> {
    let case = Case::TwoThreads;
    let (rival, _) = best_of_one_lock(rows, case)?;
    let [theirs, ours] = [rival, PER_CPU].map(|name| net(rows, name, case));
    let (theirs, ours) = (median(&theirs?), median(&ours?));
    Some(Figure {
        key: "open_files.add_remove_2t_net_vs_global",
        value: theirs / ours,
        goal: Goal::None,
        meaning: format!(
            "The same without the cost of the files themselves, {} ns ({rival}) ÷ {} ns",
            nanoseconds(theirs),
            nanoseconds(ours)
        ),
    })
}

fn cost(
    rows: &[Row],
    key: &'static str,
    layer: Layer,
    goal: Goal,
    meaning: &str,
) -> Option<Figure> {
    let ratio = paired_ratio(opened(rows, PER_CPU, layer)?, opened(rows, NO_LIST, layer)?);
    Some(Figure::of_ratio(key, &ratio, goal, meaning))
}

fn throughput(rows: &[Row], key: &'static str, kind: Kind, meaning: &str) -> Option<Figure> {
    let of = |name| Some(&turns(rows, name, kind)?.rounds);
    let ratio = paired_ratio(of(PER_CPU)?, of(ONE_LIST)?);
    Some(Figure::of_ratio(key, &ratio, Goal::None, meaning))
}

/// Draws conclusions from the tables.
pub(super) fn remarks(rows: &[Row], config: &OpenFiles) -> Vec<String> {
    let mut remarks = vec![
        "Nanoseconds are those of one CPU; in a handover, those of wall time, which only the slower \
         of the two threads determines. Ratios are to the fastest list with one lock for all."
            .to_owned(),
        "Locks are those of files that join and leave; a create, rename or remove takes two more, \
         which are not counted. In a workload each turn has a file system of its own."
            .to_owned(),
    ];
    if config.loadfile.is_none() && turns(rows, PER_CPU, Kind::Dbench).is_none() {
        remarks.push(format!(
            "The workload of dbench was left out: {}.",
            loadfile::HOW_TO_GET
        ));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Effort;

    fn row(subject: &'static str, case: Case, rounds: &[f64]) -> Row {
        Row::AddRemove {
            subject,
            case,
            ns: Summary::of(rounds),
            rounds: rounds.to_vec(),
        }
    }

    fn open_close(subject: &'static str, layer: Layer, rounds: &[f64]) -> Row {
        Row::OpenClose {
            subject,
            layer,
            ns: Summary::of(rounds),
            rounds: rounds.to_vec(),
        }
    }

    fn workload(subject: &'static str, workload: Kind, rounds: &[f64], hits: Option<f64>) -> Row {
        let hits = hits.map(|rate| Summary::of(&[rate]));
        let locality = (subject != NO_LIST).then_some(Locality {
            locks: 20,
            removals: 10,
            cpu_hits: hits,
            node_hits: hits,
        });
        let turns = Turns {
            operations_per_second: Summary::of(rounds),
            user_seconds: 1.0,
            system_seconds: 0.5,
            locality,
            rounds: rounds.to_vec(),
        };
        Row::Workload {
            subject,
            workload,
            turns,
        }
    }

    fn config() -> OpenFiles {
        OpenFiles::new(Effort::Quick)
    }

    fn find(rows: &[Row], key: &str) -> Option<Figure> {
        let figures = figures(rows, &config());
        figures.into_iter().find(|it| it.key == key)
    }

    #[test]
    fn the_rival_of_a_case_is_the_fastest_under_one_lock() {
        let two = Case::TwoThreads;
        let rows = [
            row(PER_CPU, two, &[50.0, 500.0]),
            row(ONE_LIST, two, &[200.0, 2000.0]),
            row(MUTEX_SLAB, two, &[100.0, 1000.0]),
            row(STD_MUTEX_SLAB, two, &[150.0, 1500.0]),
            row(NO_LIST, two, &[40.0, 400.0]),
            row(ONE_LIST, Case::Handover, &[1.0, 1.0]),
        ];
        let figure = find(&rows, "open_files.add_remove_2t_vs_global").unwrap();
        assert_eq!(figure.value, 2.0);
        assert!(figure.meaning.contains(MUTEX_SLAB), "{}", figure.meaning);
        // 330 ÷ 55: the medians of the net costs.
        let figure = find(&rows, "open_files.add_remove_2t_net_vs_global").unwrap();
        assert!((figure.value - 6.0).abs() < 1e-9, "{}", figure.value);
        assert!(find(&rows, "open_files.cross_cpu_vs_global").is_none());
    }

    #[test]
    fn a_cost_is_taken_within_each_round() {
        let rows = [
            open_close(PER_CPU, Layer::Vfs, &[11.0, 110.0]),
            open_close(NO_LIST, Layer::Vfs, &[10.0, 100.0]),
            open_close(ONE_LIST, Layer::Vfs, &[20.0, 200.0]),
            open_close(PER_CPU, Layer::Table, &[15.0]),
            open_close(NO_LIST, Layer::Table, &[10.0]),
        ];
        let value = |key| find(&rows, key).unwrap().value;
        assert!((value("open_files.one_thread_cost") - 1.1).abs() < 1e-9);
        assert!((value("open_files.one_thread_cost_bare") - 1.5).abs() < 1e-9);
    }

    #[test]
    fn only_lists_for_each_cpu_have_hits() {
        let rows = [
            workload(PER_CPU, Kind::Dbench, &[30.0, 300.0], Some(0.997)),
            workload(ONE_LIST, Kind::Dbench, &[20.0, 200.0], None),
            workload(NO_LIST, Kind::Dbench, &[40.0, 400.0], None),
        ];
        let hits = find(&rows, "open_files.dbench_cpu_hits").unwrap();
        assert_eq!(hits.goal.reached(hits.value), Some(true));
        assert!(hits.meaning.contains("64 clients"), "{}", hits.meaning);
        let vs = find(&rows, "open_files.dbench_vs_global").unwrap();
        assert_eq!(vs.value, 1.5);
        assert!(find(&rows, "open_files.build_cpu_hits").is_none());
        let tables = tables(&rows, &config());
        assert_eq!(tables.len(), 1);
        let cells: Vec<_> = tables[0].rows.iter().map(|row| &row[1..5]).collect();
        assert_eq!(
            cells,
            [
                ["20", "10", "99.70 %", "99.70 %"],
                ["20", "10", "-", "-"],
                ["-", "-", "-", "-"]
            ]
        );
    }

    #[test]
    fn a_missing_load_file_is_named_and_has_no_figure() {
        let rows = [workload(PER_CPU, Kind::Build, &[1.0], Some(0.9))];
        assert!(find(&rows, "open_files.dbench_cpu_hits").is_none());
        assert!(find(&rows, "open_files.build_cpu_hits").is_some());
        let has_hits = |rows: &[Row]| {
            let remarks = remarks(rows, &config());
            remarks
                .iter()
                .any(|it| it.contains("apt-get install dbench"))
        };
        assert!(has_hits(&rows));
        assert!(!has_hits(&[workload(
            PER_CPU,
            Kind::Dbench,
            &[1.0],
            Some(0.9)
        )]));
    }
}
