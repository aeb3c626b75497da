//! The interface of a file system: root, superblock, rename, statfs.

use std::any::Any;
use std::sync::Arc;

use fdtable::{SuperBlock, WantWrite};

use super::path::NAME_MAX;
use super::{BLOCK_SIZE, Inode};
use crate::{Errno, RcuObject};

/// File system that can be mounted.
pub trait FileSystem: Any + Send + Sync {
    /// Returns the root directory: always the same inode.
    fn root(&self) -> Arc<dyn Inode>;

    /// Returns true if no names and attributes can be changed on a file system without a
    /// superblock. By default, each inode decides.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Returns the superblock, which tracks the open files; nothing if they are not tracked.
    fn superblock(&self) -> Option<&SuperBlock<RcuObject>> {
        None
    }

    /// Renames atomically. Both directories are of this file system.
    ///
    /// # Errors
    /// Errors of [`Process::renameat2`](crate::Process::renameat2); those of [`Rename::may`];
    /// `EPERM` if the file system does not support it (the default).
    fn rename(&self, _args: &Rename<'_>) -> Result<(), Errno> {
        Err(Errno::EPERM)
    }

    /// Describes the file system.
    fn statfs(&self) -> StatFs;
}

/// Arguments of a rename.
pub struct Rename<'a> {
    /// The old name.
    pub from: Renamed<'a>,
    /// The new name.
    pub to: Renamed<'a>,
    /// How to rename.
    pub flags: RenameFlags,
    /// Gets the inodes that are found before anything changes, under the locks of the directories.
    pub may: MayRename<'a>,
}

/// Permission check of a rename, given the moved inode and the replaced one, if any.
///
/// It runs with the locks of the directories held and may ask only for
/// [permissions](Inode::permissions), which do not take them.
pub type MayRename<'a> = &'a dyn Fn(&dyn Inode, Option<&dyn Inode>) -> Result<(), Errno>;

/// Name in a directory: the old or the new one of a rename.
#[derive(Clone, Copy)]
pub struct Renamed<'a> {
    /// The directory.
    pub directory: &'a dyn Inode,
    /// The name.
    pub name: &'a [u8],
    /// The path has a trailing `/`: it must name a directory.
    pub asks_for_directory: bool,
}

bitflags::bitflags! {
    /// Flags of a rename.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct RenameFlags: u32 {
        /// Fails if the new name exists.
        const NOREPLACE = 1;
        /// Exchanges the two names, which must both exist.
        const EXCHANGE = 2;
    }
}

/// Description of a file system. In Linux: `struct statfs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatFs {
    /// Magic number of the type of file system.
    pub magic: u64,
    /// Device number of the file system, as in [`Stat::device`](crate::Stat::device).
    pub id: u64,
    /// Block size in bytes.
    pub block_size: u32,
    /// Total blocks; 0 if there is no limit, as on a `tmpfs` without one.
    pub blocks: u64,
    /// Free blocks.
    pub free_blocks: u64,
    /// Most inodes; 0 if there is no limit.
    pub inodes: u64,
    /// Inodes that can still be created.
    pub free_inodes: u64,
    /// Longest name in bytes.
    pub name_max: u32,
    /// True if the file system is read-only now.
    pub is_read_only: bool,
}

impl StatFs {
    /// Magic number of file systems in memory. In Linux: `TMPFS_MAGIC`.
    pub const TMPFS: u64 = 0x0102_1994;
    /// Magic number of `/proc`. In Linux: `PROC_SUPER_MAGIC`.
    pub const PROC: u64 = 0x9fa0;
    /// Magic number of pipes. In Linux: `PIPEFS_MAGIC`.
    pub const PIPES: u64 = 0x5049_5045;
    /// Magic number of sockets. In Linux: `SOCKFS_MAGIC`.
    pub const SOCKETS: u64 = 0x534f_434b;
    /// Magic number of files without an inode of their own: eventfd and epoll.
    /// In Linux: `ANON_INODE_FS_MAGIC`.
    pub const ANONYMOUS: u64 = 0x0904_1934;

    /// Makes the description of a file system without limits.
    pub const fn new(magic: u64, id: u64) -> Self {
        StatFs {
            magic,
            id,
            block_size: BLOCK_SIZE,
            blocks: 0,
            free_blocks: 0,
            inodes: 0,
            free_inodes: 0,
            name_max: NAME_MAX as u32,
            is_read_only: false,
        }
    }
}

/// Takes write access to a file system, for as long as the returned value lives.
///
/// # Errors
/// `EROFS` if it is read-only, or mounted so; `ENODEV` after an unmount.
pub(crate) fn want_write(fs: &dyn FileSystem) -> Result<Option<WantWrite<'_, RcuObject>>, Errno> {
    match fs.superblock() {
        Some(superblock) => Ok(Some(superblock.want_write()?)),
        None if fs.is_read_only() => Err(Errno::EROFS),
        None => Ok(None),
    }
}
