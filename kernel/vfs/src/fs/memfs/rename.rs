//! Rename: the only operation that changes two directories, and the shape of the tree.
//!
//! # Locks
//!
//! A rename of a file within its directory needs only that directory's lock. Every other rename
//! holds `MemFs::moves` until it is done (Linux `s_vfs_rename_mutex`). While one is in progress,
//! - no directory moves, so ancestry cannot change;
//! - no other thread locks two directories of which neither is an ancestor of the other, so their
//!   order does not matter; of two others, the ancestor is locked first, as everywhere.
//!
//! # What a lookup sees
//!
//! Lookups take no lock. A rename inserts the new name before it removes the old one, and replaces
//! an inode at the new name in one step. So a lookup of the new name finds the old inode or the new
//! one if there was an inode, and for a moment both names lead to the moved inode, as on Linux.

use std::sync::Arc;

use fdtable::rcu;

use super::MemFs;
use super::directory::{Directory, as_directory};
use super::entries::{Entries, NewEntry};
use super::meta::Node;
use crate::Errno;
use crate::fs::{FileKind, Inode, Rename, RenameFlags};

/// Locked directories of a rename.
enum LockedPair<'a> {
    Same(Entries<'a>),
    Two { from: Entries<'a>, to: Entries<'a> },
}

/// Action of a rename.
enum Plan {
    /// Both names refer to one inode, and stay.
    Nothing,
    Move,
    Exchange(Arc<dyn Node>),
}

impl MemFs {
    pub(super) fn rename_in(&self, args: &Rename<'_>) -> Result<(), Errno> {
        let from = self.own(args.from.directory)?;
        let to = self.own(args.to.directory)?;
        if from.meta().device.is_over_lower() {
            look_up(from, to, args)?;
        }
        let done = match std::ptr::eq(from, to) {
            true => rename_files(from, to, &mut LockedPair::Same(from.lock()?), args)?,
            false => None,
        };
        let replaced = match done {
            Some(replaced) => replaced,
            None => {
                // All other moves wait.
                let _moves = self.moves.lock();
                let mut both = lock(from, to)?;
                rename_locked(from, to, &mut both, args)?
            }
        };
        // Outside the locks: this may free many bytes.
        replaced.inspect(|node| node.drop_link());
        rcu::catch_up();
        Ok(())
    }

    /// Downcasts an inode to a directory of this file system. `moves` serialises only these, and an
    /// open directory may come from another root.
    ///
    /// # Errors
    /// `EXDEV` if it is of another file system.
    fn own<'i>(&self, inode: &'i dyn Inode) -> Result<&'i Directory, Errno> {
        as_directory(inode)
            .filter(|directory| directory.meta().device == self.root.meta().device)
            .ok_or(Errno::EXDEV)
    }
}

/// Looks up both names, and the names of a directory that may be replaced, before the locks are
/// taken: they may have to be taken from [lower directories](super::lower).
fn look_up(from: &Directory, to: &Directory, args: &Rename<'_>) -> Result<(), Errno> {
    let moved = from.node(args.from.name)?;
    let replaced = match to.node(args.to.name) {
        Err(Errno::ENOENT) => return Ok(()),
        found => found?,
    };
    if is_directory(&moved)
        && let Some(replaced) = as_directory(&*replaced)
    {
        replaced.name_map()?;
    }
    Ok(())
}

/// Renames a file in its directory, which is locked. Returns nothing if the rename concerns a
/// directory, for which all other moves have to wait.
fn rename_files(
    from: &Directory,
    to: &Directory,
    both: &mut LockedPair<'_>,
    args: &Rename<'_>,
) -> Result<Option<Option<Arc<dyn Node>>>, Errno> {
    let moved = both.from().get(args.from.name).ok_or(Errno::ENOENT)?;
    if is_directory(moved) || both.to().get(args.to.name).is_some_and(is_directory) {
        return Ok(None);
    }
    rename_locked(from, to, both, args).map(Some)
}

