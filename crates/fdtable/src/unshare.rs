//! A view of one's own: `unshare(2)`, and the flags of `close_range(2)`.

use alloc::sync::Arc;

use crate::{Error, Files};

bitflags::bitflags! {
    /// The flags of [`close_range_with`](Files::close_range_with).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct CloseRangeFlags: u32 {
        /// Works on a view of one's own. `CLOSE_RANGE_UNSHARE`.
        const UNSHARE = 1 << 1;
        /// Sets close-on-exec instead of closing. `CLOSE_RANGE_CLOEXEC`.
        const CLOEXEC = 1 << 2;
    }
}

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Gives the holder of `this` a view of its own, if it is shared: a [fork](Self::fork) takes
    /// its place. Two holders who unshare at the same moment may both get a new one. May wait for
    /// the lock, and allocates.
    ///
    /// # Errors
    /// [`Error::NoMemory`] (ENOMEM) as `fork`; `this` is as it was.
    #[doc(alias = "CLONE_FILES")]
    pub fn unshare(this: &mut Arc<Self>) -> Result<(), Error> {
        if Arc::strong_count(this) > 1 {
            *this = Arc::new(this.fork()?);
        }
        Ok(())
    }

    /// Closes every open descriptor from `first` to `last`, or does with them what the flags say.
    /// Otherwise as [`close_range`](Self::close_range). To unshare a table and close most of it is
    /// cheap: nothing that is closed is copied.
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
    /// - [`Error::NoMemory`] (ENOMEM) as [`unshare`](Self::unshare) and `close_range`.
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
