//! Our own operations in pairs: what an operation costs beside the plainer one that it extends.

use std::hint::black_box;
use std::time::Duration;

use anyhow::Context;
use fdtable::{FdFlags, FileRef, Files, Rcu, rcu};

use super::{Row, Turn, Which, beside, each, over, turns as both};
use crate::report::Report;
use crate::turn::{self, Worker};

type Table = Files<Rcu<u64>>;

/// The work of a thread on descriptors from `first`, 32 of which are its own.
type Work = fn(&Table, i32) -> Worker<'_>;

/// The pairs: the plain operation, and the one that extends it.
const PAIRS: [[(&str, Work); 2]; 3] = [
    // Over an open descriptor: `dup3`, and `replace` by a clone of the reference.
    [
        ("dup3", |files, first| {
            let none = FdFlags::empty();
            each(32, move |_| {
                files.dup3(black_box(first), first + 1, none).ok()?;
                Some(())
            })
        }),
        ("replace", |files, first| {
            let (kept, none) = (files.get(first).expect("it is open"), FdFlags::empty());
            each(32, move |_| {
                let replaced = files.replace(black_box(first + 1), kept.clone(), none);
                replaced.ok().map(drop)
            })
        }),
    ],
    // Owned lookups, without and with the data of the descriptor.
    [
        ("get", |files, first| {
            sum(move |fd| Some(**files.get(first + fd).ok()?))
        }),
        ("get_with_data", |files, first| {
            sum(move |fd| {
                let (file, data) = files.get_with_data(first + fd).ok()?;
                Some(**file + data.word)
            })
        }),
    ],
    // Borrowed lookups, likewise.
    [
        ("get_rcu", |files, first| {
            sum(move |fd| {
                let section = rcu::read_lock();
                let file = files.get_rcu(first + fd, &section).ok()?;
                Some(*file)
            })
        }),
        ("get_rcu_with_data", |files, first| {
            sum(move |fd| {
                let section = rcu::read_lock();
                let found = files.get_rcu_with_data(first + fd, &section);
                let (file, data) = found.ok()?;
                Some(*file + data.word)
            })
        }),
    ],
];

/// Makes a worker that uses the results of lookups.
fn sum<'a>(look_up: impl Fn(i32) -> Option<u64> + 'a) -> Worker<'a> {
    each(32, move |fd| {
        look_up(black_box(fd)).map(|value| _ = black_box(value))
    })
}

pub(super) fn turns() -> Vec<Turn> {
    let of = |(name, work): (&'static str, Work)| {
        both(name, name, move |threads, length| {
            turn(work, threads, length)
        })
    };
    PAIRS.into_iter().flatten().flat_map(of).collect()
}

/// Runs a turn on a new table, and returns its nanoseconds.
fn turn(work: Work, threads: usize, length: Duration) -> anyhow::Result<f64> {
    let files = Files::new();
    for nth in 0..64_u64 {
        let file = FileRef::new_rcu(nth);
        let opened = files.open(file, (FdFlags::empty(), nth));
        opened.context("it is full")?;
    }
    turn::turn(threads, length, &|nth| work(&files, nth as i32 * 32))
}

/// Shows each pair, and its ratio on one thread.
pub(super) fn show(rows: &[Row], report: &mut Report) {
    let sides = PAIRS.map(|pair| pair.map(|(name, _)| (name, name)));
    let case = |[plain, other]: [Which; 2]| {
        let title = format!("{} for {}", other.0, plain.0);
        (title, vec![plain, other])
    };
    report.tables.push(beside(
        "Nanoseconds of operations beside the plain ones",
        ["", "plain", "with a word", "ratio"],
        rows,
        sides.map(case),
    ));
    let keys = [
        "ports.replace_vs_dup3",
        "ports.owned_word_vs_plain",
        "ports.word_lookup_vs_plain",
    ];
    for ([plain, other], key) in sides.into_iter().zip(keys) {
        report.ratio(key, over(rows, other, plain, 1));
    }
}
