//! The descriptors of `fork(2)`.

use crate::{Error, Files};

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Makes a child's view: the same files under the same numbers, with the same flags and the
    /// same limit, and from then on independent. Numbers that are reserved stay with the parent
    /// alone. The copy is of one moment: changes by other threads wait for it. May wait for the
    /// lock, allocates, and takes a reference to each open file.
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
        let mut child = Self::with_limit(self.limit());
        self.table.fork_into(&mut child.table)?;
        Ok(child)
    }
}
