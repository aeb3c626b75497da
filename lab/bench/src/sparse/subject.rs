//! The subjects, each with the highest descriptors that it can open.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Instant;

use fdtable::{Files, Rcu};
use nix::fcntl::{FcntlArg, fcntl};
use nix::unistd::close;
use parking_lot::RwLock;

use super::high::{Bytes, measure_memory, time};
use crate::baseline::{RwLockBitmap, RwLockVec};
use crate::host;

pub(super) const OURS: &str = "fdtable";
pub(super) const HASH_MAP: &str = "RwLock<HashMap<RawFd, Arc>>";
pub(super) const BTREE_MAP: &str = "RwLock<BTreeMap<RawFd, Arc>>";
pub(super) const RWLOCK_VEC: &str = "RwLock<Vec<Option<Arc>>>";
pub(super) const FILES_STRUCT: &str = "files_struct under a rwlock";
pub(super) const HOST: &str = "the host, F_DUPFD";

/// Descriptors up to which a vector is filled.
const FILLED: [RawFd; 2] = [(1 << 20) - 1, (1 << 24) - 1];

/// Subject that opens a high descriptor.
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) fd: RawFd,
    /// Most tables of a turn.
    most_tables: u32,
    /// Returns the nanoseconds in each of a number of fresh tables; none where the host refuses.
    pub(super) time: fn(RawFd, u32) -> anyhow::Result<Vec<f64>>,
    /// Returns the memory of a table, if it can be measured.
    pub(super) measure_memory: fn(RawFd, u32) -> anyhow::Result<Option<Bytes>>,
}

impl Subject {
    pub(super) fn tables(&self, asked: u32) -> u32 {
        asked.min(self.most_tables)
    }
}

/// Lists every subject.
pub(super) fn all() -> anyhow::Result<Vec<Subject>> {
    type Hash = RwLock<HashMap<RawFd, Arc<u64>>>;
    type BTree = RwLock<BTreeMap<RawFd, Arc<u64>>>;
    let subject = |name, fd, most_tables, time, measure_memory| Subject {
        name,
        fd,
        most_tables,
        time,
        measure_memory,
    };
    let host_fd = RawFd::try_from(host::raise_limit()? - 1).unwrap_or(RawFd::MAX);
    let mut subjects = vec![
        subject(
            OURS,
            RawFd::MAX,
            u32::MAX,
            time::<Files<Rcu<u64>>>,
            measure_memory::<Files<Rcu<u64>>>,
        ),
        subject(
            HASH_MAP,
            RawFd::MAX,
            u32::MAX,
            time::<Hash>,
            measure_memory::<Hash>,
        ),
        subject(
            BTREE_MAP,
            RawFd::MAX,
            u32::MAX,
            time::<BTree>,
            measure_memory::<BTree>,
        ),
        subject(HOST, host_fd, u32::MAX, time_host, |_, _| Ok(None)),
    ];
    for fd in FILLED {
        subjects.extend([
            subject(
                RWLOCK_VEC,
                fd,
                1,
                time::<RwLockVec<u64>>,
                measure_memory::<RwLockVec<u64>>,
            ),
            subject(
                FILES_STRUCT,
                fd,
                1,
                time::<RwLockBitmap<u64>>,
                measure_memory::<RwLockBitmap<u64>>,
            ),
        ]);
    }
    Ok(subjects)
}

/// Duplicates a descriptor to `fd` on fresh tables of the host.
fn time_host(fd: RawFd, tables: u32) -> anyhow::Result<Vec<f64>> {
    let file = File::open("/dev/null")?;
    let one = |_| {
        host::with_own_table(|| {
            let began = Instant::now();
            let opened = fcntl(&file, FcntlArg::F_DUPFD(fd));
            let took = began.elapsed().as_nanos() as f64;
            close(opened?)?;
            Ok(took)
        })
        .transpose()
    };
    (0..tables).filter_map(one).collect()
}
