//! The C interface: POSIX calls on descriptors of this library.
//!
//! Each `fdt_` function is the system call of that name: `fdt_open` is `open(2)`. All of them act
//! on one [`Process`](fdtable_vfs::Process), which stands for the whole host process and is created
//! by the first call. Descriptors are entries of its table. A path below a mount (by default
//! `/fdt`) leads to a file system of this library. Every other path leads to the host, and a host
//! file that is opened gets a descriptor of the same table.
//!
//! In the sources, *ours* means inside this library, and *the host's* means in the host's kernel.
//!
//! Reading order: `abi` (how every call is made), then `host` (the calls of the host's kernel). One
//! file for each group of calls follows, in the directories that the vfs has too: `process`, `fs`,
//! `ipc`, `event`.
//!
//! # Safety
//! The functions are for C, and as safe as the calls that they are named after. The caller meets
//! what the man page demands of each pointer, length and buffer. Memory that cannot be accessed
//! fails with `EFAULT` (see `abi::faults` for what remains). No other thread may write to a buffer
//! during the call, or unmap it.
//!
//! No function unwinds or ends the process. A panic, which would be a bug of this library, becomes
//! `EIO`.

// The requirements are the same for all functions: see above.
#![allow(clippy::missing_safety_doc)]
// A C call and the pointer to its argument depend on one promise of the caller.
#![allow(clippy::multiple_unsafe_ops_per_block)]
#![cfg(target_arch = "x86_64")]

mod abi;
mod event;
mod fs;
mod host;
mod ipc;
mod passthrough;
mod process;
pub mod runner;

pub use event::*;
pub use fs::*;
pub use ipc::*;
pub use process::*;
