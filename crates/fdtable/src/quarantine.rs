//! Quarantine: closed descriptors are not reused for a while.
//!
//! A second close of a descriptor then returns EBADF. Without quarantine it would close a file that
//! another part of the program has opened there meanwhile. Quarantine is for debugging: while it is
//! on, opens and closes of a table wait for one lock, and an open takes the lowest descriptor that
//! is not in quarantine. While it is off, it costs nothing.

use crate::Files;

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Delays the reuse of each closed descriptor until `opens` more opens; 0 turns the mode off.
    /// Descriptors in quarantine count as taken; but when no other is free, the one that has waited
    /// longest is reused. At most 1,024 descriptors wait at once: when another is closed, the one
    /// that has waited longest is freed, so no call searches more than that.
    /// [`dup_to`](Self::dup_to) may still target a descriptor in quarantine. Children inherit the
    /// mode, and none of the descriptors. May wait for the lock.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// files.set_quarantine(1);
    /// let fd = files.open(FileRef::new("a"), FdFlags::empty())?;
    /// files.close(fd)?;
    /// let other = files.open(FileRef::new("b"), FdFlags::empty())?;
    /// assert_eq!(files.close(fd), Err(Error::BadFd), "and not the other one's file");
    /// assert_eq!((fd.raw(), other.raw()), (0, 1));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn set_quarantine(&self, opens: u32) {
        self.table.set_quarantine(opens);
    }

    /// Returns the number of opens that closed descriptors wait for; 0 if the mode is off. May wait
    /// for the lock.
    pub fn quarantine(&self) -> u32 {
        self.table.quarantine()
    }
}
