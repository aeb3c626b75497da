//! The names of one directory, and their inodes.
//!
//! Each name has a number in its directory, its cookie. Cookies increase and are never reused, so a
//! reader can continue after any of them, whatever was added or removed meanwhile. A name that is
//! replaced keeps its cookie: it existed throughout, and is read once.
//!
//! Lookups read the names under RCU, and write nothing that other threads read. Everything else
//! takes the lock of the directory.
//!
//! A name that comes from a [lower directory](super::lower) has no inode until it is looked up.

use std::collections::HashSet;
use std::sync::Arc;

use fdtable::rcu;
use fdtable_rcu_map::{Prepared, RcuMap, Writer};
use fdtable_shm::Mutex;
use foldhash::fast::RandomState;

use super::meta::Node;
use crate::Errno;
use crate::fs::{DirEntry, FileKind, Inode, LowerName};

/// Names of a directory.
#[derive(Debug)]
pub(super) struct Names {
    map: RcuMap<Arc<[u8]>, Slot, RandomState, State>,
    /// The names of a lower directory that were found, if it cannot be listed. They stay when their
    /// files are removed here. The lock is taken inside that of the directory.
    found: Option<Box<FoundNames>>,
}

type FoundNames = Mutex<HashSet<Arc<[u8]>>>;

/// Names of a directory that is not removed, locked.
#[derive(Debug)]
pub(super) struct Entries<'a>(Writer<'a, Arc<[u8]>, Slot, RandomState, State>);

/// State that the lock of a directory guards besides the names.
#[derive(Debug)]
struct State {
    next_cookie: u64,
    /// Number of names that are directories.
    directories: u32,
    /// Number of such names when they were taken from a lower directory.
    lower_directories: u32,
    /// The directory has lost its name, and gets no names.
    is_removed: bool,
}

#[derive(Clone, Debug)]
struct Slot {
    named: Named,
    cookie: u64,
}

/// Inode or lower file that a name refers to.
#[derive(Clone, Debug)]
pub(super) enum Named {
    Inode {
        node: Arc<dyn Node>,
        /// The same inode, for lookups to borrow.
        inode: Arc<dyn Inode>,
    },
    /// A lower file that no lookup has found yet.
    Lower { number: u64, kind: FileKind },
}

impl From<Arc<dyn Node>> for Named {
    fn from(node: Arc<dyn Node>) -> Self {
        Named::Inode {
            inode: node.clone(),
            node,
        }
    }
}

impl Named {
    fn node(&self) -> Option<&Arc<dyn Node>> {
        match self {
            Named::Inode { node, .. } => Some(node),
            Named::Lower { .. } => None,
        }
    }

    fn into_node(self) -> Option<Arc<dyn Node>> {
        match self {
            Named::Inode { node, .. } => Some(node),
            Named::Lower { .. } => None,
        }
    }

    fn number(&self) -> u64 {
        match self {
            Named::Inode { node, .. } => node.number(),
            Named::Lower { number, .. } => *number,
        }
    }

    fn kind(&self) -> FileKind {
        match self {
            Named::Inode { node, .. } => node.kind(),
            Named::Lower { kind, .. } => *kind,
        }
    }
}

/// Returns 1 for a directory, and 0 for anything else.
fn is_directory(kind: FileKind) -> u32 {
    u32::from(kind == FileKind::Directory)
}

/// Name that is not in its directory yet.
#[derive(Debug)]
pub(super) struct NewEntry {
    prepared: Prepared<Arc<[u8]>, Slot>,
    pub(super) name: Arc<[u8]>,
    pub(super) node: Arc<dyn Node>,
}

impl Names {
    pub(super) fn new() -> Self {
        let state = State {
            next_cookie: DirEntry::FIRST_COOKIE,
            directories: 0,
            lower_directories: 0,
            is_removed: false,
        };
        Names {
            map: RcuMap::new(RandomState::default(), state),
            found: None,
        }
    }

    /// Makes the names of a lower directory that cannot be listed: none is known.
    pub(super) fn unlisted() -> Self {
        Names {
            found: Some(Box::default()),
            ..Self::new()
        }
    }

    /// Returns true if there may be names that are not known.
    pub(super) fn is_unlisted(&self) -> bool {
        self.found.is_some()
    }

    /// Returns true if a name is known, here or below, or if no name can be added.
    pub(super) fn knows(&self, name: &[u8]) -> bool {
        let Ok(entries) = self.lock() else {
            return true;
        };
        let found = self.found.as_ref();
        entries.contains(name) || found.is_none_or(|found| found.lock().contains(name))
    }

