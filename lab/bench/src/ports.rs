//! `ports`: the cost of what projects with an interface of their own need from the table.
//!
//! Operations on descriptors with words, replacements, and other operations that ports call are
//! timed beside the plain operation; what finds nothing to do is judged by its own time.
//!
//! *Ports.* The handles of a FUSE server and the list of a WASI runtime, from the tests of
//! `fdtable`, are timed beside the tables that these projects had: a map with a counter for the
//! next handle, and a list that is searched from its beginning. The table of a unikernel in C, from
//! the tests of `fdtable-capi`, is timed in a program of its own, beside an array under a lock.
//!
//! *Unused words.* A leaf of 64 descriptors gets a table of words with its first word. Lookups, and
//! pairs of open and close, are timed in a leaf without words, in a table that has words in its
//! other leaf and in one that has none. Both run the same code. So the ratio shows that words cost
//! nothing in leaves without them, and cannot show what the code for words costs. A comparison with
//! a build from before words shows that: the rows of `lookup`, `peers` and `slab`.
//!
//! *Nanoseconds per operation* are those of one CPU: see [`turn`].

use std::env;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use anyhow::{Context, ensure};
use fdtable::{FdFlags, FileRef, Files, Rcu, rcu};
use serde::Serialize;
use serde_json::json;

use crate::child::{Program, output};
use crate::experiment::{Effort, Experiment, Progress, alternate};
use crate::lookup::Padded;
use crate::machine::Machine;
use crate::report::{Figure, Report, Table, nanoseconds, ratio};
use crate::stats::Samples;
use crate::subject::Subject;
use crate::subject::locked::{Handles, Locked};
use crate::turn::{self, Worker};

#[path = "../../../crates/fdtable/tests/ports/fuse.rs"]
#[allow(dead_code)] // The tests use all of it.
mod fuse;
#[path = "../../../crates/fdtable/tests/ports/wasi.rs"]
#[allow(dead_code)] // As above.
mod wasi;

/// Experiment that measures words of descriptors, and replacements.
#[derive(Clone, Debug, Serialize)]
pub struct Ports {
    /// Turns of each operation, at least 1.
    pub rounds: usize,
    /// Least duration of a turn in milliseconds.
    pub turn_ms: u64,
}

/// The times of one operation.
#[derive(Clone, Debug, Serialize)]
struct Row {
    name: &'static str,
    ns: Samples,
}

/// Operations of a chunk.
const CHUNK: i32 = 256;

/// Descriptors of a leaf. The first half is used, and the first one behind it is free.
const LEAF: i32 = 64;
const USED: i32 = LEAF / 2;

/// Open descriptors of a table without holes, of a FUSE server, and of a WASI instance.
const LIVE: i32 = 900;
const HANDLES: usize = 10_000;
const LISTED: usize = 20_000;

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Time limit for a turn of the program in C, for busy machines.
const TURN_LIMIT: Duration = Duration::from_secs(60);

