//! `close_range(2)`.
//!
//! The range is closed in groups of 64 descriptors, each atomically. A descriptor that another
//! thread opens in the range meanwhile may be closed or not, as on Linux. A release hook that
//! panics does not end the work: the rest of the range is closed, and then the panic is resumed.

use crate::{Error, Files};

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Closes every open descriptor from `first` to `last`, both included. Descriptors that are not
    /// open are skipped, and `u32::MAX` means "to the end". May wait for the lock, allocates where
    /// a part of the table is shared since a fork, and runs release hooks.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if `first` is greater than `last`.
    /// - [`Error::NoMemory`] (ENOMEM) if a part of the table that is shared since a fork cannot be
    ///   copied, or there is no memory for the descriptors in [quarantine](Self::set_quarantine).
    ///   The descriptors before that part are closed.
    pub fn close_range(&self, first: u32, last: u32) -> Result<(), Error> {
        let (first, last) = check(first, last)?;
        self.table.close_range(first, last, |_| ())
    }

    /// Sets close-on-exec on every open descriptor from `first` to `last`, both included. May wait
    /// for the lock, and allocates where a part of the table is shared since a fork.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if `first` is greater than `last`.
    /// - [`Error::NoMemory`] (ENOMEM) if a part of the table that is shared since a fork cannot be
    ///   copied. The descriptors before that part are changed.
    #[doc(alias = "CLOSE_RANGE_CLOEXEC")]
    pub fn set_cloexec_range(&self, first: u32, last: u32) -> Result<(), Error> {
        let (first, last) = check(first, last)?;
        self.table.set_cloexec_range(first, last)
    }
}

pub(crate) fn check(first: u32, last: u32) -> Result<(usize, usize), Error> {
    if first > last {
        Err(Error::InvalidArgument)
    } else {
        Ok((first as usize, last as usize))
    }
}
