//! Files and names: what an inode of any file system is, how a path leads to one, and the file
//! system in memory.
//!
//! `fs/inode.rs` and `fs/file_system.rs` say what a file system is, `fs/namei.rs` goes a path over
//! all of them, `fs/path_ops` has what can be done at its end, `fs/memfs` is the one in memory.
//! `fs/dev.rs` and `fs/proc.rs` are small ones, and `fs/locks.rs` has what locks files of all.

mod attributes;
mod clock;
mod dev;
mod device_number;
mod fallocate;
mod file_system;
mod inode;
mod inode_number;
pub mod locks;
mod memfs;
mod mode;
mod mount;
pub(crate) mod namei;
mod open_directory;
pub mod path;
mod path_file;
mod path_ops;
mod proc;
mod seek;
mod stat;

pub use attributes::{Attributes, Time};
pub use clock::Timestamp;
pub use dev::DevFs;
pub use device_number::fresh as fresh_device;
pub use fallocate::FallocateFlags;
pub use file_system::{FileSystem, MayRename, RenameFlags, Renamed, StatFs};
pub use inode::{Dentry, Inode, LaterName, MayUnlink, NewInode, NewKind, Opening, Target, Unlink};
pub use inode_number::fresh as fresh_inode;
pub use memfs::{DEFAULT_FILE_LIMIT, MemFs};
pub use mode::{AccessMode, Credentials, Mode, Permissions};
pub use mount::{Mount, MountPoint, VfsPath};
pub(crate) use mount::{Mounts, Pinned};
pub(crate) use path_ops::OpenRequest;
pub use path_ops::{At, AtFlags, PathContext, UnlinkFlags};
pub use proc::ProcFs;
pub use seek::SeekTo;
pub use stat::{DirEntry, FileKind, Stat};
