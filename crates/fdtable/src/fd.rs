//! Descriptor numbers and the flags of a descriptor.

use core::fmt;

use crate::Error;

/// A descriptor number as C and callers have it: any `int`, checked by nobody.
pub type RawFd = i32;

/// A number that can be a descriptor: 0 to 2^31 - 1. Whether one is open under it is another
/// question.
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
    /// The lowest number that a descriptor can have: 0.
    pub(crate) const MIN: Self = Self(0);

    /// The highest number that a descriptor can have: 2^31 - 1.
    pub const MAX: Self = Self(RawFd::MAX as u32);

    /// Checks a raw number.
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

    /// Returns the number as C has it.
    #[inline]
    #[must_use]
    pub const fn raw(self) -> RawFd {
        self.0.cast_signed()
    }

    /// Returns the number as an index, 0 to 2^31 - 1.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Makes a number from an index that the table gave out, which is below 2^31.
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
    /// number: two descriptors of one file have flags of their own.
    ///
    /// Every operation that takes flags answers [`Error::InvalidArgument`] (EINVAL) to an unknown
    /// one, before it looks at anything else, and changes nothing.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct FdFlags: u32 {
        /// Closes the descriptor on [`exec`](crate::Files::exec). `FD_CLOEXEC`.
        const CLOEXEC = 1;
    }
}

impl FdFlags {
    /// Checks that every flag is known. `from_bits_retain` can make a set that has others.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] (EINVAL) if one is not.
    #[inline]
    pub(crate) const fn check(self) -> Result<(), Error> {
        if Self::all().contains(self) {
            Ok(())
        } else {
            Err(Error::InvalidArgument)
        }
    }
}
