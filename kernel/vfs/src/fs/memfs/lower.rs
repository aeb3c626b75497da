//! Lower directories: a tree of the embedder below the one in memory.
//!
//! A file system over a lower directory shows what is there, and keeps all changes in memory. There
//! is no list of differences: each directory, name and file leaves the lower tree once, when it is
//! used first, and is in memory from then on. So a removed name, a directory that was made again
//! and is empty, and a rename to another place need no representation.
//!
//! - A *directory* takes the names of its lower directory at the first use of any of them. They are
//!   read into a map of their own, which is published as a whole: a lookup finds all or none, and
//!   after an error nothing has changed. Two threads may read at the same time; the first one
//!   publishes. If the lower directory can be searched and not read, its names are looked up there
//!   one by one, and those that were found are remembered.
//! - A *name* that was taken has a kind and an inode number, and no inode. The first lookup asks
//!   the lower directory for the attributes, makes the inode, and puts it under the name. Names
//!   that nothing looks up cost no call of the embedder.
//! - A *regular file* reads from the lower file until its first change, which copies the bytes
//!   ([`data`](super::data)). Attributes, names and links change without a copy.
//!
//! # Calls of the embedder and locks
//!
//! Names and attributes are read before the lock of the directory is taken. Under the lock, the
//! thread checks what it has found: another one may have been faster, or the name may be gone. A
//! removal that meets a directory whose names were never used, because a rename has put it there
//! meanwhile, reads them with the lock held. The embedder does not call the file system, so that is
//! no deadlock.
//!
//! # Inode numbers
//!
//! A lower file keeps its number where that is unique: on the device of the topmost directory, and
//! below [`FIRST_INODE`]. So tools that remember numbers, such as `git`, find them again. All other
//! inodes have numbers from [`FIRST_INODE`] on, which fit into the 53 bits of a JavaScript number
//! too. Names of one lower file with several links lead to one inode.

use std::collections::HashMap;
use std::sync::Arc;

use fdtable_shm::Mutex;

use super::limits::FileLimits;
use super::meta::{Device, Node};
use crate::fs::{Lower, LowerDirectory, LowerInode, Stat};

/// First number of an inode that does not have that of a lower file.
pub(super) const FIRST_INODE: u64 = 1 << 52;

/// State that the directories over one lower tree share.
#[derive(Debug)]
pub(super) struct LowerTree {
    pub(super) device: Device,
    /// The embedder's device of the topmost directory.
    lower_device: u64,
    pub(super) limits: FileLimits,
    /// Inodes of lower files with several links, by device and number. They stay: a name may come
    /// that no lookup has found yet. The lock is taken inside that of a directory.
    linked: Mutex<HashMap<(u64, u64), Arc<dyn Node>>>,
}

/// Lower directory of a directory in memory.
#[derive(Debug)]
pub(super) struct Below {
    pub(super) directory: Arc<dyn LowerDirectory>,
    pub(super) tree: Arc<LowerTree>,
    /// The embedder's device.
    pub(super) device: u64,
    pub(super) links: u32,
    pub(super) size: u64,
    pub(super) blocks: u64,
}

impl LowerTree {
    /// Makes the state of a tree. `lower_device` is the embedder's device of the topmost directory.
    pub(super) fn new(device: Device, lower_device: u64, limits: FileLimits) -> Self {
        LowerTree {
            device,
            lower_device,
            limits,
            linked: Mutex::default(),
        }
    }

    /// Returns the inode number of a lower file.
    pub(super) fn number(&self, device: u64, inode: u64) -> u64 {
        if device == self.lower_device && inode < FIRST_INODE {
            inode
        } else {
            self.device.fresh_inode()
        }
    }

    /// Returns the inode of a lower file, with this number: the one that another name of the file
    /// has, or a new one by `make`.
    pub(super) fn node(
        &self,
        lower: LowerInode,
        number: u64,
        make: impl FnOnce(Lower, &Stat) -> Arc<dyn Node>,
    ) -> Arc<dyn Node> {
        let LowerInode { stat, file } = lower;
        let key = (stat.device, stat.inode);
        let stat = Stat {
            inode: number,
            ..stat
        };
        // A directory has one name, whatever it counts.
        let has_several_names = stat.links > 1 && !matches!(file, Lower::Directory(_));
        if !has_several_names {
            return make(file, &stat);
        }
        let mut linked = self.linked.lock();
        let known = linked.entry(key);
        Arc::clone(known.or_insert_with(|| make(file, &stat)))
    }
}
