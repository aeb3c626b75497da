//! The summary of `open-files`: tables, figures, and remarks.

use super::add_remove::Case;
use super::lists::{Lists, MUTEX_SLAB, NO_LIST, ONE_LIST, PER_CPU, STD_MUTEX_SLAB};
use super::open_close::Layer;
use super::workload::{Kind, Locality, Turns};
use super::{OpenFiles, Row, loadfile};
use crate::plot::Axis;
use crate::report::{Figure, Grid, Report, Table, nanoseconds};
use crate::stats::{Samples, Summary, median};

/// Subjects, in the order of the tables.
const SUBJECTS: [&str; 5] = [PER_CPU, ONE_LIST, MUTEX_SLAB, STD_MUTEX_SLAB, NO_LIST];

/// Lists with one lock for all CPUs.
const ONE_LOCK: [&str; 3] = [ONE_LIST, MUTEX_SLAB, STD_MUTEX_SLAB];

fn added<'a>(rows: &'a [Row], name: &str, wanted: Case) -> Option<&'a Samples> {
    rows.iter().find_map(|row| match row {
        Row::AddRemove { subject, case, ns } if *subject == name && *case == wanted => Some(ns),
        _ => None,
    })
}

fn opened<'a>(rows: &'a [Row], name: &str, wanted: Layer) -> Option<&'a Samples> {
    rows.iter().find_map(|row| match row {
        Row::OpenClose { subject, layer, ns } if *subject == name && *layer == wanted => Some(ns),
        _ => None,
    })
}

fn turns<'a>(rows: &'a [Row], name: &str, wanted: Kind) -> Option<&'a Turns> {
    rows.iter().find_map(|row| match row {
        Row::Workload {
            subject,
            workload,
            turns,
        } if *subject == name && *workload == wanted => Some(turns),
        _ => None,
    })
}

/// Computes what a list costs beyond the floor of the same round.
fn net(rows: &[Row], name: &str, case: Case) -> Option<Vec<f64>> {
    let of = added(rows, name, case)?.rounds().iter();
    let floor = added(rows, NO_LIST, case)?.rounds();
    Some(of.zip(floor).map(|(ns, floor)| ns - floor).collect())
}

/// Finds the fastest list with one lock for all CPUs.
fn best_of_one_lock(rows: &[Row], case: Case) -> Option<(&'static str, &Samples)> {
    let of = |name| Some((name, added(rows, name, case)?));
    let median = |samples: &Samples| samples.summary().median;
    let fastest = |(_, a): &(_, &Samples), (_, b): &(_, &Samples)| median(a).total_cmp(&median(b));
    ONE_LOCK.into_iter().filter_map(of).min_by(fastest)
}

/// Shows everything that follows from the rows.
pub(super) fn show(rows: &[Row], config: &OpenFiles, report: &mut Report) {
    let cases = [
        ("1 thread", Case::OneThread),
        ("2 threads", Case::TwoThreads),
        ("handed over", Case::Handover),
    ];
    let subjects = SUBJECTS.map(|name| (name, name));
    let (ns, net_ns) = (Axis::log("ns"), Axis::linear("ns beyond the floor"));
    report.grid(Grid::new(
        "lists",
        "Nanoseconds of a file that is added to a list and removed",
        ns.clone(),
        cases,
        subjects,
        |name, case| added(rows, name, *case).map(Samples::summary),
    ));
    report.grid(Grid::new(
        "lists-net",
        "The same beyond the floor of the same round",
        net_ns,
        cases,
        subjects.into_iter().filter(|(name, _)| *name != NO_LIST),
        |name, case| Some(Summary::of(&net(rows, name, *case)?)),
    ));
    let layers = [("bare table", Layer::Table), ("vfs", Layer::Vfs)];
    let lists = Lists::ALL.map(|lists| (lists.name(), lists.name()));
    report.grid(Grid::new(
        "opens",
        "Nanoseconds of an open and a close by one thread",
        Axis::linear("ns"),
        layers,
        lists,
        |name, layer| opened(rows, name, *layer).map(Samples::summary),
    ));
    let workloads = [
        ("dbench: lines", Kind::Dbench),
        ("build: compilations", Kind::Build),
    ];
    report.grid(Grid::new(
        "workloads",
        "Operations per second of workloads",
        Axis::log("operations/s"),
        workloads,
        lists,
        |name, kind| Some(turns(rows, name, *kind)?.operations_per_second.summary()),
    ));
    for kind in [Kind::Dbench, Kind::Build] {
        report.tables.extend(workload(rows, kind, config));
    }
    figures(rows, config, report);
    remarks(rows, config, report);
}

