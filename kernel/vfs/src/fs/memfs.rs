//! The file system in memory: a tree of directories.
//!
//! A lookup takes no lock: names are read under RCU. A change takes the lock of the directory that
//! it changes. The only lock of the whole tree is that of a rename that moves a directory, or moves
//! anything from one directory to another (see [`rename`]).
//!
//! Removing a name does not free the inode: open files keep it.
//!
//! A file system may show a tree of the embedder below its own: see [`lower`].

use std::alloc::{Layout, handle_alloc_error};
use std::sync::Arc;

use fdtable::SuperBlock;
use fdtable_shm::Mutex;

use self::directory::Directory;
use self::limits::FileLimits;
use self::meta::{Device, Node};
use super::namei::Follow;
use super::{
    At, Credentials, FileSystem, Inode, LowerDirectory, Mode, PathContext, Permissions, Rename,
    ResolveFlags, Stat, StatFs, VfsPath, device_number,
};
use crate::{Errno, RcuObject};

mod contents;
mod data;
mod directory;
mod entries;
mod limits;
mod lower;
mod lower_contents;
mod memfd;
mod meta;
mod regular;
mod remove_tree;
mod rename;
mod shared;
mod special;

pub use limits::MemFsLimits;

/// File system in memory.
///
/// [`Process`](crate::Process) has its operations. Those here are of user 0, and all paths begin at
/// the root. A change may wait for another one of the same directory.
///
/// ```
/// use fdtable_vfs::{MemFs, MemFsLimits, OpenFlags, Process};
///
/// let memory = 16 << 20;
/// let fs = MemFs::with_limits(MemFsLimits { memory, ..MemFsLimits::NONE });
/// let process = Process::with(fdtable::Files::new(), fs);
/// let log = process.open("/log", OpenFlags::CREAT | OpenFlags::WRONLY)?;
/// process.write(log, b"begun")?;
/// # Ok::<(), fdtable_vfs::Errno>(())
/// ```
#[derive(Debug)]
pub struct MemFs {
    root: Arc<Directory>,
    /// Path of the root directory.
    top: VfsPath,
    limits: FileLimits,
    /// Held while a directory moves: see [`rename`].
    moves: Mutex<()>,
    /// The open files, if they are tracked.
    superblock: Option<SuperBlock<RcuObject>>,
}

impl Default for MemFs {
    fn default() -> Self {
        Self::with_limits(MemFsLimits::NONE)
    }
}

impl MemFs {
    /// Makes an empty file system with limits. In Linux: `RLIMIT_FSIZE`.
    ///
    /// Without them a file is as large as on Linux, and takes memory for its pages but not for its
    /// holes. An embedder that runs programs of others limits the memory. Allocates; aborts the
    /// host process if memory runs out, as `Box::new` does.
    pub fn with_limits(limits: MemFsLimits) -> Self {
        Self::with_superblock(Some(Self::new_superblock()), limits)
    }

    /// Makes an empty file system that adds its open files to `superblock`.
    ///
    /// Without a superblock, open files are not tracked: the file system cannot be remounted or
    /// unmounted, nor its files revoked.
    pub fn with_superblock(superblock: Option<SuperBlock<RcuObject>>, limits: MemFsLimits) -> Self {
        let permissions = Permissions {
            mode: Mode::new(0o755),
            uid: 0,
            gid: 0,
        };
        let limits = FileLimits::new(limits);
        let device = Device {
            number: device_number::fresh(),
            first_inode: 0,
        };
        let root = Directory::new(device, limits.clone(), permissions);
        Self::of(root, superblock, limits)
    }

    /// Makes a file system that shows a lower directory, and keeps all changes in memory.
    /// In Linux: `overlayfs`.
    ///
    /// `limits` are for what is in memory. A file that is written is copied to memory whole; a file
    /// that is only read takes none. Inode numbers are those of the lower files where they are
    /// unique. Allocates, and aborts as [`with_limits`](Self::with_limits) does.
    ///
    /// Every operation may return an error of the lower directory, in which case nothing has
    /// changed.
    ///
    /// # Errors
    /// Errors of [`LowerDirectory::stat`]; `ENOTDIR` if it is not a directory.
    pub fn over(lower: Arc<dyn LowerDirectory>, limits: MemFsLimits) -> Result<Self, Errno> {
        let superblock = Self::new_superblock();
        let limits = FileLimits::new(limits);
        let device = Device {
            number: device_number::fresh(),
            first_inode: lower::FIRST_INODE,
        };
        let root = Directory::over_root(lower, device, limits.clone())?;
        Ok(Self::of(root, Some(superblock), limits))
    }

    fn new_superblock() -> SuperBlock<RcuObject> {
        SuperBlock::new()
            .unwrap_or_else(|_| handle_alloc_error(Layout::new::<SuperBlock<RcuObject>>()))
    }

    fn of(
        root: Arc<Directory>,
        superblock: Option<SuperBlock<RcuObject>>,
        limits: FileLimits,
    ) -> Self {
        MemFs {
            top: VfsPath {
                mount: None,
                inode: Arc::clone(&root) as _,
            },
            root,
            limits,
            moves: Mutex::new(()),
            superblock,
        }
    }

    /// Makes an empty directory with all access for everyone. Allocates.
    ///
    /// # Errors
    /// Errors of path lookup; `EEXIST` if the name exists; `EROFS`; `ENOMEM`.
    pub fn mkdir(&self, path: impl AsRef<[u8]>) -> Result<(), Errno> {
        self.path_context().mkdir(At::Cwd, path.as_ref(), Mode::ALL)
    }

    /// Returns the attributes of the inode at `path`. May wait for writers of the file.
    ///
    /// # Errors
    /// Errors of path lookup.
    pub fn stat(&self, path: impl AsRef<[u8]>) -> Result<Stat, Errno> {
        let found = self
            .path_context()
            .find(At::Cwd, path.as_ref(), Follow::Yes)?;
        Ok(found.inode.stat())
    }

    /// Returns the superblock, to list open files, remount or unmount; nothing if open files are
    /// not tracked.
    pub fn superblock(&self) -> Option<&SuperBlock<RcuObject>> {
        self.superblock.as_ref()
    }

    /// Returns the path of the root directory.
    pub(crate) fn top(&self) -> &VfsPath {
        &self.top
    }

    /// Returns a context of user 0 without a process.
    fn path_context(&self) -> PathContext<'_> {
        PathContext {
            root: &self.top,
            fs: self,
            mounts: None,
            credentials: Credentials::ROOT,
            umask: Mode::NONE,
            process: None,
            resolve: ResolveFlags::empty(),
        }
    }
}

impl FileSystem for MemFs {
    fn root(&self) -> Arc<dyn Inode> {
        Arc::clone(&self.top.inode)
    }

    fn superblock(&self) -> Option<&SuperBlock<RcuObject>> {
        self.superblock.as_ref()
    }

    fn rename(&self, args: &Rename<'_>) -> Result<(), Errno> {
        self.rename_in(args)
    }

    fn statfs(&self) -> StatFs {
        let is_read_only = self
            .superblock
            .as_ref()
            .is_some_and(SuperBlock::is_read_only);
        let (blocks, free_blocks) = self.limits.space.pages().unwrap_or_default();
        StatFs {
            is_read_only,
            blocks,
            free_blocks,
            ..StatFs::new(StatFs::TMPFS, self.root.meta().device.number)
        }
    }
}

#[cfg(test)]
mod tests;
