//! The cost of words in tables that use none.
//!
//! A leaf of 64 descriptors gets a table of words with its first word.
//!
//! Lookups, and pairs of open and close, are timed in a leaf without words. One table has words in
//! its other leaf, one has none: the ratio is the figure. In a third table the same leaf has words.
//! All run the same code. So the ratio shows that words cost nothing in leaves without
//! them, and cannot show what the code for words costs. A comparison with a build from before words
//! shows that: the rows of `lookup`, `peers` and `slab`.

use std::hint::black_box;

use anyhow::ensure;
use fdtable::{FdFlags, FileRef, Files};

use super::{Row, Turn, beside, each, turns as both, worst};
use crate::report::Report;
use crate::turn::{self, Worker};

/// Descriptors of a leaf.
const LEAF: u32 = 64;

named! {
    /// Leaves with words in a table. The first leaf is measured.
    enum Words {
        Nowhere = "no words",
        Elsewhere = "words in the other leaf",
        Here = "words in this leaf",
    }
}

impl Words {
    fn word_of(self, fd: u32) -> u64 {
        let has = match self {
            Self::Nowhere => false,
            Self::Elsewhere => fd >= LEAF,
            Self::Here => fd < LEAF,
        };
        u64::from(has)
    }

    /// Makes a table with two leaves, in which the descriptor in the middle of the first is free.
    fn table(self) -> anyhow::Result<Files<u64>> {
        let files = Files::new();
        for fd in 0..2 * LEAF {
            let opened = files.open(
                FileRef::new(u64::from(fd)),
                (FdFlags::empty(), self.word_of(fd)),
            )?;
            ensure!(opened.raw() == fd as i32, "it is not the lowest");
        }
        drop(files.close(LEAF / 2)?);
        Ok(files)
    }
}

/// The work of a thread on a table of its own.
type Work = fn(Files<u64>) -> Worker<'static>;

const OPERATIONS: [(&str, Work); 2] = [
    ("get", |files| {
        each(LEAF / 2, move |fd| {
            let file = files.get(black_box(fd)).ok()?;
            black_box(*file);
            Some(())
        })
    }),
    ("open lowest, close", |files| {
        let kept = files.get(0).expect("it is open");
        each(LEAF / 2, move |_| {
            let fd = files.open(kept.clone(), FdFlags::empty()).ok()?;
            files.close(black_box(fd)).ok().map(drop)
        })
    }),
];

pub(super) fn turns() -> Vec<Turn> {
    let mut turns = Vec::new();
    for (operation, work) in OPERATIONS {
        for words in Words::ALL {
            turns.extend(both(words.name(), operation, move |threads, length| {
                turn::turn(threads, length, &|_| {
                    work(words.table().expect("it is below the limit"))
                })
            }));
        }
    }
    turns
}

/// Shows tables with words beside those without any, and the worse cost of the two operations.
pub(super) fn show(rows: &[Row], report: &mut Report) {
    let operations = OPERATIONS.map(|(operation, _)| operation);
    let case = |operation, words: Words| {
        let title = format!("{operation}, {}", words.name());
        let sides = [Words::Nowhere, words].map(|words| (words.name(), operation));
        (title, sides.to_vec())
    };
    let cases = operations
        .into_iter()
        .flat_map(|operation| [Words::Elsewhere, Words::Here].map(|words| case(operation, words)));
    report.tables.push(beside(
        "Nanoseconds of operations without words, in tables that have none and that have some",
        ["", "no words", "words", "ratio"],
        rows,
        cases,
    ));
    let sides = [Words::Elsewhere, Words::Nowhere].map(Words::name);
    let cost = worst("ports.unused_word_cost", rows, operations, sides);
    report.headline.extend(cost);
    report.remarks.push(
        "ports.unused_word_cost compares tables within one build. What the code for words costs is \
         shown by --compare with a run of a build from before words: rows of lookup, peers and slab."
            .to_owned(),
    );
}
