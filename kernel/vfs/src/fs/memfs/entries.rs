//! The names of one directory, and their inodes.
//!
//! Each name has a number in its directory, its cookie. Cookies increase and are never reused, so a
//! reader can continue after any of them, whatever was added or removed meanwhile. A name that is
//! replaced keeps its cookie: it existed throughout, and is read once.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::directory::Directory;
use super::meta::Meta;
use super::regular::RegularInode;
use super::special::SpecialInode;
use crate::Errno;
use crate::fs::inode::Inode;
use crate::fs::stat::{DirEntry, FileKind};

/// Names of a directory that is not removed.
#[derive(Debug)]
pub(super) struct Entries {
    names: HashMap<Arc<[u8]>, Slot, RandomState>,
    next_cookie: u64,
    /// How many of the names are directories.
    directories: u32,
}

#[derive(Debug)]
struct Slot {
    node: Node,
    cookie: u64,
}

/// Inode that a name refers to.
#[derive(Clone, Debug)]
pub(super) enum Node {
    File(Arc<RegularInode>),
    Directory(Arc<Directory>),
    Special(Arc<SpecialInode>),
}

impl Default for Entries {
    fn default() -> Self {
        Entries {
            names: HashMap::default(),
            next_cookie: DirEntry::FIRST_COOKIE,
            directories: 0,
        }
    }
}

impl Entries {
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns how many of the names are directories.
    pub(super) fn directories(&self) -> u32 {
        self.directories
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&Node> {
        self.names.get(name).map(|entry| &entry.node)
    }

    /// Reserves memory for one more name. Allocates.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn reserve(&mut self) -> Result<(), Errno> {
        self.names.try_reserve(1).map_err(|_| Errno::ENOMEM)
    }

    /// Inserts a name, for which memory is reserved, and returns the node that it replaces.
    pub(super) fn insert(&mut self, name: Arc<[u8]>, node: Node) -> Option<Node> {
        self.directories += node.is_directory();
        if let Some(entry) = self.names.get_mut(&*name) {
            let replaced = std::mem::replace(&mut entry.node, node);
            self.directories -= replaced.is_directory();
            return Some(replaced);
        }
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        self.names.insert(name, Slot { node, cookie });
        None
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> Option<Node> {
        let removed = self.names.remove(name)?;
        self.directories -= removed.node.is_directory();
        Some(removed.node)
    }

    pub(super) fn list(&self) -> Vec<DirEntry> {
        let entry = |(name, entry): (&Arc<[u8]>, &Slot)| DirEntry {
            name: Arc::clone(name),
            inode: entry.node.meta().number(),
            kind: entry.node.kind(),
            cookie: entry.cookie,
        };
        self.names.iter().map(entry).collect()
    }

    pub(super) fn into_nodes(self) -> impl Iterator<Item = Node> {
        self.names.into_values().map(|entry| entry.node)
    }
}

impl Node {
    /// Downcasts an inode of any file system; nothing if it is not in memory.
    pub(super) fn from_inode(inode: &Arc<dyn Inode>) -> Option<Node> {
        let any = || -> Arc<dyn Any + Send + Sync> { Arc::clone(inode) as _ };
        if let Ok(file) = any().downcast() {
            return Some(Node::File(file));
        }
        if let Ok(special) = any().downcast() {
            return Some(Node::Special(special));
        }
        any().downcast().map(Node::Directory).ok()
    }

    /// Returns the inode as the interface that all file systems share.
    #[inline]
    pub(super) fn inode(&self) -> Arc<dyn Inode> {
        match self {
            Node::File(inode) => Arc::clone(inode) as _,
            Node::Directory(directory) => Arc::clone(directory) as _,
            Node::Special(special) => Arc::clone(special) as _,
        }
    }

    /// Borrows the inode as the interface that all file systems share.
    pub(super) fn as_inode(&self) -> &dyn Inode {
        match self {
            Node::File(inode) => &**inode,
            Node::Directory(directory) => &**directory,
            Node::Special(special) => &**special,
        }
    }

    pub(super) fn meta(&self) -> &Meta {
        match self {
            Node::File(inode) => inode.meta(),
            Node::Directory(directory) => directory.meta(),
            Node::Special(special) => special.meta(),
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.meta().number()
    }

    pub(super) fn kind(&self) -> FileKind {
        match self {
            Node::File(_) => FileKind::Regular,
            Node::Directory(_) => FileKind::Directory,
            Node::Special(special) => special.kind(),
        }
    }

    /// Returns 1 for a directory, and 0 for anything else.
    fn is_directory(&self) -> u32 {
        u32::from(matches!(self, Node::Directory(_)))
    }

    /// Counts one more name. A directory has only one.
    ///
    /// # Errors
    /// `ENOENT` if it has lost its last name; `EMLINK` if it has too many.
    pub(super) fn add_link(&self) -> Result<(), Errno> {
        match self {
            Node::File(inode) => inode.add_link(),
            Node::Directory(_) => Ok(()),
            Node::Special(special) => special.add_link(),
        }
    }

    /// Counts one name less. Waits for transfers if it frees the contents.
    pub(super) fn drop_link(&self) {
        match self {
            Node::File(inode) => inode.drop_link(),
            Node::Directory(_) => {}
            Node::Special(special) => special.drop_link(),
        }
    }
}
