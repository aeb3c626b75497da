//! A table of one's own: `unshare(2)`, and the flags of `close_range(2)`.

use alloc::sync::Arc;

use crate::{Error, Files};

bitflags::bitflags! {
    /// The flags of [`close_range_with`](Files::close_range_with).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct CloseRangeFlags: u32 {
        /// Unshares the table first. `CLOSE_RANGE_UNSHARE`.
        const UNSHARE = 1 << 1;
        /// Sets close-on-exec instead of closing. `CLOSE_RANGE_CLOEXEC`.
        const CLOEXEC = 1 << 2;
    }
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Replaces `this`, if it is shared, by a [fork](Self::fork). If two holders unshare at the
    /// same time, both may get a new one. May wait for the lock, and allocates.
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) as for [`fork`](Self::fork); `this` is unchanged.
    #[doc(alias = "CLONE_FILES")]
    pub fn unshare(this: &mut Arc<Self>) -> Result<(), Error> {
        if Arc::strong_count(this) > 1 {
            *this = Arc::new(this.fork()?);
        }
        Ok(())
    }

    /// Closes every open descriptor from `first` to `last`, or changes them as the flags say. To
    /// unshare a table and close most of it is cheap: descriptors that are closed are not copied.
    /// May wait for the lock, allocates, and runs release hooks, like
    /// [`close_range`](Self::close_range).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use fdtable::{CloseRangeFlags, Error, FdFlags, FileRef, Files};
    ///
    /// let shared = Arc::new(Files::new());
    /// let fd = shared.open(FileRef::new("terminal"), FdFlags::empty())?;
    /// let mut own = Arc::clone(&shared);
    /// Files::close_range_with(&mut own, 0, u32::MAX, CloseRangeFlags::UNSHARE)?;
    /// assert!(shared.get(fd).is_ok() && own.get(fd).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if `first` is greater than `last`, or a flag is
    ///   unknown.
    /// - [`Error::NoMemory`] (ENOMEM) as for [`unshare`](Self::unshare) and
    ///   [`close_range`](Self::close_range).
    pub fn close_range_with(
        this: &mut Arc<Self>,
        first: u32,
        last: u32,
        flags: CloseRangeFlags,
    ) -> Result<(), Error> {
        if first > last || !CloseRangeFlags::all().contains(flags) {
            return Err(Error::InvalidArgument);
        }
        if flags.contains(CloseRangeFlags::UNSHARE) {
            Self::unshare(this)?;
        }
        if flags.contains(CloseRangeFlags::CLOEXEC) {
            this.set_cloexec_range(first, last)
        } else {
            this.close_range(first, last)
        }
    }
}
