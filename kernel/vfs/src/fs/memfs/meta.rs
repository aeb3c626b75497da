//! The common part of all inodes in memory: number, owner, permissions, timestamps, dentry, names.

use std::fmt::Debug;
use std::sync::{Arc, Weak};

use crossbeam_utils::atomic::AtomicCell;
use fdtable_shm::Mutex;

use crate::Errno;
use crate::fs::{
    Attributes, Credentials, Dentry, FileKind, Inode, Mode, Permissions, Stat, Timestamp,
    inode_number,
};

/// Device of a file system in memory, and where its inode numbers begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) number: u64,
    /// Below are the inode numbers of lower files.
    pub(super) first_inode: u64,
}

impl Device {
    /// Returns true if there may be lower files.
    pub(super) fn is_over_lower(self) -> bool {
        self.first_inode > 0
    }

    /// Returns the number of a new inode.
    pub(super) fn fresh_inode(self) -> u64 {
        self.first_inode + inode_number::fresh()
    }
}

/// Inode in memory. It counts its names, unless it is a directory, which has one.
pub(super) trait Node: Inode + Debug {
    fn meta(&self) -> &Meta;

    /// Counts one more name.
    ///
    /// # Errors
    /// `ENOENT` if it has lost its last name; `EMLINK` if it has too many; `EPERM` if it is a
    /// directory.
    fn add_link(&self) -> Result<(), Errno> {
        Err(Errno::EPERM)
    }

    /// Counts one name less. Waits for transfers if it frees the contents.
    fn drop_link(&self) {}
}

/// An inode without its contents.
#[derive(Debug)]
pub(super) struct Meta {
    pub(super) number: u64,
    pub(super) device: Device,
    /// Set if the contents were read since the last change. A further read changes nothing, so it
    /// writes no shared line (mount option `relatime`, without its one-day rule).
    accessed: AtomicCell<bool>,
    /// Set if the permissions let every user search the inode as a directory.
    searchable: AtomicCell<bool>,
    /// Set if the permissions have a set-ID bit.
    has_set_ids: AtomicCell<bool>,
    /// No other lock is taken inside it.
    state: Mutex<State>,
}

/// A directory, and the name of an inode in it.
type Place = (Weak<dyn Node>, Arc<[u8]>);

#[derive(Debug)]
struct State {
    /// Without the attributes of the contents.
    stat: Stat,
    dentry: Option<Place>,
    /// The name is removed, and kept only for `/proc`.
    is_unhashed: bool,
}

impl Meta {
    /// Makes the metadata of an inode on the file system `device`.
    pub(super) fn new(device: Device, permissions: Permissions) -> Self {
        let new = Stat::new(FileKind::Regular, permissions.mode, device.fresh_inode());
        Self::of(device, &new.made_now(permissions))
    }

    /// Makes the metadata of an inode with these attributes, without those of its contents.
    pub(super) fn of(device: Device, stat: &Stat) -> Self {
        let &Stat {
            atime,
            mtime,
            ctime,
            btime,
            ..
        } = stat;
        Meta {
            number: stat.inode,
            device,
            accessed: AtomicCell::new(false),
            searchable: AtomicCell::new(is_searchable(stat.mode)),
            has_set_ids: AtomicCell::new(has_set_ids(stat.mode)),
            state: Mutex::new(State {
                stat: Stat {
                    device: device.number,
                    uid: stat.uid,
                    gid: stat.gid,
                    atime,
                    mtime,
                    ctime,
                    btime,
                    ..Stat::new(stat.kind, stat.mode, stat.inode)
                },
                dentry: None,
                is_unhashed: false,
            }),
        }
    }

    pub(super) fn permissions(&self) -> Permissions {
        self.state.lock().stat.permissions()
    }

    /// Clears the set-ID bits after a change of the contents.
    #[inline]
    pub(super) fn clear_set_ids(&self, by: Credentials) {
        if self.has_set_ids.load() {
            self.clear_set_ids_locked(by);
        }
    }

    #[cold]
    fn clear_set_ids_locked(&self, by: Credentials) {
        let mut state = self.state.lock();
        state.stat.mode = state.stat.permissions().without_set_ids(by);
        state.stat.ctime = Timestamp::now();
        self.has_set_ids.store(has_set_ids(state.stat.mode));
    }

    /// Returns true if every user may search the inode as a directory. Takes no lock.
    #[inline]
    pub(super) fn is_searchable_by_all(&self) -> bool {
        self.searchable.load()
    }

    /// Returns the attributes that do not depend on the contents.
    pub(super) fn stat(&self, kind: FileKind) -> Stat {
        let stat = self.state.lock().stat;
        Stat { kind, ..stat }
    }

    pub(super) fn set(&self, changes: &Attributes) {
        let mut state = self.state.lock();
        state.stat.change(changes);
        self.searchable.store(is_searchable(state.stat.mode));
        self.has_set_ids.store(has_set_ids(state.stat.mode));
        self.accessed.store(false);
    }

    /// Records a read of the contents.
    #[inline]
    pub(super) fn was_read(&self) {
        if !self.accessed.load() {
            self.remember_access();
        }
    }

    #[cold]
    fn remember_access(&self) {
        let mut state = self.state.lock();
        state.stat.atime = state.stat.atime.max(Timestamp::now());
        self.accessed.store(true);
    }

    /// Records a change of the contents.
    pub(super) fn was_modified(&self) {
        let mut state = self.state.lock();
        let now = Timestamp::now();
        state.stat.mtime = now;
        state.stat.ctime = now;
        self.clear_accessed();
    }

    /// Records a change of anything but the contents.
    pub(super) fn was_changed(&self) {
        self.state.lock().stat.ctime = Timestamp::now();
        self.clear_accessed();
    }

    fn clear_accessed(&self) {
        if self.accessed.load() {
            self.accessed.store(false);
        }
    }

    /// Records the newest name.
    pub(super) fn set_dentry(&self, directory: Weak<dyn Node>, name: Arc<[u8]>) {
        let mut state = self.state.lock();
        state.dentry = Some((directory, name));
        state.is_unhashed = false;
    }

    /// Records the removal of a name, if it is the newest.
    pub(super) fn unhash(&self, directory: &dyn Node, name: &[u8]) {
        let mut state = self.state.lock();
        let is_it =
            |(at, called): &Place| std::ptr::addr_eq(at.as_ptr(), directory) && **called == *name;
        if state.dentry.as_ref().is_some_and(is_it) {
            state.is_unhashed = true;
        }
    }

    /// Returns the parent directory, if it is still in use.
    pub(super) fn parent(&self) -> Option<Arc<dyn Node>> {
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

fn is_searchable(mode: Mode) -> bool {
    mode.contains(Mode::new(0o111))
}

fn has_set_ids(mode: Mode) -> bool {
    mode.bits() & 0o6000 != 0
}
