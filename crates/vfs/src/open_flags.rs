//! Flags of `open`, `pipe2` and `socketpair`, with the values of Linux on x86-64.

use crossbeam_utils::atomic::AtomicCell;
use fdtable::FdFlags;

use crate::Errno;

bitflags::bitflags! {
    /// Set of flags with which an object is opened (`O_RDONLY`, `O_CREAT`, ...).
    ///
    /// The access mode is one of [`RDONLY`](Self::RDONLY), [`WRONLY`](Self::WRONLY) and
    /// [`RDWR`](Self::RDWR): two bits that hold a number, not two flags.
    ///
    /// Calls that open a path ignore unknown bits, as Linux does. All others answer `EINVAL`.
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
        /// With `CREAT`: fails if there is one. With `TMPFILE`: the file never gets a name.
        const EXCL = 0o200;
        /// Empties the file, whatever the access mode (as Linux).
        const TRUNC = 0o1000;
        /// Makes each write go to the end of the file.
        const APPEND = 0o2000;
        /// Makes calls that would wait answer `EAGAIN`. Regular files never wait for anybody.
        const NONBLOCK = 0o4000;
        /// Means nothing here: no file is a terminal.
        const NOCTTY = 0o400;
        /// Is kept, and means nothing here: what is written is there.
        const DSYNC = 0o10000;
        /// Goes around a cache that does not exist: no file can be opened with it.
        const DIRECT = 0o40000;
        /// Means nothing here: all files may be large.
        const LARGEFILE = 0o100000;
        /// Does not follow a symbolic link at the end of the path.
        const NOFOLLOW = 0o400000;
        /// Does not change the time of the last access. For who owns the file.
        const NOATIME = 0o1000000;
        /// As `DSYNC`, of which it has the bit.
        const SYNC = 0o4010000;
        /// Only names the file: nothing can be read or written.
        const PATH = 0o10000000;
        /// Makes a file without a name in a directory; it has the bit of `DIRECTORY`.
        const TMPFILE = 0o20200000;
        /// Opens nothing but a directory.
        const DIRECTORY = 0o200000;
        /// Closes the descriptor on `exec`.
        const CLOEXEC = 0o2000000;
    }
}

/// Status flags of an open file, which `fcntl` may change while others use it.
///
/// What one thread sets another sees at its next look; nothing else is ordered by it.
#[derive(Debug)]
pub struct Status(AtomicCell<u32>);

impl Status {
    /// Makes the status of a file that is opened with `flags`.
    pub fn new(flags: OpenFlags) -> Self {
        Status(AtomicCell::new(flags.status().bits()))
    }

    /// Returns the access mode and the status flags.
    pub fn get(&self) -> OpenFlags {
        OpenFlags::from_bits_retain(self.0.load())
    }

    /// Sets what `fcntl` may change: `O_APPEND`, `O_NONBLOCK`, `O_NOATIME`. The rest stays.
    #[doc(alias = "F_SETFL")]
    pub fn set(&self, flags: OpenFlags) {
        let kept = self.get() - OpenFlags::CHANGEABLE;
        let changed = flags & OpenFlags::CHANGEABLE;
        self.0.store((kept | changed).bits());
    }
}

impl OpenFlags {
    /// Bits that stay with the open file after the call: what `fcntl(F_GETFL)` shows.
    const STATUS: Self = Self::ACCMODE
        .union(Self::CHANGEABLE)
        .union(Self::SYNC)
        .union(Self::PATH);

    /// Bits of them that `fcntl(F_SETFL)` changes.
    const CHANGEABLE: Self = Self::APPEND.union(Self::NONBLOCK).union(Self::NOATIME);

    /// Tells whether the access mode allows reading. With `PATH` none does.
    pub fn can_read(self) -> bool {
        matches!(
            self & (Self::ACCMODE | Self::PATH),
            Self::RDONLY | Self::RDWR
        )
    }

    /// Tells whether the access mode allows writing. With `PATH` none does.
    pub fn can_write(self) -> bool {
        matches!(
            self & (Self::ACCMODE | Self::PATH),
            Self::WRONLY | Self::RDWR
        )
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
