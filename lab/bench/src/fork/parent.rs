//! A table that is forked: ours, and the baselines.

use std::hint::black_box;
use std::os::fd::RawFd;
use std::time::Instant;

use anyhow::Context;
use fdtable::{Files, Rcu, rcu};

use super::STEPS;
use crate::baseline::{RwLockBitmap, RwLockVec};
use crate::cache::Cache;
use crate::table::NewFile;

/// Least descriptors that one sample copies: a small table is forked often enough to make the cost
/// of the clock negligible.
const COPIED: u32 = 640;

/// A table as the experiment sees it.
pub(super) trait Forking {
    fn name(&self) -> &'static str;
    /// Forks and closes in the children, and returns the nanoseconds of each step. All children are
    /// dropped at the end.
    fn sample(&self, cache: &mut Cache) -> anyhow::Result<[f64; STEPS.len()]>;
}

/// A table with open descriptors.
struct Parent<Tb> {
    table: Tb,
    open: u32,
}

/// Creates every table, with `open` descriptors.
pub(super) fn all(open: u32) -> anyhow::Result<Vec<Box<dyn Forking>>> {
    Ok(vec![
        Box::new(Parent::<Files<Rcu<u64>>>::new(open)?),
        Box::new(Parent::<RwLockVec<u64>>::new(open)?),
        Box::new(Parent::<RwLockBitmap<u64>>::new(open)?),
    ])
}

impl<Tb: NewFile<u64, u64>> Parent<Tb> {
    fn new(open: u32) -> anyhow::Result<Self> {
        let table = Tb::with_limit(open);
        for value in 0..open {
            table
                .open(Tb::new_file(u64::from(value)))
                .with_context(|| format!("{}: {open} open", Tb::NAME))?;
        }
        Ok(Parent { table, open })
    }

    /// Forks a batch, and returns the nanoseconds of one fork and one of the children.
    fn fork(&self) -> anyhow::Result<(f64, Tb)> {
        let batch = COPIED.div_ceil(self.open).max(1);
        let mut children = Vec::with_capacity(batch as usize);
        let began = Instant::now();
        for _ in 0..batch {
            children.push(black_box(&self.table).fork());
        }
        let took = began.elapsed().as_nanos() as f64 / f64::from(batch);
        let child = children.pop().context("a batch is not empty")??;
        Ok((took, child))
    }

    /// Returns the nanoseconds of one close in `child`, the clock included.
    fn first_close(&self, child: &Tb) -> anyhow::Result<f64> {
        // The clock has to be warm; the measured code need not be.
        black_box(Instant::now());
        let began = Instant::now();
        let closed = black_box(child.close((self.open / 2) as RawFd));
        let took = began.elapsed().as_nanos() as f64;
        closed?;
        Ok(took)
    }
}

impl<Tb: NewFile<u64, u64>> Forking for Parent<Tb> {
    fn name(&self) -> &'static str {
        Tb::NAME
    }

    fn sample(&self, cache: &mut Cache) -> anyhow::Result<[f64; STEPS.len()]> {
        let (fork, child) = self.fork()?;
        let first_close = self.first_close(&child)?;
        forget(child)?;
        let (_, child) = self.fork()?;
        cache.trash();
        let first_close_cold = self.first_close(&child)?;
        forget(child)?;
        Ok([fork, first_close, first_close_cold])
    }
}

/// Drops the child and does its deferred work. Otherwise the next sample would pay for it.
fn forget<Tb>(child: Tb) -> anyhow::Result<()> {
    drop(child);
    Ok(rcu::barrier()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_in_the_child_leaves_the_parent_as_it_was() {
        let parent = Parent::<Files<Rcu<u64>>>::new(200).unwrap();
        let (ns, child) = parent.fork().unwrap();
        assert!(ns > 0.0);
        parent.first_close(&child).unwrap();
        assert_eq!(child.open_count(), 199);
        parent.sample(&mut Cache::new()).unwrap();
        assert_eq!(parent.table.open_count(), 200);
        assert_eq!(**parent.table.get(100).unwrap(), 100);
    }
}
