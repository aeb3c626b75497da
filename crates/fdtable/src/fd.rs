//! Descriptors and their flags.

use core::fmt;

use crate::Error;

/// A descriptor as in C: any `int`, not checked yet.
pub type RawFd = i32;

/// A descriptor: an integer from 0 to 2^31 - 1. It need not be open in any table.
///
/// ```
/// use fdtable::{Error, Fd};
///
/// assert_eq!(Fd::new(3)?.raw(), 3);
/// assert_eq!(Fd::new(-1), Err(Error::BadFd));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fd(u32);

impl Fd {
    /// The lowest descriptor: 0.
    pub(crate) const MIN: Self = Self(0);

    /// The highest descriptor: 2^31 - 1.
    pub const MAX: Self = Self(RawFd::MAX as u32);

    /// Checks a raw descriptor.
    ///
    /// # Errors
    /// [`Error::BadFd`] (EBADF) if it is negative.
    #[inline]
    pub const fn new(raw: RawFd) -> Result<Self, Error> {
        if raw < 0 {
            Err(Error::BadFd)
        } else {
            Ok(Self(raw.cast_unsigned()))
        }
    }

    /// Returns the descriptor as in C.
    #[inline]
    #[must_use]
    pub const fn raw(self) -> RawFd {
        self.0.cast_signed()
    }

    /// Returns the descriptor as an index, 0 to 2^31 - 1.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Makes a descriptor from an index of a table, which is below 2^31.
    pub(crate) fn from_index(index: usize) -> Self {
        debug_assert!(index <= Self::MAX.index(), "tables have no such index");
        Self(index as u32)
    }
}

impl From<Fd> for RawFd {
    fn from(fd: Fd) -> Self {
        fd.raw()
    }
}

impl fmt::Debug for Fd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fd({})", self.0)
    }
}

impl fmt::Display for Fd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

bitflags::bitflags! {
    /// The flags of a descriptor, as `F_GETFD` of `fcntl(2)` reads them. They belong to the
    /// descriptor: two descriptors of one file have separate flags.
    ///
    /// Every operation that takes flags returns [`Error::InvalidArgument`] (EINVAL) for an unknown
    /// one, before any other check, and changes nothing.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct FdFlags: u32 {
        /// Closes the descriptor on [`exec`](crate::Files::exec). `FD_CLOEXEC`.
        const CLOEXEC = 1;
    }
}

impl FdFlags {
    /// Checks that every flag is known. `from_bits_retain` can make a set with others.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] (EINVAL) if a flag is unknown.
    #[inline]
    pub(crate) const fn check(self) -> Result<(), Error> {
        if Self::all().contains(self) {
            Ok(())
        } else {
            Err(Error::InvalidArgument)
        }
    }
}
