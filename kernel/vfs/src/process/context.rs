//! Context of a process for path lookups: working directory, umask, user and group.

use crossbeam_utils::atomic::AtomicCell;
use fdtable::rcu;
use fdtable::rcu::map::RcuMap;
use foldhash::fast::RandomState;

use super::Process;
use crate::Errno;
use crate::fs::{Credentials, Mode, PathContext, Pinned, VfsPath};

/// Working directory and umask, which processes may share.
#[doc(alias = "fs_struct")]
#[derive(Debug)]
pub(super) struct FsContext {
    /// The working directory, under the one key, unless it is the root: lookups read it under RCU.
    /// The lock guards the pin on it, which ends at once when the directory changes.
    cwd: RcuMap<(), VfsPath, RandomState, Option<Pinned>>,
    umask: AtomicCell<u32>,
}

/// User and group of a process, in one word.
#[derive(Debug)]
pub(super) struct Ids(AtomicCell<u64>);

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
    fn new(credentials: Credentials) -> Self {
        let ids = Ids(AtomicCell::new(0));
        ids.set(credentials);
        ids
    }

    fn get(&self) -> Credentials {
        let word = self.0.load();
        Credentials {
            uid: (word >> 32) as u32,
            gid: word as u32,
        }
    }

    fn set(&self, Credentials { uid, gid }: Credentials) {
        self.0.store(u64::from(uid) << 32 | u64::from(gid));
    }

    /// Returns a copy.
    pub(super) fn copy(&self) -> Self {
        Self::new(self.get())
    }
}

impl Default for Ids {
    fn default() -> Self {
        Self::new(Credentials::ROOT)
    }
}

impl Process {
    /// Sets the umask: permissions that new files of the process do not get. Only the low nine bits
    /// count. Returns the old one.
    pub fn umask(&self, mask: Mode) -> Mode {
        Mode::new(self.context.umask.swap(mask.bits() & 0o777))
    }

    /// Sets user and group; both are 0 initially. User 0 has all permissions.
    #[doc(alias = "setresuid")]
    pub fn set_ids(&self, uid: u32, gid: u32) {
        self.ids.set(Credentials { uid, gid });
    }

    /// Returns the user and the group.
    #[doc(alias = "getuid")]
    pub fn credentials(&self) -> Credentials {
        self.ids.get()
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
