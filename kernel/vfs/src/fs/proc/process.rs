//! The directory of a process, and its links.

use std::sync::Arc;

use fdtable::FileRef;

use super::descriptors::Descriptors;
use super::{ProcInode, ProcessRef};
use crate::fs::generated_link::GeneratedLink;
use crate::fs::{Dentry, DirEntry, FileKind, Inode, Opening, PathContext, Stat, Target};
use crate::{Errno, Process, RcuObject};

/// Directory of a process.
#[derive(Debug)]
pub(super) struct ProcessDirectory {
    pub(super) shown: Arc<ProcessRef>,
}

/// Files in the directory of a process, with their kinds and permissions. The number of each is one
/// above its index.
const ENTRIES: [(&str, FileKind, u32); 3] = [
    ("cwd", FileKind::Symlink, 0o777),
    ("fd", FileKind::Directory, 0o500),
    ("fdinfo", FileKind::Directory, 0o555),
];

impl Inode for ProcessDirectory {
    fn has_fixed_names(&self) -> bool {
        true
    }

    fn stat(&self) -> Stat {
        self.shown
            .stat(ProcInode::Fixed(0), FileKind::Directory, 0o555)
    }

    fn open(self: Arc<Self>, opening: &Opening<'_>) -> Result<FileRef<RcuObject>, Errno> {
        opening.directory(self)
    }

    fn lookup(&self, name: &[u8], _context: &PathContext<'_>) -> Result<Arc<dyn Inode>, Errno> {
        let mut entries = ENTRIES.into_iter().zip(1..);
        let found = entries.find(|((other, ..), _)| other.as_bytes() == name);
        let ((name, kind, mode), index) = found.ok_or(Errno::ENOENT)?;
        let shown = Arc::clone(&self.shown);
        let stat = shown.stat(ProcInode::Fixed(index), kind, mode);
        Ok(match name {
            "fd" => Arc::new(Descriptors::new(shown, stat, name, FileKind::Symlink)),
            "fdinfo" => Arc::new(Descriptors::new(shown, stat, name, FileKind::Regular)),
            _ => Arc::new(GeneratedLink {
                stat,
                data: (),
                target: |(), context| {
                    let cwd = context.process().and_then(Process::working_directory);
                    let path = cwd.unwrap_or_else(|| context.root().clone());
                    let shown = path.full_path();
                    Ok(Target::MagicLink { path, shown })
                },
                dentry: |()| None,
            }),
        })
    }

    fn names(&self) -> Result<Vec<DirEntry>, Errno> {
        let entry = |(index, &(name, kind, _)): (u8, &(&str, FileKind, u32))| DirEntry {
            name: name.as_bytes().into(),
            inode: self.shown.stat(ProcInode::Fixed(index), kind, 0).inode,
            kind,
            cookie: DirEntry::FIRST_COOKIE + u64::from(index - 1),
        };
        Ok((1..).zip(&ENTRIES).map(entry).collect())
    }

    fn dentry(&self) -> Option<Dentry> {
        Some(Dentry {
            parent: Arc::clone(&self.shown.root) as Arc<dyn Inode>,
            name: self.shown.id.to_string().into_bytes().into(),
            is_unhashed: false,
        })
    }
}
