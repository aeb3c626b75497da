//! The table of a sandbox that runs several processes, called cages: what every subject offers, and
//! the operations that are measured.

use std::hint::black_box;
use std::time::Duration;

use anyhow::ensure;

use super::{Row, Turn, arrays, beside, each, ours, over, turns as both, vectors};
use crate::report::Report;
use crate::turn::{self, Worker};

/// Target of a cage's descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The kind of the thing below: of a file, a socket, and so on.
    pub(super) kind: u32,
    /// The descriptor below.
    pub(super) under: u64,
    pub(super) cloexec: bool,
    /// A word of the sandbox's.
    pub(super) word: u64,
}

/// Descriptors of all cages. Each counts how many descriptors stand for one thing below, so that it
/// is closed with the last of them.
pub(super) trait Cages: Sync {
    /// Makes an empty cage 0.
    fn new() -> Self;

    /// Opens an entry at the lowest free descriptor.
    fn open(&self, cage: u32, entry: Entry) -> Option<i32>;

    /// Puts an entry at a descriptor, and closes what was there.
    fn open_at(&self, cage: u32, fd: i32, entry: Entry) -> Option<()>;

    /// Returns the entry of a descriptor.
    fn find(&self, cage: u32, fd: i32) -> Option<Entry>;

    /// Sets the word of a descriptor.
    fn set_word(&self, cage: u32, fd: i32, word: u64) -> Option<()>;

    /// Closes a descriptor.
    fn close(&self, cage: u32, fd: i32) -> Option<()>;

    /// Makes a cage with the descriptors of another one.
    fn fork(&self, from: u32, to: u32) -> Option<()>;

    /// Closes all descriptors of a cage, and removes it.
    fn remove(&self, cage: u32) -> Option<()>;
}

/// Descriptors that are open in the cage.
const OPEN: u32 = 64;

const OURS: &str = "fdtable";
const ARRAYS: &str = "DashMap of arrays";
const VECTORS: &str = "Mutex of vectors";

fn entry(nth: u64) -> Entry {
    Entry {
        kind: 1,
        under: nth,
        cloexec: nth.is_multiple_of(2),
        word: nth + 1,
    }
}

/// The work of a thread by its index.
type Work<C> = fn(&C, usize) -> Worker<'_>;

fn operations<C: Cages>() -> [(&'static str, Work<C>); 5] {
    [
        ("translate", |cages, _| {
            each(OPEN, |fd| {
                let found = cages.find(0, black_box(fd));
                found.map(|entry| _ = black_box(entry))
            })
        }),
        ("get unused, close", |cages, nth| {
            let own = own(nth);
            each(OPEN, move |_| {
                cages.close(0, black_box(cages.open(0, own)?))
            })
        }),
        ("get specific", |cages, nth| {
            let (place, own) = (500 + nth as i32, own(nth));
            each(OPEN, move |_| cages.open_at(0, black_box(place), own))
        }),
        ("set the word", |cages, _| {
            each(OPEN, |fd| {
                cages.set_word(0, black_box(fd), black_box(fd as u64))
            })
        }),
        ("fork and remove 64", |cages, nth| {
            let child = 1 + nth as u32;
            Box::new(move || {
                let done = (0..8).try_for_each(|_| {
                    cages.fork(0, child)?;
                    cages.remove(child)
                });
                done.map_or(0, |()| 8)
            })
        }),
    ]
}

fn own(nth: usize) -> Entry {
    entry(1000 + nth as u64)
}

pub(super) fn turns() -> Vec<Turn> {
    let mut all = of::<ours::Ours>(OURS);
    all.extend(of::<arrays::Arrays>(ARRAYS));
    all.extend(of::<vectors::Vectors>(VECTORS));
    all
}

fn of<C: Cages + 'static>(name: &'static str) -> Vec<Turn> {
    let of_operation = |(operation, work): (_, Work<C>)| {
        both(name, operation, move |threads, length| {
            turn(work, threads, length)
        })
    };
    operations().into_iter().flat_map(of_operation).collect()
}

/// Runs a turn of an operation, and returns its nanoseconds.
fn turn<C: Cages>(work: Work<C>, threads: usize, length: Duration) -> anyhow::Result<f64> {
    let cages = C::new();
    for nth in 0..OPEN {
        let fd = cages.open(0, entry(u64::from(nth)));
        ensure!(fd == Some(nth as i32), "it is not the lowest");
    }
    for nth in 0..OPEN {
        let found = cages.find(0, nth as i32);
        ensure!(found == Some(entry(u64::from(nth))), "it finds another");
    }
    let ns = turn::turn(threads, length, &|nth| work(&cages, nth));
    drop(cages);
    fdtable::rcu::barrier()?;
    ns
}

/// Shows each operation beside the rivals, and the smallest gain.
pub(super) fn show(rows: &[Row], report: &mut Report) {
    let operations = operations::<ours::Ours>().map(|(operation, _)| operation);
    let case = |operation: &'static str| {
        let sides = [OURS, ARRAYS, VECTORS].map(|name| (name, operation));
        (operation.to_owned(), sides.to_vec())
    };
    let caption = "Nanoseconds of each operation on one cage with 64 descriptors, and how many \
                   times as long the others take";
    let header = ["", OURS, ARRAYS, "×", VECTORS, "×"];
    let table = beside(caption, header, rows, operations.map(case));
    report.tables.push(table);
    let gains = rows
        .iter()
        .filter(|row| row.name != OURS)
        .filter_map(|row| {
            let (theirs, ours) = ((row.name, row.operation), (OURS, row.operation));
            over(rows, theirs, ours, row.threads).map(|gain| gain.median)
        });
    report.figure("ports.cages_gain", gains.reduce(f64::min));
}
