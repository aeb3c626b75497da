//! Directories in memory: maps from names to inodes, each under its own lock.
//!
//! A directory over a [lower one](super::lower) has no names until the first use of any of them. If
//! that cannot be listed (`EACCES`), each name is looked up there before its first use.
//!
//! A removed directory has no names. A thread that found it before its removal finds nothing in it
//! and cannot create anything: `ENOENT`.
//!
//! # Locks
//! - `Directory::names` has a lock for changes of the names; lookups take none. A thread that takes
//!   two takes an ancestor before its descendant; if neither is an ancestor of the other, it also
//!   holds the lock of [renames](super::rename). A thread that waits with a lock held therefore
//!   waits for one further down the tree, so the order is acyclic.
//! - Inside it, locks of inodes that are not directories may be taken.

use std::any::Any;
use std::sync::{Arc, Weak};

use fdtable::FileRef;
use fdtable::rcu;
use fdtable_shm::OnceCell;

use super::entries::{Entries, Named, Names, NewEntry};
use super::limits::FileLimits;
use super::lower::{Below, LowerTree};
use super::meta::{Device, Meta, Node};
use super::regular::RegularInode;
use super::special::{Special, SpecialInode};
use crate::fs::{
    Attributes, Dentry, DirEntry, FileKind, Inode, LaterName, LockSet, Lower, LowerDirectory,
    LowerInode, MayUnlink, MountPoint, NewInode, NewKind, Opening, PathContext, Permissions,
    RcuLookup, Stat, Unlink,
};
use crate::{Errno, RcuObject};

/// Inode of a directory.
#[derive(Debug)]
pub(crate) struct Directory {
    me: Weak<Directory>,
    meta: Meta,
    /// Limits of the files that are created here.
    file_limits: FileLimits,
    /// Empty until the names are taken from the lower directory.
    names: OnceCell<Names>,
    below: Option<Below>,
    mounted: MountPoint,
    locks: LockSet,
}

impl Directory {
    /// Makes an empty directory without a name. Allocates.
    pub(super) fn new(device: Device, limits: FileLimits, permissions: Permissions) -> Arc<Self> {
        let names = OnceCell::from(Names::new());
        Self::with(Meta::new(device, permissions), limits, names, None)
    }

    /// Makes the root directory of a file system over a lower directory. Allocates.
    ///
    /// # Errors
    /// Errors of [`LowerDirectory::stat`]; `ENOTDIR` if it is not a directory.
    pub(super) fn over_root(
        directory: Arc<dyn LowerDirectory>,
        device: Device,
        limits: FileLimits,
    ) -> Result<Arc<Self>, Errno> {
        let stat = directory.stat()?;
        if stat.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        let tree = Arc::new(LowerTree::new(device, stat.device, limits));
        let inode = tree.number(stat.device, stat.inode);
        Ok(Self::over(directory, &tree, &Stat { inode, ..stat }))
    }

    /// Makes a directory over a lower one with these attributes. Allocates.
    fn over(directory: Arc<dyn LowerDirectory>, tree: &Arc<LowerTree>, stat: &Stat) -> Arc<Self> {
        let below = Below {
            directory,
            tree: Arc::clone(tree),
            device: stat.device,
            links: stat.links,
            size: stat.size,
            blocks: stat.blocks,
        };
        let (meta, limits) = (Meta::of(tree.device, stat), tree.limits.clone());
        Self::with(meta, limits, OnceCell::new(), Some(below))
    }

