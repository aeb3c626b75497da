//! Directories: names of inodes, each directory under a lock of its own.
//!
//! A removed directory has no map any more. Who had found it before finds nothing in it, and can
//! create nothing in it: `ENOENT`.
//!
//! # Locks
//! - `Directory::entries` guards the names. Who holds two takes that of the directory nearer to
//!   the root first, and who needs two of which neither is below the other holds the lock of
//!   [`rename`](crate::MemFs::rename) too. So whoever waits with a lock held waits for somebody
//!   further down, and the lowest waits for nobody.
//! - `Directory::parent` guards one pointer, and nothing is taken under it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::{MappedRwLockWriteGuard, Mutex, RwLock, RwLockWriteGuard};

use crate::path::checked;
use crate::regular::Inode;
use crate::stat::{DirEntry, FileKind, Stat};
use crate::{Errno, inode_number};

mod open;

pub(crate) use open::OpenDirectory;

/// Names of a directory that is not removed.
pub(crate) type Entries = HashMap<Arc<str>, Node>;

/// What a name stands for.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    File(Arc<Inode>),
    Directory(Arc<Directory>),
}

/// Inode of a directory.
#[derive(Debug)]
pub(crate) struct Directory {
    number: u64,
    /// Nothing in the root.
    parent: Mutex<Weak<Directory>>,
    /// None once the directory is removed.
    entries: RwLock<Option<Entries>>,
}

/// The lock on the names of a directory, which is not removed while it is held.
pub(crate) type Locked<'a> = MappedRwLockWriteGuard<'a, Entries>;

impl Directory {
    /// Makes an empty directory below `parent`, or a root. Allocates.
    pub(crate) fn new(parent: Weak<Directory>) -> Arc<Self> {
        Arc::new(Directory {
            number: inode_number::fresh(),
            parent: Mutex::new(parent),
            entries: RwLock::new(Some(Entries::new())),
        })
    }

    /// Finds a name.
    ///
    /// # Errors
    /// `ENOENT` if there is none; `ENAMETOOLONG`.
    pub(crate) fn find(&self, name: &str) -> Result<Node, Errno> {
        let entries = self.entries.read();
        let found = entries.as_ref().and_then(|entries| entries.get(name));
        match found {
            Some(node) => Ok(node.clone()),
            None => checked(name).and(Err(Errno::ENOENT)),
        }
    }

    /// Locks the names for a change.
    ///
    /// # Errors
    /// `ENOENT` if the directory is removed.
    pub(crate) fn lock(&self) -> Result<Locked<'_>, Errno> {
        RwLockWriteGuard::try_map(self.entries.write(), Option::as_mut).map_err(|_| Errno::ENOENT)
    }

    /// Removes an empty directory: nothing can be created in it any more.
    ///
    /// # Errors
    /// `ENOTEMPTY` if it has names.
    pub(crate) fn remove(&self) -> Result<(), Errno> {
        let mut entries = self.entries.write();
        if entries.as_ref().is_some_and(|names| !names.is_empty()) {
            return Err(Errno::ENOTEMPTY);
        }
        *entries = None;
        Ok(())
    }

    /// Removes a directory, and returns the names that it had.
    pub(crate) fn remove_with_all(&self) -> Option<Entries> {
        self.entries.write().take()
    }

    /// Returns all names as of one moment, in no order: none if the directory is removed.
    /// Allocates under the lock; a name is one counted reference.
    pub(crate) fn list(&self) -> Vec<DirEntry> {
        let entries = self.entries.read();
        let entry = |(name, node): (&Arc<str>, &Node)| DirEntry {
            name: Arc::clone(name),
            inode: node.number(),
            kind: node.kind(),
        };
        entries.iter().flatten().map(entry).collect()
    }

    pub(crate) fn stat(&self) -> Stat {
        Stat {
            inode: self.number,
            kind: FileKind::Directory,
            size: self.entries.read().as_ref().map_or(0, HashMap::len) as u64,
        }
    }

    /// Returns the directory that this one is in, if there is one and it is in use.
    pub(crate) fn parent(&self) -> Option<Arc<Directory>> {
        self.parent.lock().upgrade()
    }

    pub(crate) fn set_parent(&self, parent: &Arc<Directory>) {
        *self.parent.lock() = Arc::downgrade(parent);
    }

    /// Tells whether this is `other`, or has it somewhere below. True for as long as directories
    /// do not move.
    pub(crate) fn contains(&self, other: &Arc<Directory>) -> bool {
        let mut at = Some(Arc::clone(other));
        while let Some(directory) = at {
            if std::ptr::eq(self, &*directory) {
                return true;
            }
            at = directory.parent();
        }
        false
    }
}

/// Puts a name into a locked directory, and returns what it stood for. Allocates.
///
/// # Errors
/// `ENOMEM` if there is no memory for another name; nothing has changed.
pub(crate) fn insert(entries: &mut Entries, name: &str, node: Node) -> Result<Option<Node>, Errno> {
    entries.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    Ok(entries.insert(name.into(), node))
}

impl Node {
    pub(crate) fn number(&self) -> u64 {
        match self {
            Node::File(inode) => inode.number(),
            Node::Directory(directory) => directory.number,
        }
    }

    pub(crate) fn kind(&self) -> FileKind {
        match self {
            Node::File(_) => FileKind::Regular,
            Node::Directory(_) => FileKind::Directory,
        }
    }

    /// Tells a file that its name went.
    pub(crate) fn unlink(&self) {
        if let Node::File(inode) = self {
            inode.unlink();
        }
    }

    pub(crate) fn stat(&self) -> Stat {
        match self {
            Node::File(inode) => inode.stat(),
            Node::Directory(directory) => directory.stat(),
        }
    }

    /// Returns the directory.
    ///
    /// # Errors
    /// `ENOTDIR` if it is none.
    pub(crate) fn into_directory(self) -> Result<Arc<Directory>, Errno> {
        match self {
            Node::Directory(directory) => Ok(directory),
            Node::File(_) => Err(Errno::ENOTDIR),
        }
    }
}
