//! Permissions, credentials, and the check of one against the other.

use super::Capabilities;
use crate::Errno;

/// Permission bits of an inode, with the values of Linux: 0 to `0o7777`. In Linux: `mode_t`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Mode(u32);

impl Mode {
    /// No access.
    pub const NONE: Self = Mode(0);
    /// Read and write for everyone.
    pub const DEFAULT_FILE: Self = Mode(0o666);
    /// All access for everyone.
    pub const ALL: Self = Mode(0o777);
    /// Only the owner of a file may remove it from the directory. In Linux: `S_ISVTX`.
    pub const STICKY: Self = Mode(0o1000);
    /// New files in the directory take its group. In Linux: `S_ISGID`.
    pub const SET_GID: Self = Mode(0o2000);
    /// The file runs as its owner. In Linux: `S_ISUID`.
    pub const SET_UID: Self = Mode(0o4000);

    /// Makes a mode of the low twelve bits of a number.
    pub const fn new(bits: u32) -> Self {
        Mode(bits & 0o7777)
    }

    /// Returns the bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns true if all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the mode with the bits of `other`.
    pub const fn with(self, other: Self) -> Self {
        Mode(self.0 | other.0)
    }

    /// Returns the mode without the bits of `other`, a umask for example.
    pub const fn without(self, other: Self) -> Self {
        Mode(self.0 & !other.0)
    }
}

impl From<u32> for Mode {
    fn from(bits: u32) -> Self {
        Mode::new(bits)
    }
}

impl std::fmt::Debug for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mode({:#o})", self.0)
    }
}

bitflags::bitflags! {
    /// Access that a caller wants; the empty set asks only if the file exists. In Linux: `F_OK`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct AccessMode: u32 {
        /// Execute a file, or search a directory. In Linux: `X_OK`.
        const EXECUTE = 1;
        /// Write a file, or change the names of a directory. In Linux: `W_OK`.
        const WRITE = 2;
        /// Read a file, or the names of a directory. In Linux: `R_OK`.
        const READ = 4;
    }
}

/// Owner, group and permissions of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// Permission bits.
    pub mode: Mode,
    /// User that owns it.
    pub uid: u32,
    /// Group that owns it.
    pub gid: u32,
}

impl Permissions {
    /// Returns the mode without the set-ID bits that a change of owner or contents clears. The
    /// set-group-ID bit stays if the group may not execute the file, for members of the group and
    /// with [`Capabilities::FSETID`]. In Linux: `setattr_should_drop_suidgid`.
    pub fn without_set_ids(self, by: Credentials) -> Mode {
        let mode = self.mode.without(Mode::SET_UID);
        let is_member = by.has(Capabilities::FSETID) || by.gid == self.gid;
        if is_member && !mode.contains(Mode::new(0o010)) {
            return mode;
        }
        mode.without(Mode::SET_GID)
    }
}

/// User, group and capabilities on whose behalf a call is made. In Linux: `struct cred`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// User.
    pub uid: u32,
    /// Group. Supplementary groups are those of the [process](crate::Process::set_groups).
    pub gid: u32,
    /// Capabilities.
    pub capabilities: Capabilities,
}

impl Credentials {
    /// User 0 and group 0, with all capabilities.
    pub const ROOT: Self = Credentials::new(0, 0);

    /// Makes credentials with all capabilities for user 0, and with none for any other.
    pub const fn new(uid: u32, gid: u32) -> Self {
        let capabilities = match uid {
            0 => Capabilities::all(),
            _ => Capabilities::empty(),
        };
        Credentials {
            uid,
            gid,
            capabilities,
        }
    }

    /// Returns true if these include all of `capabilities`. In Linux: `capable`.
    pub const fn has(self, capabilities: Capabilities) -> bool {
        self.capabilities.contains(capabilities)
    }

    /// Returns true if a file of user `uid` counts as an own one.
    /// In Linux: `inode_owner_or_capable`.
    pub const fn owns(self, uid: u32) -> bool {
        self.uid == uid || self.has(Capabilities::FOWNER)
    }

    /// Returns true if these may search every directory.
    pub(crate) const fn searches_all(self) -> bool {
        let either = Capabilities::DAC_OVERRIDE.union(Capabilities::DAC_READ_SEARCH);
        self.capabilities.intersects(either)
    }

