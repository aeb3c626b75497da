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
        self.parts().0
    }

    /// Returns the name of the errno.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.parts().1
    }

    /// Returns the errno, its name, and a description.
    const fn parts(self) -> (i32, &'static str, &'static str) {
        match self {
            Self::Revoked => (5, "EIO", "file was revoked"),
            Self::BadFd => (9, "EBADF", "bad file descriptor"),
            Self::NoMemory => (12, "ENOMEM", "out of memory"),
            Self::Busy => (16, "EBUSY", "reserved or in use"),
            Self::Exists => (17, "EEXIST", "descriptor is open"),
            Self::NoDevice => (19, "ENODEV", "file system is unmounted"),
            Self::InvalidArgument => (22, "EINVAL", "invalid argument"),
            Self::TooManyFiles => (24, "EMFILE", "too many open files"),
            Self::ReadOnly => (30, "EROFS", "file system is read-only"),
            Self::Stale => (116, "ESTALE", "descriptor refers to another file"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name, words) = self.parts();
        write!(f, "{words} ({name})")
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
