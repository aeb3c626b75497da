//! A kernel's file-descriptor table as a library.
//!
//! It maps small integers to counted open files, and has the operations of a kernel on them: look
//! up, open, duplicate, close, fork, exec. It is for user-space kernels, library operating systems,
//! sandboxes, WASM hosts and servers.
//!
//! ```
//! use fdtable::{Error, FdFlags, FileRef, Files, Rcu, rcu};
//!
//! // Without `Rcu`, all lookups are owned, and `Drop` runs at once when the last reference goes.
//! let files: Files<Rcu<String>> = Files::new();
//! let fd = files.open(FileRef::new_rcu("motd".to_string()), FdFlags::CLOEXEC)?;
//! let copy = files.dup(fd)?;
//! assert_eq!((fd.raw(), copy.raw()), (0, 1));
//!
//! // Owned: a reference, which outlives the descriptor.
//! let file = files.get(fd)?;
//! // Borrowed: no reference and no atomic write, for work that does not block.
//! let section = rcu::read_lock();
//! assert_eq!(files.get_rcu(copy, &section)?.len(), 4);
//! drop(section);
//!
//! files.close_on_exec(drop)?;
//! assert_eq!(files.get(fd).unwrap_err(), Error::BadFd);
//! assert_eq!(**file, "motd");
//! # Ok::<(), Error>(())
//! ```
//!
//! # Where to begin
//!
//! - [`guide`]: embed the table in an hour. It has the system calls, objects behind a trait, async
//!   code, and a table for ports from a `Vec` or a map under a lock.
//! - [`Files`]: the table, with its operations by subject.
//! - [`FileRef`] and [`FileBuilder`]: open files, and how they are made. [`Rcu`]: open files that
//!   readers can borrow.
//! - [`FdData`]: flags and a word for each descriptor. [`Files::replace`], [`Files::rename`]: a
//!   file at a chosen descriptor.
//! - [`lifetimes`]: when release hooks and `Drop` run, and what a read-side section may do.
//! - [`rcu`]: read-side sections, and [`rcu::barrier`].
//! - [`SuperBlock`]: the open files of one file system. [`PrivateFiles`]: descriptors that are
//!   never given out twice. The crate `fdtable-listing` prints the open files of all of them.
//!
//! # What to expect
//!
//! Descriptors and errors follow POSIX, and Linux where POSIX is silent. Lookups without the
//! [data](FdData) of the descriptor take no lock and never wait, also while the table grows. A
//! change takes the lock of the 64 descriptors that it changes. A search, growth, a fork, or a
//! change of a shared part takes the lock of the table. They are held for a bounded number of
//! steps, and never while a release hook or any other code of the caller runs. There are two
//! exceptions: a fork copies each leaf in which a descriptor is reserved, and a call that waits for
//! a free descriptor looks through those that wait already. "May wait for the lock" in the
//! documentation of an operation means one of these locks.
//!
//! # Features
//!
//! - `std`, by default: panics of hooks are contained, and the host process may fork. Without it
//!   the library needs `alloc` and 64-bit atomics.
//! - `platform`: without `std`, the program registers what its kernel provides ([`platform`]). Then
//!   the costs are those with `std`.
//! - `slab`, by default: open files and nodes of tables are in slabs. Without it they are in the
//!   global allocator.
//!
//! The library needs Rust 1.88.
//!
//! # For contributors: in which order to read the source
//!
//! [`Fd`], [`FileRef`], [`Files`], then `table`, the state below all operations, and one file for
//! each operation: `lookup`, `open`, `close`, `dup`, `fcntl`, `close_range`, `fork`. The rarer
//! operations follow: `data`, `replace`, `iterate`, `pair`, `any`, `reserve`, `limits`, `wait`,
//! `quarantine`, `on_close`. Each file has the public functions first, and the mechanism below
//! them, on top of [`fdtable_objects`]. Then `superblock`, a file system's view of the same files.
//! `private` is independent of all that: no search, `close_range`, fork or exec touches its
//! descriptors.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

extern crate alloc;

/// Compiles and runs the code of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Compiles and runs the code of the guide for ports.
#[cfg(doctest)]
#[doc = include_str!("../porting.md")]
struct Porting;

// In the order of the sections of `Files` in the documentation.
mod files;

mod open;

mod lookup;

mod close;

mod dup;

mod replace;

mod fcntl;

mod data;

mod close_range;

mod fork;

mod iterate;

mod limits;

mod reserve;

mod pair;

mod any;

mod wait;

mod quarantine;

mod on_close;

// Their parts, and the modules beside them.
mod builder;
mod convert;
mod error;
mod fd;
mod file;
pub mod guide;
pub mod lifetimes;
#[cfg(all(test, loom))]
mod loom;
mod private;
mod rare;
mod superblock;
mod table;
mod two_leaves;
#[cfg(doctest)]
mod variance;
mod weak;

#[cfg(feature = "std")]
#[doc(inline)]
pub use fdtable_sync::host_fork;
#[doc(inline)]
pub use fdtable_sync::platform::kernel as platform;
#[doc(inline)]
pub use fdtable_sync::rcu;
#[doc(inline)]
pub use fdtable_sync::set_platform;
#[doc(inline)]
pub use fdtable_sync::unwind::contained_panics;

pub use builder::FileBuilder;
pub use close::ClosedFile;
pub use close_range::ClosedFiles;
pub use convert::FromRaw;
pub use error::Error;
pub use fd::{Fd, FdArg, FdData, FdFlags, RawFd};
pub use file::{BorrowedFile, FileRef, Rcu, ReleaseReason};
pub use files::Files;
pub use lookup::Block;
pub use private::{PrivateFd, PrivateFiles};
pub use reserve::{Reservation, Reservations};
pub use superblock::{Access, SuperBlock, WantWrite};
pub use weak::WeakFile;
