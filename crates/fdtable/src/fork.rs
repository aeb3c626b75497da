//! The descriptors of `fork(2)`.

use crate::slab::SlabArc;
use crate::{Error, Fd, FdFlags, Files};

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Makes a child's view: the same files under the same numbers, with the same flags and the
    /// same limit, and from then on independent. Numbers that are reserved stay with the parent
    /// alone. The copy is of one moment: changes by other threads wait for it. May wait for the
    /// lock, and allocates. Takes a reference to each of the first 64 files; the rest of the table
    /// is shared, and copied where one of the two is changed.
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

    /// Makes a child's view as [`fork`](Self::fork), in memory of slabs and counted, for who shares
    /// it: it does not move, and the memory is soon had and soon given back.
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
    /// As `fork`.
    pub fn fork_in_slab(&self) -> Result<SlabArc<Self>, Error> {
        SlabArc::try_new_with(Self::new(), |child| self.fork_into(child))?
    }

    /// Makes a child's view with those descriptors alone for which `keep` answers `true`: it is
    /// asked of each one in ascending order, with its file and flags, on the calling thread and
    /// outside of locks, but inside a read-side section: it must be short and must not block. If it
    /// panics, there is no child, and no reference is left behind. Otherwise as
    /// [`fork`](Self::fork); what is not kept is not copied.
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
    /// As `fork`.
    pub fn fork_keeping(&self, keep: impl FnMut(Fd, &T, FdFlags) -> bool) -> Result<Self, Error> {
        let mut child = Self::new();
        let quarantine = self.table.fork_into(&mut child.table)?;
        child.table.close_unkept(keep)?;
        child.inherit_quarantine(quarantine);
        Ok(child)
    }

    /// Makes a view that is new that of a child.
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