/// The work of a side.
#[derive(Clone, Copy)]
enum Work {
    /// Makes a table, and repeats an operation on it.
    Here(fn() -> Worker<'static>),
    /// An operation of the program in C.
    InC(&'static str),
}
use Work::{Here, InC};

/// One side of a pair: its name and the work.
type Side = (&'static str, Work);

/// An operation that is compared with a plainer one: the figure, the plain side, and the other. The
/// figure is the ratio, or the time of the other side if its name ends with its unit.
#[derive(Clone, Copy)]
struct Pair(&'static str, Side, Side);

macro_rules! pairs {
    ($($key:literal: $plain:literal $plain_work:expr, $other:literal $other_work:expr;)+) => {
        [$(Pair($key, ($plain, $plain_work), ($other, $other_work)),)+]
    };
}

const PAIRS: [Pair; 13] = pairs! {
    "ports.replace_vs_dup3": "dup3" Here(dup3), "replace" Here(replace);
    "ports.owned_word_vs_plain": "get" Here(get), "get_with_data" Here(get_with_data);
    "ports.word_lookup_vs_plain":
        "get_rcu" Here(get_rcu), "get_rcu_with_data" Here(get_rcu_with_data);
    "ports.unused_word_cost":
        "get without words" Here(|| look_up(words(|_| 0))),
        "get beside words" Here(|| look_up(words(|fd| fd / LEAF)));
    "ports.unused_word_cost":
        "open and close without words" Here(|| reopen(words(|_| 0))),
        "open and close beside words" Here(|| reopen(words(|fd| fd / LEAF)));
    "ports.reserve_vs_open":
        "open and close" Here(open), "reserve, install and close" Here(reserve);
    "ports.dup_min_vs_dup": "dup and close" Here(dup), "dup_min and close" Here(dup_min);
    "ports.empty_close_range_ns":
        "open and close" Here(open), "close_range of nothing" Here(empty_close_range);
    "ports.empty_close_on_exec_ns":
        "open and close" Here(open), "close_on_exec of nothing" Here(empty_close_on_exec);
    "ports.c_open_vs_open":
        "open of a new file and close" Here(open_new), "the same in C" InC("open");
    "ports.c_table_vs_locked":
        "get and put in C, array under a lock" InC("locked"), "fdt_table" InC("acquire");
    "ports.fuse_vs_map":
        "insert and release, map under a lock" Here(handles_in_map), "PrivateFiles" Here(handles);
    "ports.wasi_vs_list":
        "path_open and fd_close, list under a lock" Here(listed), "Files" Here(wasi_files);
};

/// Makes a table of two leaves, with a word of each descriptor unless it is 0.
fn words(word: fn(i32) -> i32) -> Files<Rcu<u64>> {
    let files = table(2 * LEAF, word);
    drop(files.close(USED));
    files
}

/// Makes a table in which the lowest descriptors are open, with these words.
fn table(live: i32, word: fn(i32) -> i32) -> Files<Rcu<u64>> {
    let files = Files::new();
    for fd in 0..live {
        let data = (FdFlags::empty(), word(fd) as u64);
        let opened = files.open(FileRef::new_rcu(fd as u64), data);
        assert_eq!(opened.map(i32::from), Ok(fd), "it is the lowest");
    }
    files
}

/// Repeats an operation with each of the used descriptors, and warms it up.
fn each(mut act: impl FnMut(i32) -> Option<()> + 'static) -> Worker<'static> {
    let mut worker = move || {
        let mut fds = (0..CHUNK).map(|nth| nth % USED);
        match fds.all(|fd| act(fd).is_some()) {
            true => CHUNK as usize,
            false => 0,
        }
    };
    worker();
    Box::new(worker)
}

fn sum(look_up: impl Fn(i32) -> Option<u64> + 'static) -> Worker<'static> {
    each(move |fd| look_up(black_box(fd)).map(|value| _ = black_box(value)))
}

fn get() -> Worker<'static> {
    look_up(words(|fd| fd))
}

fn look_up(files: Files<Rcu<u64>>) -> Worker<'static> {
    sum(move |fd| Some(**files.get(fd).ok()?))
}

fn get_with_data() -> Worker<'static> {
    let files = words(|fd| fd);
    sum(move |fd| {
        let (file, data) = files.get_with_data(fd).ok()?;
        Some(**file + data.word)
    })
}

fn get_rcu() -> Worker<'static> {
    let files = words(|fd| fd);
    sum(move |fd| Some(*files.get_rcu(fd, &rcu::read_lock()).ok()?))
}

fn get_rcu_with_data() -> Worker<'static> {
    let files = words(|fd| fd);
    sum(move |fd| {
        let section = rcu::read_lock();
        let (file, data) = files.get_rcu_with_data(fd, &section).ok()?;
        Some(*file + data.word)
    })
}

fn dup3() -> Worker<'static> {
    let files = words(|fd| fd);
    each(move |_| {
        let new = files.dup3(black_box(0), 1, FdFlags::empty());
        new.ok().map(drop)
    })
}

fn replace() -> Worker<'static> {
    let files = words(|fd| fd);
    let kept = files.get(0).expect("it is open");
    each(move |_| {
        let replaced = files.replace(black_box(1), kept.clone(), FdFlags::empty());
        replaced.ok().map(drop)
    })
}

fn reopen(files: Files<Rcu<u64>>) -> Worker<'static> {
    let kept = files.get(0).expect("it is open");
    each(move |_| {
        let fd = files.open(kept.clone(), FdFlags::empty()).ok()?;
        files.close(black_box(fd)).ok().map(drop)
    })
}

fn open() -> Worker<'static> {
    reopen(table(LIVE, |_| 0))
}

