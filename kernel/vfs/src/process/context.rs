//! Context of a process for path lookups: working directory, umask, user and group.

use crossbeam_utils::atomic::AtomicCell;
use fdtable::rcu;
use fdtable::rcu::map::RcuMap;
use foldhash::fast::RandomState;

use super::Process;
use crate::fs::{Credentials, Mode, PathContext, Pinned, VfsPath};
use crate::{Errno, Object};

/// Working directory and umask, which processes may share.
#[doc(alias = "fs_struct")]
#[derive(Debug)]
pub(super) struct FsContext {
    /// The working directory, under the one key, unless it is the root: lookups read it under RCU.
    /// The lock guards the pin on it, which ends at once when the directory changes.
    cwd: RcuMap<(), VfsPath, RandomState, Option<Pinned>>,
    umask: AtomicCell<u32>,
}

/// Users and groups of a process: each pair in one word.
#[derive(Debug)]
pub(super) struct Ids {
    effective: AtomicCell<u64>,
    real: AtomicCell<u64>,
}

impl Default for FsContext {
    fn default() -> Self {
        FsContext {
            cwd: RcuMap::default(),
            umask: AtomicCell::new(0o022),
        }
    }
}

impl FsContext {
    /// Returns a copy.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn copy(&self) -> Result<Self, Errno> {
        let copy = FsContext {
            cwd: RcuMap::default(),
            umask: AtomicCell::new(self.umask.load()),
        };
        let pinned = self.cwd.lock().state().clone();
        if let Some(pinned) = pinned {
            copy.pin(pinned)?;
        }
        Ok(copy)
    }

    /// Returns the working directory, unless it is the root.
    pub(super) fn cwd(&self) -> Option<VfsPath> {
        let section = rcu::read_lock();
        self.cwd_rcu(&section).cloned()
    }

    /// Returns the working directory without a reference, unless it is the root.
    #[inline]
    pub(super) fn cwd_rcu<'s>(&'s self, section: &'s rcu::Guard<'_>) -> Option<&'s VfsPath> {
        self.cwd.get(&(), section)
    }

    /// Sets the working directory.
    ///
    /// # Errors
    /// `ENOENT` if its file system was unmounted meanwhile; `ENOMEM`.
    pub(super) fn set_cwd(&self, path: VfsPath) -> Result<(), Errno> {
        self.pin(Pinned::new(path)?)
    }

    fn pin(&self, pinned: Pinned) -> Result<(), Errno> {
        let mut cwd = self.cwd.lock();
        let changed = cwd.prepare((), pinned.path().clone());
        let changed = changed.and_then(|changed| cwd.insert(changed));
        let before = match changed {
            Ok(path) => (path, cwd.state_mut().replace(pinned)),
            Err(_) => return Err(Errno::ENOMEM),
        };
        drop(cwd);
        // Outside the lock: this may drop the last reference to a removed directory.
        drop(before);
        rcu::catch_up();
        Ok(())
    }

    pub(super) fn umask(&self) -> Mode {
        Mode::new(self.umask.load())
    }
}

impl Ids {
    fn get(&self) -> Credentials {
        of_word(self.effective.load())
    }

    fn real(&self) -> Credentials {
        of_word(self.real.load())
    }

    /// Returns a copy.
    pub(super) fn copy(&self) -> Self {
        Ids {
            effective: AtomicCell::new(self.effective.load()),
            real: AtomicCell::new(self.real.load()),
        }
    }
}

fn of_word(word: u64) -> Credentials {
    Credentials {
        uid: (word >> 32) as u32,
        gid: word as u32,
    }
}

fn to_word(uid: u32, gid: u32) -> u64 {
    u64::from(uid) << 32 | u64::from(gid)
}

impl Default for Ids {
    fn default() -> Self {
        let Credentials { uid, gid } = Credentials::ROOT;
        let root = to_word(uid, gid);
        Ids {
            effective: AtomicCell::new(root),
            real: AtomicCell::new(root),
        }
    }
}

impl Process {
    /// Sets the umask: permissions that new files of the process do not get. Only the low nine bits
    /// count. Returns the old one.
    pub fn umask(&self, mask: Mode) -> Mode {
        Mode::new(self.context.umask.swap(mask.bits() & 0o777))
    }

    /// Sets user and group, real and effective; all are 0 initially. User 0 has all permissions.
    #[doc(alias = "setresuid")]
    pub fn set_ids(&self, uid: u32, gid: u32) {
        self.ids.real.store(to_word(uid, gid));
        self.set_effective_ids(uid, gid);
    }

    /// Sets the effective user and group, for which permissions are checked.
    /// [`faccessat`](Self::faccessat) alone checks the real ones.
    #[doc(alias = "seteuid")]
    pub fn set_effective_ids(&self, uid: u32, gid: u32) {
        self.ids.effective.store(to_word(uid, gid));
    }

    /// Returns the effective user and group.
    #[doc(alias = "geteuid")]
    pub fn credentials(&self) -> Credentials {
        self.ids.get()
    }

    /// Returns the real user and group.
    #[doc(alias = "getuid")]
    pub fn real_credentials(&self) -> Credentials {
        self.ids.real()
    }

    /// Clears the set-ID bits of a file that a user without privileges has changed.
    #[inline]
    pub(super) fn remove_privileges(&self, object: &dyn Object) {
        let by = self.credentials();
        if !by.is_root() {
            object.clear_set_ids(by);
        }
    }

    /// Returns the working directory, unless it is the root.
    pub(crate) fn working_directory(&self) -> Option<VfsPath> {
        self.context.cwd()
    }

    /// Returns the working directory without a reference, unless it is the root.
    #[inline]
    pub(crate) fn working_directory_rcu<'s>(
        &'s self,
        section: &'s rcu::Guard<'_>,
    ) -> Option<&'s VfsPath> {
        self.context.cwd_rcu(section)
    }

    /// Returns the context for path operations of this process.
    pub(crate) fn path_context(&self) -> PathContext<'_> {
        let fs = self.kernel.fs();
        PathContext {
            root: fs.top(),
            fs: &**fs,
            mounts: Some(self.kernel.mounts()),
            credentials: self.ids.get(),
            umask: self.context.umask(),
            process: Some(self),
        }
    }
}
