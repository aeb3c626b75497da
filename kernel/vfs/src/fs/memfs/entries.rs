//! The names of one directory, and their inodes.
//!
//! Each name has a number in its directory, its cookie. Cookies increase and are never reused, so a
//! reader can continue after any of them, whatever was added or removed meanwhile. A name that is
//! replaced keeps its cookie: it existed throughout, and is read once.
//!
//! Lookups read the names under RCU, and write nothing that other threads read. Everything else
//! takes the lock of the directory.

use std::any::Any;
use std::sync::Arc;

use fdtable::rcu;
use fdtable::rcu::map::{Prepared, RcuMap, Writer};
use foldhash::fast::RandomState;

use super::directory::Directory;
use super::meta::Meta;
use super::regular::RegularInode;
use super::special::SpecialInode;
use crate::Errno;
use crate::fs::inode::Inode;
use crate::fs::stat::{DirEntry, FileKind};

/// Names of a directory.
#[derive(Debug)]
pub(super) struct Names(RcuMap<Arc<[u8]>, Slot, RandomState, State>);

/// Names of a directory that is not removed, locked.
#[derive(Debug)]
pub(super) struct Entries<'a>(Writer<'a, Arc<[u8]>, Slot, RandomState, State>);

/// What the lock of a directory guards besides the names.
#[derive(Debug)]
struct State {
    next_cookie: u64,
    /// How many of the names are directories.
    directories: u32,
    /// The directory has lost its name, and gets no names.
    is_removed: bool,
}

#[derive(Clone)]
struct Slot {
    node: Node,
    /// The same inode, for lookups to borrow.
    inode: Arc<dyn Inode>,
    cookie: u64,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {}", self.node, self.cookie)
    }
}

/// Name that is not in its directory yet.
#[derive(Debug)]
pub(super) struct NewEntry {
    prepared: Prepared<Arc<[u8]>, Slot>,
    name: Arc<[u8]>,
    node: Node,
}

/// Inode that a name refers to.
#[derive(Clone, Debug)]
pub(super) enum Node {
    File(Arc<RegularInode>),
    Directory(Arc<Directory>),
    Special(Arc<SpecialInode>),
}

impl Names {
    pub(super) fn new() -> Self {
        let state = State {
            next_cookie: DirEntry::FIRST_COOKIE,
            directories: 0,
            is_removed: false,
        };
        Names(RcuMap::new(RandomState::default(), state))
    }

    /// Finds an inode. Takes no lock, and writes nothing that another thread reads.
    #[inline]
    pub(super) fn find<'s>(
        &'s self,
        name: &[u8],
        section: &'s rcu::Guard<'_>,
    ) -> Option<&'s Arc<dyn Inode>> {
        self.0.get(name, section).map(|slot| &slot.inode)
    }

    /// Locks the names.
    ///
    /// # Errors
    /// `ENOENT` if the directory is removed.
    pub(super) fn lock(&self) -> Result<Entries<'_>, Errno> {
        let entries = self.0.lock();
        if entries.state().is_removed {
            return Err(Errno::ENOENT);
        }
        Ok(Entries(entries))
    }
}

impl Entries<'_> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how many of the names are directories.
    pub(super) fn directories(&self) -> u32 {
        self.0.state().directories
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&Node> {
        self.0.get(name).map(|slot| &slot.node)
    }

    /// Makes an entry, to be inserted here. Allocates.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn prepare(&mut self, name: &[u8], node: Node) -> Result<NewEntry, Errno> {
        let cookie = match self.0.get(name) {
            Some(replaced) => replaced.cookie,
            None => {
                let cookie = self.0.state().next_cookie;
                self.0.state_mut().next_cookie += 1;
                cookie
            }
        };
        let name: Arc<[u8]> = name.into();
        let slot = Slot {
            node: node.clone(),
            inode: node.inode(),
            cookie,
        };
        let prepared = self
            .0
            .prepare(Arc::clone(&name), slot)
            .map_err(|_| Errno::ENOMEM)?;
        Ok(NewEntry {
            prepared,
            name,
            node,
        })
    }

    /// Inserts an entry that was made here, and returns the node that it replaces.
    pub(super) fn insert(&mut self, entry: NewEntry) -> Option<Node> {
        self.0.state_mut().directories += entry.node.is_directory();
        // It fails only in a directory that was cleared since, and is removed then.
        let replaced = self.0.insert(entry.prepared).ok()??;
        self.0.state_mut().directories -= replaced.node.is_directory();
        Some(replaced.node)
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> Option<Node> {
        let removed = self.0.remove(name)?;
        self.0.state_mut().directories -= removed.node.is_directory();
        Some(removed.node)
    }

    /// Removes all names, and accepts no others. Returns what they referred to. Allocates.
    pub(super) fn end(&mut self) -> Vec<Node> {
        let nodes = self.0.iter().map(|(_, slot)| slot.node.clone()).collect();
        self.0.clear();
        let state = self.0.state_mut();
        state.directories = 0;
        state.is_removed = true;
        nodes
    }

    pub(super) fn list(&self) -> Vec<DirEntry> {
        let entry = |(name, slot): (&Arc<[u8]>, &Slot)| DirEntry {
            name: Arc::clone(name),
            inode: slot.node.meta().number(),
            kind: slot.node.kind(),
            cookie: slot.cookie,
        };
        self.0.iter().map(entry).collect()
    }
}

impl NewEntry {
    pub(super) fn name(&self) -> &Arc<[u8]> {
        &self.name
    }

    pub(super) fn node(&self) -> &Node {
        &self.node
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
