//! Context of a process for path lookups: working directory, umask, user and group.

use std::sync::OnceLock;

use crossbeam_utils::atomic::AtomicCell;
use parking_lot::RwLock;

use super::Process;
use crate::Errno;
use crate::fs::{Credentials, Mode, PathContext, Pinned, VfsPath};

/// Working directory and umask, which processes may share.
#[doc(alias = "fs_struct")]
#[derive(Debug)]
pub(super) struct FsContext {
    /// Empty until the first change: most processes stay in the root directory, and their lookups
    /// then share no lock.
    cwd: OnceLock<RwLock<Pinned>>,
    umask: AtomicCell<u32>,
}

/// User and group of a process, in one word.
#[derive(Debug)]
pub(super) struct Ids(AtomicCell<u64>);

impl Default for FsContext {
    fn default() -> Self {
        FsContext {
            cwd: OnceLock::new(),
            umask: AtomicCell::new(0o022),
        }
    }
}

impl FsContext {
    /// Returns a copy.
    pub(super) fn copy(&self) -> Self {
        let cwd = OnceLock::new();
        if let Some(pinned) = self.cwd.get() {
            cwd.get_or_init(|| RwLock::new(pinned.read().clone()));
        }
        FsContext {
            cwd,
            umask: AtomicCell::new(self.umask.load()),
        }
    }

    /// Returns the working directory, unless it is the root.
    pub(super) fn cwd(&self) -> Option<VfsPath> {
        Some(self.cwd.get()?.read().path().clone())
    }

    /// Sets the working directory.
    ///
    /// # Errors
    /// `ENOENT` if its file system was unmounted meanwhile.
    pub(super) fn set_cwd(&self, path: VfsPath) -> Result<(), Errno> {
        let pinned = Pinned::new(path)?;
        let cwd = self.cwd.get_or_init(|| RwLock::new(pinned.clone()));
        let before = std::mem::replace(&mut *cwd.write(), pinned);
        // Outside the lock: this may drop the last reference to a removed directory.
        drop(before);
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
