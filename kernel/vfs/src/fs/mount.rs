//! Mounts: file systems attached to directories of others.
//!
//! # How a path walk finds them
//!
//! The [`MountPoint`] of a directory counts the file systems that are mounted on it, in all kernels
//! that share it. A walk loads this count, which rarely changes, and reads its kernel's mount table
//! only if the count is not zero. The table is read under RCU. So a directory without mounts costs
//! one load, and walks share no lock.
//!
//! # References
//!
//! Each open file refers to its mount. With one reference count, all opens and closes in a mount
//! would write one cache line, so a mount has several counts. A [`MountRef`] holds one of them, and
//! a thread takes references [near](MountRef::near) it: on a count that few threads share.
//!
//! # When a mount is busy
//!
//! The superblock of a file system knows its open files. Working directories, and mounts on top of
//! a mount, are [`Pinned`] paths, which the mount counts. Every other path belongs to a call in
//! progress or to a file that was open: it keeps the memory of the mount alive and does not make it
//! busy.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use crossbeam_utils::CachePadded;
use crossbeam_utils::atomic::AtomicCell;
use fdtable::{SuperBlock, rcu};
use fdtable_rcu_map::RcuMap;
use fdtable_shm::{Mutex, OnceCell};
use foldhash::fast::RandomState;

use super::{Dentry, FileKind, FileSystem, Inode};
use crate::Errno;

/// Path in the VFS: an inode, and the mount through which it was reached. In Linux: `struct path`.
#[derive(Clone, Debug)]
pub struct VfsPath {
    /// The mount; `None` for the root file system.
    pub mount: Option<MountRef>,
    /// The inode.
    pub inode: Arc<dyn Inode>,
}

/// File system that is mounted on a directory. In Linux: `vfsmount`.
pub struct Mount {
    id: u64,
    fs: Arc<dyn FileSystem>,
    root: Arc<dyn Inode>,
    on: VfsPath,
    /// Inside this lock, only the locks of the superblock are taken.
    uses: Mutex<Uses>,
    /// The counts of references. The mount table holds one reference on each of them.
    counts: OnceCell<Vec<Weak<Count>>>,
}

/// Reference to a mount.
#[derive(Clone, Debug)]
pub struct MountRef(Arc<Count>);

/// Reference count on a cache line of its own.
type Count = CachePadded<Arc<Mount>>;

/// Number of reference counts of a mount.
const COUNTS: usize = 16;

thread_local! {
    /// Which of the counts of a mount this thread takes.
    static NEAR: usize = {
        static THREADS: AtomicCell<usize> = AtomicCell::new(0);
        THREADS.fetch_add(1) % COUNTS
    };
}

impl MountRef {
    /// Makes the references of a new mount that its table holds, one on each count. Allocates.
    fn of(mount: &Arc<Mount>) -> Arc<[MountRef]> {
        let count = |_| MountRef(Arc::new(CachePadded::new(Arc::clone(mount))));
        let refs: Arc<[MountRef]> = (0..COUNTS).map(count).collect();
        let counts = refs.iter().map(|one| Arc::downgrade(&one.0)).collect();
        // It is new, so it has none.
        let _ = mount.counts.set(counts);
        refs
    }

    /// Makes another reference, on a count that few threads share. After the unmount it may be the
    /// count of this reference.
    pub fn near(&self) -> MountRef {
        // During thread exit, any count will do.
        let near = NEAR.try_with(|near| *near).unwrap_or(0);
        let count = self.counts.get().and_then(|counts| counts.get(near));
        match count.and_then(Weak::upgrade) {
            Some(count) => MountRef(count),
            None => self.clone(),
        }
    }
}

impl Deref for MountRef {
    type Target = Mount;
    #[inline]
    fn deref(&self) -> &Mount {
        &self.0
    }
}

/// Users of a mount other than open files.
#[derive(Default)]
struct Uses {
    pins: usize,
    is_unmounted: bool,
}

