//! Inodes, path lookup, mounts, and the file systems.
//!
//! | file | subject |
//! |---|---|
//! | `fs/inode.rs`, `fs/file_system.rs` | the interface of a file system |
//! | `fs/namei.rs` | path walk, over all file systems |
//! | `fs/path_ops.rs`, `fs/path_ops/` | the operations on paths: open, create, rename, ... |
//! | `fs/mount.rs` | mounts, and [`VfsPath`] |
//! | `fs/memfs.rs`, `fs/memfs/` | the file system in memory |
//! | `fs/lower.rs` | directories of the embedder below those in memory |
//! | `fs/shared_memory.rs` | memory of the embedder for files that are mapped |
//! | `fs/dev.rs`, `fs/proc.rs` | `/dev` and `/proc` |
//! | `fs/locks.rs`, `fs/locks/` | record locks and `flock`, for files of all file systems |

mod attributes;
mod capabilities;
mod dev;
mod device_number;
mod fallocate;
mod file_system;
mod generated_link;
mod inode;
mod inode_number;
pub mod locks;
mod lower;
mod memfs;
mod mode;
mod mount;
pub(crate) mod namei;
mod open_directory;
pub mod path;
mod path_file;
mod path_ops;
mod proc;
mod seals;
mod seek;
mod shared_memory;
mod stat;
mod timestamp;

pub use attributes::{Attributes, Time};
pub use capabilities::Capabilities;
pub use dev::DevFs;
pub use device_number::fresh as fresh_device;
pub use fallocate::FallocateFlags;
pub(crate) use file_system::want_write;
pub use file_system::{FileSystem, MayRename, Rename, RenameFlags, Renamed, StatFs};
pub use inode::{
    Dentry, Inode, LaterName, MayUnlink, NewInode, NewKind, Opening, RcuLookup, Target, Unlink,
};
pub use inode_number::fresh as fresh_inode;
pub(crate) use locks::LockSet;
pub use lower::{Lower, LowerBytes, LowerDevice, LowerDirectory, LowerFile, LowerInode, LowerName};
pub use memfs::{MemFs, MemFsLimits};
pub use mode::{AccessMode, Credentials, Mode, Permissions};
pub use mount::{Mount, MountPoint, MountRef, VfsPath};
pub(crate) use mount::{Mounts, Pinned};
pub use path_ops::{At, AtFlags, PathContext, ResolveFlags, UnlinkFlags};
pub(crate) use path_ops::{OpenRequest, inode_path, is_directory};
pub use proc::ProcFs;
pub use seals::Seals;
pub use seek::SeekTo;
pub use shared_memory::{MemoryUsage, SharedMemory};
pub(crate) use stat::BLOCK_SIZE;
pub use stat::{DirEntry, FileKind, Stat};
pub use timestamp::Timestamp;
