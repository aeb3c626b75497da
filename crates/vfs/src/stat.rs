//! What is known of a file without opening it.

use std::sync::Arc;

/// Kind of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Bytes with a length.
    Regular,
    /// Names of other inodes.
    Directory,
}

/// Description of an inode at one moment.
#[doc(alias = "struct stat")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Number of the inode, at least 1. No other inode of the process has or had it.
    #[doc(alias = "st_ino")]
    pub inode: u64,
    /// What it is.
    #[doc(alias = "st_mode")]
    pub kind: FileKind,
    /// Length of a regular file in bytes, or the number of names in a directory.
    #[doc(alias = "st_size")]
    pub size: u64,
}

/// Name in a directory, and what it names.
#[doc(alias = "struct dirent")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name, without the path before it: 1 to 255 bytes.
    pub name: Arc<str>,
    /// Number of the inode, as in [`Stat::inode`].
    pub inode: u64,
    /// What it is.
    pub kind: FileKind,
}
