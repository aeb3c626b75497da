//! The descriptors of `fork(2)`.

use crate::slab::SlabArc;
use crate::{Error, Fd, FdFlags, Files};

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Makes a child's table: the same files at the same descriptors, with the same flags and
    /// limits. From then on the two are independent. The child does not get reserved descriptors.
    /// The copy is atomic: changes by other threads wait for it. May wait for the lock, and
    /// allocates. Takes a reference to each of the first 64 files; the rest of the table is shared,
    /// and a part of it is copied when either table changes it.
    ///
    /// ```
    /// use fdtable::{FdFlags, FileRef, Files};
    ///
    /// let parent = Files::new();
    /// let fd = parent.open(FileRef::new("shared"), FdFlags::empty())?;
    /// let child = parent.fork()?;
    /// parent.close(fd)?;
    /// assert_eq!(*child.get(fd)?, "shared");
    /// # Ok::<(), fdtable::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) if there is no memory for the child's table; no reference is
    /// left behind.
    #[doc(alias = "dup_fd")]
    #[doc(alias = "unshare")]
    pub fn fork(&self) -> Result<Self, Error> {
        let mut child = Self::new();
        self.fork_into(&mut child)?;
        Ok(child)
    }

    /// Makes a child's table in a slab, and returns a counted pointer. The table is a copy like
    /// that of [`fork`](Self::fork). It does not move, and allocating and freeing it is fast.
    ///
    /// ```
    /// use fdtable::{FdFlags, FileRef, Files};
    ///
    /// let parent = Files::new();
    /// let fd = parent.open(FileRef::new("shared"), FdFlags::empty())?;
    /// let child = parent.fork_in_slab()?;
    /// let thread = child.clone();
    /// parent.close(fd)?;
    /// assert_eq!(*thread.get(fd)?, "shared");
    /// # Ok::<(), fdtable::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) as for [`fork`](Self::fork).
    pub fn fork_in_slab(&self) -> Result<SlabArc<Self>, Error> {
        SlabArc::try_new_with(Self::new(), |child| self.fork_into(child))?
    }

    /// Makes a child's table like [`fork`](Self::fork), with only the descriptors for which `keep`
    /// returns `true`. `keep` is called for each one in ascending order, with its file and flags,
    /// on the calling thread and outside of locks, but inside a read-side section: it must be short
    /// and must not block. If it panics, there is no child, and no reference is left behind.
    /// Descriptors that are not kept are not copied.
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
    pub fn fork_keeping(&self, keep: impl FnMut(Fd, &T, FdFlags) -> bool) -> Result<Self, Error> {
        let mut child = Self::new();
        let quarantine = self.table.fork_into(&mut child.table)?;
        child.table.close_unkept(keep)?;
        child.inherit_quarantine(quarantine);
        Ok(child)
    }

    /// Turns a new table into that of a child.
    fn fork_into(&self, child: &mut Self) -> Result<(), Error> {
        let quarantine = self.table.fork_into(&mut child.table)?;
        child.inherit_quarantine(quarantine);
        Ok(())
    }

    fn inherit_quarantine(&self, opens: u32) {
        if opens > 0 {
            self.table.set_quarantine(opens);
        }
    }
}
