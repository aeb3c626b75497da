//! Symbolic links whose target is generated when they are followed, in `/dev` and `/proc`.

use super::{Dentry, Inode, PathContext, Stat, Target};
use crate::Errno;

/// Symbolic link with a generated target. Each part gets the data of the link.
pub(super) struct GeneratedLink<D> {
    pub(super) stat: Stat,
    pub(super) data: D,
    pub(super) target: fn(&D, &PathContext<'_>) -> Result<Target, Errno>,
    pub(super) dentry: fn(&D) -> Option<Dentry>,
}

impl<D: Send + Sync + 'static> Inode for GeneratedLink<D> {
    fn stat(&self) -> Stat {
        self.stat
    }

    fn link_target(&self, context: &PathContext<'_>) -> Result<Target, Errno> {
        (self.target)(&self.data, context)
    }

    fn dentry(&self) -> Option<Dentry> {
        (self.dentry)(&self.data)
    }
}
