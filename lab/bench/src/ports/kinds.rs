//! Open and close of a new object: prompt files, which are dropped in the close, beside those that
//! can be borrowed from.

use std::hint::black_box;
use std::time::Duration;

use fdtable::{FdFlags, FileRef, Files, rcu};

use super::{Row, Turn, beside, paired};
use crate::report::{Figure, Goal, Table};
use crate::turn::{self, Worker};

/// Opens and closes between two reads of the clock.
const CHUNK: usize = 256;

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
    let worker = move || {
        for nth in 0..CHUNK as u64 {
            let opened = files.open(file(black_box(nth)), FdFlags::empty());
            let closed = opened.and_then(|fd| files.close(black_box(fd)));
            if closed.is_err() {
                return 0;
            }
        }
        CHUNK
    };
    // Warms the code, and what belongs to the thread.
    worker();
    Box::new(worker)
}

pub(super) fn turns() -> Vec<Turn<'static>> {
    let of_kind = |(name, operation, worker): Kind, threads| Turn {
        name,
        operation,
        threads,
        run: Box::new(move |length: Duration| {
            let ns = turn::turn(threads, length, &|_| worker());
            // No turn runs callbacks of the one before it.
            rcu::barrier()?;
            ns
        }),
    };
    KINDS
        .into_iter()
        .flat_map(|kind| super::THREADS.map(|threads| of_kind(kind, threads)))
        .collect()
}

fn sides(operation: &'static str) -> [(&'static str, &'static str); 2] {
    [(BORROWABLE, operation), (PROMPT, operation)]
}

pub(super) fn table(rows: &[Row]) -> Table {
    beside(
        "Nanoseconds of an open and a close of a new object, by kind of files",
        ["", BORROWABLE, PROMPT, "ratio"],
        rows,
        OPERATIONS.map(|operation| (operation.to_owned(), sides(operation))),
    )
}

/// Returns the worse of the ratios with and without `Drop`, on one thread.
pub(super) fn figure(rows: &[Row]) -> Option<Figure> {
    let ratios = OPERATIONS.iter().filter_map(|operation| {
        let cost = paired(rows, sides(operation), 1)?.2;
        Some((operation, cost))
    });
    let (operation, worst) = ratios.max_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
    let meaning =
        format!("the time of {operation} with prompt files for that with borrowable ones");
    Some(Figure::of_ratio(
        "ports.prompt_vs_rcu_kind",
        &worst,
        Goal::AtMost(1.0),
        &meaning,
    ))
}