    /// Checks that all of `wanted` is allowed. In Linux: `generic_permission`.
    ///
    /// The owner's bits decide for the owner, the group's for its members, and the last ones for
    /// all others. [`Capabilities::DAC_OVERRIDE`] allows everything but to execute a file that no
    /// user may execute, and [`Capabilities::DAC_READ_SEARCH`] to read a file, and to read and
    /// search a directory.
    ///
    /// # Errors
    /// `EACCES` if it is not allowed.
    pub fn may(
        self,
        wanted: AccessMode,
        file: Permissions,
        kind: super::FileKind,
    ) -> Result<(), Errno> {
        let bits = file.mode.bits();
        let allowed = if self.uid == file.uid {
            bits >> 6 & 7
        } else if self.gid == file.gid {
            bits >> 3 & 7
        } else {
            bits & 7
        };
        if wanted.bits() & !allowed == 0 || self.overrides(wanted, file.mode, kind) {
            Ok(())
        } else {
            Err(Errno::EACCES)
        }
    }

    /// Returns true if a capability allows what the bits of a file do not.
    fn overrides(self, wanted: AccessMode, mode: Mode, kind: super::FileKind) -> bool {
        let is_directory = kind == super::FileKind::Directory;
        let only_reads = match is_directory {
            true => !wanted.contains(AccessMode::WRITE),
            false => wanted == AccessMode::READ,
        };
        let runs_none = !is_directory && mode.bits() & 0o111 == 0;
        only_reads && self.has(Capabilities::DAC_READ_SEARCH)
            || self.has(Capabilities::DAC_OVERRIDE)
                && !(runs_none && wanted.contains(AccessMode::EXECUTE))
    }
}

#[cfg(test)]
mod tests {
    use super::super::FileKind;
    use super::*;

    const READ: AccessMode = AccessMode::READ;

    fn may(uid: u32, gid: u32, wanted: AccessMode, mode: u32) -> bool {
        let by = Credentials::new(uid, gid);
        is_allowed(by, wanted, mode, FileKind::Regular)
    }

    fn is_allowed(by: Credentials, wanted: AccessMode, mode: u32, kind: FileKind) -> bool {
        let file = Permissions {
            mode: Mode::new(mode),
            uid: 1,
            gid: 2,
        };
        by.may(wanted, file, kind).is_ok()
    }

    #[test]
    fn the_first_set_of_bits_that_fits_decides() {
        assert!(!may(1, 2, READ, 0o044), "the owner is no other");
        assert!(!may(3, 2, READ, 0o404), "the group is no other");
        assert!(may(3, 3, READ, 0o004));
        assert!(may(1, 3, READ | AccessMode::WRITE, 0o600));
        assert!(!may(1, 3, READ | AccessMode::WRITE, 0o400));
        assert!(may(3, 3, AccessMode::empty(), 0));
    }

    #[test]
    fn user_0_may_do_all_but_execute_a_file_without_an_execute_bit() {
        assert!(may(0, 0, READ | AccessMode::WRITE, 0));
        assert!(!may(0, 0, AccessMode::EXECUTE, 0o666));
        assert!(may(0, 0, AccessMode::EXECUTE, 0o010));
    }

    #[test]
    fn a_capability_counts_and_not_the_user() {
        let with = |capabilities| Credentials {
            capabilities,
            ..Credentials::new(0, 0)
        };
        let may = |capabilities, wanted| {
            [FileKind::Regular, FileKind::Directory]
                .map(|kind| is_allowed(with(capabilities), wanted, 0o100, kind))
        };
        let none = Capabilities::empty();
        assert_eq!(may(none, READ), [false, false]);
        let reads = Capabilities::DAC_READ_SEARCH;
        assert_eq!(may(reads, READ), [true, true]);
        assert_eq!(may(reads, AccessMode::EXECUTE), [false, true]);
        assert_eq!(may(reads, READ | AccessMode::EXECUTE), [false, true]);
        assert_eq!(may(reads, AccessMode::WRITE), [false, false]);
        assert_eq!(may(reads, READ | AccessMode::WRITE), [false, false]);
        let overrides = Capabilities::DAC_OVERRIDE;
        assert_eq!(may(overrides, AccessMode::all()), [true, true]);
    }
}
