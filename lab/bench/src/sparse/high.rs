//! Tables that open one high descriptor: time and memory.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use fdtable::{FdFlags, FileRef, Files, Rcu};
use parking_lot::RwLock;
use serde::Serialize;

use crate::baseline::{RwLockBitmap, RwLockVec};
use crate::memory::bytes_in_use;

/// Memory of one table, with the table itself.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Bytes {
    /// Bytes with one descriptor at 0.
    pub(super) before: f64,
    /// Bytes with the high descriptor too.
    pub(super) open: f64,
    /// Bytes after the high descriptor was closed.
    pub(super) closed: f64,
}

/// Table that can open a file at a descriptor of the caller's choice.
pub(super) trait High: Sized {
    /// Counted reference to an object.
    type Ref: Clone;

    fn object() -> Self::Ref;
    /// Creates a table for all descriptors, with `object` at 0.
    ///
    /// # Errors
    /// If the table refuses.
    fn with_one(object: &Self::Ref) -> anyhow::Result<Self>;
    /// Duplicates descriptor 0 to `fd`.
    fn dup_to(&self, fd: RawFd) -> anyhow::Result<()>;
    fn close(&self, fd: RawFd) -> anyhow::Result<()>;
}

/// Returns the nanoseconds of the call in each of `tables` fresh tables, the clock included.
pub(super) fn time<H: High>(fd: RawFd, tables: u32) -> anyhow::Result<Vec<f64>> {
    let object = H::object();
    let one = |_| {
        let table = H::with_one(&object)?;
        let began = Instant::now();
        let opened = black_box(&table).dup_to(black_box(fd));
        let took = began.elapsed().as_nanos() as f64;
        opened?;
        table.close(fd)?;
        Ok(took)
    };
    (0..tables).map(one).collect()
}

/// Measures the memory of `tables` tables that exist at the same time.
pub(super) fn measure_memory<H: High>(fd: RawFd, tables: u32) -> anyhow::Result<Option<Bytes>> {
    let object = H::object();
    let mut all = Vec::with_capacity(tables as usize);
    let Some(empty) = bytes_in_use()? else {
        return Ok(None);
    };
    let each = || -> anyhow::Result<f64> {
        let now = bytes_in_use()?.context("the heap reported its size before")?;
        Ok((now - empty) / f64::from(tables))
    };
    for _ in 0..tables {
        all.push(Box::new(H::with_one(&object)?));
    }
    let before = each()?;
    all.iter().try_for_each(|table| table.dup_to(fd))?;
    let open = each()?;
    all.iter().try_for_each(|table| table.close(fd))?;
    let closed = each()?;
    Ok(Some(Bytes {
        before,
        open,
        closed,
    }))
}

/// Limit of all tables: every possible descriptor.
const LIMIT: u32 = 1 << 31;

impl High for Files<Rcu<u64>> {
    type Ref = FileRef<Rcu<u64>>;

    fn object() -> FileRef<Rcu<u64>> {
        FileRef::new_rcu(0)
    }

    fn with_one(object: &FileRef<Rcu<u64>>) -> anyhow::Result<Self> {
        let files = Files::with_limit(LIMIT);
        files.open(object.clone(), FdFlags::empty())?;
        Ok(files)
    }

    fn dup_to(&self, fd: RawFd) -> anyhow::Result<()> {
        Files::dup3(self, 0, fd, FdFlags::empty())?;
        Ok(())
    }

    fn close(&self, fd: RawFd) -> anyhow::Result<()> {
        drop(Files::close(self, fd)?);
        Ok(())
    }
}

impl High for RwLockVec<u64> {
    type Ref = Arc<u64>;

    fn object() -> Arc<u64> {
        Arc::new(0)
    }

    fn with_one(object: &Arc<u64>) -> anyhow::Result<Self> {
        let table = RwLockVec::with_limit(LIMIT);
        table.open(Arc::clone(object))?;
        Ok(table)
    }

    fn dup_to(&self, fd: RawFd) -> anyhow::Result<()> {
        Ok(self.open_past_the_end(self.get(0)?, fd)?)
    }

    fn close(&self, fd: RawFd) -> anyhow::Result<()> {
        Ok(RwLockVec::close(self, fd)?)
    }
}

impl High for RwLockBitmap<u64> {
    type Ref = Arc<u64>;

    fn object() -> Arc<u64> {
        Arc::new(0)
    }

    fn with_one(object: &Arc<u64>) -> anyhow::Result<Self> {
        let table = RwLockBitmap::with_limit(LIMIT);
        table.open(Arc::clone(object))?;
        Ok(table)
    }

    fn dup_to(&self, fd: RawFd) -> anyhow::Result<()> {
        Ok(RwLockBitmap::dup_to(self, self.get(0)?, fd)?)
    }

    fn close(&self, fd: RawFd) -> anyhow::Result<()> {
        Ok(RwLockBitmap::close(self, fd)?)
    }
}

/// Implements the operations for a map under a lock. It has no lowest free descriptor.
macro_rules! high_of_map {
    ($map:ident) => {
        impl High for RwLock<$map<RawFd, Arc<u64>>> {
            type Ref = Arc<u64>;

            fn object() -> Arc<u64> {
                Arc::new(0)
            }

            fn with_one(object: &Arc<u64>) -> anyhow::Result<Self> {
                Ok(RwLock::new($map::from([(0, Arc::clone(object))])))
            }

            fn dup_to(&self, fd: RawFd) -> anyhow::Result<()> {
                let mut map = self.write();
                let file = map.get(&0).cloned().context("0 is open")?;
                let before = map.insert(fd, file);
                drop(map);
                drop(before);
                Ok(())
            }

            fn close(&self, fd: RawFd) -> anyhow::Result<()> {
                let file = self.write().remove(&fd);
                file.context("not open").map(drop)
            }
        }
    };
}

high_of_map!(HashMap);
high_of_map!(BTreeMap);

#[cfg(test)]
mod tests {
    use super::*;

    fn opens_and_closes<H: High>(fd: RawFd) {
        let table = H::with_one(&H::object()).unwrap();
        assert!(table.close(fd).is_err());
        table.dup_to(fd).unwrap();
        table.close(fd).unwrap();
        assert!(table.close(fd).is_err());
        assert!(table.close(0).is_ok());
    }

    #[test]
    fn every_table_opens_a_high_descriptor_once() {
        opens_and_closes::<Files<Rcu<u64>>>(RawFd::MAX);
        opens_and_closes::<RwLock<HashMap<RawFd, Arc<u64>>>>(RawFd::MAX);
        opens_and_closes::<RwLock<BTreeMap<RawFd, Arc<u64>>>>(RawFd::MAX);
        opens_and_closes::<RwLockVec<u64>>(1000);
        opens_and_closes::<RwLockBitmap<u64>>(1000);
    }

    #[test]
    fn a_turn_times_every_table() {
        let ns = time::<Files<Rcu<u64>>>(RawFd::MAX, 7).unwrap();
        assert_eq!(ns.len(), 7);
        assert!(ns.iter().all(|&ns| ns > 0.0));
    }
}