fn open_new() -> Worker<'static> {
    let files = table(LIVE, |_| 0);
    each(move |fd| {
        let new = FileRef::new_rcu(fd as u64);
        let fd = files.open(new, FdFlags::empty()).ok()?;
        files.close(black_box(fd)).ok().map(drop)
    })
}

fn reserve() -> Worker<'static> {
    let files = table(LIVE, |_| 0);
    let kept = files.get(0).expect("it is open");
    each(move |_| {
        let fd = files.reserve(FdFlags::empty()).ok()?.install(kept.clone());
        files.close(black_box(fd)).ok().map(drop)
    })
}

fn dup() -> Worker<'static> {
    let files = table(LIVE, |_| 0);
    each(move |fd| {
        let new = files.dup(fd).ok()?;
        files.close(black_box(new)).ok().map(drop)
    })
}

fn dup_min() -> Worker<'static> {
    let files = table(LIVE, |_| 0);
    each(move |fd| {
        let new = files.dup_min(fd, black_box(0), FdFlags::empty()).ok()?;
        files.close(black_box(new)).ok().map(drop)
    })
}

fn empty_close_range() -> Worker<'static> {
    let files = table(LIVE, |_| 0);
    each(move |_| {
        let first = black_box(LIVE as u32);
        files.close_range(first, u32::MAX, drop).ok().map(drop)
    })
}

fn empty_close_on_exec() -> Worker<'static> {
    let files = table(LIVE, |_| 0);
    each(move |_| files.close_on_exec(drop).ok().map(drop))
}

/// The handles of a FUSE server.
fn handles() -> Worker<'static> {
    let map = fuse::HandleMap::new(1 << 20);
    let data = || fuse::HandleData::new(1, Padded::new(1));
    (0..HANDLES).for_each(|_| _ = map.insert(data()));
    each(move |_| {
        let handle = map.insert(data()).ok()?;
        map.release(black_box(handle), 1).ok()
    })
}

/// The same in the map that such servers have.
fn handles_in_map() -> Worker<'static> {
    let map = Locked::<RwLock<Handles>>::with_room(0);
    let data = || Arc::new(Padded::new(1));
    (0..HANDLES).for_each(|_| _ = map.open(data()));
    each(move |_| {
        let handle = map.open(data())?;
        map.owned(black_box(handle))?;
        map.close(handle)
    })
}

/// The descriptors of a WASI instance.
fn wasi_files() -> Worker<'static> {
    let wasi = wasi::Wasi::with_limit(1 << 20);
    let (read, none) = (wasi::Rights::FD_READ, wasi::Rights::empty());
    let directory = wasi.preopen("home/", wasi::Rights::PATH_OPEN, read);
    let directory = directory.expect("there is memory");
    for _ in 0..LISTED {
        wasi.path_open(directory, "log", read, none)
            .expect("there is memory");
    }
    each(move |_| {
        let fd = wasi.path_open(directory, "log", read, none).ok()?;
        wasi.fd_close(black_box(fd)).ok()
    })
}

/// The same in a list that an open searches from its beginning.
fn listed() -> Worker<'static> {
    let open = |path: &str| Some(Arc::new(format!("home/{path}")));
    let list = RwLock::new(vec![open("log"); LISTED]);
    each(move |_| {
        let new = open(black_box("log"));
        let mut slots = list.write().ok()?;
        let free = slots.iter().position(Option::is_none);
        let fd = free.unwrap_or(slots.len());
        match slots.get_mut(fd) {
            Some(slot) => *slot = new,
            None => slots.push(new),
        }
        drop(slots);
        let closed = list.write().ok()?.get_mut(black_box(fd))?.take();
        closed.map(drop)
    })
}

/// Compiles the program in C with the library that cargo has built beside this one, and starts it.
fn program_in_c() -> anyhow::Result<Program> {
    let own = env::current_exe()?;
    let mut folders = own.ancestors().skip(1);
    let libraries = folders.find_map(|folder| {
        let inside = [
            folder.join("deps/libfdtable_capi.a"),
            folder.join("libfdtable_capi.a"),
        ];
        inside.into_iter().find(|library| library.is_file())
    });
    let library = libraries.context("libfdtable_capi.a is missing")?;
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("table");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=gnu11", "-O2", "-pthread", "-I", "crates/capi/include"])
        .args(["-I", "crates/capi/tests/c_table"])
        .arg("lab/bench/programs/table.c")
        .args([&library, Path::new("-ldl"), Path::new("-lm")])
        .args([Path::new("-o"), &program])
        .current_dir(ROOT);
    output(&mut compiler)?.context("`apt-get install gcc`")?;
    Program::start("the table in C", &mut Command::new(program))
}

