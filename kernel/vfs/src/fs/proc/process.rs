//! The directory of a process, and its links.

use std::sync::Arc;

use fdtable::FileRef;

use super::descriptors::Descriptors;
use super::text::{Text, TextInode};
use super::{ProcInode, ProcessRef};
use crate::fs::generated_link::GeneratedLink;
use crate::fs::{Dentry, DirEntry, FileKind, Inode, Opening, PathContext, Stat, Target};
use crate::{Errno, Limit, Process, RcuObject, Resource};

/// Directory of a process.
#[derive(Debug)]
pub(super) struct ProcessDirectory {
    pub(super) shown: Arc<ProcessRef>,
}

/// Files in the directory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcEntry {
    Cwd,
    Fd,
    Fdinfo,
    Limits,
    Root,
}

const ENTRIES: [(&str, ProcEntry); 5] = [
    ("cwd", ProcEntry::Cwd),
    ("fd", ProcEntry::Fd),
    ("fdinfo", ProcEntry::Fdinfo),
    ("limits", ProcEntry::Limits),
    ("root", ProcEntry::Root),
];

impl ProcEntry {
    fn kind(self) -> FileKind {
        match self {
            ProcEntry::Fd | ProcEntry::Fdinfo => FileKind::Directory,
            ProcEntry::Cwd | ProcEntry::Root => FileKind::Symlink,
            ProcEntry::Limits => FileKind::Regular,
        }
    }

    /// Returns the index of the inode in its directory, whose own is 0.
    fn what(self) -> ProcInode {
        ProcInode::Fixed(self as u8 + 1)
    }
}

impl ProcessDirectory {
    fn entry(&self, entry: ProcEntry, context: &PathContext<'_>) -> Result<Arc<dyn Inode>, Errno> {
        let shown = Arc::clone(&self.shown);
        let mode = match entry {
            ProcEntry::Fd => 0o500,
            ProcEntry::Fdinfo => 0o555,
            ProcEntry::Limits => 0o444,
            ProcEntry::Cwd | ProcEntry::Root => 0o777,
        };
        let stat = shown.stat(entry.what(), entry.kind(), mode);
        Ok(match entry {
            ProcEntry::Fd => Arc::new(Descriptors::new(shown, stat, "fd", FileKind::Symlink)),
            ProcEntry::Fdinfo => {
                Arc::new(Descriptors::new(shown, stat, "fdinfo", FileKind::Regular))
            }
            ProcEntry::Limits => {
                let text = limits(context.process().ok_or(Errno::ENOENT)?).into_bytes();
                let make: Text = Arc::new(move || Ok(text.clone()));
                Arc::new(TextInode { stat, make })
            }
            ProcEntry::Cwd | ProcEntry::Root => Arc::new(GeneratedLink {
                stat,
                data: entry,
                target: |entry, context| {
                    let process = context.process().filter(|_| *entry == ProcEntry::Cwd);
                    let cwd = process.and_then(Process::working_directory);
                    let path = cwd.unwrap_or_else(|| context.root().clone());
                    let shown = path.full_path();
                    Ok(Target::MagicLink { path, shown })
                },
                dentry: |_| None,
            }),
        })
    }
}

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

    fn lookup(&self, name: &[u8], context: &PathContext<'_>) -> Result<Arc<dyn Inode>, Errno> {
        let found = ENTRIES.iter().find(|(other, _)| other.as_bytes() == name);
        self.entry(found.ok_or(Errno::ENOENT)?.1, context)
    }

    fn names(&self) -> Result<Vec<DirEntry>, Errno> {
        let entry = |(cookie, &(name, entry)): (u64, &(&str, ProcEntry))| DirEntry {
            name: name.as_bytes().into(),
            inode: self.shown.stat(entry.what(), entry.kind(), 0).inode,
            kind: entry.kind(),
            cookie,
        };
        Ok((DirEntry::FIRST_COOKIE..)
            .zip(&ENTRIES)
            .map(entry)
            .collect())
    }

    fn dentry(&self) -> Option<Dentry> {
        Some(Dentry {
            parent: Arc::clone(&self.shown.root) as Arc<dyn Inode>,
            name: self.shown.id.to_string().into_bytes().into(),
            is_unhashed: false,
        })
    }
}

/// Formats the limits of a process, as Linux does.
fn limits(process: &Process) -> String {
    let line = |name: &str, soft: &str, hard: &str, unit: &str| {
        format!("{name:<25} {soft:<20} {hard:<20} {unit:<10}\n")
    };
    let shown = |limit: u64| match limit {
        Limit::INFINITY => "unlimited".to_string(),
        limit => limit.to_string(),
    };
    let of = |resource, name, unit| {
        let Limit { soft, hard } = process.getrlimit(resource);
        line(name, &shown(soft), &shown(hard), unit)
    };
    line("Limit", "Soft Limit", "Hard Limit", "Units")
        + &of(Resource::FileSize, "Max file size", "bytes")
        + &of(Resource::NoFile, "Max open files", "files")
}
