//! Files that join a list and leave it: by one thread, by two, and in a handover.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context, ensure};
use fdtable::rcu;
use serde::Serialize;

use super::lists::{
    File, FileList, Lists, MUTEX_SLAB, MutexSlab, NO_LIST, NoList, ONE_LIST, PER_CPU,
    STD_MUTEX_SLAB, StdMutexSlab,
};
use crate::handover;
use crate::turn::{self, Worker};

/// Files between two reads of the clock.
const CHUNK: usize = 256;

/// The threads that add and remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Case {
    /// One thread does both.
    OneThread,
    /// Two threads do both.
    TwoThreads,
    /// One thread adds, another removes.
    Handover,
}

/// All of them.
pub(super) const CASES: [Case; 3] = [Case::OneThread, Case::TwoThreads, Case::Handover];

/// A list that files join and leave.
pub(super) trait Subject {
    fn name(&self) -> &'static str;
    /// Runs the threads of the case. Returns the nanoseconds per file and busy CPU; in a handover,
    /// in which both CPUs work on each file, those of wall time.
    fn turn(&self, case: Case, turn: Duration) -> anyhow::Result<f64>;
}

pub(super) type Boxed = Box<dyn Subject>;

/// List with its name.
struct Named<L>(&'static str, L);

/// Makes every subject.
pub(super) fn all() -> anyhow::Result<Vec<Boxed>> {
    let ours = |lists: Lists| {
        let made = lists.superblock::<File>()?;
        made.context("they have a superblock")
    };
    Ok(vec![
        Box::new(Named(PER_CPU, ours(Lists::PerCpu)?)),
        Box::new(Named(ONE_LIST, ours(Lists::One)?)),
        Box::new(Named(MUTEX_SLAB, MutexSlab)),
        Box::new(Named(STD_MUTEX_SLAB, StdMutexSlab)),
        Box::new(Named(NO_LIST, NoList)),
    ])
}

impl<L: FileList> Subject for Named<L> {
    fn name(&self) -> &'static str {
        self.0
    }

    fn turn(&self, case: Case, turn: Duration) -> anyhow::Result<f64> {
        let list = &self.1;
        let ns = match case {
            Case::OneThread => turn::turn(1, turn, &|_| worker(list)),
            Case::TwoThreads => turn::turn(2, turn, &|_| worker(list)),
            Case::Handover => handover::turn(|_| list.open(), drop, turn),
        }?;
        // One subject must not free the memory that another left.
        rcu::barrier()?;
        ensure!(ns.is_finite(), "{}: there was no memory for a file", self.0);
        Ok(ns)
    }
}

/// Prepares pairs, and does some before the start, so that the thread's caches are filled.
fn worker<L: FileList>(list: &L) -> Worker<'_> {
    pairs(list);
    Box::new(move || pairs(list))
}

/// Adds and removes: the measured loop. Returns the number of files.
#[inline(never)]
fn pairs<L: FileList>(list: &L) -> usize {
    for _ in 0..CHUNK {
        let Some(file) = list.open() else {
            return 0;
        };
        drop(black_box(file));
    }
    CHUNK
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use fdtable::{FileRef, SuperBlock};

    use super::*;

    #[test]
    fn every_case_removes_what_it_adds() {
        for case in CASES {
            let list = Named("a list", SuperBlock::<File>::new().unwrap());
            let ns = list.turn(case, Duration::from_millis(1)).unwrap();
            let counted = list.1.statistics();
            assert!(ns > 0.0 && counted.joined > 0, "{case:?}");
            assert_eq!(counted.joined, counted.left, "{case:?}");
        }
    }

    #[test]
    fn a_list_without_memory_is_an_error() {
        struct Full(AtomicUsize);
        impl FileList for Full {
            type File = File;

            fn open(&self) -> Option<FileRef<File>> {
                self.0.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
        for case in CASES {
            let list = Named("a list", Full(AtomicUsize::new(0)));
            assert!(list.turn(case, Duration::from_millis(1)).is_err());
            assert!(list.1.0.into_inner() > 0, "{case:?}");
        }
    }
}