fn workload(rows: &[Row], kind: Kind, config: &OpenFiles) -> Option<Table> {
    turns(rows, PER_CPU, kind)?;
    let line = |lists: Lists| {
        let turns = turns(rows, lists.name(), kind)?;
        let times = [turns.user_seconds, turns.system_seconds];
        let [user, system] = times.map(|seconds| format!("{seconds:.2}"));
        let [locks, removals, cpu, node] = locality(turns.locality.as_ref());
        let name = lists.name().to_owned();
        Some([name, locks, removals, cpu, node, user, system])
    };
    let what = match kind {
        Kind::Dbench => format!("dbench, {} clients", config.clients),
        Kind::Build => format!("A build with {} jobs", super::Build::default().jobs),
    };
    let header = [
        "",
        "locks taken",
        "removals",
        "cpu-hits",
        "node-hits",
        "user s",
        "system s",
    ];
    Some(Table::new(
        format!(
            "{what}: {} turns of {} ms together",
            config.workload_rounds, config.workload_ms
        ),
        header,
        Lists::ALL.into_iter().filter_map(line),
    ))
}

fn locality(locality: Option<&Locality>) -> [String; 4] {
    let hits = |hits: &Option<Summary>| hits.map_or("-".to_owned(), |it| percent(it.median));
    locality.map_or(["-"; 4].map(str::to_owned), |counted| {
        [
            counted.locks.to_string(),
            counted.removals.to_string(),
            hits(&counted.cpu_hits),
            hits(&counted.node_hits),
        ]
    })
}

fn percent(fraction: f64) -> String {
    format!("{:.2} %", fraction * 100.0)
}

fn figures(rows: &[Row], config: &OpenFiles, report: &mut Report) {
    let mut hits = |key, kind, clients: &str, of: fn(&Locality) -> Option<Summary>| {
        let counted = turns(rows, PER_CPU, kind).and_then(|turns| of(turns.locality.as_ref()?));
        report.headline.extend(counted.map(|hits| {
            let [low, high] = [hits.p10, hits.p90].map(percent);
            let spread = format!("{clients} (p10–p90 {low}–{high})");
            Figure::new(key, hits.median).and(&spread)
        }));
    };
    let clients = format!(", {} clients", config.clients);
    let cpu = |it: &Locality| it.cpu_hits;
    let node = |it: &Locality| it.node_hits;
    hits("open_files.dbench_cpu_hits", Kind::Dbench, &clients, cpu);
    hits("open_files.dbench_node_hits", Kind::Dbench, &clients, node);
    hits("open_files.build_cpu_hits", Kind::Build, "", cpu);

    let two = Case::TwoThreads;
    let ours = added(rows, PER_CPU, two).map(|ns| median(ns.rounds()));
    report.figure("open_files.add_remove_2t_ns", ours);
    let theirs = best_of_one_lock(rows, two).map(|(rival, ns)| {
        let key = "open_files.add_remove_2t_global_ns";
        Figure::new(key, median(ns.rounds())).and(&format!(" {rival}"))
    });
    report.headline.extend(theirs);
    for (key, name) in [
        ("open_files.build_per_second", PER_CPU),
        ("open_files.build_global_per_second", ONE_LIST),
    ] {
        let turns = turns(rows, name, Kind::Build);
        let rate = turns.map(|turns| median(turns.operations_per_second.rounds()));
        report.figure(key, rate);
    }

    let against_one_lock = |key, case| {
        let (rival, theirs) = best_of_one_lock(rows, case)?;
        let ratio = theirs.over(added(rows, PER_CPU, case)?);
        Some(Figure::of_case(key, &ratio, &format!(" {rival}")))
    };
    let shared = "open_files.add_remove_2t_vs_global";
    let crossed = "open_files.cross_cpu_vs_global";
    report.headline.extend(against_one_lock(shared, two));
    report.headline.extend(net_against_one_lock(rows));
    report
        .headline
        .extend(against_one_lock(crossed, Case::Handover));

    let cost = |layer| Some(opened(rows, PER_CPU, layer)?.over(opened(rows, NO_LIST, layer)?));
    report.ratio("open_files.one_thread_cost", cost(Layer::Vfs));
    report.ratio("open_files.one_thread_cost_bare", cost(Layer::Table));
    let throughput = |kind| {
        let of = |name| Some(&turns(rows, name, kind)?.operations_per_second);
        Some(of(PER_CPU)?.over(of(ONE_LIST)?))
    };
    report.ratio("open_files.dbench_vs_global", throughput(Kind::Dbench));
    report.ratio("open_files.build_vs_global", throughput(Kind::Build));
}

