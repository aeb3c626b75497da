//! Flags of `open`, `pipe2` and `socketpair`, with the values of Linux on x86-64.

use crossbeam_utils::atomic::AtomicCell;
use fdtable::FdFlags;
use fdtable_shm::OnceCell;

use crate::Errno;

bitflags::bitflags! {
    /// Flags with which an object is opened (`O_RDONLY`, `O_CREAT`, ...).
    ///
    /// The access mode is one of [`RDONLY`](Self::RDONLY), [`WRONLY`](Self::WRONLY) and
    /// [`RDWR`](Self::RDWR): a two-bit number, not two flags.
    ///
    /// Calls that open a path ignore unknown bits, as Linux does. All others answer `EINVAL`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct OpenFlags: u32 {
        /// Opens for reading. The value is zero, so it is the default access mode.
        const RDONLY = 0;
        /// Opens for writing.
        const WRONLY = 1;
        /// Opens for reading and writing.
        const RDWR = 2;
        /// Masks the access mode.
        const ACCMODE = 3;
        /// Creates the file if it does not exist. In the status of an open file: the open did.
        const CREAT = 0o100;
        /// With `CREAT`: fails if the file exists. With `TMPFILE`: the file can never be linked.
        const EXCL = 0o200;
        /// Truncates the file, whatever the access mode (as Linux does).
        const TRUNC = 0o1000;
        /// Appends: each write goes to the end of the file.
        const APPEND = 0o2000;
        /// Calls that would block return `EAGAIN`. Regular files never block.
        const NONBLOCK = 0o4000;
        /// Ignored: no file is a terminal.
        const NOCTTY = 0o400;
        /// Sends signals to the owner of the file when it becomes ready. Without effect in an open,
        /// as on Linux.
        const ASYNC = 0o20000;
        /// Kept and ignored: there is no storage to synchronise with.
        const DSYNC = 0o10000;
        /// Kept and ignored for regular files: there is no page cache to bypass. A pipe writes
        /// packets. Refused for other files.
        const DIRECT = 0o40000;
        /// Kept and ignored: all files may be large.
        const LARGEFILE = 0o100000;
        /// Does not follow a symbolic link in the last component.
        const NOFOLLOW = 0o400000;
        /// Does not update the access time. Allowed to the owner of the file.
        const NOATIME = 0o1000000;
        /// Like `DSYNC`, whose bit it includes.
        const SYNC = 0o4010000;
        /// Opens only a reference to the path: the file cannot be read or written.
        const PATH = 0o10000000;
        /// Makes an unnamed file in a directory; it includes the bit of `DIRECTORY`.
        const TMPFILE = 0o20200000;
        /// Fails unless the path is a directory.
        const DIRECTORY = 0o200000;
        /// Closes the descriptor on `exec`.
        const CLOEXEC = 0o2000000;
    }
}

bitflags::bitflags! {
    /// Flags of one transfer, with the values of Linux (`RWF_APPEND`, ...).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct RwFlags: u32 {
        /// Ignored: no transfer polls a device.
        const HIPRI = 1;
        /// Ignored like [`OpenFlags::DSYNC`].
        const DSYNC = 2;
        /// Like `DSYNC`.
        const SYNC = 4;
        /// Returns `EAGAIN` instead of blocking.
        const NOWAIT = 8;
        /// Appends, as with [`OpenFlags::APPEND`].
        const APPEND = 16;
        /// Does not append, in spite of [`OpenFlags::APPEND`].
        const NOAPPEND = 32;
    }
}

impl RwFlags {
    /// Returns true if a write to a file with `status` appends.
    #[inline]
    pub(crate) fn appends(self, status: OpenFlags) -> bool {
        (status.contains(OpenFlags::APPEND) || self.contains(Self::APPEND))
            && !self.contains(Self::NOAPPEND)
    }
}

/// Status of an open file: its flags, which `fcntl` may change while other threads use it, and the
/// end of its use.
///
/// The next load of any thread sees a new value of the flags; it orders no other memory access.
#[derive(Debug)]
pub struct Status {
    flags: AtomicCell<u32>,
    ended: OnceCell<Errno>,
}

impl Status {
    /// Makes the status of a file that is opened with `flags`.
    pub fn new(flags: OpenFlags) -> Self {
        Status {
            flags: AtomicCell::new(flags.status().bits()),
            ended: OnceCell::new(),
        }
    }

    /// Returns the access mode and the status flags.
    pub fn get(&self) -> OpenFlags {
        OpenFlags::from_bits_retain(self.flags.load())
    }

    /// Ends the use of the file: from now on, operations return `answer`. Returns true for the
    /// first call; others have no effect.
    pub(crate) fn end(&self, answer: Errno) -> bool {
        self.ended.set(answer).is_ok()
    }

    /// Checks that the use of the file has not ended.
    ///
    /// # Errors
    /// The answer of [`end`](Self::end).
    pub(crate) fn check(&self) -> Result<(), Errno> {
        self.ended.get().copied().map_or(Ok(()), Err)
    }

    /// Checks that the access mode allows an operation, and that the use of the file has not ended.
    ///
    /// # Errors
    /// `EBADF` if the access mode does not; those of [`check`](Self::check).
    #[inline]
    pub(crate) fn check_access(&self, is_allowed: fn(OpenFlags) -> bool) -> Result<(), Errno> {
        self.check()?;
        match is_allowed(self.get()) {
            true => Ok(()),
            false => Err(Errno::EBADF),
        }
    }

    /// Sets the flags that `fcntl` may change: `O_APPEND`, `O_NONBLOCK`, `O_NOATIME`, and
    /// `O_DIRECT`, which the caller has checked. The rest stays. In Linux: `F_SETFL`.
    pub fn set(&self, flags: OpenFlags) {
        let kept = self.get() - OpenFlags::CHANGEABLE;
        let changed = flags & OpenFlags::CHANGEABLE;
        self.flags.store((kept | changed).bits());
    }
}

impl OpenFlags {
    /// Flags that stay with the open file after the call: what `fcntl(F_GETFL)` shows, and
    /// `CREAT`.
    const STATUS: Self = Self::ACCMODE
        .union(Self::CHANGEABLE)
        .union(Self::CREAT)
        .union(Self::SYNC)
        .union(Self::PATH)
        .union(Self::ASYNC)
        .union(Self::LARGEFILE)
        .union(Self::NOFOLLOW)
        .union(Self::TMPFILE);

    /// Status flags that `fcntl(F_SETFL)` changes.
    const CHANGEABLE: Self = Self::APPEND
        .union(Self::NONBLOCK)
        .union(Self::NOATIME)
        .union(Self::DIRECT);

    /// Returns true if the access mode allows reading. With `PATH`, none does.
    pub fn can_read(self) -> bool {
        matches!(
            self & (Self::ACCMODE | Self::PATH),
            Self::RDONLY | Self::RDWR
        )
    }

    /// Returns true if the access mode allows writing. With `PATH`, none does.
    pub fn can_write(self) -> bool {
        matches!(
            self & (Self::ACCMODE | Self::PATH),
            Self::WRONLY | Self::RDWR
        )
    }

    /// Returns the flags that belong to the open file.
    pub fn status(self) -> Self {
        self & Self::STATUS
    }

    /// Returns the flags that belong to the descriptor.
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