/// Renames in locked directories, and returns the node that was replaced.
fn rename_locked(
    from: &Directory,
    to: &Directory,
    both: &mut LockedPair<'_>,
    args: &Rename<'_>,
) -> Result<Option<Arc<dyn Node>>, Errno> {
    let moved = both
        .from()
        .get(args.from.name)
        .cloned()
        .ok_or(Errno::ENOENT)?;
    let replaced = both.to().get(args.to.name).cloned();
    check_asked(&moved, replaced.as_ref(), args)?;
    if let Some(directory) = as_directory(&*moved)
        && directory.contains(to)
    {
        return Err(Errno::EINVAL);
    }
    let replaced_directory = replaced.as_deref().and_then(|node| as_directory(node));
    if let Some(directory) = replaced_directory
        && directory.contains(from)
    {
        return Err(match args.flags.contains(RenameFlags::EXCHANGE) {
            true => Errno::EINVAL,
            false => Errno::ENOTEMPTY,
        });
    }
    match plan(&moved, replaced.as_ref(), args)? {
        Plan::Nothing => return Ok(None),
        Plan::Exchange(other) => {
            let other = both.from().prepare(args.from.name, other)?;
            let moved = both.to().prepare(args.to.name, moved)?;
            from.put(both.from(), other);
            to.put(both.to(), moved);
            return Ok(None);
        }
        Plan::Move => {}
    }
    let moved = both.to().prepare(args.to.name, moved)?;
    if let Some(directory) = replaced_directory {
        directory.remove()?;
    }
    let replaced = to.put(both.to(), moved);
    from.remove_old(both.from(), args.from.name);
    Ok(replaced)
}

fn is_directory(node: &Arc<dyn Node>) -> bool {
    node.kind() == FileKind::Directory
}

/// Checks the flags and trailing slashes against what was found.
fn check_asked(
    moved: &Arc<dyn Node>,
    replaced: Option<&Arc<dyn Node>>,
    args: &Rename<'_>,
) -> Result<(), Errno> {
    let exchange = args.flags.contains(RenameFlags::EXCHANGE);
    if args.flags.contains(RenameFlags::NOREPLACE) && replaced.is_some() {
        return Err(Errno::EEXIST);
    }
    if exchange && replaced.is_none() {
        return Err(Errno::ENOENT);
    }
    // A new name with a trailing slash must get a directory. In an exchange, that is the inode at
    // the new name.
    let gets_new = if exchange { replaced } else { Some(moved) };
    let is_file = |node: &Arc<dyn Node>| !is_directory(node);
    let lacks_directory = args.from.asks_for_directory && is_file(moved)
        || args.to.asks_for_directory && gets_new.is_some_and(is_file);
    if lacks_directory {
        return Err(Errno::ENOTDIR);
    }
    Ok(())
}

/// Checks that one may replace the other, and returns the action.
fn plan(
    moved: &Arc<dyn Node>,
    replaced: Option<&Arc<dyn Node>>,
    args: &Rename<'_>,
) -> Result<Plan, Errno> {
    let is_mounted = |node: &Arc<dyn Node>| node.mount_point().is_some_and(|point| point.is_used());
    let exchange = args.flags.contains(RenameFlags::EXCHANGE);
    if replaced.is_some_and(|replaced| replaced.number() == moved.number()) {
        return Ok(Plan::Nothing);
    }
    let other = replaced.map(|replaced| &**replaced as &dyn Inode);
    (args.may)(&**moved, other)?;
    match replaced {
        Some(replaced) if !exchange => match (is_directory(moved), is_directory(replaced)) {
            (false, true) => return Err(Errno::EISDIR),
            (true, false) => return Err(Errno::ENOTDIR),
            _ => {}
        },
        _ => {}
    }
    if is_mounted(moved) || replaced.is_some_and(is_mounted) {
        return Err(Errno::EBUSY);
    }
    Ok(match replaced {
        Some(replaced) if exchange => Plan::Exchange(Arc::clone(replaced)),
        _ => Plan::Move,
    })
}

impl Directory {
    /// Removes a name whose node has another one already, so its dentry stays valid.
    fn remove_old(&self, names: &mut Entries<'_>, name: &[u8]) {
        names.remove(name);
        self.meta().was_modified();
    }

    /// Inserts a node that had a name before.
    fn put(&self, names: &mut Entries<'_>, entry: NewEntry) -> Option<Arc<dyn Node>> {
        entry.node.meta().was_changed();
        self.insert(names, entry)
    }
}

/// Locks two directories, or one if they are the same. The caller holds `MemFs::moves`.
fn lock<'a>(from: &'a Directory, to: &'a Directory) -> Result<LockedPair<'a>, Errno> {
    if std::ptr::eq(from, to) {
        return Ok(LockedPair::Same(from.lock()?));
    }
    if to.contains(from) {
        let to = to.lock()?;
        let from = from.lock()?;
        Ok(LockedPair::Two { from, to })
    } else {
        let from = from.lock()?;
        let to = to.lock()?;
        Ok(LockedPair::Two { from, to })
    }
}

impl<'a> LockedPair<'a> {
    fn from(&mut self) -> &mut Entries<'a> {
        match self {
            LockedPair::Same(entries) | LockedPair::Two { from: entries, .. } => entries,
        }
    }

    fn to(&mut self) -> &mut Entries<'a> {
        match self {
            LockedPair::Same(entries) | LockedPair::Two { to: entries, .. } => entries,
        }
    }
}
