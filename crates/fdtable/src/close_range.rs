//! `close_range(2)`.
//!
//! The range is worked off in groups of 64 numbers, each in one step. A descriptor that another
//! thread opens in the range meanwhile may be closed or not, as on Linux. A release hook that
//! panics does not end the work: what is left of the range is closed, and then the panic goes on.

use crate::{Error, Files};

impl<T: ?Sized + Send + Sync> Files<T> {
    /// Closes every open descriptor from `first` to `last`, both included; numbers that are not
    /// open are passed over, and `u32::MAX` means "to the end". May wait for the lock, and runs
    /// release hooks.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if `first` is greater than `last`.
    /// - [`Error::NoMemory`] (ENOMEM) if a part of the table that is shared since a fork cannot be
    ///   copied, or there is no memory for the numbers in
    ///   [quarantine](Self::set_quarantine). What comes before it has been done.
    pub fn close_range(&self, first: u32, last: u32) -> Result<(), Error> {
        let (first, last) = check(first, last)?;
        self.table.close_range(first, last, |_| ())
    }

    /// Sets close-on-exec on every open descriptor from `first` to `last`, both included. May
    /// wait for the lock.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`] (EINVAL) if `first` is greater than `last`.
    /// - [`Error::NoMemory`] (ENOMEM) if a part of the table that is shared since a fork cannot be
    ///   copied. What comes before it has been done.
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
