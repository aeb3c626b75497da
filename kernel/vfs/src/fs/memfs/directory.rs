//! Directories in memory: maps from names to inodes, each under its own lock.
//!
//! A removed directory has no names. A thread that found it before its removal finds nothing in it
//! and cannot create anything: `ENOENT`.
//!
//! # Locks
//! - `Directory::entries` guards the names. A thread that takes two takes an ancestor before its
//!   descendant; if neither is an ancestor of the other, it also holds the lock of
//!   [renames](super::rename). A thread that waits with a lock held therefore waits for one further
//!   down the tree, so the order is acyclic.
//! - Inside it, locks of inodes that are not directories may be taken.

use std::any::Any;
use std::sync::{Arc, Weak};

use fdtable::FileRef;
use parking_lot::{MappedRwLockWriteGuard, RwLock, RwLockWriteGuard};

use super::entries::{Entries, Node};
use super::meta::Meta;
use super::regular::RegularInode;
use super::special::{Special, SpecialInode};
use crate::fs::inode::{Dentry, Inode, LaterName, MayUnlink, NewInode, NewKind, Opening, Unlink};
use crate::fs::locks::LockSet;
use crate::fs::mode::Permissions;
use crate::fs::mount::MountPoint;
use crate::fs::stat::{DirEntry, FileKind, Stat};
use crate::fs::{Attributes, PathContext};
use crate::ipc::fifo::Fifo;
use crate::{Errno, RcuObject};

/// Inode of a directory.
#[derive(Debug)]
pub(crate) struct Directory {
    me: Weak<Directory>,
    meta: Meta,
    /// Most bytes of a file that is created here.
    file_limit: usize,
    /// `None` once the directory is removed.
    entries: RwLock<Option<Entries>>,
    mounted: MountPoint,
    locks: LockSet,
}

/// Lock on the names of a directory. The directory is not removed while it is held.
pub(super) type Locked<'a> = MappedRwLockWriteGuard<'a, Entries>;

impl Directory {
    /// Makes an empty directory without a name. Allocates.
    pub(super) fn new(device: u64, file_limit: usize, permissions: Permissions) -> Arc<Self> {
        Arc::new_cyclic(|me| Directory {
            me: Weak::clone(me),
            meta: Meta::new(device, permissions),
            file_limit,
            entries: RwLock::new(Some(Entries::default())),
            mounted: MountPoint::default(),
            locks: LockSet::new(),
        })
    }

    pub(super) fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Locks the names for a change.
    ///
    /// # Errors
    /// `ENOENT` if the directory is removed.
    pub(super) fn lock(&self) -> Result<Locked<'_>, Errno> {
        RwLockWriteGuard::try_map(self.entries.write(), Option::as_mut).map_err(|_| Errno::ENOENT)
    }

    /// Inserts a name into the locked directory, and returns the node that it replaces. Allocates.
    ///
    /// # Errors
    /// `ENOMEM`; nothing has changed.
    pub(super) fn insert(
        &self,
        names: &mut Entries,
        name: &[u8],
        node: Node,
    ) -> Result<Option<Node>, Errno> {
        names.reserve()?;
        let name: Arc<[u8]> = name.into();
        node.meta()
            .set_dentry(Weak::clone(&self.me), Arc::clone(&name));
        self.meta.was_modified();
        Ok(names.insert(name, node))
    }

    /// Removes a name from the locked directory.
    pub(super) fn take(&self, names: &mut Entries, name: &[u8]) -> Option<Node> {
        let node = names.remove(name)?;
        // A file that is still open keeps its last name, which `/proc` shows.
        if let Node::Directory(_) = node {
            node.meta().unhash(self, name);
        }
        self.meta.was_modified();
        Some(node)
    }

    /// Marks an empty directory as removed, so that nothing can be created in it.
    ///
    /// # Errors
    /// `ENOTEMPTY` if it is not empty; `EBUSY` if something is mounted on it.
    pub(super) fn remove(&self) -> Result<(), Errno> {
        let mut entries = self.entries.write();
        if self.mounted.is_used() {
            return Err(Errno::EBUSY);
        }
        if entries.as_ref().is_some_and(|names| !names.is_empty()) {
            return Err(Errno::ENOTEMPTY);
        }
        *entries = None;
        Ok(())
    }

    /// Marks a directory as removed, and returns its names.
    pub(super) fn remove_with_all(&self) -> Option<Entries> {
        self.entries.write().take()
    }

    /// Returns a snapshot of all names, unordered; none if the directory is removed. Allocates
    /// under the lock: one reference count for each name.
    pub(super) fn list(&self) -> Vec<DirEntry> {
        self.meta.was_read();
        let entries = self.entries.read();
        entries.as_ref().map(Entries::list).unwrap_or_default()
    }

    /// Returns the parent directory, if it is still in use.
    pub(super) fn parent(&self) -> Option<Arc<Directory>> {
        self.meta.parent()
    }

    /// Returns true if this is `other` or an ancestor of it. Stays true only while directories do
    /// not move.
    pub(super) fn contains(&self, other: &Directory) -> bool {
        if std::ptr::eq(self, other) {
            return true;
        }
        let mut at = other.parent();
        while let Some(directory) = at {
            if std::ptr::eq(self, &*directory) {
                return true;
            }
            at = directory.parent();
        }
        false
    }

    /// Makes an inode that the caller will insert under a name.
    fn make(&self, new: &NewInode<'_>) -> Node {
        let (device, limit) = (self.meta.device(), self.file_limit);
        let permissions = new.permissions_in(self.meta.permissions());
        let special = |what| Node::Special(Arc::new(SpecialInode::new(device, permissions, what)));
        match &new.what {
            NewKind::Regular => Node::File(Arc::new(RegularInode::new(device, permissions, limit))),
            NewKind::Directory => Node::Directory(Directory::new(device, limit, permissions)),
            NewKind::Symlink(target) => special(Special::Symlink((*target).into())),
            NewKind::Fifo => special(Special::Fifo(Arc::new(Fifo::new()))),
            NewKind::Socket(bound) => special(Special::Socket(Arc::clone(bound))),
        }
    }
}

