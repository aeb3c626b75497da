//! What inodes in memory have in common: number, owners, permissions, times, and where they are.

use std::sync::{Arc, Weak};

use crossbeam_utils::atomic::AtomicCell;
use parking_lot::Mutex;

use super::directory::Directory;
use crate::fs::clock::Timestamp;
use crate::fs::inode_number;
use crate::fs::mode::Permissions;
use crate::fs::stat::{FileKind, Stat};
use crate::fs::{Attributes, Dentry};

/// All of an inode but its contents.
#[derive(Debug)]
pub(super) struct Meta {
    number: u64,
    device: u64,
    /// It was read since its last change: reading it again changes nothing. So not every read
    /// writes (mount option `relatime`, without its day).
    accessed: AtomicCell<bool>,
    /// Nothing is taken under this lock.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    permissions: Permissions,
    atime: Timestamp,
    mtime: Timestamp,
    ctime: Timestamp,
    btime: Timestamp,
    dentry: Option<(Weak<Directory>, Arc<[u8]>)>,
    /// The name is gone, and is kept to be shown.
    is_unhashed: bool,
}

impl Meta {
    /// Makes that of an inode of the file system number `device`.
    pub(super) fn new(device: u64, permissions: Permissions) -> Self {
        let now = Timestamp::now();
        Meta {
            number: inode_number::fresh(),
            device,
            accessed: AtomicCell::new(false),
            state: Mutex::new(State {
                permissions,
                atime: now,
                mtime: now,
                ctime: now,
                btime: now,
                dentry: None,
                is_unhashed: false,
            }),
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn device(&self) -> u64 {
        self.device
    }

    pub(super) fn permissions(&self) -> Permissions {
        self.state.lock().permissions
    }

    /// Describes the inode but for its contents.
    pub(super) fn stat(&self, kind: FileKind) -> Stat {
        let state = self.state.lock();
        Stat {
            device: self.device,
            uid: state.permissions.uid,
            gid: state.permissions.gid,
            atime: state.atime,
            mtime: state.mtime,
            ctime: state.ctime,
            btime: state.btime,
            ..Stat::new(kind, state.permissions.mode, self.number)
        }
    }

    pub(super) fn set(&self, changes: &Attributes) {
        let mut state = self.state.lock();
        let permissions = &mut state.permissions;
        permissions.mode = changes.mode.unwrap_or(permissions.mode);
        permissions.uid = changes.uid.unwrap_or(permissions.uid);
        permissions.gid = changes.gid.unwrap_or(permissions.gid);
        state.atime = changes.atime.unwrap_or(state.atime);
        state.mtime = changes.mtime.unwrap_or(state.mtime);
        state.ctime = Timestamp::now();
        self.accessed.store(false);
    }

    /// Remembers that the contents were read.
    #[inline]
    pub(super) fn was_read(&self) {
        if !self.accessed.load() {
            self.remember_access();
        }
    }

    #[cold]
    fn remember_access(&self) {
        let mut state = self.state.lock();
        state.atime = state.atime.max(Timestamp::now());
        self.accessed.store(true);
    }

    /// Remembers that the contents have changed.
    pub(super) fn was_modified(&self) {
        let mut state = self.state.lock();
        let now = Timestamp::now();
        state.mtime = now;
        state.ctime = now;
        self.has_news();
    }

    /// Remembers that something else than the contents has changed.
    pub(super) fn was_changed(&self) {
        self.state.lock().ctime = Timestamp::now();
        self.has_news();
    }

    fn has_news(&self) {
        if self.accessed.load() {
            self.accessed.store(false);
        }
    }

    /// Remembers the newest name.
    pub(super) fn set_dentry(&self, directory: Weak<Directory>, name: Arc<[u8]>) {
        let mut state = self.state.lock();
        state.dentry = Some((directory, name));
        state.is_unhashed = false;
    }

    /// Remembers that a name is gone, if it is the newest.
    pub(super) fn unhash(&self, directory: &Directory, name: &[u8]) {
        let mut state = self.state.lock();
        let is_it = |(at, called): &(Weak<Directory>, Arc<[u8]>)| {
            std::ptr::eq(at.as_ptr(), directory) && **called == *name
        };
        if state.dentry.as_ref().is_some_and(is_it) {
            state.is_unhashed = true;
        }
    }

    /// Returns the directory that the inode is in, if there is one and it is in use.
    pub(super) fn parent(&self) -> Option<Arc<Directory>> {
        let state = self.state.lock();
        let (directory, _) = state.dentry.as_ref()?;
        directory.upgrade()
    }

    pub(super) fn dentry(&self) -> Option<Dentry> {
        let state = self.state.lock();
        let (directory, name) = state.dentry.as_ref()?;
        Some(Dentry {
            parent: directory.upgrade()?,
            name: Arc::clone(name),
            is_unhashed: state.is_unhashed,
        })
    }
}
