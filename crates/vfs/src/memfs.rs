//! A file system in memory: a tree of directories.
//!
//! A walk takes the lock of each directory on the way for one look, one after the other and
//! shared, so walks do not wait for each other. A change takes the lock of the directory that it
//! changes. Nothing is locked for the whole tree, but by a rename that moves a directory, or
//! anything from one directory to another ([`rename`](MemFs::rename) tells).
//!
//! A name that goes does not touch the inode: who has the file open keeps it.

use std::alloc::{Layout, handle_alloc_error};
use std::sync::{Arc, Weak};

use fdtable::{FileRef, SuperBlock};
use parking_lot::Mutex;

use crate::directory::{Directory, Locked, Node, OpenDirectory, insert};
use crate::path::{Last, Path, components};
use crate::regular::{self, Inode, RegularFile};
use crate::stat::Stat;
use crate::{Errno, Object, OpenFlags};

mod mounted;
mod remove_tree;
mod rename;

/// File system in memory.
///
/// Paths begin at its root, with a `/` or without. Every operation on a path may wait for others
/// that change a directory on the way, and answers
/// - `ENOENT` if a name on the way does not exist, or the path is empty;
/// - `ENOTDIR` if a name on the way is no directory, or a `/` follows a name that is none;
/// - `ENAMETOOLONG` if a name has more than [`NAME_MAX`](crate::path::NAME_MAX) bytes or the path
///   [`PATH_MAX`](crate::path::PATH_MAX) or more.
///
/// ```
/// use fdtable_vfs::{FileKind, MemFs, Object, OpenFlags};
///
/// let fs = MemFs::default();
/// fs.mkdir("/log")?;
/// let log = fs.open("/log/new", OpenFlags::CREAT | OpenFlags::WRONLY)?;
/// log.write(b"begun")?;
/// fs.rename("/log/new", "/log/today")?;
/// assert_eq!(fs.stat("/log/today")?.size, 5);
/// assert_eq!(fs.stat("/log")?.kind, FileKind::Directory);
/// # Ok::<(), fdtable_vfs::Errno>(())
/// ```
#[derive(Debug)]
pub struct MemFs {
    root: Arc<Directory>,
    /// Held while a directory moves: see [`rename`](Self::rename).
    moves: Mutex<()>,
    file_limit: usize,
    /// The open files, if anybody is to know of them.
    superblock: Option<SuperBlock<dyn Object>>,
}

impl Default for MemFs {
    fn default() -> Self {
        Self::with_file_limit(regular::DEFAULT_LIMIT)
    }
}

impl MemFs {
    /// Makes an empty file system whose files grow to `limit` bytes at most. Allocates; without
    /// memory it ends the process, as a box does.
    #[doc(alias = "RLIMIT_FSIZE")]
    pub fn with_file_limit(limit: usize) -> Self {
        let superblock = SuperBlock::new()
            .unwrap_or_else(|_| handle_alloc_error(Layout::new::<SuperBlock<dyn Object>>()));
        Self::with_superblock(Some(superblock), limit)
    }

    /// Makes an empty file system whose open files are those of `superblock`, and grow to `limit`
    /// bytes at most. Without a superblock nobody keeps account of them: the file system cannot be
    /// remounted or unmounted, nor its files revoked.
    pub fn with_superblock(superblock: Option<SuperBlock<dyn Object>>, limit: usize) -> Self {
        MemFs {
            root: Directory::new(Weak::new()),
            moves: Mutex::new(()),
            file_limit: limit,
            superblock,
        }
    }

    /// Opens what `path` names. Allocates.
    ///
    /// # Errors
    /// Those of every path, and
    /// - `ENOENT` if there is nothing and `flags` lacks `CREAT`.
    /// - `EEXIST` if there is something and `flags` has `CREAT` and `EXCL`.
    /// - `EISDIR` if it is a directory and `flags` ask for writing, `CREAT` or `TRUNC`, or a file
    ///   is to be created under a path with a `/` at its end.
    /// - `ENOTDIR` if it is none and `flags` has `DIRECTORY`.
    /// - `EINVAL` if the access mode is 3, or `flags` has `CREAT` and `DIRECTORY`.
    /// - `ENOMEM`.
    pub fn open(&self, path: &str, flags: OpenFlags) -> Result<FileRef<dyn Object>, Errno> {
        let both = OpenFlags::CREAT | OpenFlags::DIRECTORY;
        if flags.contains(OpenFlags::ACCMODE) || flags.contains(both) {
            return Err(Errno::EINVAL);
        }
        let path = Path::parse(path)?;
        let node = if flags.contains(OpenFlags::CREAT) {
            self.find_or_create(&path, flags)?
        } else {
            self.find(&path)?
        };
        match node {
            Node::File(inode) => self.open_file(&inode, flags),
            Node::Directory(directory) => self.open_directory(directory, flags),
        }
    }