    fn with(
        meta: Meta,
        limits: FileLimits,
        names: OnceCell<Names>,
        below: Option<Below>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Directory {
            me: Weak::clone(me),
            meta,
            file_limits: limits,
            names,
            below,
            mounted: MountPoint::default(),
            locks: LockSet::new(),
        })
    }

    /// Returns the names. The first call takes them from the lower directory, if there is one.
    ///
    /// # Errors
    /// Errors of the lower directory; `ENOMEM`. Nothing has changed then.
    pub(super) fn name_map(&self) -> Result<&Names, Errno> {
        match self.names.get() {
            Some(names) => Ok(names),
            None => self.take_names(),
        }
    }

    #[cold]
    fn take_names(&self) -> Result<&Names, Errno> {
        let mut taken = None;
        if let Some(below) = &self.below {
            let number = |inode| below.tree.number(below.device, inode);
            taken = Some(match below.directory.names() {
                Err(Errno::EACCES) => Names::unlisted(),
                names => Names::of_lower(names?, number)?,
            });
        }
        // Another thread may have published the same names. Other calls free the memory that the
        // map has outgrown: the caller may hold a lock.
        Ok(self.names.get_or_init(|| taken.unwrap_or_else(Names::new)))
    }

    /// Returns the names, among them this one if it exists. Afterwards it is known, and the lock
    /// can be taken.
    ///
    /// # Errors
    /// Errors of [`name_map`](Self::name_map), and of a lookup in the lower directory.
    fn names_with(&self, name: &[u8]) -> Result<&Names, Errno> {
        let names = self.name_map()?;
        if names.is_unlisted() {
            self.find_below(names, name)?;
        }
        Ok(names)
    }

    /// Looks up a name in a lower directory that cannot be listed.
    #[cold]
    fn find_below(&self, names: &Names, name: &[u8]) -> Result<(), Errno> {
        let Some(below) = self.below.as_ref().filter(|_| !names.knows(name)) else {
            return Ok(());
        };
        let LowerInode { stat, .. } = match below.directory.lookup(name) {
            Err(Errno::ENOENT) => return Ok(()),
            found => found?,
        };
        let number = below.tree.number(stat.device, stat.inode);
        let kind = stat.kind;
        names.add_found(name, Named::Lower { number, kind })?;
        rcu::catch_up();
        Ok(())
    }

    /// Looks up a name, and makes its inode if it has none yet.
    ///
    /// # Errors
    /// `ENOENT` if it does not exist; those of the embedder.
    pub(super) fn node(&self, name: &[u8]) -> Result<Arc<dyn Node>, Errno> {
        let names = self.names_with(name)?;
        let section = rcu::read_lock();
        let found = names.find(name, &section).cloned();
        drop(section);
        match (found, &self.below) {
            (Some(Named::Inode { node, .. }), _) => Ok(node),
            (Some(Named::Lower { .. }), Some(below)) => self.instantiate(below, name),
            _ => Err(Errno::ENOENT),
        }
    }

    /// Makes the inode of a name that was taken from the lower directory.
    /// In Linux: `d_instantiate`.
    #[cold]
    fn instantiate(&self, below: &Below, name: &[u8]) -> Result<Arc<dyn Node>, Errno> {
        let lower = below.directory.lookup(name)?;
        let mut names = self.lock()?;
        let number = match names.named(name) {
            Some(Named::Lower { number, .. }) => *number,
            Some(Named::Inode { node, .. }) => return Ok(node.clone()),
            None => return Err(Errno::ENOENT),
        };
        let number = match lower.stat.device == below.device {
            true => number,
            // The embedder has mounted something there.
            false => below.tree.number(lower.stat.device, lower.stat.inode),
        };
        let make = |file, stat: &Stat| Self::make_over(&below.tree, file, stat);
        let node = below.tree.node(lower, number, make);
        let entry = names.prepare(name, Arc::clone(&node))?;
        node.meta()
            .set_dentry(self.me.clone(), Arc::clone(&entry.name));
        names.insert(entry);
        drop(names);
        rcu::catch_up();
        Ok(node)
    }

    /// Locks the names. The directory is not removed while they are locked.
    ///
    /// # Errors
    /// `ENOENT` if the directory is removed; those of [`name_map`](Self::name_map).
    pub(super) fn lock(&self) -> Result<Entries<'_>, Errno> {
        self.name_map()?.lock()
    }

    /// Inserts an entry into the locked directory, and returns the node that it replaces.
    pub(super) fn insert(&self, names: &mut Entries<'_>, entry: NewEntry) -> Option<Arc<dyn Node>> {
        let meta = entry.node.meta();
        meta.set_dentry(self.me.clone(), Arc::clone(&entry.name));
        self.meta.was_modified();
        names.insert(entry)
    }

    /// Removes a name from the locked directory.
    pub(super) fn take(&self, names: &mut Entries<'_>, name: &[u8]) -> Option<Arc<dyn Node>> {
        let node = names.remove(name)?;
        // A file that is still open keeps its last name, which `/proc` shows.
        if as_directory(&*node).is_some() {
            node.meta().unhash(self, name);
        }
        self.meta.was_modified();
        Some(node)
    }

    /// Marks an empty directory as removed, so that nothing can be created in it.
    ///
    /// # Errors
    /// `ENOTEMPTY` if it is not empty; `EACCES` if that is not known; `EBUSY` if something is
    /// mounted on it; those of [`name_map`](Self::name_map).
    pub(super) fn remove(&self) -> Result<(), Errno> {
        let names = self.name_map()?;
        let entries = names.lock();
        if self.mounted.is_used() {
            return Err(Errno::EBUSY);
        }
        let Ok(mut entries) = entries else {
            return Ok(());
        };
        if !entries.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        if names.is_unlisted() {
            return Err(Errno::EACCES);
        }
        entries.end();
        Ok(())
    }

    /// Marks a directory as removed, and returns what its names referred to.
    pub(super) fn remove_with_all(&self) -> Vec<Arc<dyn Node>> {
        // Names that were never taken from below are of no interest any more.
        let names = self.names.get_or_init(Names::new);
        names.lock().map_or(Vec::new(), |mut names| names.end())
    }

    /// Returns a snapshot of all names, unordered; none if the directory is removed. Allocates
    /// under the lock: one reference count for each name.
    ///
    /// # Errors
    /// `EACCES` if the lower directory cannot be listed; those of [`name_map`](Self::name_map).
    pub(super) fn list(&self) -> Result<Vec<DirEntry>, Errno> {
        self.meta.was_read();
        let names = self.name_map()?;
        if names.is_unlisted() {
            return Err(Errno::EACCES);
        }
        let names = names.lock();
        Ok(names.map_or(Vec::new(), |names| names.list()))
    }

    /// Returns the number of links, the size and the blocks. A directory over a lower one keeps its
    /// size, and the number of its links as far as that counts directories.
    fn usage(&self) -> (u32, u64, u64) {
        let names = self.names.get().map(Names::lock);
        let Some(below) = &self.below else {
            return match names {
                Some(Ok(names)) => (2 + names.directories(), names.len() as u64, 0),
                _ => (0, 0, 0),
            };
        };
        let added = match names {
            Some(Ok(names)) => names.added_directories(),
            Some(Err(_)) => return (0, 0, 0),
            None => 0,
        };
        let links = match below.links {
            0 | 1 => 1,
            links => u32::try_from(i64::from(links) + added).unwrap_or(2),
        };
        (links, below.size, below.blocks)
    }

    /// Returns true if this is `other` or an ancestor of it. Stays true only while directories do
    /// not move.
    pub(super) fn contains(&self, other: &Directory) -> bool {
        if std::ptr::eq(self, other) {
            return true;
        }
        let mut at = other.meta.parent();
        while let Some(directory) = at {
            if std::ptr::addr_eq(self, &*directory) {
                return true;
            }
            at = directory.meta().parent();
        }
        false
    }

    /// Makes an inode that the caller will insert under a name.
    fn make(&self, new: &NewInode<'_>) -> Arc<dyn Node> {
        let (device, limits) = (self.meta.device, || self.file_limits.clone());
        let permissions = new.permissions_in(self.meta.permissions());
        let special = match &new.what {
            NewKind::Regular => {
                return Arc::new(RegularInode::new(device, permissions, limits()));
            }
            NewKind::Directory => return Directory::new(device, limits(), permissions),
            NewKind::Symlink(target) => Special::Symlink((*target).into()),
            NewKind::Fifo => Special::Fifo(Arc::default()),
            NewKind::Socket(bound) => Special::Socket(Some(Arc::clone(bound))),
        };
        Arc::new(SpecialInode::new(device, permissions, special))
    }

    /// Makes the inode of a lower file with these attributes.
    fn make_over(tree: &Arc<LowerTree>, file: Lower, stat: &Stat) -> Arc<dyn Node> {
        let meta = Meta::of(tree.device, stat);
        let special = match file {
            Lower::Regular(file) => {
                let inode = RegularInode::over(file, meta, stat, tree.limits.clone());
                return Arc::new(inode);
            }
            Lower::Directory(directory) => return Self::over(directory, tree, stat),
            Lower::Symlink(target) => Special::Symlink(target),
            Lower::Fifo => Special::Fifo(Arc::default()),
            Lower::Socket => Special::Socket(None),
            Lower::Device(device) => Special::Device {
                kind: stat.kind,
                rdev: stat.rdev,
                device,
            },
        };
        Arc::new(SpecialInode::over(meta, stat, special))
    }
}