impl Inode for Directory {
    fn kind(&self) -> FileKind {
        FileKind::Directory
    }

    fn stat(&self) -> Stat {
        let entries = self.entries.read();
        Stat {
            links: entries.as_ref().map_or(0, |names| 2 + names.directories()),
            size: entries.as_ref().map_or(0, Entries::len) as u64,
            ..self.meta.stat(FileKind::Directory)
        }
    }

    fn number(&self) -> u64 {
        self.meta.number()
    }

    fn permissions(&self) -> Permissions {
        self.meta.permissions()
    }

    fn set_attributes(&self, changes: &Attributes) -> Result<(), Errno> {
        self.meta.set(changes);
        Ok(())
    }

    fn open(self: Arc<Self>, opening: &Opening<'_>) -> Result<FileRef<RcuObject>, Errno> {
        opening.directory(self)
    }

    fn lookup(&self, name: &[u8], _context: &PathContext<'_>) -> Result<Arc<dyn Inode>, Errno> {
        let entries = self.entries.read();
        let found = entries.as_ref().and_then(|entries| entries.get(name));
        found.map(Node::inode).ok_or(Errno::ENOENT)
    }

    fn names(&self) -> Result<Vec<DirEntry>, Errno> {
        Ok(self.list())
    }

    fn dentry(&self) -> Option<Dentry> {
        self.meta.dentry()
    }

    fn create(&self, name: &[u8], new: &NewInode<'_>) -> Result<Arc<dyn Inode>, Errno> {
        let mut names = self.lock()?;
        if names.get(name).is_some() {
            return Err(Errno::EEXIST);
        }
        let made = self.make(new);
        let inode = made.inode();
        self.insert(&mut names, name, made)?;
        Ok(inode)
    }

    fn create_unnamed(
        &self,
        new: &NewInode<'_>,
        later: LaterName,
    ) -> Result<Arc<dyn Inode>, Errno> {
        let permissions = new.permissions_in(self.meta.permissions());
        let made = RegularInode::new(self.meta.device(), permissions, self.file_limit);
        Ok(Arc::new(made.without_name(later)))
    }

    fn link(&self, name: &[u8], inode: &Arc<dyn Inode>) -> Result<(), Errno> {
        let node = Node::from_inode(inode)
            .filter(|node| node.meta().device() == self.meta.device())
            .ok_or(Errno::EXDEV)?;
        let mut names = self.lock()?;
        if names.get(name).is_some() {
            return Err(Errno::EEXIST);
        }
        names.reserve()?;
        node.add_link()?;
        self.insert(&mut names, name, node)?;
        Ok(())
    }

    fn unlink(&self, name: &[u8], what: Unlink, may: MayUnlink<'_>) -> Result<(), Errno> {
        let mut names = self.lock()?;
        let found = names.get(name).ok_or(Errno::ENOENT)?;
        may(found.as_inode())?;
        match (found, what) {
            (Node::Directory(directory), Unlink::Directory) => directory.remove()?,
            (Node::Directory(_), Unlink::File) => return Err(Errno::EISDIR),
            (_, Unlink::Directory) => return Err(Errno::ENOTDIR),
            (_, Unlink::File) => {}
        }
        let removed = self.take(&mut names, name);
        // Outside the lock: this may free many bytes.
        drop(names);
        removed.iter().for_each(Node::drop_link);
        Ok(())
    }

    fn locks(&self) -> Option<&LockSet> {
        Some(&self.locks)
    }

    fn mount_point(&self) -> Option<&MountPoint> {
        Some(&self.mounted)
    }
}

/// Downcasts an inode to a directory in memory.
pub(super) fn as_directory(inode: &dyn Inode) -> Option<&Directory> {
    (inode as &dyn Any).downcast_ref()
}
