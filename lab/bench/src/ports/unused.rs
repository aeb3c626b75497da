//! The cost of words in tables that use none.
//!
//! A leaf of 64 descriptors gets a table of words with its first word.
//!
//! *Times*: lookups, and pairs of open and close, in a leaf without words. One table has words
//! in its other leaf, one has none: the ratio is the figure. In a third table the words are in the
//! same leaf. All run the same code. So the ratio shows that words cost nothing in leaves without
//! them, and cannot show what the code for words costs. A comparison with a build from before words
//! shows that: the rows of `lookup`, `alloc` and `slab`.
//!
//! *Memory*: bytes for each descriptor of a table without words, and with one word in each leaf,
//! beside what a table took before words existed.

use std::hint::black_box;

use anyhow::{Context, ensure};
use fdtable::{FdFlags, FileRef, Files};
use serde::Serialize;

use super::{Row, Turn, beside, paired};
use crate::memory::bytes_in_use;
use crate::report::{Figure, Goal, Table, ratio};
use crate::turn::{self, Worker};

/// Operations between two reads of the clock.
const CHUNK: usize = 256;

/// Descriptors of a leaf.
const LEAF: u32 = 64;

/// Bytes for each descriptor of a table of a million, before words existed, as requested from the
/// heap and taken in slabs. [`bytes_in_use`] may count some kilobytes more in all.
const BYTES_BEFORE: f64 = 9.53;

/// Leaves with words in a table. The first leaf is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Words {
    Nowhere,
    Elsewhere,
    Here,
}

impl Words {
    const ALL: [Self; 3] = [Self::Nowhere, Self::Elsewhere, Self::Here];

    fn name(self) -> &'static str {
        match self {
            Self::Nowhere => "no words",
            Self::Elsewhere => "words in the other leaf",
            Self::Here => "words in this leaf",
        }
    }

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

    /// Each thread has a table of its own.
    fn worker(self, operation: &'static str) -> Worker<'static> {
        let files = self.table().expect("it is below the limit");
        let kept = files.get(0).expect("it is open");
        let mut worker: Worker<'static> = if operation == OPERATIONS[0] {
            Box::new(move || {
                let places = (0..CHUNK as u32).map(|nth| nth % (LEAF / 2));
                let each = |fd| files.get(black_box(fd)).map_or(0, |file| *file);
                black_box(places.fold(0, |sum: u64, fd| sum.wrapping_add(each(fd))));
                CHUNK
            })
        } else {
            Box::new(move || {
                for _ in 0..CHUNK {
                    let opened = files.open(kept.clone(), FdFlags::empty());
                    let closed = opened.and_then(|fd| files.close(black_box(fd)));
                    if closed.is_err() {
                        return 0;
                    }
                }
                CHUNK
            })
        };
        worker();
        worker
    }
}

const OPERATIONS: [&str; 2] = ["get", "open lowest, close"];

pub(super) fn turns() -> Vec<Turn<'static>> {
    let mut turns = Vec::new();
    for operation in OPERATIONS {
        for threads in super::THREADS {
            turns.extend(Words::ALL.map(|words| Turn {
                name: words.name(),
                operation,
                threads,
                run: Box::new(move |length| {
                    turn::turn(threads, length, &|_| words.worker(operation))
                }),
            }));
        }
    }
    turns
}

/// The memory of a table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Footprint {
    name: &'static str,
    operation: &'static str,
    descriptors: u32,
    /// Bytes for each descriptor, with fractions in all cases.
    bytes_per_slot: f64,
}

/// Measures tables of `slots` descriptors, without words and with one in each leaf. Empty where the
/// C library does not report memory.
pub(super) fn footprints(slots: u32) -> anyhow::Result<Vec<Footprint>> {
    let measured = [("no words", false), ("a word in each leaf", true)];
    let measured = measured.map(|(name, words)| footprint(name, words, slots));
    let measured: anyhow::Result<Vec<_>> = measured.into_iter().collect();
    Ok(measured?.into_iter().flatten().collect())
}

fn footprint(name: &'static str, words: bool, slots: u32) -> anyhow::Result<Option<Footprint>> {
    let file = FileRef::new(());
    let Some(before) = bytes_in_use()? else {
        return Ok(None);
    };
    let files = Files::with_limit(u32::MAX);
    for fd in 0..slots {
        let word = u64::from(words && fd % LEAF == 0);
        files
            .open(file.clone(), (FdFlags::empty(), word))
            .context("it is full")?;
    }
    let bytes = bytes_in_use()?.unwrap_or(f64::NAN) - before;
    Ok(Some(Footprint {
        name,
        operation: "memory",
        descriptors: slots,
        bytes_per_slot: bytes / f64::from(slots),
    }))
}

pub(super) fn table(rows: &[Row]) -> Table {
    let case = |(operation, words): (&'static str, Words)| {
        let title = format!("{operation}, {}", words.name());
        let sides = [Words::Nowhere, words].map(|words| (words.name(), operation));
        (title, sides)
    };
    let cases = OPERATIONS.into_iter().flat_map(|operation| {
        [Words::Elsewhere, Words::Here].map(|words| case((operation, words)))
    });
    beside(
        "Nanoseconds of operations without words, in tables that have none and that have some",
        ["", "no words", "words", "ratio"],
        rows,
        cases,
    )
}

pub(super) fn table_of_footprints(footprints: &[Footprint]) -> Table {
    let line = |it: &Footprint| {
        vec![
            format!("{}, {} descriptors", it.name, it.descriptors),
            format!("{:.2}", it.bytes_per_slot),
            format!("{BYTES_BEFORE:.2}"),
            ratio(it.bytes_per_slot / BYTES_BEFORE),
        ]
    };
    let header = ["", "bytes", "before words existed, of a million", "ratio"];
    Table {
        caption: "Bytes of a table for each open descriptor, without the files".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: footprints.iter().map(line).collect(),
    }
}

/// Returns a remark about the costs that the figure does not show.
pub(super) fn remark() -> String {
    "ports.unused_word_cost compares tables within one build. What the code for words costs is \
     shown by --compare with a run of a build from before words: rows of lookup, alloc and slab."
        .to_owned()
}

/// Returns the worst of the ratios of the two operations, on one thread.
pub(super) fn figure(rows: &[Row]) -> Option<Figure> {
    let ratios = OPERATIONS.iter().filter_map(|&operation| {
        let sides = [Words::Nowhere, Words::Elsewhere].map(|words| (words.name(), operation));
        Some((operation, paired(rows, sides, 1)?.2))
    });
    let (operation, worst) = ratios.max_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
    let meaning = format!(
        "the time of {operation} in a leaf without words, in a table with words elsewhere for that \
         in one without any"
    );
    Some(Figure::of_ratio(
        "ports.unused_word_cost",
        &worst,
        Goal::AtMost(1.02),
        &meaning,
    ))
}