fn net_against_one_lock(rows: &[Row]) -> Option<Figure> {
    let case = Case::TwoThreads;
    let (rival, _) = best_of_one_lock(rows, case)?;
    let [theirs, ours] = [rival, PER_CPU].map(|name| net(rows, name, case));
    let (theirs, ours) = (median(&theirs?), median(&ours?));
    let figure = Figure::new("open_files.add_remove_2t_net_vs_global", theirs / ours);
    let [theirs, ours] = [theirs, ours].map(nanoseconds);
    Some(figure.and(&format!(" {theirs} ns ({rival}) ÷ {ours} ns")))
}

fn remarks(rows: &[Row], config: &OpenFiles, report: &mut Report) {
    let always = [
        "Nanoseconds are those of one CPU; in a handover, those of wall time, which only the slower \
         of the two threads determines. Ratios are to the fastest list with one lock for all.",
        "Locks are those of files that join and leave; a create, rename or remove takes two more, \
         which are not counted. In a workload each turn has a file system of its own.",
    ];
    report.remarks.extend(always.map(str::to_owned));
    if config.loadfile.is_none() && turns(rows, PER_CPU, Kind::Dbench).is_none() {
        report.remarks.push(format!(
            "The workload of dbench was left out: {}.",
            loadfile::HOW_TO_GET
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Effort;
    use crate::report::shown;

    fn row(subject: &'static str, case: Case, rounds: &[f64]) -> Row {
        Row::AddRemove {
            subject,
            case,
            ns: rounds.to_vec().into(),
        }
    }

    fn open_close(subject: &'static str, layer: Layer, rounds: &[f64]) -> Row {
        Row::OpenClose {
            subject,
            layer,
            ns: rounds.to_vec().into(),
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
            operations_per_second: rounds.to_vec().into(),
            user_seconds: 1.0,
            system_seconds: 0.5,
            locality,
        };
        Row::Workload {
            subject,
            workload,
            turns,
        }
    }

    fn config() -> OpenFiles {
        OpenFiles::new(Effort::default())
    }

    fn shown_of(rows: &[Row]) -> Report {
        shown(|report| show(rows, &config(), report))
    }

    fn find(rows: &[Row], key: &str) -> Option<Figure> {
        shown_of(rows).headline.into_iter().find(|it| it.key == key)
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
        let tables = shown_of(&rows).tables;
        assert_eq!(tables.len(), 2);
        let cells: Vec<_> = tables[1].rows.iter().map(|row| &row[1..5]).collect();
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
            let remarks = shown_of(rows).remarks;
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
