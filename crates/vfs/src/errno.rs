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
    /// Not the owner, or nobody may do this here.
    EPERM = 1;
    /// No file of this name, or no directory on the way to it, and creating it was not asked for.
    ENOENT = 2;
    /// A signal came first.
    EINTR = 4;
    /// The open file was revoked.
    EIO = 5;
    /// No such device; or nobody reads a FIFO that is opened for writing without waiting.
    ENXIO = 6;
    /// Not an open descriptor, or not open for this direction.
    EBADF = 9;
    /// The call would have to wait.
    EAGAIN = 11;
    /// No memory for what was to be written.
    ENOMEM = 12;
    /// The permissions do not allow it; or another owner has a lock.
    EACCES = 13;
    /// An address that cannot be one.
    EFAULT = 14;
    /// In use: another thread is still opening the number that was to be replaced; the root was to
    /// be moved or removed; a mount has open files.
    EBUSY = 16;
    /// It exists, and was to be made.
    EEXIST = 17;
    /// The names are on two file systems.
    EXDEV = 18;
    /// The file system is unmounted.
    ENODEV = 19;
    /// A name on the way, or one that has to be a directory, is none.
    ENOTDIR = 20;
    /// A directory, where there has to be something else.
    EISDIR = 21;
    /// An argument has no meaning here.
    EINVAL = 22;
    /// Too many open files in all.
    ENFILE = 23;
    /// Every number below the limit is in use.
    EMFILE = 24;
    /// The object does not know this request.
    ENOTTY = 25;
    /// The file may not grow that far.
    EFBIG = 27;
    /// No room on the file system.
    ENOSPC = 28;
    /// The object has no position to move.
    ESPIPE = 29;
    /// The file system is mounted read-only.
    EROFS = 30;
    /// A file has too many names.
    EMLINK = 31;
    /// Nobody can read what was to be written.
    EPIPE = 32;
    /// A number that cannot be returned.
    ERANGE = 34;
    /// The sleepers would wait for each other.
    EDEADLK = 35;
    /// A path or a name is too long.
    ENAMETOOLONG = 36;
    /// No record locks left.
    ENOLCK = 37;
    /// There is no such call here.
    ENOSYS = 38;
    /// A directory that has to be empty has names.
    ENOTEMPTY = 39;
    /// Too many symbolic links on the way, or epolls that watch each other.
    ELOOP = 40;
    /// There is no such attribute.
    ENODATA = 61;
    /// A value that its type cannot hold.
    EOVERFLOW = 75;
    /// Not a socket.
    ENOTSOCK = 88;
    /// The socket needs an address.
    EDESTADDRREQ = 89;
    /// The message is longer than the socket takes.
    EMSGSIZE = 90;
    /// Not the type of this socket.
    EPROTOTYPE = 91;
    /// There is no such option.
    ENOPROTOOPT = 92;
    /// There is no such protocol.
    EPROTONOSUPPORT = 93;
    /// There is no such type of sockets.
    ESOCKTNOSUPPORT = 94;
    /// The object does not know how (`ENOTSUP` too).
    EOPNOTSUPP = 95;
    /// There is no such family of addresses.
    EAFNOSUPPORT = 97;
    /// The address has an owner.
    EADDRINUSE = 98;
    /// There is no such address.
    EADDRNOTAVAIL = 99;
    /// The other side ended the connection.
    ECONNRESET = 104;
    /// No room for what is on the way.
    ENOBUFS = 105;
    /// The socket is connected.
    EISCONN = 106;
    /// The socket is not connected.
    ENOTCONN = 107;
    /// Descriptors on the way are too many, or passed in too deep a chain.
    ETOOMANYREFS = 109;
    /// The time is up.
    ETIMEDOUT = 110;
    /// Nobody listens.
    ECONNREFUSED = 111;
    /// The socket is being connected.
    EALREADY = 114;
    /// The connection has begun, and is not made yet.
    EINPROGRESS = 115;
    /// Called off.
    ECANCELED = 125;
}

impl Errno {
    /// Makes the error of a number that a call of the host has answered, 1 to 4095.
    pub const fn from_raw(number: i32) -> Errno {
        Errno(number)
    }

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