/// Path that keeps its mount from being unmounted.
#[derive(Debug)]
pub(crate) struct Pinned(VfsPath);

/// Number of mounts on a directory. In Linux: `DCACHE_MOUNTED`.
#[derive(Debug, Default)]
pub struct MountPoint(AtomicCell<u32>);

/// Mount table of a kernel.
#[derive(Debug, Default)]
pub(crate) struct Mounts {
    table: RcuMap<Key, Mounted, RandomState, Changes>,
}

/// State that the lock of the mount table guards besides the mounts.
#[derive(Debug, Default)]
struct Changes {
    /// Pins on the directories under the mounts, by the ID of the mount. They end with the mount,
    /// whose memory may live much longer.
    pins: HashMap<u64, Pinned>,
    /// ID of the newest mount. The root file system has 0.
    newest: u64,
}

/// References to a mount on all its counts, of which there is at least one.
#[derive(Clone, Debug)]
struct Mounted(Arc<[MountRef]>);

/// Key of a mount: the mount and the inode of the directory under it, which the mount keeps alive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    mount: u64,
    inode: usize,
}

impl Mounted {
    #[inline]
    fn mount(&self) -> &MountRef {
        &self.0[0]
    }
}

impl Mount {
    /// Returns the ID of the mount, at least 1. In Linux: `mnt_id`.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the file system.
    pub fn fs(&self) -> &Arc<dyn FileSystem> {
        &self.fs
    }

    /// Returns the root directory of the file system.
    pub fn root(&self) -> &Arc<dyn Inode> {
        &self.root
    }

    /// Returns the directory on which it is mounted.
    pub fn on(&self) -> &VfsPath {
        &self.on
    }

    /// Ends the mount, unless it is in use.
    ///
    /// # Errors
    /// `EBUSY` if it is in use.
    fn end(&self) -> Result<(), Errno> {
        let mut uses = self.uses.lock();
        if uses.pins > 0 {
            return Err(Errno::EBUSY);
        }
        match self.fs.superblock().map(SuperBlock::unmount) {
            None | Some(Ok(()) | Err(fdtable::Error::NoDevice)) => {}
            Some(Err(error)) => return Err(error.into()),
        }
        uses.is_unmounted = true;
        Ok(())
    }
}

/// Frees the mounts below it in a loop, where this was their last user: a mount holds the one under
/// it, and nested drops would take stack for each.
impl Drop for Mount {
    fn drop(&mut self) {
        let mut below = self.on.mount.take();
        while let Some(MountRef(count)) = below {
            let last = Arc::into_inner(count).and_then(|count| Arc::into_inner(count.into_inner()));
            below = last.and_then(|mut mount| mount.on.mount.take());
        }
    }
}

impl Pinned {
    /// Pins the mount of a path.
    ///
    /// # Errors
    /// `ENOENT` if it is unmounted already.
    pub(crate) fn new(path: VfsPath) -> Result<Self, Errno> {
        if let Some(mount) = &path.mount {
            let mut uses = mount.uses.lock();
            if uses.is_unmounted {
                return Err(Errno::ENOENT);
            }
            uses.pins += 1;
        }
        Ok(Pinned(path))
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &VfsPath {
        &self.0
    }
}

impl Clone for Pinned {
    fn clone(&self) -> Self {
        if let Some(mount) = &self.0.mount {
            mount.uses.lock().pins += 1;
        }
        Pinned(self.0.clone())
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(mount) = &self.0.mount {
            mount.uses.lock().pins -= 1;
        }
    }
}

impl VfsPath {
    /// Returns the path of another inode in the same mount.
    pub(crate) fn with(&self, inode: Arc<dyn Inode>) -> VfsPath {
        let mount = self.mount.clone();
        VfsPath { mount, inode }
    }

    /// Returns the ID of the mount: 0 for the root file system. In Linux: `mnt_id`.
    pub fn mount_id(&self) -> u64 {
        self.mount.as_ref().map_or(0, |mount| mount.id())
    }

