//! Rename: the one operation that changes two directories, and the shape of the tree.
//!
//! # Locks
//!
//! A file that gets another name in its directory needs that directory's lock alone. All other
//! renames hold `MemFs::moves` until they are done (Linux `s_vfs_rename_mutex`). So while one looks,
//! - no directory moves, and who is above whom is known;
//! - two directories of which neither is above the other are locked by nobody else, so their
//!   order does not matter; of two others, the upper one is locked first, as by everybody.

use super::MemFs;
use super::directory::{Directory, Locked, as_directory};
use super::entries::{Entries, Node};
use crate::Errno;
use crate::fs::file_system::{MayRename, RenameFlags, Renamed};
use crate::fs::inode::Inode;

/// The old and the new name, and how to rename.
struct RenameArgs<'a> {
    old: &'a [u8],
    new: &'a [u8],
    /// One of the paths has a `/` at its end.
    old_asks_for_directory: bool,
    new_asks_for_directory: bool,
    flags: RenameFlags,
    may: MayRename<'a>,
}

/// The locked directories of a rename.
enum LockedPair<'a> {
    Same(Locked<'a>),
    Two { from: Locked<'a>, to: Locked<'a> },
}

/// What a rename is to do.
enum Plan {
    /// Both names stand for one inode, and stay.
    Nothing,
    Move,
    Exchange(Node),
}

impl MemFs {
    pub(super) fn rename_in(
        &self,
        from: Renamed<'_>,
        to: Renamed<'_>,
        flags: RenameFlags,
        may: MayRename<'_>,
    ) -> Result<(), Errno> {
        let args = RenameArgs {
            old: from.name,
            new: to.name,
            old_asks_for_directory: from.asks_for_directory,
            new_asks_for_directory: to.asks_for_directory,
            flags,
            may,
        };
        let from = self.own(from.directory)?;
        let to = self.own(to.directory)?;
        let replaced = match rename_file(from, to, &args)? {
            Some(done) => done,
            None => self.rename_moving(from, to, &args)?,
        };
        // The bytes may be many: they go outside the locks.
        replaced.iter().for_each(Node::drop_link);
        Ok(())
    }

    /// Sees an inode as a directory of this file system, which alone `moves` holds back: an open
    /// directory may have come from where another is the root.
    ///
    /// # Errors
    /// `EXDEV` if it is of another.
    fn own<'i>(&self, inode: &'i dyn Inode) -> Result<&'i Directory, Errno> {
        as_directory(inode)
            .filter(|directory| directory.meta().device() == self.root.meta().device())
            .ok_or(Errno::EXDEV)
    }

    /// Renames with everything else that moves held back, and returns what was replaced.
    fn rename_moving(
        &self,
        from: &Directory,
        to: &Directory,
        args: &RenameArgs<'_>,
    ) -> Result<Option<Node>, Errno> {
        let _moves = self.moves.lock();
        let mut both = lock(from, to)?;
        let moved = both.from().get(args.old).cloned().ok_or(Errno::ENOENT)?;
        let replaced = both.to().get(args.new).cloned();
        check_asked(&moved, replaced.as_ref(), args)?;
        if let Node::Directory(directory) = &moved
            && directory.contains(to)
        {
            return Err(Errno::EINVAL);
        }
        if let Some(Node::Directory(directory)) = &replaced
            && directory.contains(from)
        {
            let exchanged = args.flags.contains(RenameFlags::EXCHANGE);
            return Err(if exchanged {
                Errno::EINVAL
            } else {
                Errno::ENOTEMPTY
            });
        }
        match plan(&moved, replaced.as_ref(), args)? {
            Plan::Nothing => return Ok(None),
            Plan::Exchange(other) => {
                // First what may fail, so that nothing has changed if it does.
                both.from().reserve()?;
                both.to().reserve()?;
                from.put(both.from(), args.old, other)?;
                to.put(both.to(), args.new, moved)?;
                return Ok(None);
            }
            Plan::Move => {}
        }
        both.to().reserve()?;
        if let Some(Node::Directory(directory)) = &replaced {
            directory.remove()?;
        }
        from.give_up(both.from(), args.old);
        to.put(both.to(), args.new, moved)
    }
}

