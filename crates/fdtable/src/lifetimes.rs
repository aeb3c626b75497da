//! When release hooks and `Drop` run, and what a read-side section may do. There is no code here.
//!
//! # The two ends of an open file
//!
//! An open file ends in two steps, at different times:
//!
//! 1. *Release*: the last reference is dropped. The [release
//!    hook](crate::FileBuilder::on_release) runs at once, on the thread that dropped it, or on one
//!    that is dropping a reference at the same time. A pipe notifies its other end here.
//! 2. *Drop*: the readers that may still use the object without a reference have left. `Drop` of
//!    the object runs some time after that.
//!
//! So urgent work belongs in the hook: the end of a stream, a lock of a file, the count of a
//! license. `Drop` is for memory.
//!
//! An open file can also be [revoked](crate::FileRef::revoke). It is then released early, while
//! descriptors still refer to it, and lookups of them fail with EIO until they are closed.
//!
//! # Which calls run them
//!
//! A hook runs where a reference is dropped: that of a [`FileRef`](crate::FileRef), a
//! [`ClosedFile`](crate::ClosedFile) or [`ClosedFiles`](crate::ClosedFiles), or a table. No lock of
//! a table is held then, so a hook may call the table.
//!
//! `Drop` runs in a batch, on a thread that
//!
//! - drops other files, if enough of them are queued;
//! - drops a table that was not made by a fork, or exits after it has closed a descriptor;
//! - calls [`rcu::barrier`](crate::rcu::barrier), which waits until all are dropped.
//!
//! So the drop of a table, even of an empty one, may run `Drop` of any object of the process. A
//! caller must not hold a lock that `Drop` of an object takes while it drops a reference or a
//! table, or joins a thread.
//!
//! # Read-side sections
//!
//! A section begins with [`rcu::read_lock`](crate::rcu::read_lock) and ends when the guard drops.
//! Files that were found in it by [`get_rcu`](crate::Files::get_rcu) are not dropped before its
//! end, also if they are closed meanwhile. While a section lasts, no object that was released since
//! its beginning is dropped, in the whole process. So a section is short.
//!
//! Inside a section a thread may
//!
//! - look up, count, iterate, and read flags;
//! - clone, upgrade and drop references: hooks may run, but no `Drop`;
//! - open, duplicate, close, reserve and install: a call may wait for a lock, which is held for a
//!   bounded number of steps;
//! - drop a table, which leaves the `Drop` of its files to a later call.
//!
//! It must not block: on a lock of its own, on input, or in
//! [`wait_until_free`](crate::Files::wait_until_free), [`dup3_waiting`](crate::Files::dup3_waiting)
//! or [`close_and_wait`](crate::Files::close_and_wait). It upgrades the file and ends the section
//! first. [`rcu::synchronize`](crate::rcu::synchronize) and [`rcu::barrier`](crate::rcu::barrier)
//! return an error inside a section.
//!
//! Sections nest, and a thread may hold several.
