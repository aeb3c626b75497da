//! `/proc/self/fd` and `/proc/self/fdinfo`: one name for each descriptor.

use std::sync::Arc;

use fdtable::FileRef;

use super::open_file::OpenFileInode;
use super::text::TextInode;
use super::{ProcInode, ProcessDirectory, ProcessRef, fdinfo, number};
use crate::fs::generated_link::GeneratedLink;
use crate::fs::{
    Dentry, DirEntry, FileKind, Inode, MayUnlink, Opening, PathContext, Stat, Target, Unlink,
    VfsPath,
};
use crate::{Errno, RcuObject};

/// Directory with the descriptors of a process.
#[derive(Debug)]
pub(super) struct Descriptors {
    shown: Arc<ProcessRef>,
    stat: Stat,
    name: &'static str,
    /// Kind of its files.
    kind: FileKind,
}

impl Descriptors {
    pub(super) fn new(
        shown: Arc<ProcessRef>,
        stat: Stat,
        name: &'static str,
        kind: FileKind,
    ) -> Self {
        Descriptors {
            shown,
            stat,
            name,
            kind,
        }
    }

    fn what(&self, fd: i32) -> ProcInode {
        match self.kind {
            FileKind::Symlink => ProcInode::Descriptor(fd),
            _ => ProcInode::Fdinfo(fd),
        }
    }
}

impl Inode for Descriptors {
    fn has_fixed_names(&self) -> bool {
        true
    }

    fn stat(&self) -> Stat {
        self.stat
    }

    fn open(self: Arc<Self>, opening: &Opening<'_>) -> Result<FileRef<RcuObject>, Errno> {
        opening.directory(self)
    }

    fn lookup(&self, name: &[u8], _context: &PathContext<'_>) -> Result<Arc<dyn Inode>, Errno> {
        let fd = number(name).ok_or(Errno::ENOENT)?;
        let shown = Arc::clone(&self.shown);
        shown.files()?.fd_flags(fd).map_err(|_| Errno::ENOENT)?;
        if self.kind == FileKind::Symlink {
            return Ok(Arc::new(link(shown, fd)?));
        }
        let stat = shown.stat(self.what(fd), FileKind::Regular, 0o400);
        Ok(Arc::new(TextInode { stat, shown, fd }))
    }

    /// # Errors
    /// `ENOENT` if there is no such name; otherwise `ENOTDIR` or `EPERM`: a name goes when its
    /// descriptor is closed.
    fn unlink(&self, name: &[u8], what: Unlink, _may: MayUnlink<'_>) -> Result<(), Errno> {
        let fd = number(name).ok_or(Errno::ENOENT)?;
        self.shown
            .files()?
            .fd_flags(fd)
            .map_err(|_| Errno::ENOENT)?;
        Err(match what {
            Unlink::Directory => Errno::ENOTDIR,
            Unlink::File => Errno::EPERM,
        })
    }

    fn names(&self) -> Result<Vec<DirEntry>, Errno> {
        let files = self.shown.files()?;
        let mut names = Vec::new();
        for (fd, ..) in files.iter() {
            names.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            let fd = fd.raw();
            names.push(DirEntry {
                name: fd.to_string().into_bytes().into(),
                inode: self.shown.stat(self.what(fd), self.kind, 0).inode,
                kind: self.kind,
                cookie: DirEntry::FIRST_COOKIE + u64::from(fd.cast_unsigned()),
            });
        }
        Ok(names)
    }

    fn dentry(&self) -> Option<Dentry> {
        let shown = Arc::clone(&self.shown);
        Some(Dentry {
            parent: Arc::new(ProcessDirectory { shown }),
            name: self.name.as_bytes().into(),
            is_unhashed: false,
        })
    }
}

/// Makes the link to the file of a descriptor. Its permissions show the access mode.
fn link(shown: Arc<ProcessRef>, fd: i32) -> Result<GeneratedLink<(Arc<ProcessRef>, i32)>, Errno> {
    let status = fdinfo::file_of(&*shown.files()?, fd).map(|file| file.status());
    let may = |is: bool, bits| if is { bits } else { 0 };
    let mode = status.map_or(0, |status| {
        may(status.can_read(), 0o500) | may(status.can_write(), 0o300)
    });
    Ok(GeneratedLink {
        stat: Stat {
            size: 64,
            ..shown.stat(ProcInode::Descriptor(fd), FileKind::Symlink, mode)
        },
        data: (shown, fd),
        target: |(shown, fd), _| {
            let file = fdinfo::file_of(&*shown.files()?, *fd)?;
            if let Some(path) = file.path() {
                let shown = path.full_path();
                return Ok(Target::MagicLink { path, shown });
            }
            let shown = file.label().into_bytes();
            let inode = file.inode();
            let path = VfsPath {
                mount: None,
                inode: inode.unwrap_or_else(|| Arc::new(OpenFileInode { file })),
            };
            Ok(Target::MagicLink { path, shown })
        },
        dentry: |_| None,
    })
}
