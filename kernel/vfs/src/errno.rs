//! Error numbers of the system calls, with the values of Linux.

use core::fmt;
use std::io;

/// Reason why a system call failed.
///
/// A number and not an enum, as in other system-call crates: [`fdtable::Error`] may get more
/// variants, each of which has a number already, so the conversion never loses one.
///
/// As wide as a count of bytes where that has 64 bits, so that a result with either is returned in
/// two registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(i64);

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
    /// The caller is not the owner, or the operation is not permitted here.
    EPERM = 1;
    /// The file, or a directory on its path, does not exist.
    ENOENT = 2;
    /// No such process or group.
    ESRCH = 3;
    /// A signal interrupted the call.
    EINTR = 4;
    /// The open file was revoked.
    EIO = 5;
    /// No such device; or a FIFO without a reader is opened for writing with `O_NONBLOCK`.
    ENXIO = 6;
    /// Not an open descriptor, or not open for this access mode.
    EBADF = 9;
    /// The call would block.
    EAGAIN = 11;
    /// Out of memory.
    ENOMEM = 12;
    /// The permissions do not allow it; or another owner holds a lock.
    EACCES = 13;
    /// Invalid address.
    EFAULT = 14;
    /// In use: another thread is still opening the descriptor that `dup2` would replace; the root
    /// would be moved or removed; a mount has open files.
    EBUSY = 16;
    /// The file exists already.
    EEXIST = 17;
    /// The two paths are on different mounts.
    EXDEV = 18;
    /// The file system is unmounted.
    ENODEV = 19;
    /// A component of the path, or the file, is not a directory.
    ENOTDIR = 20;
    /// Is a directory, where something else is required.
    EISDIR = 21;
    /// Invalid argument.
    EINVAL = 22;
    /// Too many open files in the system.
    ENFILE = 23;
    /// Every descriptor below the limit is in use.
    EMFILE = 24;
    /// The object does not support this request.
    ENOTTY = 25;
    /// The file would exceed the size limit.
    EFBIG = 27;
    /// No space left on the file system.
    ENOSPC = 28;
    /// The object is not seekable.
    ESPIPE = 29;
    /// The file system is mounted read-only.
    EROFS = 30;
    /// A file has too many links.
    EMLINK = 31;
    /// There is no reader.
    EPIPE = 32;
    /// The result does not fit.
    ERANGE = 34;
    /// The wait would be a deadlock.
    EDEADLK = 35;
    /// A path or a name is too long.
    ENAMETOOLONG = 36;
    /// No record locks left.
    ENOLCK = 37;
    /// The system call is not implemented.
    ENOSYS = 38;
    /// The directory is not empty.
    ENOTEMPTY = 39;
    /// Too many symbolic links on the path, or epolls that watch each other.
    ELOOP = 40;
    /// There is no such attribute.
    ENODATA = 61;
    /// The value does not fit into its type.
    EOVERFLOW = 75;
    /// Not a socket.
    ENOTSOCK = 88;
    /// The socket needs a destination address.
    EDESTADDRREQ = 89;
    /// The message is too long for the socket.
    EMSGSIZE = 90;
    /// Wrong socket type.
    EPROTOTYPE = 91;
    /// There is no such option.
    ENOPROTOOPT = 92;
    /// There is no such protocol.
    EPROTONOSUPPORT = 93;
    /// There is no such socket type.
    ESOCKTNOSUPPORT = 94;
    /// The object does not support the operation (`ENOTSUP` too).
    EOPNOTSUPP = 95;
    /// There is no such address family.
    EAFNOSUPPORT = 97;
    /// The address is in use.
    EADDRINUSE = 98;
    /// There is no such address.
    EADDRNOTAVAIL = 99;
    /// The peer ended the connection.
    ECONNRESET = 104;
    /// No buffer space left.
    ENOBUFS = 105;
    /// The socket is connected.
    EISCONN = 106;
    /// The socket is not connected.
    ENOTCONN = 107;
    /// Too many descriptors are in flight, or they are nested too deeply.
    ETOOMANYREFS = 109;
    /// The timeout has expired.
    ETIMEDOUT = 110;
    /// No socket listens at the address.
    ECONNREFUSED = 111;
    /// A connection attempt is already in progress.
    EALREADY = 114;
    /// The connection attempt has begun and is not complete.
    EINPROGRESS = 115;
    /// The operation was cancelled.
    ECANCELED = 125;
}

impl Errno {
    /// Makes an error from the errno of a host call, 1 to 4095.
    pub const fn from_raw(number: i32) -> Errno {
        Errno(number as i64)
    }

    /// Returns the errno value that Linux uses on x86-64 and arm64, 1 to 4095.
    pub const fn errno(self) -> i32 {
        self.0 as i32
    }
}

impl From<fdtable::Error> for Errno {
    fn from(error: fdtable::Error) -> Self {
        Errno::from_raw(error.errno())
    }
}

impl From<fdtable_interests::Error> for Errno {
    fn from(error: fdtable_interests::Error) -> Self {
        Errno::from_raw(error.errno())
    }
}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> Self {
        io::Error::from_raw_os_error(errno.errno())
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
