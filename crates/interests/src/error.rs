//! The errors of registrations and of messages.

use core::fmt;

/// Reason why a call failed.
///
/// [`errno`](Self::errno) returns the number that Linux uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// The file is registered under this descriptor already (EEXIST).
    Exists,
    /// The file is not registered under this descriptor (ENOENT).
    NotFound,
    /// The message has more files than any message may have (EINVAL).
    TooManyFiles,
    /// More files would be in flight than may be (ETOOMANYREFS).
    TooManyInFlight,
}

impl Error {
    /// Returns the errno value that Linux uses on x86-64 and arm64. Neither blocks nor allocates.
    #[must_use]
    pub const fn errno(self) -> i32 {
        self.parts().0
    }

    const fn parts(self) -> (i32, &'static str) {
        match self {
            Self::Exists => (17, "registered already (EEXIST)"),
            Self::NotFound => (2, "not registered (ENOENT)"),
            Self::TooManyFiles => (22, "too many files in a message (EINVAL)"),
            Self::TooManyInFlight => (109, "too many files in flight (ETOOMANYREFS)"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.parts().1)
    }
}

impl core::error::Error for Error {}
