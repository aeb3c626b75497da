//! Removal of a tree: all that is below a name, in one call.

use super::MemFs;
use crate::Errno;
use crate::directory::{Entries, Node};
use crate::path::{Last, Path};

impl MemFs {
    /// Removes what `path` names, and if it is a directory, all that is below it. The name goes
    /// first, in one step; then each directory is emptied and takes no more. Takes a stack of its
    /// own, so depth does not matter. Allocates.
    ///
    /// # Errors
    /// Those of every path; `ENOENT` if there is nothing; `EBUSY` for the root; `EINVAL` if the
    /// path ends in `.` or `..`.
    #[doc(alias = "rm -r")]
    pub fn remove_tree(&self, path: &str) -> Result<(), Errno> {
        let path = Path::parse(path)?;
        let parent = self.walk(path.parent)?;
        let otherwise = match path.last {
            Last::Root => Errno::EBUSY,
            _ => Errno::EINVAL,
        };
        let name = path.name(otherwise)?;
        let _change = self.want_write()?;
        let mut names = parent.lock()?;
        if let Node::File(_) = names.get(name).ok_or(Errno::ENOENT)?
            && path.asks_for_directory
        {
            return Err(Errno::ENOTDIR);
        }
        let removed = names.remove(name);
        drop(names);
        empty(removed);
        Ok(())
    }
}

/// Removes all that is among `nodes` or below.
fn empty(nodes: impl IntoIterator<Item = Node>) {
    let mut waiting: Vec<Node> = nodes.into_iter().collect();
    while let Some(node) = waiting.pop() {
        node.unlink();
        if let Node::Directory(directory) = node {
            let entries: Entries = directory.remove_with_all().unwrap_or_default();
            waiting.extend(entries.into_values());
        }
    }
}

/// Not one directory within the drop of another, which takes stack for each level.
impl Drop for MemFs {
    fn drop(&mut self) {
        empty(
            self.root
                .remove_with_all()
                .into_iter()
                .flat_map(Entries::into_values),
        );
    }
}
