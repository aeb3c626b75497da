//! The C interface: POSIX calls on descriptors of our own, and the plain table.
//!
//! Each `fdt_` function is the system call of that name: `fdt_open` is `open(2)`, on one
//! [`Process`](fdtable_vfs::Process) for the whole host process, which begins at the first call. The
//! numbers are ours, and so is what they name. A path below a mount (`/fdt`, if nobody says
//! otherwise) is a path of our file systems; all others are the host's, whose files get numbers of
//! ours too.
//!
//! Reading order: `abi`, how every call is made; `host`, the world below. Then one file for each
//! theme of calls, in the rooms that the vfs has too: `process`, `fs`, `ipc`, `event`; above them
//! `stdio`, and `aliases` of what is there already. Last, and without any of it, `table`: the table
//! for embedders who bring their own objects.
//!
//! # Safety
//! The functions are for C, and as safe as the calls that they are named after: what a man page asks
//! of a pointer, a length or a buffer is the caller's to keep. A pointer that is null or cannot be an
//! address answers `EFAULT`; another wild one is read or written. A buffer is not to be changed by
//! others during the call.
//!
//! No function unwinds or ends the process: a panic, which would be a mistake of this library,
//! answers `EIO`.

// What is promised is the same for all, and told above.
#![allow(clippy::missing_safety_doc)]
// A call of C and the place of its argument hang on one promise, the caller's.
#![allow(clippy::multiple_unsafe_ops_per_block)]

mod abi;
mod aliases;
mod event;
mod fs;
mod host;
mod ipc;
mod process;
mod stdio;
mod table;
pub mod timed;

pub use aliases::*;
pub use event::*;
pub use fs::*;
pub use host::*;
pub use ipc::*;
pub use process::*;
pub use stdio::*;
pub use table::*;
