//! Descriptors, their flags, and their data.

use core::fmt;

use fdtable_objects::radix::leaf::{NewTable, SlotData};
use fdtable_sync::bitmap::BITS;

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

/// An argument that names a descriptor: an [`Fd`], or a raw descriptor that is not checked yet.
///
/// A `u32` above 2^31 - 1 counts as a negative descriptor, as in C. Every operation says which
/// error it returns for one. Implemented for `i32`, `u32` and [`Fd`] alone: no code of the caller
/// runs inside a conversion.
///
/// ```
/// use fdtable::{Error, FdFlags, FileRef, Files};
///
/// let files = Files::new();
/// let fd = files.open(FileRef::new("log"), FdFlags::empty())?;
/// assert!(files.get(fd).is_ok() && files.get(0).is_ok() && files.get(0_u32).is_ok());
/// assert_eq!(files.get(u32::MAX).unwrap_err(), Error::BadFd);
/// # Ok::<(), Error>(())
/// ```
pub trait FdArg: Copy + sealed::Sealed {
    /// Returns the descriptor as in C.
    #[inline(always)]
    fn to_raw(self) -> RawFd {
        // The conversion of C: a number that is too large becomes negative.
        self.number() as RawFd
    }
}

impl FdArg for Fd {}
impl FdArg for i32 {}
impl FdArg for u32 {}

mod sealed {
    pub trait Sealed {
        /// Returns the number that the caller has passed.
        fn number(self) -> i64;
    }

    impl Sealed for super::Fd {
        #[inline(always)]
        fn number(self) -> i64 {
            self.0.into()
        }
    }

    impl Sealed for i32 {
        #[inline(always)]
        fn number(self) -> i64 {
            self.into()
        }
    }

    impl Sealed for u32 {
        #[inline(always)]
        fn number(self) -> i64 {
            self.into()
        }
    }
}

/// Converts an integer type that may be out of range.
macro_rules! try_from {
    ($($integer:ty),*) => {$(
        /// Checks a number.
        ///
        /// # Errors
        /// [`Error::BadFd`] (EBADF) if it is negative, or above [`Fd::MAX`].
        impl TryFrom<$integer> for Fd {
            type Error = Error;

            fn try_from(number: $integer) -> Result<Self, Error> {
                let raw = RawFd::try_from(number).map_err(|_| Error::BadFd)?;
                Self::new(raw)
            }
        }
    )*};
}

try_from!(i32, u32, i64, usize);

impl From<Fd> for RawFd {
    fn from(fd: Fd) -> Self {
        fd.raw()
    }
}

/// For hosts whose descriptors are unsigned, as in WASI.
impl From<Fd> for u32 {
    fn from(fd: Fd) -> Self {
        // A descriptor is never negative.
        fd.raw().cast_unsigned()
    }
}

/// For tables that are indexed by descriptors.
impl From<Fd> for usize {
    fn from(fd: Fd) -> Self {
        fd.index()
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
        /// Closes the descriptor on [`close_on_exec`](crate::Files::close_on_exec). `FD_CLOEXEC`.
        const CLOEXEC = 1;
        /// Keeps the descriptor out of the tables that [`fork`](crate::Files::fork) makes.
        /// `FD_CLOFORK` of POSIX.1-2024, which Linux does not have. The first descriptor with it
        /// among 64 allocates, as the first [word](FdData) does.
        ///
        /// A duplicate has it only if the call says so. It ends with the program:
        /// [`close_on_exec`](crate::Files::close_on_exec) clears it, since a program that does not
        /// know of it would start its children without standard input and output.
        const CLOFORK = 2;
    }
}