impl Node for Directory {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

impl Inode for Directory {
    fn kind(&self) -> FileKind {
        FileKind::Directory
    }

    fn stat(&self) -> Stat {
        let (links, size, blocks) = self.usage();
        Stat {
            links,
            size,
            blocks,
            ..self.meta.stat(FileKind::Directory)
        }
    }

    fn number(&self) -> u64 {
        self.meta.number
    }

    fn permissions(&self) -> Permissions {
        self.meta.permissions()
    }

    fn was_read(&self) {
        self.meta.was_read();
    }

    fn set_attributes(&self, changes: &Attributes) -> Result<(), Errno> {
        self.meta.set(changes);
        Ok(())
    }

    fn open(self: Arc<Self>, opening: &Opening<'_>) -> Result<FileRef<RcuObject>, Errno> {
        opening.directory(self)
    }

    fn lookup(&self, name: &[u8], _context: &PathContext<'_>) -> Result<Arc<dyn Inode>, Errno> {
        let names = self.names_with(name)?;
        let section = rcu::read_lock();
        match names.find(name, &section) {
            Some(Named::Inode { inode, .. }) => return Ok(Arc::clone(inode)),
            Some(Named::Lower { .. }) => {}
            None => return Err(Errno::ENOENT),
        }
        drop(section);
        Ok(self.node(name)?)
    }

