//! The subjects: three ways to look up in `fdtable`, the baselines, and the floors.

use std::os::fd::RawFd;
use std::sync::Arc;

use fdtable::{Error, Files, Rcu, rcu};

use super::case::Sequences;
use super::floor::{CountedObjects, TwoLevelArray};
use super::timing::SumLoop;
use crate::baseline::{RwLockBitmap, RwLockVec};
use crate::table::{NewFile, Table};

/// Slots of a leaf of the two-level floor.
pub(super) const SLOTS: usize = 64;

/// Lookups that share one read-side section in [`BATCHED`], or one quiescent state in
/// [`QUIESCENT`].
const BATCH: usize = 64;

pub(super) const LOAD: &str = "floor: two-level array load";
pub(super) const TWO_ADDS: &str = "floor: two atomic adds";
pub(super) const BORROWED: &str = "fdtable borrowed";
pub(super) const BATCHED: &str = "fdtable borrowed, 64 a section";
pub(super) const QUIESCENT: &str = "fdtable borrowed, quiescent states";
pub(super) const OWNED: &str = "fdtable owned";
pub(super) const FILES_STRUCT: &str = "files_struct under a rwlock, owned";
pub(super) const FILES_STRUCT_HELD: &str = "files_struct under a rwlock, lock held";
pub(super) const RWLOCK_VEC: &str = "RwLock<Vec<Option<Arc>>>, owned";
pub(super) const RWLOCK_VEC_HELD: &str = "RwLock<Vec<Option<Arc>>>, lock held";

/// Object of 64 bytes. With the count before it no two objects share an accessed line.
#[derive(Clone)]
pub(crate) struct Padded {
    /// Its descriptor.
    pub(crate) value: u64,
    _rest_of_the_line: [u64; 7],
}

impl Padded {
    pub(crate) fn new(number: usize) -> Self {
        Padded {
            value: number as u64,
            _rest_of_the_line: [0; 7],
        }
    }
}

/// Subject of the experiment.
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) sum: Box<SumLoop<'static>>,
}

impl Subject {
    fn new(name: &'static str, sum: impl Fn(&[RawFd]) -> u64 + Send + Sync + 'static) -> Self {
        Subject {
            name,
            sum: Box::new(sum),
        }
    }

    /// Adds up all sequences on one thread.
    pub(super) fn sum_of(&self, sequences: &Sequences) -> u64 {
        sequences
            .of_threads()
            .iter()
            .map(|sequence| (self.sum)(sequence))
            .sum()
    }
}

/// Makes every subject with `live` open descriptors, 0 to `live - 1`.
///
/// # Errors
/// If a table cannot hold them.
pub(super) fn all(live: u32) -> Result<Vec<Subject>, Error> {
    let (array, counted) = (TwoLevelArray::new(live), CountedObjects::new(live));
    let ours = filled::<Files<Rcu<Padded>>>(live)?;
    let bitmap = filled::<RwLockBitmap<Padded>>(live)?;
    let vec = filled::<RwLockVec<Padded>>(live)?;
    Ok(vec![
        Subject::new(LOAD, move |fds| array.sum(fds)),
        Subject::new(TWO_ADDS, move |fds| counted.sum(fds)),
        Subject::new(BORROWED, on(&ours, sum_with)),
        Subject::new(BATCHED, on(&ours, sum_batched)),
        Subject::new(QUIESCENT, on(&ours, sum_quiescent)),
        Subject::new(OWNED, on(&ours, sum_owned)),
        Subject::new(FILES_STRUCT, on(&bitmap, sum_owned)),
        Subject::new(FILES_STRUCT_HELD, on(&bitmap, sum_with)),
        Subject::new(RWLOCK_VEC, on(&vec, sum_owned)),
        Subject::new(RWLOCK_VEC_HELD, on(&vec, sum_with)),
    ])
}

/// Makes a table whose descriptors are open from 0 to `live - 1`.
fn filled<Tb: NewFile<Padded, Padded>>(live: u32) -> Result<Arc<Tb>, Error> {
    let table = Tb::with_limit(live);
    for number in 0..live as usize {
        table.open(Tb::new_file(Padded::new(number)))?;
    }
    Ok(Arc::new(table))
}

/// Binds a loop to its table. The loop keeps its own type, so that it is inlined as a whole.
fn on<Tb: Send + Sync + 'static>(
    table: &Arc<Tb>,
    sum: impl Fn(&Tb, &[RawFd]) -> u64 + Send + Sync + 'static,
) -> impl Fn(&[RawFd]) -> u64 + Send + Sync + 'static {
    let table = Arc::clone(table);
    move |fds| sum(&table, fds)
}

/// Gets and drops a reference for each lookup.
#[inline(never)]
fn sum_owned<Tb: Table<Padded>>(table: &Tb, fds: &[RawFd]) -> u64 {
    fds.iter().fold(0, |sum: u64, &fd| {
        sum.wrapping_add(table.get(fd).map_or(0, |object| object.value))
    })
}

/// Reads without a reference: one section, or one lock, for each lookup.
#[inline(never)]
fn sum_with<Tb: Table<Padded>>(table: &Tb, fds: &[RawFd]) -> u64 {
    fds.iter().fold(0, |sum: u64, &fd| {
        sum.wrapping_add(table.with(fd, |object| object.value).unwrap_or(0))
    })
}

/// Reads without a reference: one section for 64 lookups.
#[inline(never)]
fn sum_batched(table: &Files<Rcu<Padded>>, fds: &[RawFd]) -> u64 {
    fds.chunks(BATCH).fold(0, |sum: u64, batch| {
        let section = rcu::read_lock();
        batch.iter().fold(sum, |sum, &fd| {
            sum.wrapping_add(table.get_rcu(fd, &section).map_or(0, |object| object.value))
        })
    })
}

/// Reads without a reference, as a worker that announces a quiescent state after 64 lookups.
#[inline(never)]
fn sum_quiescent(table: &Files<Rcu<Padded>>, fds: &[RawFd]) -> u64 {
    let mut reader = rcu::qsbr::Reader::online();
    fds.chunks(BATCH).fold(0, |sum: u64, batch| {
        sum.wrapping_add(sum_until_quiescent(table, &mut reader, batch))
    })
}

/// Reads each without a reference, and announces a quiescent state at the end.
#[inline]
pub(crate) fn sum_until_quiescent(
    table: &Files<Rcu<Padded>>,
    reader: &mut rcu::qsbr::Reader,
    fds: &[RawFd],
) -> u64 {
    let section = reader.guard();
    let sum = fds.iter().fold(0, |sum: u64, &fd| {
        sum.wrapping_add(table.get_rcu(fd, &section).map_or(0, |object| object.value))
    });
    drop(section);
    reader.quiescent();
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_reads_the_same_objects() {
        let subjects = all(200).unwrap();
        let fds: Vec<RawFd> = (0..200).chain([7, 7, 199]).collect();
        for subject in &subjects {
            assert_eq!(
                (subject.sum)(&fds),
                199 * 100 + 7 + 7 + 199,
                "{}",
                subject.name
            );
        }
    }
}
