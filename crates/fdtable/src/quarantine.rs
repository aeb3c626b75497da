//! Quarantine: numbers that were closed are not given out again for a while.
//!
//! A second close of a number then answers EBADF, where it would have closed what somebody else
//! has opened under it meanwhile. For debugging: while it is on, opens and closes of a table wait
//! for one lock, and do not find the lowest number but the lowest that is not in quarantine. Off,
//! it costs nothing.

use crate::Files;

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Has each number that is closed wait for `opens` opens before it is given out again; 0 ends
    /// it. Numbers in quarantine count as taken; but when no other is free, the one that has waited
    /// longest is given out. At most 1,024 numbers wait at once: when another is closed, the one
    /// that has waited longest is freed, so that no call has more than that to look through. A call
    /// that asks for one by its name gets it ([`dup_to`](Self::dup_to)). Children inherit the mode,
    /// and none of the numbers. May wait for the lock.
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

    /// Returns for how many opens closed numbers wait; 0 if they do not. May wait for the lock.
    pub fn quarantine(&self) -> u32 {
        self.table.quarantine()
    }
}