    /// Makes an empty directory. Allocates.
    ///
    /// # Errors
    /// Those of every path; `EEXIST` if there is something of this name; `ENOMEM`.
    pub fn mkdir(&self, path: &str) -> Result<(), Errno> {
        let path = Path::parse(path)?;
        let parent = self.walk(path.parent)?;
        let name = path.name(Errno::EEXIST)?;
        let _change = self.want_write()?;
        let mut names = parent.lock()?;
        if names.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        let made = Directory::new(Arc::downgrade(&parent));
        insert(&mut names, name, Node::Directory(made))?;
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Those of every path; `ENOTEMPTY` if it has names, or the path ends in `..`; `ENOTDIR` if it
    /// is none; `EBUSY` for the root; `EINVAL` if the path ends in `.`.
    pub fn rmdir(&self, path: &str) -> Result<(), Errno> {
        let path = Path::parse(path)?;
        let parent = self.walk(path.parent)?;
        let name = match path.last {
            Last::Name(name) => name,
            Last::Root => return Err(Errno::EBUSY),
            Last::Dot => return Err(Errno::EINVAL),
            Last::DotDot => return Err(Errno::ENOTEMPTY),
        };
        let _change = self.want_write()?;
        let mut names = parent.lock()?;
        match names.get(name).ok_or(Errno::ENOENT)? {
            Node::Directory(directory) => directory.remove()?,
            Node::File(_) => return Err(Errno::ENOTDIR),
        }
        names.remove(name);
        Ok(())
    }

    /// Removes the name of a file. Its bytes stay while somebody has it open.
    ///
    /// # Errors
    /// Those of every path; `EISDIR` if it is a directory.
    pub fn unlink(&self, path: &str) -> Result<(), Errno> {
        let path = Path::parse(path)?;
        let parent = self.walk(path.parent)?;
        let name = path.name(Errno::EISDIR)?;
        let _change = self.want_write()?;
        let mut names = parent.lock()?;
        match names.get(name).ok_or(Errno::ENOENT)? {
            Node::Directory(_) => return Err(Errno::EISDIR),
            Node::File(_) if path.asks_for_directory => return Err(Errno::ENOTDIR),
            Node::File(_) => {}
        }
        let removed = names.remove(name);
        // The bytes may be many: they go outside the lock.
        drop(names);
        removed.iter().for_each(Node::unlink);
        Ok(())
    }

    /// Describes what `path` names. May wait for writers of the file.
    ///
    /// # Errors
    /// Those of every path.
    pub fn stat(&self, path: &str) -> Result<Stat, Errno> {
        Ok(self.find(&Path::parse(path)?)?.stat())
    }

    fn open_file(
        &self,
        inode: &Arc<Inode>,
        flags: OpenFlags,
    ) -> Result<FileRef<dyn Object>, Errno> {
        if flags.contains(OpenFlags::DIRECTORY) {
            return Err(Errno::ENOTDIR);
        }
        let opened = RegularFile::open(Arc::clone(inode), flags)?;
        if flags.contains(OpenFlags::TRUNC) {
            let _change = self.want_write()?;
            inode.truncate();
        }
        self.opened(opened)
    }

    fn open_directory(
        &self,
        directory: Arc<Directory>,
        flags: OpenFlags,
    ) -> Result<FileRef<dyn Object>, Errno> {
        if flags.can_write() || flags.intersects(OpenFlags::CREAT | OpenFlags::TRUNC) {
            return Err(Errno::EISDIR);
        }
        self.opened(OpenDirectory::new(directory))
    }

    fn find_or_create(&self, path: &Path<'_>, flags: OpenFlags) -> Result<Node, Errno> {
        let exclusive = flags.contains(OpenFlags::EXCL);
        let parent = self.walk(path.parent)?;
        let name = match path.last {
            Last::Name(name) if !path.asks_for_directory => name,
            Last::Name(_) => return Err(Errno::EISDIR),
            _ if exclusive => return Err(Errno::EEXIST),
            _ => return Err(Errno::EISDIR),
        };
        if !exclusive {
            // Most of these files are there already: the shared lock is enough.
            match parent.find(name) {
                Err(Errno::ENOENT) => {}
                found => return found,
            }
        }
        let _change = self.want_write()?;
        self.create(parent.lock()?, name, exclusive)
    }

    /// Creates a file, unless somebody was faster.
    fn create(&self, mut names: Locked<'_>, name: &str, exclusive: bool) -> Result<Node, Errno> {
        match names.get(name) {
            Some(_) if exclusive => Err(Errno::EEXIST),
            Some(found) => Ok(found.clone()),
            None => {
                let made = Node::File(Arc::new(Inode::new(self.file_limit)));
                insert(&mut names, name, made.clone())?;
                Ok(made)
            }
        }
    }

    /// Finds what a path names.
    fn find(&self, path: &Path<'_>) -> Result<Node, Errno> {
        let parent = self.walk(path.parent)?;
        match path.last {
            Last::Root | Last::Dot => Ok(Node::Directory(parent)),
            Last::DotDot => self.above(&parent).map(Node::Directory),
            Last::Name(name) => match parent.find(name)? {
                Node::File(_) if path.asks_for_directory => Err(Errno::ENOTDIR),
                node => Ok(node),
            },
        }
    }

    /// Goes the way to a directory, from the root.
    fn walk(&self, way: &str) -> Result<Arc<Directory>, Errno> {
        let mut reached: Option<Arc<Directory>> = None;
        for component in components(way) {
            let here = reached.as_ref().unwrap_or(&self.root);
            reached = Some(match component {
                ".." => self.above(here)?,
                name => here.find(name)?.into_directory()?,
            });
        }
        Ok(reached.unwrap_or_else(|| Arc::clone(&self.root)))
    }

    /// Returns the directory above another, which for the root is itself.
    fn above(&self, directory: &Arc<Directory>) -> Result<Arc<Directory>, Errno> {
        if Arc::ptr_eq(directory, &self.root) {
            return Ok(Arc::clone(directory));
        }
        directory.parent().ok_or(Errno::ENOENT)
    }
}

#[cfg(test)]
mod tests;