/// Renames a file within its directory, and returns what was replaced; or nothing if a directory
/// is renamed, or from one to another.
fn rename_file(
    from: &Directory,
    to: &Directory,
    args: &RenameArgs<'_>,
) -> Result<Option<Option<Node>>, Errno> {
    if !std::ptr::eq(from, to) {
        return Ok(None);
    }
    let mut entries = from.lock()?;
    let moved = entries.get(args.old).cloned().ok_or(Errno::ENOENT)?;
    let replaced = entries.get(args.new);
    if is_directory(&moved) || replaced.is_some_and(is_directory) {
        return Ok(None);
    }
    check_asked(&moved, replaced, args)?;
    match plan(&moved, replaced, args)? {
        Plan::Nothing => Ok(Some(None)),
        Plan::Exchange(other) => {
            entries.reserve()?;
            from.put(&mut entries, args.old, other)?;
            from.put(&mut entries, args.new, moved)?;
            Ok(Some(None))
        }
        Plan::Move => {
            entries.reserve()?;
            from.give_up(&mut entries, args.old);
            from.put(&mut entries, args.new, moved).map(Some)
        }
    }
}

fn is_directory(node: &Node) -> bool {
    matches!(node, Node::Directory(_))
}

/// Checks that what is there is as the caller says.
fn check_asked(moved: &Node, replaced: Option<&Node>, args: &RenameArgs<'_>) -> Result<(), Errno> {
    let exchange = args.flags.contains(RenameFlags::EXCHANGE);
    if args.flags.contains(RenameFlags::NOREPLACE) && replaced.is_some() {
        return Err(Errno::EEXIST);
    }
    if exchange && replaced.is_none() {
        return Err(Errno::ENOENT);
    }
    // The new name is to be a directory if what gets it is one; of an exchange each is as it is.
    let gets_new = if exchange { replaced } else { Some(moved) };
    let is_file = |node: &Node| !is_directory(node);
    let lacks_directory = args.old_asks_for_directory && is_file(moved)
        || args.new_asks_for_directory && gets_new.is_some_and(is_file);
    if lacks_directory {
        return Err(Errno::ENOTDIR);
    }
    Ok(())
}

/// Checks that one may replace the other, and tells what is to be done.
fn plan(moved: &Node, replaced: Option<&Node>, args: &RenameArgs<'_>) -> Result<Plan, Errno> {
    let is_mounted = |node: &Node| match node {
        Node::Directory(directory) => directory.mount_point().is_some_and(|point| point.is_used()),
        _ => false,
    };
    let exchange = args.flags.contains(RenameFlags::EXCHANGE);
    if replaced.is_some_and(|replaced| replaced.number() == moved.number()) {
        return Ok(Plan::Nothing);
    }
    (args.may)(moved.as_inode(), replaced.map(Node::as_inode))?;
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
        Some(replaced) if exchange => Plan::Exchange(replaced.clone()),
        _ => Plan::Move,
    })
}

impl Directory {
    /// Removes a name of something that gets another at once: it has a home all the time.
    fn give_up(&self, names: &mut Entries, name: &[u8]) {
        names.remove(name);
        self.meta().was_modified();
    }

    /// Inserts something that had a name before.
    fn put(&self, names: &mut Entries, name: &[u8], node: Node) -> Result<Option<Node>, Errno> {
        node.meta().was_changed();
        self.insert(names, name, node)
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

impl LockedPair<'_> {
    fn from(&mut self) -> &mut Entries {
        match self {
            LockedPair::Same(entries) | LockedPair::Two { from: entries, .. } => entries,
        }
    }

    fn to(&mut self) -> &mut Entries {
        match self {
            LockedPair::Same(entries) | LockedPair::Two { to: entries, .. } => entries,
        }
    }
}
