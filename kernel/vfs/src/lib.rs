//! A small kernel in a process: files, directories, pipes and stream sockets behind descriptors.
//!
//! It is the first user of [`fdtable`] and shows how to build on it: [`Object`] is what a
//! descriptor refers to, [`Process`] has the system calls, and [`MemFs`] is the root file system.
//! Errors and flags have the names and values of Linux.
//!
//! ```
//! use fdtable_vfs::{OpenFlags, Process};
//!
//! # fn main() -> Result<(), fdtable_vfs::Errno> {
//! let parent = Process::new();
//! let (reader, writer) = parent.pipe2(OpenFlags::CLOEXEC)?;
//!
//! let mut child = parent.fork()?;
//! parent.close(writer)?;
//! child.write(writer, b"hello")?;
//! child.exec()?; // closes the child's writing end, which is the last one
//!
//! let mut buf = [0; 16];
//! assert_eq!(parent.read(reader, &mut buf)?, 5);
//! assert_eq!(&buf[..5], b"hello");
//! assert_eq!(parent.read(reader, &mut buf)?, 0); // end of file
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod errno;
pub mod event;
pub mod fs;
pub mod ipc;
mod kernel;
mod object;
mod open_flags;
mod process;
mod vectored;

pub use errno::Errno;
pub use fs::locks::{FileLock, LockFrom, LockKind, LockOwner, LockSet, LockWait};
pub use fs::{
    AccessMode, At, AtFlags, DevFs, DirEntry, FallocateFlags, FileKind, MemFs, MemFsLimits,
    MemoryUsage, Mode, ProcFs, RenameFlags, Seals, SeekTo, SharedMemory, Stat, Time, UnlinkFlags,
};
pub use ipc::{pipe, socket};
pub use kernel::Kernel;
pub use object::{Object, RcuObject, Transfer, TransferMode, file};
pub use open_flags::{OpenFlags, RwFlags, Status};
pub use process::{
    CloneFlags, CloseRangeFlags, DescriptorChoice, FdSet, FlockOperation, Limit, MemfdFlags,
    PollFd, Process, Resource, SpliceFlags, select_now, select_to_poll,
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct ReadmeOfBoth;

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeOfAll;

#[cfg(test)]
#[path = "../tests/system_calls/call.rs"]
mod call;
