//! Removes names, and revokes open files.

use super::{At, PathContext};
use crate::Errno;
use crate::fs::namei::Follow;
use crate::fs::path::{Last, Path};
use crate::fs::{Inode, Unlink, VfsPath, want_write};

impl PathContext<'_> {
    /// Removes an empty directory.
    pub(crate) fn rmdir(&self, at: At, path: &[u8]) -> Result<(), Errno> {
        let path = Path::parse(path)?;
        let parent = self.find_parent(at, &path)?;
        let name = match path.last {
            Last::Name(name) => name,
            Last::Root => return Err(Errno::EBUSY),
            Last::Dot => return Err(Errno::EINVAL),
            Last::DotDot => return Err(Errno::ENOTEMPTY),
        };
        self.remove(&parent, name, Unlink::Directory)
    }

    /// Removes the name of an inode that is not a directory.
    pub(crate) fn unlink(&self, at: At, path: &[u8]) -> Result<(), Errno> {
        let path = Path::parse(path)?;
        let parent = self.find_parent(at, &path)?;
        let name = path.name(Errno::EISDIR)?;
        if path.asks_for_directory {
            let found = parent.inode.lookup(name, self)?;
            return Err(match super::is_directory(&*found) {
                true => Errno::EISDIR,
                false => Errno::ENOTDIR,
            });
        }
        self.remove(&parent, name, Unlink::File)
    }

    fn remove(&self, parent: &VfsPath, name: &[u8], what: Unlink) -> Result<(), Errno> {
        let _change = want_write(self.fs_of(parent))?;
        let may = |found: &dyn Inode| self.may_remove(&*parent.inode, found);
        parent.inode.unlink(name, what, &may)
    }

    /// Revokes all open files of an inode.
    pub(crate) fn revoke(&self, at: At, path: &[u8]) -> Result<usize, Errno> {
        let vfs_path = self.find(at, path, Follow::Yes)?;
        if !self.credentials.owns(vfs_path.inode.permissions().uid) {
            return Err(Errno::EPERM);
        }
        let inode = vfs_path.inode.number();
        let superblock = self
            .fs_of(&vfs_path)
            .superblock()
            .ok_or(Errno::EOPNOTSUPP)?;
        Ok(
            superblock
                .revoke_where(|object| object.stat().is_ok_and(|stat| stat.inode == inode))?,
        )
    }
}
