//! `fork(2)`, and `unshare(2)`: a table of one's own.
//!
//! Parent and child have the same nodes, and copy those that they write (see
//! [`fdtable_objects::radix`]). The fork is atomic: the fast path is closed, so no thread is inside
//! a leaf.
//!
//! Before that, the freed-leaf lists are drained: a leaf on a list is not full although it is
//! marked as full, and the marks are in the nodes that will be shared. A leaf with a reservation is
//! not shared. It stays the parent's own, and in the child's copy these descriptors are free.

use alloc::vec::Vec;

use fdtable_sync::bitmap::bits_of;
use fdtable_sync::fallible::OutOfMemory;

use crate::files::Origin;
use crate::table::{Mark, WriteGuard};
use crate::{Error, Fd, FdData, FdFlags, FileRef, Files};

/// # Fork
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Makes a child's table: the same files at the same descriptors, with the same flags and
    /// limits. From then on the two are independent. The child gets neither reserved descriptors,
    /// nor those with [`CLOFORK`](FdFlags::CLOFORK), nor the [hook](Self::on_close) of closes. The
    /// copy is atomic: changes by other threads wait for it. May wait for the lock, and allocates.
    /// Takes a reference to each of the first 64 files; the rest of the table is shared, and a part
    /// of it is copied when either table changes it.
    ///
    /// If a descriptor has had `CLOFORK`, the fork also looks at each 64 descriptors, and copies
    /// those where one has it. For a moment it has a reference to the files of these descriptors:
    /// if other threads close them meanwhile, it may drop the last one. No hook of closes runs.
    ///
    /// It is also `unshare(2)`, of a table that several processes use and where no descriptor has
    /// `CLOFORK`: replace the counted pointer by one to a fork. Where one may, an unshare is a
    /// [`fork_keeping`](Self::fork_keeping) of everything. With [`close_range`](Self::close_range)
    /// after it, it is `CLOSE_RANGE_UNSHARE`: descriptors that are closed are not copied.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let parent = Files::new();
    /// let fd = parent.open(FileRef::new("shared"), FdFlags::empty())?;
    /// let own = parent.open(FileRef::new("own"), FdFlags::CLOFORK)?;
    /// let child = parent.fork()?;
    /// drop(parent.close(fd)?);
    /// assert_eq!(*child.get(fd)?, "shared");
    /// assert_eq!(child.get(own).unwrap_err(), Error::BadFd);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) if there is no memory for the child's table; no reference is
    /// left behind.
    ///
    /// # Panics
    /// If the hook or `Drop` of a file does whose last reference it drops, which has had `CLOFORK`.
    #[doc(alias = "dup_fd")]
    #[doc(alias = "unshare")]
    #[doc(alias = "CLONE_FILES")]
    #[doc(alias = "CLOSE_RANGE_UNSHARE")]
    pub fn fork(&self) -> Result<Self, Error> {
        let mut child = Self::new();
        self.fork_into_new(&mut child)?;
        Ok(child)
    }

    /// Replaces `child` by a [fork](Self::fork) of this table, without moving it. A table has a
    /// kilobyte: where processes fork often and their tables are boxed, moves are 8 % of the
    /// instructions of a small fork and an exit. The files of `child` are closed first. May wait
    /// for the lock, and allocates.
    ///
    /// ```
    /// use fdtable::{FdFlags, FileRef, Files};
    ///
    /// let parent = Files::new();
    /// let fd = parent.open(FileRef::new("shared"), FdFlags::empty())?;
    /// let mut child = Box::new(Files::new());
    /// parent.fork_into(&mut child)?;
    /// assert_eq!(*child.get(fd)?, "shared");
    /// # Ok::<(), fdtable::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) as for [`fork`](Self::fork); `child` is empty.
    ///
    /// # Panics
    /// As [`fork`](Self::fork); `child` is the fork then, without the quarantine.
    pub fn fork_into(&self, child: &mut Self) -> Result<(), Error> {
        if !child.is_new() {
            *child = Self::new();
        }
        let forked = self.fork_into_new(child);
        forked.inspect_err(|_| *child = Self::new())
    }

    /// Makes a child's table like [`fork`](Self::fork), with only the descriptors for which `keep`
    /// returns `true`. `keep` is called for each one in ascending order, with its file and
    /// [data](FdData), on the calling thread and outside of locks. It sees what was open at the
    /// moment of the fork, whatever other threads change in this table meanwhile, before any other
    /// thread can use the child. If it panics, there is no child, and no reference is left behind.
    /// Descriptors that are not kept are not copied. One with [`CLOFORK`](FdFlags::CLOFORK) is kept
    /// too if `keep` says so.
    ///
    /// ```
    /// use fdtable::{FdFlags, FileRef, Files};
    ///
    /// let parent = Files::new();
    /// for name in ["in", "out", "secret"] {
    ///     parent.open(FileRef::new(name), FdFlags::empty())?;
    /// }
    /// let child = parent.fork_keeping(|fd, _, _| fd.raw() <= 1)?;
    /// assert_eq!((parent.open_count(), child.open_count()), (3, 2));
    /// # Ok::<(), fdtable::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) as for [`fork`](Self::fork).
    pub fn fork_keeping(
        &self,
        keep: impl FnMut(Fd, &FileRef<T>, FdData) -> bool,
    ) -> Result<Self, Error> {
        let mut child = Self::new();
        let quarantine = self.share_with(&mut child)?;
        child.close_unkept(keep)?;
        child.set_quarantine(quarantine)?;
        Ok(child)
    }

    /// Returns true if the table is as [`new`](Self::new) makes it, but for limits.
    fn is_new(&mut self) -> bool {
        // Without memory for lists and claims no search has marked the first leaf.
        self.tree.is_new() && !self.free_hint.is_prepared() && self.tree.data_mut().is_new()
    }
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Makes `child`, which is new, a fork of this table. If there is an error, the contents of
    /// `child` are unspecified.
    #[inline(always)]
    fn fork_into_new(&self, child: &mut Self) -> Result<(), Error> {
        let quarantine = self.share_with(child)?;
        if child.has_had(FdFlags::CLOFORK) {
            child.close_flagged(FdFlags::CLOFORK, drop)?;
            child.noted(FdFlags::CLOFORK).clear(0);
        }
        if quarantine > 0 {
            child.set_quarantine(quarantine)?;
        }
        Ok(())
    }

    /// Makes `child` a copy of this table, except the quarantine. `child` is empty and not shared
    /// yet. Returns the number of opens that a descriptor waits for in this table's quarantine.
    fn share_with(&self, child: &mut Self) -> Result<u32, Error> {
        let mut writer = self.tree.write();
        let quarantine = writer.rare.as_ref().map_or(0, |it| it.quarantine.opens);
        child.end.0 = Origin::Fork;
        child.free_hint.set_limit(self.free_hint.limit());
        if !writer.has_nodes() {
            writer.share_with(&mut child.tree, core::iter::empty())?;
        } else {
            writer.exclude_readers();
            let forked = self.fork_shut(&mut writer, child);
            writer.admit_readers();
            drop(writer);
            // Without the lock: the end of a change runs callbacks, which may use this table.
            forked?.iter().for_each(|&index| child.drop_reserved(index));
        }
        // After the copy: it has synchronised with the threads whose flags are in it.
        for (copy, noted) in child.flags_noted.iter().zip(&self.flags_noted) {
            copy.replace(noted.bits());
        }
        Ok(quarantine)
    }

    /// Returns the leaves of the child that have reserved descriptors.
    fn fork_shut(
        &self,
        writer: &mut WriteGuard<'_, T>,
        child: &mut Self,
    ) -> Result<Vec<usize>, Error> {
        // The child's leaves may be marked as full; then it must be able to report them.
        child.free_hint.prepare()?;
        self.drain_and_hint(writer);
        // A child does not need them, and has no list of them.
        Self::remove_idle(writer);
        Self::forget_installed(writer);
        let mut kept = Vec::new();
        kept.try_reserve_exact(writer.reserved.len())
            .map_err(|_| OutOfMemory)?;
        kept.extend_from_slice(&writer.reserved);
        writer.share_with(&mut child.tree, kept.iter().copied())?;
        Ok(kept)
    }

    /// Frees the descriptors of a leaf that have no file, in the table of a child.
    fn drop_reserved(&mut self, index: usize) {
        let mut writer = self.tree.write();
        if let Some(mut leaf) = writer.lock_leaf(index) {
            let installed = leaf.installed();
            for bit in bits_of(leaf.open.bits() & !installed) {
                leaf.clear_data(bit);
            }
            leaf.open.replace(installed);
            // The child's searches begin at the first leaf.
            leaf.state_mut().mark = Mark::Open;
            writer.mark_free(index);
        }
        Self::remove_if_empty(&mut writer, index);
    }
}
