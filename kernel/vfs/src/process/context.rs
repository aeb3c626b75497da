//! Context of a process for path lookups: working directory, umask, and credentials.

use std::sync::Arc;

use crossbeam_utils::atomic::AtomicCell;
use fdtable::rcu;
use fdtable_rcu_map::RcuMap;
use fdtable_shm::Mutex;
use foldhash::fast::RandomState;

use super::Process;
use crate::fs::{Capabilities, Credentials, Mode, PathContext, Pinned, ResolveFlags, VfsPath};
use crate::{Errno, Object};

/// Working directory and umask, which processes may share. In Linux: `fs_struct`.
#[derive(Debug)]
pub(super) struct FsContext {
    /// The working directory, under the one key, unless it is the root: lookups read it under RCU.
    /// The lock guards the pin on it, which ends at once when the directory changes.
    cwd: RcuMap<(), VfsPath, RandomState, Option<Pinned>>,
    umask: AtomicCell<u32>,
}

/// Effective and real credentials of a process, and its supplementary groups.
#[derive(Debug, Default)]
pub(super) struct Ids {
    effective: CredentialsCell,
    real: CredentialsCell,
    /// Read only after a check without them has failed.
    groups: Mutex<Arc<[u32]>>,
}

/// Credentials that other threads read while they change. No call changes user and group together,
/// as on Linux; so each change is one store.
#[derive(Debug)]
struct CredentialsCell {
    /// The user, and the capabilities in the low half.
    user: AtomicCell<u64>,
    group: AtomicCell<u32>,
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
    /// Returns a copy.
    pub(super) fn copy(&self) -> Self {
        Ids {
            effective: CredentialsCell::new(self.effective.get()),
            real: CredentialsCell::new(self.real.get()),
            groups: Mutex::new(Arc::clone(&self.groups.lock())),
        }
    }
}

impl CredentialsCell {
    fn new(credentials: Credentials) -> Self {
        CredentialsCell {
            user: AtomicCell::new(word(credentials)),
            group: AtomicCell::new(credentials.gid),
        }
    }

    #[inline]
    fn get(&self) -> Credentials {
        let user = self.user.load();
        Credentials {
            uid: (user >> 32) as u32,
            gid: self.group.load(),
            capabilities: Capabilities::from_bits_retain(user as u32),
        }
    }

    fn set(&self, credentials: Credentials) {
        self.group.store(credentials.gid);
        self.user.store(word(credentials));
    }
}

/// Returns user and capabilities in one word.
fn word(credentials: Credentials) -> u64 {
    u64::from(credentials.uid) << 32 | u64::from(credentials.capabilities.bits())
}

impl Default for CredentialsCell {
    fn default() -> Self {
        CredentialsCell::new(Credentials::ROOT)
    }
}

impl Process {
    /// Sets the umask: permissions that new files of the process do not get. Only the low nine bits
    /// count. Returns the old one.
    pub fn umask(&self, mask: Mode) -> Mode {
        Mode::new(self.context.umask.swap(mask.bits() & 0o777))
    }

    /// Sets user and group, real and effective; all are 0 initially. User 0 has all capabilities,
    /// and any other none. In Linux: `setresuid`.
    pub fn set_ids(&self, uid: u32, gid: u32) {
        let credentials = Credentials::new(uid, gid);
        self.set_credentials(credentials, credentials);
    }

    /// Sets the effective and the real credentials, for an embedder that has rules of its own.
    /// In Linux: `capset`.
    ///
    /// The capabilities of `real` are those that [`faccessat`](Self::faccessat) checks: on Linux
    /// the permitted ones if the real user is 0, and otherwise none.
    pub fn set_credentials(&self, effective: Credentials, real: Credentials) {
        self.ids.real.set(real);
        self.ids.effective.set(effective);
    }

    /// Sets the supplementary groups; there are none initially. The permissions that a file has for
    /// its group hold for a member too, if those for others do not suffice. In Linux: `setgroups`.
    pub fn set_groups(&self, groups: impl Into<Arc<[u32]>>) {
        *self.ids.groups.lock() = groups.into();
    }

    /// Returns true if the process is in this supplementary group.
    pub(crate) fn has_group(&self, gid: u32) -> bool {
        self.ids.groups.lock().contains(&gid)
    }

    /// Returns the effective user and group, with their capabilities. In Linux: `geteuid`.
    pub fn credentials(&self) -> Credentials {
        self.ids.effective.get()
    }

    /// Returns the real user and group, with the capabilities that [`faccessat`](Self::faccessat)
    /// checks. In Linux: `getuid`.
    pub fn real_credentials(&self) -> Credentials {
        self.ids.real.get()
    }

    /// Clears the set-ID bits of a file that a user without privileges has changed.
    #[inline]
    pub(super) fn remove_privileges(&self, object: &dyn Object) {
        let by = self.credentials();
        if !by.has(Capabilities::FSETID) {
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
            credentials: self.ids.effective.get(),
            umask: self.context.umask(),
            process: Some(self),
            resolve: ResolveFlags::empty(),
        }
    }
}
