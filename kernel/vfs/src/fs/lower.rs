//! Directories and files of the embedder below a file system in memory. The file system only reads
//! them.
//!
//! [`MemFs::over`](crate::MemFs::over) shows a lower directory, and keeps all changes in memory.
//! The head of `memfs/lower.rs` describes the implementation.
//!
//! The operations are called outside of read-side sections, some of them with the lock of a file
//! held. They must not call the file system. They must not change while the file system exists:
//! what it has taken from them once, it does not take again.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use fdtable::FileRef;

use super::{FileKind, Stat, VfsPath};
use crate::{Errno, OpenFlags, RcuObject};

/// Directory below one in memory.
pub trait LowerDirectory: Any + Debug + Send + Sync {
    /// Returns the attributes of the directory.
    ///
    /// # Errors
    /// As the embedder documents.
    fn stat(&self) -> Result<Stat, Errno>;

    /// Returns all names, without `.` and `..`.
    ///
    /// # Errors
    /// `EACCES` if the directory cannot be read: names are looked up one by one then; `EIO`; others
    /// that the embedder documents.
    fn names(&self) -> Result<Vec<LowerName>, Errno>;

    /// Finds the file with a name, and does not follow a symbolic link.
    ///
    /// # Errors
    /// `ENOENT` if there is none; `EACCES` if the directory cannot be searched; others that the
    /// embedder documents.
    fn lookup(&self, name: &[u8]) -> Result<LowerInode, Errno>;
}

/// Name in a lower directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LowerName {
    /// The name.
    pub name: Arc<[u8]>,
    /// Inode number of the file.
    pub inode: u64,
    /// Kind of the file.
    pub kind: FileKind,
}

/// File in a lower directory.
#[derive(Debug)]
pub struct LowerInode {
    /// The attributes; device and inode number together identify the file among the lower ones.
    pub stat: Stat,
    /// The file.
    pub file: Lower,
}

/// File of one of the kinds that can be in a lower directory.
#[derive(Debug)]
pub enum Lower {
    /// Regular file.
    Regular(Arc<dyn LowerFile>),
    /// Directory.
    Directory(Arc<dyn LowerDirectory>),
    /// Symbolic link with this target.
    Symlink(Arc<[u8]>),
    /// FIFO. Only its name is taken from below.
    Fifo,
    /// Name of a socket, which nothing has bound here.
    Socket,
    /// Device.
    Device(Arc<dyn LowerDevice>),
}

/// Regular file in a lower directory.
pub trait LowerFile: Debug + Send + Sync {
    /// Opens the file for reading.
    ///
    /// # Errors
    /// `EACCES` if the file cannot be read; others that the embedder documents.
    fn open(&self) -> Result<Arc<dyn LowerBytes>, Errno>;
}

/// Bytes of an open lower file. Two reads may run at the same time.
pub trait LowerBytes: Any + Debug + Send + Sync {
    /// Copies the bytes at `offset` into `buf`, and returns how many: 0 at the end and after it.
    ///
    /// # Errors
    /// `EIO`; others that the embedder documents.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno>;

    /// Returns the first position at or after `from` that is no hole; nothing if there is none.
    ///
    /// # Errors
    /// `EIO`; others that the embedder documents.
    fn next_data(&self, from: u64) -> Result<Option<u64>, Errno>;

    /// Returns the first position at or after `from` that is a hole, or the end; nothing if that is
    /// before.
    ///
    /// # Errors
    /// `EIO`; others that the embedder documents.
    fn next_hole(&self, from: u64) -> Result<Option<u64>, Errno>;
}

/// Device in a lower directory.
pub trait LowerDevice: Debug + Send + Sync {
    /// Opens the device. `path` is its inode in memory, which has the attributes of the open file:
    /// [`Object::path`](crate::Object::path) returns it, so that a change of them stays in memory.
    ///
    /// # Errors
    /// As the embedder documents.
    fn open(&self, flags: OpenFlags, path: VfsPath) -> Result<FileRef<RcuObject>, Errno>;
}