/// The data of a descriptor: what it has besides its file.
///
/// Functions that open take it, or only flags: then the word is 0.
///
/// | | flags | word |
/// |---|---|---|
/// | open, `dup_min`, `dup3`, [`replace`](crate::Files::replace) | as given | as given |
/// | `dup`, `dup2` | none | 0 |
/// | [`dup_with`](crate::Files::dup_with) | as it returns | as it returns |
/// | [`rename`](crate::Files::rename), [`fork`](crate::Files::fork), exec | kept | kept |
///
/// ```
/// use fdtable::{Error, FdData, FdFlags, FileRef, Files};
///
/// const RIGHT_TO_READ: u64 = 1;
/// let files = Files::new();
/// let fd = files.open(FileRef::new("motd"), (FdFlags::CLOEXEC, RIGHT_TO_READ))?;
/// let (file, data) = files.get_with_data(fd)?;
/// assert_eq!((*file, data.flags, data.word), ("motd", FdFlags::CLOEXEC, RIGHT_TO_READ));
/// // The copy has no rights.
/// let copy = files.dup(fd)?;
/// assert_eq!(files.get_with_data(copy)?.1, FdData::default());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct FdData {
    /// The flags that `fcntl(2)` knows.
    pub flags: FdFlags,
    /// A word of the caller's. The table does not look at it.
    pub word: u64,
}

impl From<FdFlags> for FdData {
    /// Makes data with flags alone.
    #[inline(always)]
    fn from(flags: FdFlags) -> Self {
        Self::new(flags, 0)
    }
}

impl From<(FdFlags, u64)> for FdData {
    /// Makes data with flags and a word.
    #[inline(always)]
    fn from((flags, word): (FdFlags, u64)) -> Self {
        Self::new(flags, word)
    }
}

impl FdData {
    /// Makes data with flags and a word.
    #[must_use]
    #[inline(always)]
    pub const fn new(flags: FdFlags, word: u64) -> Self {
        Self { flags, word }
    }

    pub(crate) fn into_slot(self) -> SlotData {
        // Flags are checked before: the two that are known.
        SlotData {
            flags: self.flags.bits() as u16,
            word: self.word,
        }
    }

    pub(crate) fn from_slot(data: SlotData) -> Self {
        let flags = FdFlags::from_bits_truncate(u32::from(data.flags));
        Self::new(flags, data.word)
    }

    /// Returns true if the leaf of the descriptor has to have a table: the leaf itself has only the
    /// close-on-exec bits.
    #[inline(always)]
    pub(crate) fn needs_table(self) -> bool {
        self.word != 0 || self.flags.contains(FdFlags::CLOFORK)
    }

    /// Makes the table for the leaf, if one may be needed. To be called outside of locks, as is the
    /// drop of a table that was not.
    pub(crate) fn new_table(self) -> Result<Option<NewTable>, Error> {
        Ok(self.needs_table().then(NewTable::try_new).transpose()?)
    }
}

/// Returns the index of a descriptor. A negative descriptor becomes an index above all leaves.
#[inline(always)]
pub(crate) fn index_of(fd: RawFd) -> usize {
    fd.cast_unsigned() as usize
}

/// Returns the index of a descriptor's leaf, and its bit there.
#[inline(always)]
pub(crate) fn place_of(number: usize) -> (usize, usize) {
    (number / BITS, number % BITS)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_from_0_to_the_highest_descriptor_are_descriptors() {
        let max = i64::from(RawFd::MAX);
        for number in [0, 1, max] {
            let fd = Fd::try_from(number).expect("in range");
            assert_eq!(i64::from(fd.raw()), number);
            assert_eq!(Fd::try_from(number as usize), Ok(fd));
            assert_eq!(Fd::try_from(number as u32), Ok(fd));
            assert_eq!(
                (u32::from(fd), usize::from(fd)),
                (number as u32, number as usize)
            );
        }
        for number in [-1, i64::MIN, max + 1, i64::MAX] {
            assert_eq!(Fd::try_from(number), Err(Error::BadFd));
            assert_eq!(Fd::try_from(number as usize), Err(Error::BadFd));
        }
        assert_eq!(Fd::try_from(-1), Err(Error::BadFd));
        assert_eq!(Fd::try_from(u32::MAX), Err(Error::BadFd));
    }

    #[test]
    fn a_number_above_all_descriptors_is_negative_as_an_argument() {
        assert_eq!(RawFd::MAX.unsigned_abs().to_raw(), RawFd::MAX);
        assert_eq!((RawFd::MAX.unsigned_abs() + 1).to_raw(), RawFd::MIN);
        assert_eq!(u32::MAX.to_raw(), -1);
    }
}
