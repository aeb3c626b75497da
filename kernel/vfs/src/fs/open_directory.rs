//! Open directories of all file systems, and their position.
//!
//! A reader gets the names in the order of their cookies, from a list that is made at the first
//! read, and again after the position moves. So a name that exists throughout is read exactly once,
//! a name that comes or goes meanwhile at most once, and no read searches the directory. At the
//! end, the position is a fixed one, and reads find nothing until it moves, as on Linux.

use std::io::IoSliceMut;
use std::sync::Arc;

use fdtable::FileRef;
use fdtable_shm::Mutex;

use super::{DirEntry, FileKind, Inode, LockSet, Opening, SeekTo, Stat, VfsPath};
use crate::{Errno, Object, RcuObject, Status, Transfer};

/// Open directory.
#[derive(Debug)]
pub(super) struct OpenDirectory {
    path: VfsPath,
    status: Status,
    cursor: Mutex<DirCursor>,
}

#[derive(Debug, Default)]
struct DirCursor {
    /// Cookie of the first name that is not read yet.
    position: u64,
    /// The names from some cookie on, the highest cookie first.
    names: Option<Vec<DirEntry>>,
    /// All names are read.
    is_at_end: bool,
}

/// Position that a directory shows at its end. In Linux: `DIR_OFFSET_EOD`.
const END: u64 = i32::MAX as u64;

impl Opening<'_> {
    /// Opens a directory of any file system, which is read through [`Inode::names`].
    ///
    /// # Errors
    /// `ENODEV` after an unmount; `ENOMEM`.
    pub fn directory(&self, inode: Arc<dyn Inode>) -> Result<FileRef<RcuObject>, Errno> {
        self.file(OpenDirectory {
            path: self.path(inode),
            status: Status::new(self.flags()),
            cursor: Mutex::default(),
        })
    }
}

impl OpenDirectory {
    /// Lists the names from a position on, the highest cookie first.
    fn list(&self, position: u64) -> Result<Vec<DirEntry>, Errno> {
        let inode = &self.path.inode;
        let mut names = inode.names()?;
        names.try_reserve(2).map_err(|_| Errno::ENOMEM)?;
        let parent = self
            .path
            .parent_and_name()
            .map(|(parent, _)| parent.inode.number());
        let number = inode.number();
        for (cookie, name, inode) in [(0, &b"."[..], number), (1, b"..", parent.unwrap_or(number))]
        {
            names.push(DirEntry {
                name: name.into(),
                inode,
                kind: FileKind::Directory,
                cookie,
            });
        }
        names.retain(|entry| entry.cookie >= position);
        names.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.cookie));
        Ok(names)
    }
}

impl Object for OpenDirectory {
    fn status_cell(&self) -> Option<&Status> {
        Some(&self.status)
    }

    fn path(&self) -> Option<VfsPath> {
        Some(self.path.clone())
    }

    fn locks(&self) -> Option<&LockSet> {
        self.path.inode.locks()
    }

    fn read_to(&self, _bufs: &mut [IoSliceMut<'_>], _how: Transfer<'_>) -> Result<usize, Errno> {
        Err(Errno::EISDIR)
    }

    fn read_dir(
        &self,
        max: usize,
        size: &dyn Fn(&DirEntry) -> usize,
    ) -> Result<Vec<DirEntry>, Errno> {
        self.status.check()?;
        if self.path.inode.stat().links == 0 {
            return Err(Errno::ENOENT);
        }
        self.path.inode.was_read();
        let mut cursor = self.cursor.lock();
        if cursor.is_at_end {
            return Ok(Vec::new());
        }
        let mut names = match cursor.names.take() {
            Some(names) => names,
            None => self.list(cursor.position)?,
        };
        let mut read = Vec::new();
        let mut left = max;
        while let Some(entry) = names.pop_if(|entry| size(entry) <= left) {
            left -= size(&entry);
            cursor.position = entry.next();
            read.push(entry);
        }
        let too_long = read.is_empty() && !names.is_empty();
        cursor.is_at_end = names.is_empty();
        cursor.names = Some(names);
        if too_long {
            Err(Errno::EINVAL)
        } else {
            Ok(read)
        }
    }

    fn stat(&self) -> Result<Stat, Errno> {
        self.status.check()?;
        Ok(self.path.inode.stat())
    }

    fn sync(&self) -> Result<(), Errno> {
        self.status.check()
    }

    /// # Errors
    /// `EINVAL` if the position would be negative or above `i64::MAX`, or is relative to an end,
    /// which directories do not have.
    fn seek(&self, to: SeekTo) -> Result<u64, Errno> {
        self.status.check()?;
        let mut cursor = self.cursor.lock();
        let before = match cursor.is_at_end {
            true => END,
            false => cursor.position,
        };
        let position = to.resolve(before, || None)?;
        // Rewound or moved: the next read lists again.
        if position != before || position == 0 {
            *cursor = DirCursor {
                position,
                ..DirCursor::default()
            };
        }
        Ok(position)
    }

    fn revoke(&self) {
        self.status.end(Errno::EIO);
    }
}
