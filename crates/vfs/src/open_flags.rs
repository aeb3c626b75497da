//! Flags of `open`, `pipe2` and `socketpair`, with the values of Linux on x86-64.

use fdtable::FdFlags;

use crate::Errno;

bitflags::bitflags! {
    /// Set of flags with which an object is opened (`O_RDONLY`, `O_CREAT`, ...).
    ///
    /// The access mode is one of [`RDONLY`](Self::RDONLY), [`WRONLY`](Self::WRONLY) and
    /// [`RDWR`](Self::RDWR): two bits that hold a number, not two flags.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct OpenFlags: u32 {
        /// Opens for reading. It is zero: the mode of a call that names no other.
        const RDONLY = 0;
        /// Opens for writing.
        const WRONLY = 1;
        /// Opens for reading and writing.
        const RDWR = 2;
        /// Masks the access mode.
        const ACCMODE = 3;
        /// Creates the file if there is none.
        const CREAT = 0o100;
        /// With `CREAT`: fails if there is one.
        const EXCL = 0o200;
        /// Empties the file, whatever the access mode (as Linux).
        const TRUNC = 0o1000;
        /// Makes each write go to the end of the file.
        const APPEND = 0o2000;
        /// Makes calls that would wait answer `EAGAIN`. Regular files never wait for anybody.
        const NONBLOCK = 0o4000;
        /// Opens nothing but a directory.
        const DIRECTORY = 0o200000;
        /// Closes the descriptor on `exec`.
        const CLOEXEC = 0o2000000;
    }
}

impl OpenFlags {
    /// Bits that stay with the open file after the call: what `fcntl(F_GETFL)` shows.
    const STATUS: Self = Self::ACCMODE.union(Self::APPEND).union(Self::NONBLOCK);

    /// Tells whether the access mode allows reading.
    pub fn can_read(self) -> bool {
        matches!(self & Self::ACCMODE, Self::RDONLY | Self::RDWR)
    }

    /// Tells whether the access mode allows writing.
    pub fn can_write(self) -> bool {
        matches!(self & Self::ACCMODE, Self::WRONLY | Self::RDWR)
    }

    /// Returns the part that belongs to the open file.
    pub fn status(self) -> Self {
        self & Self::STATUS
    }

    /// Returns the part that belongs to the descriptor.
    pub fn descriptor(self) -> FdFlags {
        if self.contains(Self::CLOEXEC) {
            FdFlags::CLOEXEC
        } else {
            FdFlags::empty()
        }
    }

    /// Checks that no flag outside `allowed` is set.
    ///
    /// # Errors
    /// `EINVAL` if one is.
    pub fn only(self, allowed: Self) -> Result<Self, Errno> {
        if allowed.contains(self) {
            Ok(self)
        } else {
            Err(Errno::EINVAL)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_access_mode_is_a_number_and_not_two_flags() {
        let directions = |flags: OpenFlags| (flags.can_read(), flags.can_write());
        assert_eq!(directions(OpenFlags::RDONLY), (true, false));
        assert_eq!(directions(OpenFlags::WRONLY), (false, true));
        assert_eq!(directions(OpenFlags::RDWR | OpenFlags::CREAT), (true, true));
        assert_eq!(directions(OpenFlags::ACCMODE), (false, false));
    }

    #[test]
    fn flags_of_the_call_and_of_the_descriptor_do_not_stay_with_the_file() {
        let flags = OpenFlags::RDWR | OpenFlags::APPEND | OpenFlags::TRUNC | OpenFlags::CLOEXEC;
        assert_eq!(flags.status(), OpenFlags::RDWR | OpenFlags::APPEND);
        assert_eq!(flags.descriptor(), FdFlags::CLOEXEC);
        assert_eq!(flags.status().descriptor(), FdFlags::empty());
    }
}
