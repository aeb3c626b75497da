//! The limit of new descriptors: the soft `RLIMIT_NOFILE` of `getrlimit(2)`.
//!
//! The hard limit bounds what a process may set, and belongs to the process: the kernel keeps it.

use crate::Files;
use crate::table::MAX_LIMIT;

/// # Limit
impl<T: ?Sized + Send + Sync> Files<T> {
    /// Returns the limit, 0 to 2^31: new descriptors are below it. Takes no lock, neither blocks
    /// nor allocates, and may be called inside a read-side section.
    #[doc(alias = "RLIMIT_NOFILE")]
    #[doc(alias = "getrlimit")]
    pub fn limit(&self) -> u32 {
        // At most 2^31.
        self.free_hint.limit() as u32
    }

    /// Sets the limit; more than 2^31 counts as 2^31. Descriptors at or above it stay open. Tasks
    /// that [wait for a free descriptor](Self::poll_until_free) check again. May wait for the lock.
    ///
    /// ```
    /// use fdtable::{Error, FdFlags, FileRef, Files};
    ///
    /// let files = Files::new();
    /// files.set_limit(1);
    /// let fd = files.open(FileRef::new("log"), FdFlags::empty())?;
    /// assert_eq!(files.dup(fd), Err(Error::TooManyFiles));
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(alias = "setrlimit")]
    pub fn set_limit(&self, limit: u32) {
        let mut writer = self.tree.write();
        self.free_hint.set_limit((limit as usize).min(MAX_LIMIT));
        // Opens look only at leaves below it.
        self.drain_and_hint(&mut writer);
        // There may be free descriptors below the new limit.
        Self::release_and_wake(writer);
    }
}
