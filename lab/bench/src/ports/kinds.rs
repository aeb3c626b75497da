//! Open and close of a new object: prompt files, which are dropped in the close, beside those that
//! can be borrowed from.

use std::hint::black_box;

use fdtable::{FdFlags, FileRef, Files, rcu};

use super::{CHUNK, Row, Turn, beside, each, turns as both, worst};
use crate::report::Report;
use crate::turn::{self, Worker};

/// An object with a `Drop`.
struct WithDrop(u64);

impl Drop for WithDrop {
    #[inline]
    fn drop(&mut self) {
        black_box(self.0);
    }
}

const PROMPT: &str = "Files<T>";
const BORROWABLE: &str = "Files<Rcu<T>>";
const OPERATIONS: [&str; 2] = ["open, close without Drop", "open, close with Drop"];

/// The name of a kind of files, an operation, and what makes a worker of the two.
type Kind = (&'static str, &'static str, fn() -> Worker<'static>);

const KINDS: [Kind; 4] = [
    (PROMPT, OPERATIONS[0], || worker(FileRef::new)),
    (BORROWABLE, OPERATIONS[0], || worker(FileRef::new_rcu)),
    (PROMPT, OPERATIONS[1], || {
        worker(|nth| FileRef::new(WithDrop(nth)))
    }),
    (BORROWABLE, OPERATIONS[1], || {
        worker(|nth| FileRef::new_rcu(WithDrop(nth)))
    }),
];

/// Each thread has a table of its own: what differs is in the objects.
fn worker<T: Send + Sync + 'static>(file: impl Fn(u64) -> FileRef<T> + 'static) -> Worker<'static> {
    let files = Files::new();
    each(CHUNK as u32, move |nth| {
        let opened = files.open(file(black_box(nth as u64)), FdFlags::empty());
        files.close(black_box(opened.ok()?)).ok().map(drop)
    })
}

pub(super) fn turns() -> Vec<Turn> {
    let of_kind = |(name, operation, worker): Kind| {
        both(name, operation, move |threads, length| {
            let ns = turn::turn(threads, length, &|_| worker());
            // No turn runs callbacks of the one before it.
            rcu::barrier()?;
            ns
        })
    };
    KINDS.into_iter().flat_map(of_kind).collect()
}

/// Shows both kinds, and the worse of the ratios with and without `Drop`.
pub(super) fn show(rows: &[Row], report: &mut Report) {
    let case = |operation: &'static str| {
        let sides = [BORROWABLE, PROMPT].map(|name| (name, operation));
        (operation.to_owned(), sides.to_vec())
    };
    report.tables.push(beside(
        "Nanoseconds of an open and a close of a new object, by kind of files",
        ["", BORROWABLE, PROMPT, "ratio"],
        rows,
        OPERATIONS.map(case),
    ));
    let sides = [PROMPT, BORROWABLE];
    let cost = worst("ports.prompt_vs_rcu_kind", rows, OPERATIONS, sides);
    report.headline.extend(cost);
}
