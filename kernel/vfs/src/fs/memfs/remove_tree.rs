//! Removal of a whole tree in one call.

use std::sync::Arc;

use fdtable::rcu;

use super::MemFs;
use super::directory::as_directory;
use super::meta::Node;
use crate::Errno;
use crate::fs::path::{Last, Path};
use crate::fs::{At, want_write};

impl MemFs {
    /// Removes the inode at `path`, and everything below it if it is a directory. Its name goes
    /// first, atomically; then each directory is emptied and accepts no new names. Keeps its own
    /// stack, so any depth is possible. Allocates. In Linux: `rm -r`.
    ///
    /// # Errors
    /// Errors of path lookup; `ENOENT` if it does not exist; `EBUSY` for the root; `EINVAL` if the
    /// path ends in `.` or `..`.
    pub fn remove_tree(&self, path: impl AsRef<[u8]>) -> Result<(), Errno> {
        let path = Path::parse(path.as_ref())?;
        let parent = self.path_context().find_parent(At::Cwd, &path)?;
        let parent = as_directory(&*parent.inode).ok_or(Errno::ENOTDIR)?;
        let otherwise = match path.last {
            Last::Root => Errno::EBUSY,
            _ => Errno::EINVAL,
        };
        let name = path.name(otherwise)?;
        let _change = want_write(self)?;
        parent.node(name)?;
        let mut names = parent.lock()?;
        let found = names.get(name).ok_or(Errno::ENOENT)?;
        if path.asks_for_directory && as_directory(&**found).is_none() {
            return Err(Errno::ENOTDIR);
        }
        let removed = parent.take(&mut names, name);
        drop(names);
        empty(removed);
        Ok(())
    }
}

/// Removes all nodes, and all below them.
fn empty(nodes: impl IntoIterator<Item = Arc<dyn Node>>) {
    let mut waiting: Vec<Arc<dyn Node>> = nodes.into_iter().collect();
    while let Some(node) = waiting.pop() {
        node.drop_link();
        if let Some(directory) = as_directory(&*node) {
            waiting.extend(directory.remove_with_all());
        }
    }
    rcu::catch_up();
}

/// Frees the tree in a loop: nested drops of directories would take stack for each level.
impl Drop for MemFs {
    fn drop(&mut self) {
        empty(self.root.remove_with_all());
    }
}
