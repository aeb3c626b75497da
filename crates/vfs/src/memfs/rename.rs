//! Rename: the one operation that changes two directories, and the shape of the tree.
//!
//! # Locks
//!
//! A file that gets another name in its directory needs that directory's lock alone. All other
//! renames hold `MemFs::moves` from before they walk until they are done (Linux
//! `s_vfs_rename_mutex`). So while one looks,
//! - no directory moves, and who is above whom is known;
//! - two directories of which neither is above the other are locked by nobody else, so their
//!   order does not matter; of two others, the upper one is locked first, as by everybody.

use std::sync::Arc;

use super::MemFs;
use crate::Errno;
use crate::directory::{Directory, Entries, Locked, Node, insert};
use crate::path::Path;

/// The old and the new name.
struct Names<'a> {
    old: &'a str,
    new: &'a str,
    /// One of the paths has a `/` at its end.
    directory_asked_for: bool,
}

/// The locked directories of a rename.
enum Both<'a> {
    Same(Locked<'a>),
    Two { from: Locked<'a>, to: Locked<'a> },
}

impl MemFs {
    /// Gives what `old` names the name `new`, in one step, and removes what `new` named before: a
    /// file is replaced by a file, and an empty directory by a directory. Two names of the same
    /// thing stay as they are. Allocates.
    ///
    /// # Errors
    /// Those of every path, and
    /// - `ENOENT` if `old` does not exist.
    /// - `EISDIR` if `new` is a directory and `old` is none; `ENOTDIR` the other way round.
    /// - `ENOTEMPTY` if `new` is a directory with names.
    /// - `EINVAL` if `new` is below `old`.
    /// - `EBUSY` if a path ends in `.` or `..`, or is the root.
    /// - `ENOMEM`.
    pub fn rename(&self, old: &str, new: &str) -> Result<(), Errno> {
        let (old, new) = (Path::parse(old)?, Path::parse(new)?);
        let names = Names {
            old: old.name(Errno::EBUSY)?,
            new: new.name(Errno::EBUSY)?,
            directory_asked_for: old.asks_for_directory || new.asks_for_directory,
        };
        let _change = self.want_write()?;
        let replaced = if old.parent == new.parent {
            let directory = self.walk(old.parent)?;
            match rename_file(&directory, &names)? {
                Some(done) => done,
                None => self.rename_moving(&old, &new, &names)?,
            }
        } else {
            self.rename_moving(&old, &new, &names)?
        };
        // The bytes may be many: they go outside the locks.
        replaced.iter().for_each(Node::unlink);
        Ok(())
    }

    /// Renames with everything else that moves held back, and returns what was replaced.
    fn rename_moving(
        &self,
        old: &Path<'_>,
        new: &Path<'_>,
        names: &Names<'_>,
    ) -> Result<Option<Node>, Errno> {
        let _moves = self.moves.lock();
        let (from, to) = (self.walk(old.parent)?, self.walk(new.parent)?);
        let mut both = lock(&from, &to)?;
        let moved = both.from().get(names.old).cloned().ok_or(Errno::ENOENT)?;
        if let Node::Directory(directory) = &moved
            && directory.contains(&to)
        {
            return Err(Errno::EINVAL);
        }
        let replaced = both.to().get(names.new).cloned();
        if let Some(Node::Directory(directory)) = &replaced
            && directory.contains(&from)
        {
            return Err(Errno::ENOTEMPTY);
        }
        if !may_replace(&moved, replaced.as_ref(), names)? {
            return Ok(None);
        }
        // First what may fail, so that nothing has changed if it does.
        both.to().try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        if let Some(Node::Directory(directory)) = &replaced {
            directory.remove()?;
        }
        both.from().remove(names.old);
        if let Node::Directory(directory) = &moved {
            directory.set_parent(&to);
        }
        insert(both.to(), names.new, moved)
    }
}

/// Renames a file within its directory, and returns what was replaced; or nothing if it is a
/// directory.
fn rename_file(directory: &Directory, names: &Names<'_>) -> Result<Option<Option<Node>>, Errno> {
    let mut entries = directory.lock()?;
    let moved = entries.get(names.old).cloned().ok_or(Errno::ENOENT)?;
    if matches!(moved, Node::Directory(_)) {
        return Ok(None);
    }
    if !may_replace(&moved, entries.get(names.new), names)? {
        return Ok(Some(None));
    }
    entries.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    entries.remove(names.old);
    insert(&mut entries, names.new, moved).map(Some)
}

/// Tells whether there is anything to do, and checks that one may replace the other.
fn may_replace(moved: &Node, replaced: Option<&Node>, names: &Names<'_>) -> Result<bool, Errno> {
    match (moved, replaced) {
        (Node::File(_), _) if names.directory_asked_for => Err(Errno::ENOTDIR),
        (Node::File(_), Some(Node::Directory(_))) => Err(Errno::EISDIR),
        (Node::Directory(_), Some(Node::File(_))) => Err(Errno::ENOTDIR),
        (moved, Some(replaced)) => Ok(moved.number() != replaced.number()),
        (_, None) => Ok(true),
    }
}

/// Locks two directories, or one if they are the same. The caller holds `MemFs::moves`.
fn lock<'a>(from: &'a Arc<Directory>, to: &'a Arc<Directory>) -> Result<Both<'a>, Errno> {
    if Arc::ptr_eq(from, to) {
        return Ok(Both::Same(from.lock()?));
    }
    if to.contains(from) {
        let to = to.lock()?;
        let from = from.lock()?;
        Ok(Both::Two { from, to })
    } else {
        let from = from.lock()?;
        let to = to.lock()?;
        Ok(Both::Two { from, to })
    }
}

impl Both<'_> {
    fn from(&mut self) -> &mut Entries {
        match self {
            Both::Same(entries) | Both::Two { from: entries, .. } => entries,
        }
    }

    fn to(&mut self) -> &mut Entries {
        match self {
            Both::Same(entries) | Both::Two { to: entries, .. } => entries,
        }
    }
}