    #[inline]
    fn is_searchable_by_all(&self) -> bool {
        self.meta.is_searchable_by_all()
    }

    #[inline]
    fn lookup_rcu<'s>(&'s self, name: &[u8], section: &'s rcu::Guard<'_>) -> RcuLookup<'s> {
        let Some(names) = self.names.get() else {
            return RcuLookup::Unsupported;
        };
        match names.find(name, section) {
            Some(Named::Inode { inode, .. }) => RcuLookup::Found(inode),
            Some(Named::Lower { .. }) => RcuLookup::Unsupported,
            None if names.is_unlisted() => RcuLookup::Unsupported,
            None => RcuLookup::NotFound,
        }
    }

    fn names(&self) -> Result<Vec<DirEntry>, Errno> {
        self.list()
    }

    fn dentry(&self) -> Option<Dentry> {
        self.meta.dentry()
    }

    fn create(&self, name: &[u8], new: &NewInode<'_>) -> Result<Arc<dyn Inode>, Errno> {
        let mut names = self.names_with(name)?.lock()?;
        if names.contains(name) {
            return Err(Errno::EEXIST);
        }
        let made = self.make(new);
        let entry = names.prepare(name, Arc::clone(&made))?;
        self.insert(&mut names, entry);
        drop(names);
        rcu::catch_up();
        Ok(made)
    }

    fn create_unnamed(
        &self,
        new: &NewInode<'_>,
        later: LaterName,
    ) -> Result<Arc<dyn Inode>, Errno> {
        let permissions = new.permissions_in(self.meta.permissions());
        let made = RegularInode::new(self.meta.device, permissions, self.file_limits.clone());
        let meta = made.meta();
        // Name that `/proc` shows, as one that was removed.
        let shown = format!("#{}", meta.number).into_bytes();
        meta.set_dentry(self.me.clone(), shown.into());
        let made_in = self.me.upgrade().map(|directory| directory as _);
        Ok(Arc::new(made.without_name(later, made_in)))
    }

    fn link(&self, name: &[u8], inode: &Arc<dyn Inode>) -> Result<(), Errno> {
        let node = as_node(inode)
            .filter(|node| node.meta().device == self.meta.device)
            .ok_or(Errno::EXDEV)?;
        let mut names = self.names_with(name)?.lock()?;
        if names.contains(name) {
            return Err(Errno::EEXIST);
        }
        let entry = names.prepare(name, node)?;
        entry.node.add_link()?;
        self.insert(&mut names, entry);
        drop(names);
        rcu::catch_up();
        Ok(())
    }

    fn unlink(&self, name: &[u8], what: Unlink, may: MayUnlink<'_>) -> Result<(), Errno> {
        // Before the lock.
        if self.meta.device.is_over_lower()
            && let (Some(directory), Unlink::Directory) = (as_directory(&*self.node(name)?), what)
        {
            directory.name_map()?;
        }
        let mut names = self.lock()?;
        let found = names.get(name).ok_or(Errno::ENOENT)?;
        may(&**found)?;
        match (as_directory(&**found), what) {
            (Some(directory), Unlink::Directory) => directory.remove()?,
            (Some(_), Unlink::File) => return Err(Errno::EISDIR),
            (None, Unlink::Directory) => return Err(Errno::ENOTDIR),
            (None, Unlink::File) => {}
        }
        let removed = self.take(&mut names, name);
        // Outside the lock: this may free many bytes.
        drop(names);
        removed.inspect(|node| node.drop_link());
        rcu::catch_up();
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

/// Downcasts an inode of any file system that can have several names; nothing if it is not in
/// memory.
fn as_node(inode: &Arc<dyn Inode>) -> Option<Arc<dyn Node>> {
    let any = || -> Arc<dyn Any + Send + Sync> { Arc::clone(inode) as _ };
    match any().downcast::<RegularInode>() {
        Ok(file) => Some(file),
        Err(_) => Some(any().downcast::<SpecialInode>().ok()?),
    }
}