    /// Returns true if both are the same inode in the same mount.
    pub fn is(&self, other: &VfsPath) -> bool {
        Arc::ptr_eq(&self.inode, &other.inode) && self.mount_id() == other.mount_id()
    }

    /// Returns the parent directory and the name in it; nothing for the root of the root file
    /// system.
    ///
    /// For the root of a mount, these are the parent and the name of the directory under it; for a
    /// removed inode, its last ones.
    pub fn parent_and_name(&self) -> Option<(VfsPath, Arc<[u8]>)> {
        let visible = self.below_mounts();
        let Dentry { parent, name, .. } = visible.inode.dentry()?;
        Some((visible.with(parent), name))
    }

    /// Returns the path from the root. If the name is removed, ` (deleted)` follows, as on Linux.
    /// In Linux: `d_path`.
    pub fn full_path(&self) -> Vec<u8> {
        let mut names = Vec::new();
        let mut here = self.clone();
        while let Some((parent, name)) = here.parent_and_name() {
            names.push(name);
            here = parent;
        }
        let mut path = Vec::new();
        for name in names.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        let is_unhashed = || self.inode.dentry().is_some_and(|dentry| dentry.is_unhashed);
        if self.inode.stat().links == 0 || is_unhashed() {
            path.extend_from_slice(b" (deleted)");
        }
        path
    }

    /// Returns the directory under the mount if this is its root, through all mounts below.
    /// Otherwise returns this path.
    fn below_mounts(&self) -> &VfsPath {
        let mut here = self;
        while let Some(mount) = &here.mount
            && Arc::ptr_eq(&mount.root, &here.inode)
        {
            here = mount.on();
        }
        here
    }

    fn key(&self) -> Key {
        Key::new(self.mount.as_ref(), &*self.inode)
    }
}

impl Key {
    #[inline]
    fn new(mount: Option<&MountRef>, inode: &dyn Inode) -> Self {
        Key {
            mount: mount.map_or(0, |mount| mount.id()),
            inode: std::ptr::from_ref(inode).addr(),
        }
    }
}

impl MountPoint {
    /// Returns true if a file system is mounted on the directory, in any kernel.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.0.load() != 0
    }
}

impl Mounts {
    /// Returns the root of the topmost mount on a directory; the directory itself if there is none.
    pub(crate) fn cross(&self, path: VfsPath) -> VfsPath {
        let section = rcu::read_lock();
        let top = self.top(path.mount.as_ref(), &*path.inode, &section);
        let root = top.map(|mount| VfsPath {
            mount: Some(mount.near()),
            inode: Arc::clone(&mount.root),
        });
        drop(section);
        root.unwrap_or(path)
    }

