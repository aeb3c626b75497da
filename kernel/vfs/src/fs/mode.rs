//! Permissions, credentials, and the check of one against the other.

use crate::Errno;

/// Permission bits of an inode, with the values of Linux: 0 to `0o7777`.
#[doc(alias = "mode_t")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Mode(u32);

impl Mode {
    /// No access.
    pub const NONE: Self = Mode(0);
    /// Read and write for everyone.
    pub const DEFAULT_FILE: Self = Mode(0o666);
    /// All access for everyone.
    pub const ALL: Self = Mode(0o777);
    /// Only the owner of a file may remove it from the directory.
    #[doc(alias = "S_ISVTX")]
    pub const STICKY: Self = Mode(0o1000);
    /// New files in the directory take its group.
    #[doc(alias = "S_ISGID")]
    pub const SET_GID: Self = Mode(0o2000);
    /// The file runs as its owner.
    #[doc(alias = "S_ISUID")]
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
    /// Access that a caller wants; the empty set asks only if the file exists.
    #[doc(alias = "F_OK")]
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct AccessMode: u32 {
        /// Execute a file, or search a directory.
        #[doc(alias = "X_OK")]
        const EXECUTE = 1;
        /// Write a file, or change the names of a directory.
        #[doc(alias = "W_OK")]
        const WRITE = 2;
        /// Read a file, or the names of a directory.
        #[doc(alias = "R_OK")]
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
    /// set-group-ID bit stays if the group may not execute the file, for user 0 and members of the
    /// group.
    #[doc(alias = "setattr_should_drop_suidgid")]
    pub fn without_set_ids(self, by: Credentials) -> Mode {
        let mode = self.mode.without(Mode::SET_UID);
        let is_member = by.is_root() || by.gid == self.gid;
        if is_member && !mode.contains(Mode::new(0o010)) {
            return mode;
        }
        mode.without(Mode::SET_GID)
    }
}

/// User and group on whose behalf a call is made. User 0 has all permissions.
#[doc(alias = "struct cred")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// User.
    pub uid: u32,
    /// Group. There are no supplementary groups.
    pub gid: u32,
}

impl Credentials {
    /// User 0 and group 0.
    pub const ROOT: Self = Credentials { uid: 0, gid: 0 };

    /// Returns true if the user is 0, which passes all permission checks.
    pub const fn is_root(self) -> bool {
        self.uid == 0
    }

    /// Returns true if the user is `uid`, or 0.
    pub const fn owns(self, uid: u32) -> bool {
        self.uid == uid || self.is_root()
    }

    /// Checks that all of `wanted` is allowed.
    ///
    /// The owner's bits decide for the owner, the group's for its members, and the last ones for
    /// all others. User 0 may do everything but execute a file that no user may execute.
    ///
    /// # Errors
    /// `EACCES` if it is not allowed.
    #[doc(alias = "generic_permission")]
    pub fn may(
        self,
        wanted: AccessMode,
        file: Permissions,
        kind: super::FileKind,
    ) -> Result<(), Errno> {
        let bits = file.mode.bits();
        let allowed = if self.is_root() {
            let executable = kind == super::FileKind::Directory || bits & 0o111 != 0;
            if executable { 7 } else { 6 }
        } else if self.uid == file.uid {
            bits >> 6 & 7
        } else if self.gid == file.gid {
            bits >> 3 & 7
        } else {
            bits & 7
        };
        if wanted.bits() & !allowed == 0 {
            Ok(())
        } else {
            Err(Errno::EACCES)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::FileKind;
    use super::*;

    const READ: AccessMode = AccessMode::READ;

    fn may(uid: u32, gid: u32, wanted: AccessMode, mode: u32) -> bool {
        let file = Permissions {
            mode: Mode::new(mode),
            uid: 1,
            gid: 2,
        };
        Credentials { uid, gid }
            .may(wanted, file, FileKind::Regular)
            .is_ok()
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
}