    /// Adds a name of a lower directory, unless it is known. Allocates.
    ///
    /// # Errors
    /// `ENOENT` if the directory is removed; `ENOMEM`.
    pub(super) fn add_found(&self, name: &[u8], named: Named) -> Result<(), Errno> {
        let (mut entries, name) = (self.lock()?, Arc::<[u8]>::from(name));
        let found = self.found.as_ref();
        let is_new = found.is_some_and(|found| !found.lock().contains(&name));
        if !is_new || entries.contains(&name) {
            return Ok(());
        }
        let kind = named.kind();
        let prepared = entries.prepare_named(Arc::clone(&name), named)?;
        entries.put(prepared, kind);
        entries.0.state_mut().lower_directories += is_directory(kind);
        if let Some(found) = found {
            found.lock().insert(name);
        }
        Ok(())
    }

    /// Makes the names of a lower directory, whose inodes have these numbers. Allocates.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn of_lower(
        lower: Vec<LowerName>,
        number: impl Fn(u64) -> u64,
    ) -> Result<Self, Errno> {
        let names = Self::new();
        let mut entries = Entries(names.map.lock());
        for LowerName { name, inode, kind } in lower {
            let number = number(inode);
            let prepared = entries.prepare_named(name, Named::Lower { number, kind })?;
            entries.put(prepared, kind);
        }
        let state = entries.0.state_mut();
        state.lower_directories = state.directories;
        drop(entries);
        Ok(names)
    }

    /// Finds what a name refers to. Takes no lock, and writes nothing that another thread reads.
    #[inline]
    pub(super) fn find<'s>(
        &'s self,
        name: &[u8],
        section: &'s rcu::Guard<'_>,
    ) -> Option<&'s Named> {
        self.map.get(name, section).map(|slot| &slot.named)
    }

    /// Locks the names.
    ///
    /// # Errors
    /// `ENOENT` if the directory is removed.
    pub(super) fn lock(&self) -> Result<Entries<'_>, Errno> {
        let entries = self.map.lock();
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

    /// Returns how many directories were added since the names were taken from a lower directory,
    /// or removed.
    pub(super) fn added_directories(&self) -> i64 {
        let state = self.0.state();
        i64::from(state.directories) - i64::from(state.lower_directories)
    }

    /// Returns true if the name exists.
    pub(super) fn contains(&self, name: &[u8]) -> bool {
        self.0.get(name).is_some()
    }

    /// Returns the node of a name. The caller has looked it up before: a name without a node is not
    /// found.
    pub(super) fn get(&self, name: &[u8]) -> Option<&Arc<dyn Node>> {
        self.0.get(name)?.named.node()
    }

    /// Returns what a name refers to.
    pub(super) fn named(&self, name: &[u8]) -> Option<&Named> {
        self.0.get(name).map(|slot| &slot.named)
    }

    /// Makes an entry, to be inserted here. Allocates.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn prepare(&mut self, name: &[u8], node: Arc<dyn Node>) -> Result<NewEntry, Errno> {
        let name: Arc<[u8]> = name.into();
        let prepared = self.prepare_named(Arc::clone(&name), node.clone().into())?;
        Ok(NewEntry {
            prepared,
            name,
            node,
        })
    }

    fn prepare_named(
        &mut self,
        name: Arc<[u8]>,
        named: Named,
    ) -> Result<Prepared<Arc<[u8]>, Slot>, Errno> {
        let cookie = match self.0.get(&*name) {
            Some(replaced) => replaced.cookie,
            None => {
                let cookie = self.0.state().next_cookie;
                self.0.state_mut().next_cookie += 1;
                cookie
            }
        };
        let slot = Slot { named, cookie };
        self.0.prepare(name, slot).map_err(|_| Errno::ENOMEM)
    }

    /// Inserts an entry that was made here, and returns the node that it replaces.
    pub(super) fn insert(&mut self, entry: NewEntry) -> Option<Arc<dyn Node>> {
        self.put(entry.prepared, entry.node.kind())?.into_node()
    }

    fn put(&mut self, prepared: Prepared<Arc<[u8]>, Slot>, kind: FileKind) -> Option<Named> {
        self.0.state_mut().directories += is_directory(kind);
        // It fails only in a directory that was cleared since, and is removed then.
        let replaced = self.0.insert(prepared).ok()??;
        self.0.state_mut().directories -= is_directory(replaced.named.kind());
        Some(replaced.named)
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> Option<Arc<dyn Node>> {
        let removed = self.0.remove(name)?;
        self.0.state_mut().directories -= is_directory(removed.named.kind());
        removed.named.into_node()
    }

    /// Removes all names, and accepts no others. Returns what they referred to. Allocates.
    pub(super) fn end(&mut self) -> Vec<Arc<dyn Node>> {
        let node = |(_, slot): (_, &Slot)| slot.named.node().cloned();
        let nodes = self.0.iter().filter_map(node).collect();
        self.0.clear();
        let state = self.0.state_mut();
        state.directories = 0;
        state.is_removed = true;
        nodes
    }

    pub(super) fn list(&self) -> Vec<DirEntry> {
        let entry = |(name, slot): (&Arc<[u8]>, &Slot)| DirEntry {
            name: Arc::clone(name),
            inode: slot.named.number(),
            kind: slot.named.kind(),
            cookie: slot.cookie,
        };
        self.0.iter().map(entry).collect()
    }
}