    /// Returns the topmost mount on a directory, if there is one.
    pub(crate) fn top<'s>(
        &'s self,
        mount: Option<&'s MountRef>,
        inode: &'s dyn Inode,
        section: &'s rcu::Guard<'_>,
    ) -> Option<&'s MountRef> {
        let mut top = None;
        let mut key = Key::new(mount, inode);
        while let Some(mounted) = self.table.get(&key, section) {
            let mount = mounted.mount();
            key = Key::new(Some(mount), &*mount.root);
            top = Some(mount);
        }
        top
    }

    /// Mounts a file system on a directory.
    ///
    /// # Errors
    /// `ENOTDIR` if `on` is not a directory; `EINVAL` if nothing can be mounted on it; `EBUSY` if
    /// the file system is mounted already, or another one on the directory; `ENOENT` if the
    /// directory is removed; `ENOMEM`.
    pub(crate) fn mount(&self, on: VfsPath, fs: Arc<dyn FileSystem>) -> Result<(), Errno> {
        if on.inode.kind() != FileKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        let inode = Arc::clone(&on.inode);
        let point = inode.mount_point().ok_or(Errno::EINVAL)?;
        // If this fails, the last references to them are dropped after the lock is released: that
        // may free a file system, and run callbacks.
        let _kept = (Arc::clone(&fs), on.clone());
        let mut table = self.table.lock();
        let is_mounted = table
            .iter()
            .any(|(_, mounted)| Arc::ptr_eq(&mounted.mount().fs, &fs));
        if is_mounted || table.get(&on.key()).is_some() {
            return Err(Errno::EBUSY);
        }
        let id = table.state().newest + 1;
        let key = on.key();
        let pinned = Pinned::new(on.clone())?;
        let mount = Arc::new(Mount {
            id,
            root: fs.root(),
            fs,
            on,
            uses: Mutex::default(),
            counts: OnceCell::new(),
        });
        let mounted = table
            .prepare(key, Mounted(MountRef::of(&mount)))
            .map_err(|_| Errno::ENOMEM)?;
        let pins = &mut table.state_mut().pins;
        pins.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        // From now on, a removal of the directory fails. An earlier one is visible here.
        point.0.fetch_add(1);
        if inode.stat().links == 0 || table.insert(mounted).is_err() {
            point.0.fetch_sub(1);
            return Err(Errno::ENOENT);
        }
        table.state_mut().newest = id;
        table.state_mut().pins.insert(id, pinned);
        Ok(())
    }

    /// Unmounts the file system whose root is `path`. None of its files can be opened any more.
    ///
    /// # Errors
    /// `EINVAL` if it is not the root of a mount; `EBUSY` for the root file system, or if a file is
    /// open, a working directory is in the mount, or another file system is mounted in it.
    pub(crate) fn unmount(&self, path: &VfsPath) -> Result<(), Errno> {
        let mount = path.mount.as_ref().ok_or(Errno::EINVAL)?;
        if !Arc::ptr_eq(&mount.root, &path.inode) {
            return Err(Errno::EINVAL);
        }
        let mut table = self.table.lock();
        let key = mount.on().key();
        let there = table.get(&key);
        // After the walk, the mount may have been removed and another one mounted there.
        if there.is_none_or(|there| there.mount().id() != mount.id()) {
            return Err(Errno::EINVAL);
        }
        mount.end()?;
        let removed = table.remove(&key);
        let pinned = table.state_mut().pins.remove(&mount.id());
        if let Some(point) = mount.on().inode.mount_point() {
            point.0.fetch_sub(1);
        }
        drop(table);
        // Outside the lock: this may free other mounts.
        drop((removed, pinned));
        rcu::catch_up();
        Ok(())
    }

    /// Returns all mounts, the oldest first. Allocates.
    pub(crate) fn list(&self) -> Vec<MountRef> {
        let mut mounts: Vec<_> = {
            let table = self.table.lock();
            let mounts = table.iter().map(|(_, mounted)| mounted.mount().near());
            mounts.collect()
        };
        mounts.sort_by_key(|mount| mount.id);
        mounts
    }
}

/// Removes the mounts of a kernel that ends from directories that other kernels share.
impl Drop for Mounts {
    fn drop(&mut self) {
        for mount in self.list() {
            if let Some(point) = mount.on().inode.mount_point() {
                point.0.fetch_sub(1);
            }
        }
    }
}

impl std::fmt::Debug for Mount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mount({})", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemFs, Process};

    #[test]
    fn a_late_unmount_leaves_the_next_mount_alone() {
        let process = Process::new();
        process.mkdir("m").unwrap();
        process.mount("m", Arc::new(MemFs::default())).unwrap();
        let mounts = process.kernel().mounts();
        let path = VfsPath {
            inode: Arc::clone(&mounts.list()[0].root),
            mount: Some(mounts.list()[0].clone()),
        };
        mounts.unmount(&path).unwrap();
        process.mount("m", Arc::new(MemFs::default())).unwrap();
        assert_eq!(mounts.unmount(&path), Err(Errno::EINVAL));
        assert_eq!(mounts.list().len(), 1);
    }
}
