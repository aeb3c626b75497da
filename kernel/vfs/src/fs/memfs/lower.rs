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

use super::directory::Directory;
use super::entries::Node;
use super::limits::FileLimits;
use super::meta::{Device, Meta};
use super::regular::RegularInode;
use super::special::{Special, SpecialInode};
use crate::Errno;
use crate::fs::lower::{Lower, LowerDirectory, LowerInode};
use crate::fs::stat::{FileKind, Stat};
use crate::ipc::fifo::Fifo;

/// First number of an inode that does not have that of a lower file.
pub(super) const FIRST_INODE: u64 = 1 << 52;

/// State that the directories over one lower tree share.
#[derive(Debug)]
pub(super) struct LowerTree {
    device: Device,
    /// The embedder's device of the topmost directory.
    lower_device: u64,
    limits: FileLimits,
    /// Inodes of lower files with several links, by device and number. They stay: a name may come
    /// that no lookup has found yet. The lock is taken inside that of a directory.
    linked: Mutex<HashMap<(u64, u64), Node>>,
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
    /// Makes the root directory of a file system over a lower directory.
    ///
    /// # Errors
    /// Errors of [`LowerDirectory::stat`]; `ENOTDIR` if it is not a directory.
    pub(super) fn root(
        directory: Arc<dyn LowerDirectory>,
        device: Device,
        limits: FileLimits,
    ) -> Result<Arc<Directory>, Errno> {
        let stat = directory.stat()?;
        if stat.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        let tree = Arc::new(LowerTree {
            device,
            lower_device: stat.device,
            limits,
            linked: Mutex::default(),
        });
        let inode = tree.number(stat.device, stat.inode);
        Ok(tree.directory(directory, &Stat { inode, ..stat }))
    }

    /// Returns the inode number of a lower file.
    pub(super) fn number(&self, device: u64, inode: u64) -> u64 {
        if device == self.lower_device && inode < FIRST_INODE {
            inode
        } else {
            self.device.fresh_inode()
        }
    }

    /// Makes the inode of a lower file, with this number; or returns the one that another name of
    /// the file has.
    pub(super) fn node(self: &Arc<Self>, lower: LowerInode, number: u64) -> Node {
        let LowerInode { stat, file } = lower;
        let key = (stat.device, stat.inode);
        let stat = Stat {
            inode: number,
            ..stat
        };
        // A directory has one name, whatever it counts.
        let has_several_names = stat.links > 1 && !matches!(file, Lower::Directory(_));
        if !has_several_names {
            return self.make(file, &stat);
        }
        let mut linked = self.linked.lock();
        let known = linked.entry(key);
        known.or_insert_with(|| self.make(file, &stat)).clone()
    }

    fn directory(
        self: &Arc<Self>,
        directory: Arc<dyn LowerDirectory>,
        stat: &Stat,
    ) -> Arc<Directory> {
        let below = Below {
            directory,
            tree: Arc::clone(self),
            device: stat.device,
            links: stat.links,
            size: stat.size,
            blocks: stat.blocks,
        };
        Directory::over(below, Meta::of(self.device, stat), self.limits.clone())
    }

    fn make(self: &Arc<Self>, file: Lower, stat: &Stat) -> Node {
        let meta = Meta::of(self.device, stat);
        let special = match file {
            Lower::Regular(file) => {
                let inode = RegularInode::over(file, meta, stat, self.limits.clone());
                return Node::File(Arc::new(inode));
            }
            Lower::Directory(directory) => return Node::Directory(self.directory(directory, stat)),
            Lower::Symlink(target) => Special::Symlink(target),
            Lower::Fifo => Special::Fifo(Arc::new(Fifo::new())),
            Lower::Socket => Special::Socket(None),
            Lower::Device(device) => Special::Device {
                kind: stat.kind,
                rdev: stat.rdev,
                device,
            },
        };
        Node::Special(Arc::new(SpecialInode::over(meta, stat, special)))
    }
}
