//! When release hooks and `Drop` run, and what a read-side section may do. There is no code here.
//!
//! # Two kinds of open files
//!
//! The type of a table says of which kind its files are. Code that was written for `Arc` uses the
//! first kind, and needs nothing of what follows.
//!
//! | | `Files<T>` | `Files<Rcu<T>>` |
//! |---|---|---|
//! | a file is made by | [`new`], [`new_dyn`], [`builder`] | [`new_rcu`], [`new_dyn_rcu`], [`builder`] with [`rcu`] |
//! | lookups | owned: [`get`] | owned: [`get`]; borrowed: [`get_rcu`], [`block`] |
//! | the release hook runs | when the last reference goes | when the last reference goes |
//! | `Drop` of the object runs | right after the hook | after a grace period, on a thread as below |
//! | a panic of `Drop` | propagates, as one of the hook | is [counted] |
//! | the memory is freed | after a grace period | after a grace period |
//!
//! Choose [`Rcu`](crate::Rcu) for objects that a reader uses for a short time and often, such as in
//! `poll`, and whose `Drop` only frees memory.
//!
//! # The ends of an open file
//!
//! 1. *Release*: the last reference is dropped. The [release
//!    hook](crate::FileBuilder::on_release) runs at once, on the thread that dropped it, or on one
//!    that is dropping a reference at the same time. A pipe notifies its other end here.
//! 2. *Drop*: no thread can use the object any more. For a file that cannot be borrowed, that is so
//!    after the release, and `Drop` of the object and of the hook run there. For an `Rcu` file,
//!    readers may still use the object without a reference, and `Drop` runs some time after they
//!    have left. So urgent work of such an object belongs in the hook: the end of a stream, a lock
//!    of a file, the count of a license.
//!
//! An open file can also be [revoked](crate::FileRef::revoke). Its hook then runs early, while
//! descriptors still refer to it, and lookups of them fail with EIO until they are closed. Its
//! object is dropped as that of other files, after the last reference; the hook does not run again.
//!
//! # Which calls run them
//!
//! A hook runs where a reference is dropped: that of a [`FileRef`](crate::FileRef), a
//! [`ClosedFile`](crate::ClosedFile) or [`ClosedFiles`](crate::ClosedFiles), or a table. So does
//! `Drop` of an object that cannot be borrowed. A hook also runs where its file is revoked. No lock
//! of a table is held then, so both may call the table. An object that holds the last reference to
//! another one drops it in its own `Drop`, on the same stack, as with `Arc`.
//!
//! `Drop` of an `Rcu` object runs on a thread that
//!
//! - drops other files of either kind, if enough of them are queued, or some thousands of them;
//! - drops a table that was not made by a fork, or exits after it has closed a descriptor;
//! - calls [`rcu::barrier`](crate::rcu::barrier), which waits until all are dropped;
//! - is the library's own. With `std`, the first such object with something to drop starts it, and
//!   it drops what no other thread has dropped within some milliseconds. A program that may have no
//!   further thread calls `rcu::use_ticks` first.
//!
//! So the drop of a table, even of an empty one, may run `Drop` of any `Rcu` object of the process.
//! A caller must not hold a lock that `Drop` of such an object takes while it drops a reference or
//! a table, or joins a thread.
//!
//! # Read-side sections
//!
//! A section begins with [`rcu::read_lock`](crate::rcu::read_lock) and ends when the guard drops.
//! Files that were found in it by [`get_rcu`] are not dropped before its end, also if they are
//! closed meanwhile. While a section lasts, no `Rcu` object that was released since its beginning
//! is dropped, and the memory of no such object of either kind is freed, in the whole process. So a
//! section is short.
//!
//! Inside a section a thread may
//!
//! - look up, count, iterate, and read flags;
//! - clone, upgrade and drop references: hooks may run, and `Drop` of objects that cannot be
//!   borrowed, which must not block then. `Drop` of `Rcu` objects does not run;
//! - open, duplicate, close, reserve and install: a call may wait for a lock, which is held for a
//!   bounded number of steps;
//! - drop a table, which leaves the `Drop` of its `Rcu` files to a later call.
//!
//! It must not block: on a lock of its own, or on input. It upgrades the file and ends the section
//! first. [`rcu::synchronize`](crate::rcu::synchronize) and
//! [`rcu::barrier`](crate::rcu::barrier) return an error inside a section.
//!
//! Sections nest, and a thread may hold several.
//!
//! [`new`]: crate::FileRef::new
//! [`new_dyn`]: crate::FileRef::new_dyn
//! [`new_rcu`]: crate::FileRef::new_rcu
//! [`new_dyn_rcu`]: crate::FileRef::new_dyn_rcu
//! [`builder`]: crate::FileRef::builder
//! [`get`]: crate::Files::get
//! [`get_rcu`]: crate::Files::get_rcu
//! [`block`]: crate::Files::block
//! [`rcu`]: crate::FileBuilder::rcu
//! [counted]: crate::contained_panics
