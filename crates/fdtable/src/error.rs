//! Errors, and the errno of each.

use core::fmt;

/// The error of an operation on descriptors. Each stands for one errno of the man pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// The descriptor is negative, not open, or too high. It is too high at or above the limit
    /// where the man page requires a lower one. EBADF.
    BadFd,
    /// Every descriptor below the limit is taken. EMFILE.
    TooManyFiles,
    /// An argument is out of its range. EINVAL.
    InvalidArgument,
    /// The descriptor is reserved, or files are open on the superblock. A reserved descriptor
    /// belongs to an operation that has not installed its file yet. EBUSY.
    Busy,
    /// The file was revoked. EIO.
    Revoked,
    /// The descriptor is open already. EEXIST.
    Exists,
    /// The descriptor does not refer to the expected file. ESTALE.
    Stale,
    /// The superblock is mounted read-only. EROFS.
    ReadOnly,
    /// The superblock is unmounted. ENODEV.
    NoDevice,
    /// There is no memory, most often for the table to grow. ENOMEM.
    NoMemory,
}

impl Error {
    /// Returns the errno, with the values of Linux on x86-64 and most other architectures.
    #[must_use]
    pub const fn errno(self) -> i32 {
        match self {
            Self::Revoked => 5,
            Self::BadFd => 9,
            Self::NoMemory => 12,
            Self::Busy => 16,
            Self::Exists => 17,
            Self::NoDevice => 19,
            Self::InvalidArgument => 22,
            Self::TooManyFiles => 24,
            Self::ReadOnly => 30,
            Self::Stale => 116,
        }
    }

    /// Returns the name of the errno.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Revoked => "EIO",
            Self::BadFd => "EBADF",
            Self::NoMemory => "ENOMEM",
            Self::Busy => "EBUSY",
            Self::Exists => "EEXIST",
            Self::Stale => "ESTALE",
            Self::NoDevice => "ENODEV",
            Self::ReadOnly => "EROFS",
            Self::InvalidArgument => "EINVAL",
            Self::TooManyFiles => "EMFILE",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::Revoked => "file was revoked",
            Self::BadFd => "bad file descriptor",
            Self::NoMemory => "out of memory",
            Self::Busy => "reserved or in use",
            Self::Exists => "descriptor is open",
            Self::Stale => "descriptor refers to another file",
            Self::NoDevice => "file system is unmounted",
            Self::ReadOnly => "file system is read-only",
            Self::InvalidArgument => "invalid argument",
            Self::TooManyFiles => "too many open files",
        };
        write!(f, "{words} ({})", self.name())
    }
}

impl core::error::Error for Error {}

impl From<fdtable_sync::fallible::OutOfMemory> for Error {
    fn from(_: fdtable_sync::fallible::OutOfMemory) -> Self {
        Self::NoMemory
    }
}

/// Converts to the error of the operating system with the same errno, on hosts whose errnos these
/// are; on others to one that holds the error.
#[cfg(feature = "std")]
impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        #[cfg(unix)]
        return Self::from_raw_os_error(error.errno());
        #[cfg(not(unix))]
        return Self::other(error);
    }
}

#[cfg(all(test, unix, feature = "std"))]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_host_has_the_same_errno() {
        let host = std::io::Error::from(Error::BadFd);
        assert_eq!(host.raw_os_error(), Some(Error::BadFd.errno()));
    }
}
