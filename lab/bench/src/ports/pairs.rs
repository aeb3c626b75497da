//! Our own operations in pairs: what an operation costs beside the plainer one that it extends.

use std::hint::black_box;
use std::time::Duration;

use anyhow::Context;
use fdtable::{FdFlags, FileRef, Files, Rcu, rcu};
use serde::Serialize;

use crate::turn::{self, Worker};

/// Operations between two reads of the clock.
const CHUNK: usize = 256;

/// One side of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Side {
    /// `dup3` over an open descriptor, and `replace` there by a clone of the reference.
    Dup3,
    Replace,
    /// An owned lookup, without and with the data of the descriptor.
    Owned,
    OwnedWithData,
    /// A borrowed lookup, likewise.
    Borrowed,
    BorrowedWithData,
}

impl Side {
    pub(super) const ALL: [Self; 6] = [
        Self::Dup3,
        Self::Replace,
        Self::Owned,
        Self::OwnedWithData,
        Self::Borrowed,
        Self::BorrowedWithData,
    ];

    /// Returns its name in a table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Dup3 => "dup3",
            Self::Replace => "replace",
            Self::Owned => "get",
            Self::OwnedWithData => "get_with_data",
            Self::Borrowed => "get_rcu",
            Self::BorrowedWithData => "get_rcu_with_data",
        }
    }

    /// Runs a turn on a new table, and returns its nanoseconds.
    pub(super) fn turn(self, threads: usize, length: Duration) -> anyhow::Result<f64> {
        let files = Files::new();
        for nth in 0..64_u64 {
            let file = FileRef::new_rcu(nth);
            files
                .open(file, (FdFlags::empty(), nth))
                .context("it is full")?;
        }
        turn::turn(threads, length, &|nth| self.worker(&files, nth))
    }

    fn worker(self, files: &Files<Rcu<u64>>, nth: usize) -> Worker<'_> {
        // Each thread has its own half of the descriptors.
        let first = nth as i32 * 32;
        let (old, new) = (first, first + 1);
        let none = FdFlags::empty();
        let kept = files.get(old).expect("it is open");
        let each = move |act: &mut dyn FnMut(i32) -> u64| {
            let places = (0..CHUNK as i32).map(|nth| first + nth % 32);
            black_box(places.fold(0, |sum: u64, fd| sum.wrapping_add(act(black_box(fd)))));
            CHUNK
        };
        let mut worker: Worker<'_> = match self {
            Self::Dup3 => Box::new(move || {
                each(&mut |_| u64::from(files.dup3(black_box(old), new, none).is_ok()))
            }),
            Self::Replace => Box::new(move || {
                each(&mut |_| u64::from(files.replace(black_box(new), kept.clone(), none).is_ok()))
            }),
            Self::Owned => Box::new(move || each(&mut |fd| files.get(fd).map_or(0, |file| **file))),
            Self::OwnedWithData => Box::new(move || {
                each(&mut |fd| {
                    let found = files.get_with_data(fd);
                    found.map_or(0, |(file, data)| **file + data.word)
                })
            }),
            Self::Borrowed => Box::new(move || {
                each(&mut |fd| {
                    let section = rcu::read_lock();
                    files.get_rcu(fd, &section).map_or(0, |file| *file)
                })
            }),
            Self::BorrowedWithData => Box::new(move || {
                each(&mut |fd| {
                    let section = rcu::read_lock();
                    let found = files.get_rcu_with_data(fd, &section);
                    found.map_or(0, |(file, data)| *file + data.word)
                })
            }),
        };
        worker();
        worker
    }
}
