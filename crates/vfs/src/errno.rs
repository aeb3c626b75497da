//! Error numbers of the system calls, with the values of Linux.

use core::fmt;

/// Reason why a system call failed.
///
/// A number and not an enum, as in other system-call crates: the errors of [`fdtable::Error`]
/// may grow, and each of them has a number already, so none is ever lost in the conversion.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(i32);

macro_rules! errnos {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal;)+) => {
        impl Errno {
            $($(#[doc = $doc])+ pub const $name: Errno = Errno($number);)+

            /// Returns the symbolic name, if this crate knows the number.
            const fn name(self) -> Option<&'static str> {
                match self {
                    $(Errno::$name => Some(stringify!($name)),)+
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    /// No file of this name, or no directory on the way to it, and creating it was not asked for.
    ENOENT = 2;
    /// The open file was revoked.
    EIO = 5;
    /// Not an open descriptor, or not open for this direction.
    EBADF = 9;
    /// The call would have to wait.
    EAGAIN = 11;
    /// No memory for what was to be written.
    ENOMEM = 12;
    /// Another thread is still opening the number that was to be replaced; or the root was to be
    /// moved or removed.
    EBUSY = 16;
    /// A file of this name exists, and an exclusive creation was asked for.
    EEXIST = 17;
    /// The file system is unmounted.
    ENODEV = 19;
    /// A name on the way, or one that has to be a directory, is none.
    ENOTDIR = 20;
    /// A directory, where there has to be something else.
    EISDIR = 21;
    /// An argument has no meaning here.
    EINVAL = 22;
    /// Every number below the limit is in use.
    EMFILE = 24;
    /// The file may not grow that far.
    EFBIG = 27;
    /// The object has no position to move.
    ESPIPE = 29;
    /// The file system is mounted read-only.
    EROFS = 30;
    /// Nobody can read what was to be written.
    EPIPE = 32;
    /// A path or a name is too long.
    ENAMETOOLONG = 36;
    /// A directory that has to be empty has names.
    ENOTEMPTY = 39;
    /// The object does not know how.
    EOPNOTSUPP = 95;
}

impl Errno {
    /// Returns the number that Linux uses on x86-64 and arm64, 1 to 4095.
    pub const fn errno(self) -> i32 {
        self.0
    }
}

impl From<fdtable::Error> for Errno {
    fn from(error: fdtable::Error) -> Self {
        Errno(error.errno())
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_table_keeps_its_number() {
        assert_eq!(Errno::from(fdtable::Error::BadFd), Errno::EBADF);
        assert_eq!(Errno::from(fdtable::Error::TooManyFiles), Errno::EMFILE);
        assert_eq!(Errno::from(fdtable::Error::InvalidArgument), Errno::EINVAL);
        assert_eq!(Errno::from(fdtable::Error::Busy), Errno::EBUSY);
        assert_eq!(Errno::from(fdtable::Error::NoMemory), Errno::ENOMEM);
        assert_eq!(Errno::from(fdtable::Error::Revoked), Errno::EIO);
        assert_eq!(Errno::from(fdtable::Error::ReadOnly), Errno::EROFS);
        assert_eq!(Errno::from(fdtable::Error::NoDevice), Errno::ENODEV);
    }

    #[test]
    fn a_known_number_prints_its_name_and_another_its_value() {
        assert_eq!(Errno::EPIPE.to_string(), "EPIPE");
        assert_eq!(Errno(4000).to_string(), "errno 4000");
    }
}
