//! The descriptor table for C, for embedders that bring their own objects.
//!
//! A table maps descriptors to pointers of the embedder, and counts the references to them. A
//! reference to an *open file* is a descriptor in a table, or an [`fdt_file`] that a lookup
//! returned. When the last one is dropped, the thread that drops it calls the table's `release`
//! function with the pointer, once.
//!
//! `table/sections.rs` has lookups without a reference and calls that wait for them, `table/at.rs`
//! the operations at a descriptor that the caller chooses, `table/data.rs` those on the
//! [data](fdt_data) of a descriptor, `table/several.rs` those on several descriptors,
//! `table/weak.rs` weak references, and `table/private.rs` a table of private descriptors.
//! `table/handles.rs` passes tables, references, reservations and sections to the caller and takes
//! them back; with the feature `debug`, `table/checked_handles.rs` does that, and finds misuses.
//! `hosted.rs` is the entry and the exit of every call in a process, and `freestanding.rs` in a
//! kernel: the feature `std` chooses. Without it the library needs no operating system, and calls
//! functions that the kernel defines.
//!
//! Any thread may call any function. A lookup costs some nanoseconds more than in Rust, for the
//! freezer and the guard against panics: see `docs/performance.md`. Errors are stored in errno.
//!
//! No function unwinds or ends the process. A panic, which would be a bug of this library, becomes
//! `EIO`. With the feature `debug`, a misuse ends the process with a sentence.
//!
//! # Borrowed access
//!
//! Between [`fdt_read_lock`] and [`fdt_read_unlock`] a lookup needs no reference.
//! [`fdt_table_borrow`] returns the pointer. If another thread closes the descriptor meanwhile,
//! `release` may already have been called for the object. So memory that `release` would free must
//! outlive the section: free it in the table's `free` function, which is called when no section can
//! see the object any more. Memory that no table has is freed by [`fdt_defer`] in the same way.
//!
//! Objects that count their references themselves need no count of this library:
//! [`fdt_table_acquire`] calls the embedder's increment inside a section.
//!
//! # Lifetime of objects and of `user`
//!
//! `free` is called for an object some time after `release`, once no section can see the object any
//! more, in batches with other objects. Until then everything that `free` uses must stay valid: the
//! object, `user`, and the code. [`fdt_barrier`] returns when `free` has been called for all
//! objects that were released before. `free` is also called, for all objects that were released
//! before and that no section of another thread can see:
//! - when the last table of a family (tables that were forked from one another) is freed.
//!   [`fdt_table_free`] waits for sections then, so that `user` may be freed when it returns, if no
//!   [`fdt_file`] of the tables is left;
//! - when a thread ends that has released objects, without waiting, and not during a fork. Objects
//!   that the thread releases after that stay for later: in destructors of `pthread_key_create(3)`,
//!   or of thread locals, that run after those of this library;
//! - when the process ends by `exit(3)` or by the end of `main`, after a short wait at most.
//!   Handlers that were registered with `atexit(3)` before the first table was created run later;
//!   they call `free` as at other times.
//!
//! `user` may be freed when all those tables and files are gone, and after that [`fdt_barrier`] has
//! returned. The last [`fdt_table_free`] has the same effect, if it came after the last
//! [`fdt_file_put`] and outside of a section, of `free`, and of a handler of `pthread_atfork(3)`.
//!
//! # Locks in `free`
//!
//! `free` is called for objects of all tables, in calls about any of them, and at the end of
//! threads. So a thread must not hold a lock that `free` takes in a call of this library that
//! closes, puts, frees or waits ([`fdt_barrier`]), in `pthread_join(3)` of a thread that has
//! released objects, or in `fork(2)`, which waits for calls of `free` that are under way.
//!
//! # Safety
//! A table is valid from [`fdt_table_new`] to [`fdt_table_free`]; an `fdt_file` until its one
//! [`fdt_file_put`], and an `fdt_weak` until its one [`fdt_weak_put`]; a reservation until its one
//! [`fdt_table_install`], [`fdt_table_install_data`] or [`fdt_table_cancel`], and its table
//! outlives it. The functions that are passed to a table are called on any thread, and do not
//! unwind.

#![cfg_attr(not(feature = "std"), no_std)]
// The names are those of C.
#![allow(non_camel_case_types)]
// The requirements are the same for all functions: see above.
#![allow(clippy::missing_safety_doc)]
// A C call and the pointer to its argument depend on one promise of the caller.
#![allow(clippy::multiple_unsafe_ops_per_block)]

extern crate alloc;

mod errno;
#[cfg(not(feature = "std"))]
mod freestanding;
#[cfg(feature = "std")]
mod hosted;
mod memory;
mod table;

#[cfg(not(feature = "std"))]
use freestanding as environment;
#[cfg(feature = "std")]
use hosted as environment;

#[cfg(not(feature = "std"))]
pub use freestanding::*;

pub use table::*;
