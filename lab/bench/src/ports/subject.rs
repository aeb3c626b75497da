//! The operations of a port, as workers of a turn.

use std::hint::black_box;
use std::marker::PhantomData;
use std::time::Duration;

use anyhow::ensure;
use serde::Serialize;

use super::cages::{Cages, Entry};
use crate::turn::{self, Worker};

/// Descriptors that are open in the cage.
const OPEN: u32 = 64;

/// Operations between two reads of the clock.
const CHUNK: usize = 256;

/// One operation of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Operation {
    Find,
    OpenClose,
    OpenAt,
    SetWord,
    ForkRemove,
}

impl Operation {
    pub(super) const ALL: [Self; 5] = [
        Self::Find,
        Self::OpenClose,
        Self::OpenAt,
        Self::SetWord,
        Self::ForkRemove,
    ];

    /// Returns its name in a table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Find => "translate",
            Self::OpenClose => "get unused, close",
            Self::OpenAt => "get specific",
            Self::SetWord => "set the word",
            Self::ForkRemove => "fork and remove 64",
        }
    }
}

/// A table of cages in turns.
pub(super) trait Subject {
    fn name(&self) -> &'static str;

    /// Runs a turn of an operation, and returns its nanoseconds.
    fn turn(&self, operation: Operation, threads: usize, length: Duration) -> anyhow::Result<f64>;
}

/// A subject by its type.
pub(super) struct Of<C>(&'static str, PhantomData<fn() -> C>);

impl<C: Cages + 'static> Of<C> {
    pub(super) fn boxed(name: &'static str) -> Box<dyn Subject> {
        Box::new(Of::<C>(name, PhantomData))
    }
}

fn entry(nth: u64) -> Entry {
    Entry {
        kind: 1,
        under: nth,
        cloexec: nth.is_multiple_of(2),
        word: nth + 1,
    }
}

impl<C: Cages> Subject for Of<C> {
    fn name(&self) -> &'static str {
        self.0
    }

    fn turn(&self, operation: Operation, threads: usize, length: Duration) -> anyhow::Result<f64> {
        let cages = C::new();
        for nth in 0..OPEN {
            let fd = cages.open(0, entry(u64::from(nth)));
            ensure!(fd == Some(nth as i32), "it is not the lowest");
        }
        for nth in 0..OPEN {
            let found = cages.find(0, nth as i32);
            ensure!(found == Some(entry(u64::from(nth))), "it finds another");
        }
        let prepare = |nth| worker(&cages, operation, nth);
        let ns = turn::turn(threads, length, &prepare)?;
        ensure!(ns.is_finite(), "an operation failed");
        drop(cages);
        fdtable::rcu::barrier()?;
        Ok(ns)
    }
}

fn worker<C: Cages>(cages: &C, operation: Operation, nth: usize) -> Worker<'_> {
    let own = entry(1000 + nth as u64);
    let counted = |done: Option<()>, operations| if done.is_some() { operations } else { 0 };
    let each = move |act: &dyn Fn(i32) -> Option<()>| {
        let all = (0..CHUNK as i32).try_for_each(|nth| act(black_box(nth % OPEN as i32)));
        counted(all, CHUNK)
    };
    let mut worker: Worker<'_> = match operation {
        Operation::Find => Box::new(move || {
            each(&|fd| {
                cages.find(0, fd).map(|entry| {
                    black_box(entry);
                })
            })
        }),
        Operation::OpenClose => {
            Box::new(move || each(&|_| cages.close(0, black_box(cages.open(0, own)?))))
        }
        Operation::OpenAt => {
            let place = 500 + nth as i32;
            Box::new(move || each(&|_| cages.open_at(0, black_box(place), own)))
        }
        Operation::SetWord => {
            Box::new(move || each(&|fd| cages.set_word(0, fd, black_box(fd as u64))))
        }
        Operation::ForkRemove => {
            let child = 1 + nth as u32;
            Box::new(move || {
                let done = (0..8).try_for_each(|_| {
                    cages.fork(0, child)?;
                    cages.remove(child)
                });
                counted(done, 8)
            })
        }
    };
    // Warms the code, and what belongs to the thread.
    worker();
    worker
}
