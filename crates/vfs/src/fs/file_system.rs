//! File systems: a root, the open files, and what concerns two directories at once.

use std::any::Any;
use std::sync::Arc;

use fdtable::{SuperBlock, WantWrite};

use super::inode::Inode;
use super::path::NAME_MAX;
use super::stat::BLOCK_SIZE;
use crate::{Errno, Object};

/// File system that can be mounted.
pub trait FileSystem: Any + Send + Sync {
    /// Returns its root, a directory: always the same one.
    fn root(&self) -> Arc<dyn Inode>;

    /// Returns its open files: nothing if nobody keeps account of them.
    fn superblock(&self) -> Option<&SuperBlock<dyn Object>> {
        None
    }

    /// Gives what is called `old` in `from` the name `new` in `to`, in one step. Both directories
    /// are of this file system. What is found is shown to `may` first, so that nothing else can be
    /// in its place when it moves.
    ///
    /// # Errors
    /// Those of [`Process::renameat2`](crate::Process::renameat2); what `may` answers; `EPERM` if it cannot be done
    /// here (the default).
    fn rename(
        &self,
        _from: Renamed<'_>,
        _to: Renamed<'_>,
        _flags: RenameFlags,
        _may: MayRename<'_>,
    ) -> Result<(), Errno> {
        Err(Errno::EPERM)
    }

    /// Describes it.
    fn statfs(&self) -> StatFs;
}

/// Check whether an inode may get the name of another, if there is one. It asks them and the
/// directories for nothing but their [permissions](Inode::permissions), and is called with the locks
/// of the directories: these do not take them.
pub type MayRename<'a> = &'a dyn Fn(&dyn Inode, Option<&dyn Inode>) -> Result<(), Errno>;

/// A name in a directory, the old or the new one of a rename.
#[derive(Clone, Copy)]
pub struct Renamed<'a> {
    /// The directory.
    pub directory: &'a dyn Inode,
    /// The name.
    pub name: &'a [u8],
    /// The path has a `/` at its end: only a directory will do.
    pub asks_for_directory: bool,
}

bitflags::bitflags! {
    /// Set of how to rename.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct RenameFlags: u32 {
        /// Fails if there is something of the new name.
        const NOREPLACE = 1;
        /// Both have to exist, and take each other's name.
        const EXCHANGE = 2;
    }
}

/// Description of a file system.
#[doc(alias = "struct statfs")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatFs {
    /// Number that tells file systems of Linux apart.
    pub magic: u64,
    /// Number of the file system, as in [`Stat::device`](crate::Stat::device).
    pub id: u64,
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks in all; 0 if there is no limit, as that of a `tmpfs` without one.
    pub blocks: u64,
    /// Blocks that are free.
    pub free_blocks: u64,
    /// Most inodes; 0 if there is no limit.
    pub inodes: u64,
    /// Inodes that can still be made.
    pub free_inodes: u64,
    /// Most bytes of a name.
    pub name_max: u32,
    /// Whether it can be changed now.
    pub is_read_only: bool,
}

impl StatFs {
    /// Magic number of file systems in memory.
    #[doc(alias = "TMPFS_MAGIC")]
    pub const TMPFS: u64 = 0x0102_1994;
    /// Magic number of `/proc`.
    #[doc(alias = "PROC_SUPER_MAGIC")]
    pub const PROC: u64 = 0x9fa0;

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

/// Asks to change a file system, for as long as the answer is kept.
///
/// # Errors
/// `EROFS` if it is mounted read-only; `ENODEV` after an unmount.
pub(crate) fn want_write(fs: &dyn FileSystem) -> Result<Option<WantWrite<'_, dyn Object>>, Errno> {
    Ok(fs.superblock().map(SuperBlock::want_write).transpose()?)
}