impl Ports {
    /// Returns the configuration for one of the two lengths of a run.
    pub fn new(effort: Effort) -> Self {
        Ports {
            rounds: effort.rounds(15, 101),
            turn_ms: 2,
        }
    }
}

impl Experiment for Ports {
    fn name(&self) -> &'static str {
        "ports"
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        progress.begin("ports", self.rounds as u64);
        let length = Duration::from_millis(self.turn_ms);
        let mut in_c = program_in_c();
        let is_there = |pair: &Pair| in_c.is_ok() || !matches!(pair.2.1, InC(_));
        let pairs: Vec<Pair> = PAIRS.into_iter().filter(is_there).collect();
        let sides: Vec<Side> = pairs.iter().flat_map(|pair| [pair.1, pair.2]).collect();
        let ns = alternate(sides.len(), self.rounds, progress, |place, _| {
            let ns = match (sides[place].1, &mut in_c) {
                (Here(work), _) => turn::turn(1, length, &|_| work())?,
                (InC(operation), Ok(program)) => {
                    let request = format!("{operation} {}", length.as_nanos());
                    let answer = program.ask_numbers(&request, "ns", TURN_LIMIT)?;
                    answer.map_or(f64::NAN, |[ns]| ns)
                }
                (InC(_), Err(_)) => f64::NAN,
            };
            ensure!(ns.is_finite(), "an operation failed");
            Ok(ns)
        })?;
        let row = |((name, _), ns)| Row { name, ns };
        let rows: Vec<Row> = sides.into_iter().zip(ns).map(row).collect();
        let title = "words of descriptors, replacements, and ports";
        let mut report = Report::new(self, title, json!(self), &rows, machine)?;
        show(&pairs, &rows, &mut report);
        let missing = in_c.err().map(|why| format!("No rows in C: {why:#}."));
        report.remarks.extend(missing);
        Ok(report)
    }
}

fn show(pairs: &[Pair], rows: &[Row], report: &mut Report) {
    let (sides, _) = rows.as_chunks::<2>();
    let line = |[plain, other]: &[Row; 2]| {
        let [plain_ns, other_ns] = [plain, other].map(|row| row.ns.summary().median);
        let quotient = ratio(other.ns.over(&plain.ns).median);
        [
            format!("{} for {}", other.name, plain.name),
            nanoseconds(plain_ns),
            nanoseconds(other_ns),
            quotient,
        ]
    };
    report.tables.push(Table::new(
        "Nanoseconds of operations beside the plain ones",
        ["", "plain", "other", "ratio"],
        sides.iter().map(line),
    ));
    let mut figures: Vec<Figure> = Vec::new();
    for (Pair(key, ..), [plain, other]) in pairs.iter().zip(sides) {
        // Two pairs have one key.
        let case = match *key {
            "ports.unused_word_cost" => format!(" {}", other.name),
            _ => String::new(),
        };
        let measured = match key.ends_with("_ns") {
            true => other.ns.summary(),
            false => other.ns.over(&plain.ns),
        };
        let figure = Figure::of_case(key, &measured, &case);
        // Of the operations with one key, the worst.
        match figures.iter_mut().find(|it| it.key == *key) {
            Some(worst) if worst.value >= figure.value => {}
            Some(worst) => *worst = figure,
            None => figures.push(figure),
        }
    }
    report.headline.extend(figures);
    let limit = "ports.unused_word_cost compares tables within one build. What the code for words \
         costs is shown by --compare with a run of a build from before words: rows of lookup, peers \
         and slab.";
    report.remarks.push(limit.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Silent, run};

    #[test]
    fn every_operation_has_a_row() {
        let ports = Ports {
            rounds: 1,
            turn_ms: 1,
        };
        let report = run(&ports, &Silent).expect("the tables do as they are asked");
        // Without a C compiler, two pairs are left out.
        let in_c = report.rows.len() - 22;
        assert!([0, 4].contains(&in_c), "{:?}", report.remarks);
        assert_eq!(report.headline.len(), 10 + in_c / 2);
        assert_eq!(report.tables[0].rows.len(), 11 + in_c / 2);
    }
}
