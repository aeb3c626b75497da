//! Renames.

use super::{At, PathContext, is_directory};
use crate::Errno;
use crate::fs::namei::checked_in;
use crate::fs::path::Path;
use crate::fs::{
    AccessMode, Capabilities, Inode, Rename, RenameFlags, Renamed, VfsPath, want_write,
};

impl PathContext<'_> {
    /// Renames `old` to `new`.
    pub(crate) fn rename(
        &self,
        old: (At, &[u8]),
        new: (At, &[u8]),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        if RenameFlags::from_bits(flags.bits()).is_none() || flags == RenameFlags::all() {
            return Err(Errno::EINVAL);
        }
        let old_path = Path::parse(old.1)?;
        let from = self.find_parent_of_any(old.0, &old_path)?;
        let new_path = Path::parse(new.1)?;
        let to = self.find_parent_of_any(new.0, &new_path)?;
        if from.mount_id() != to.mount_id() {
            return Err(Errno::EXDEV);
        }
        let old_name = old_path.name(Errno::EBUSY)?;
        let taken = if flags.contains(RenameFlags::NOREPLACE) {
            Errno::EEXIST
        } else {
            Errno::EBUSY
        };
        let new_name = new_path.name(taken)?;
        let _change = want_write(self.fs_of(&from))?;
        checked_in(&*from.inode, old_name)?;
        if let Err(errno) = checked_in(&*to.inode, new_name) {
            // A missing file comes first.
            from.inode.lookup(old_name, self)?;
            return Err(errno);
        }
        let may = |moved: &dyn Inode, replaced: Option<&dyn Inode>| {
            self.may_rename((&from, moved), (&to, replaced), flags)
        };
        self.fs_of(&from).rename(&Rename {
            from: Renamed {
                directory: &*from.inode,
                name: old_name,
                asks_for_directory: old_path.asks_for_directory,
            },
            to: Renamed {
                directory: &*to.inode,
                name: new_name,
                asks_for_directory: new_path.asks_for_directory,
            },
            flags,
            may: &may,
        })
    }

    fn may_rename(
        &self,
        (from, moved): (&VfsPath, &dyn Inode),
        (to, replaced): (&VfsPath, Option<&dyn Inode>),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let all = Capabilities::DAC_OVERRIDE | Capabilities::FOWNER;
        if self.credentials.has(all) {
            return Ok(());
        }
        self.may_remove(&*from.inode, moved)?;
        match replaced {
            None => self.may_change(&*to.inode)?,
            Some(replaced) => self.may_remove(&*to.inode, replaced)?,
        }
        if let Some(replaced) = replaced
            && !flags.contains(RenameFlags::EXCHANGE)
        {
            match (is_directory(moved), is_directory(replaced)) {
                (true, false) => return Err(Errno::ENOTDIR),
                (false, true) => return Err(Errno::EISDIR),
                _ => {}
            }
        }
        if from.is(to) {
            return Ok(());
        }
        // The `..` of a directory that moves changes too, so the directory must be writable.
        let exchanged = replaced.filter(|_| flags.contains(RenameFlags::EXCHANGE));
        for inode in [Some(moved), exchanged].into_iter().flatten() {
            if is_directory(inode) {
                self.may(AccessMode::WRITE, inode)?;
            }
        }
        Ok(())
    }
}
