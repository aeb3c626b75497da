//! The file system of `/proc`: what a process can see of itself.
//!
//! ```text
//! self -> 1             the process that walks; another one only if the kernel can find it
//! 1/fd/0 -> /dev/null   what its descriptors name
//! 1/fdinfo/0            position, flags, locks
//! 1/cwd                 its working directory
//! ```
//!
//! A lookup depends on the process that walks, so each process finds itself. The inodes hold the
//! table of that process weakly, since an open `/proc/self/fd` is in that very table.
//!
//! # Opening a descriptor's link
//!
//! The links in `fd` are magic links to the file itself, even if its name is removed. Opening one
//! opens a file of a file system again, with its own position and flags. A pipe, a counter and the
//! like cannot be opened twice here: the opener gets the same open file, as from `dup`, and
//! `EACCES` if it asks for an access mode that the open file lacks. A socket cannot be opened:
//! `ENXIO`.

use std::sync::{Arc, Weak};

use fdtable::{FileRef, Files};
use fdtable_slab::{SlabArc, SlabWeak};

use super::generated_link::GeneratedLink;
use super::{
    Credentials, DirEntry, FileKind, FileSystem, Inode, Mode, Opening, PathContext, Stat, StatFs,
    Target, device_number,
};
use crate::{Errno, Process, RcuObject};

mod descriptors;
mod fdinfo;
mod open_file;
mod process;
mod text;

use process::ProcessDirectory;

/// File system that shows each process to itself, to be mounted on `/proc`. In Linux: `procfs`.
///
/// ```
/// use std::sync::Arc;
/// use fdtable_vfs::{At, Errno, OpenFlags, ProcFs, Process};
///
/// # fn main() -> Result<(), Errno> {
/// let process = Process::new();
/// process.mkdir("/proc")?;
/// process.mount("/proc", Arc::new(ProcFs::default()))?;
/// let log = process.open("/log", OpenFlags::CREAT | OpenFlags::WRONLY)?;
/// let link = format!("/proc/self/fd/{log}");
/// assert_eq!(process.readlinkat(At::Cwd, &link)?, b"/log");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ProcFs {
    root: Arc<ProcRoot>,
}

#[derive(Debug)]
struct ProcRoot {
    me: Weak<ProcRoot>,
    device: u64,
}

/// Process that the directory shows.
struct ProcessRef {
    root: Arc<ProcRoot>,
    id: i32,
    credentials: Credentials,
    files: SlabWeak<Files<RcuObject>>,
}

/// Identity of an inode of a process, encoded in its inode number.
#[derive(Clone, Copy)]
enum ProcInode {
    /// A file in the directory of the process, by its index there.
    Fixed(u8),
    Descriptor(i32),
    Fdinfo(i32),
}

impl Default for ProcFs {
    /// Makes the file system. Allocates.
    fn default() -> Self {
        let device = device_number::fresh();
        ProcFs {
            root: Arc::new_cyclic(|me| ProcRoot {
                me: Weak::clone(me),
                device,
            }),
        }
    }
}

impl FileSystem for ProcFs {
    fn root(&self) -> Arc<dyn Inode> {
        Arc::clone(&self.root) as Arc<dyn Inode>
    }

    fn statfs(&self) -> StatFs {
        StatFs::new(StatFs::PROC, self.root.device)
    }
}

impl ProcRoot {
    const NUMBER: u64 = 1;
    const SELF: u64 = 2;

    fn shown(self: &Arc<Self>, process: &Process, credentials: Credentials) -> Arc<ProcessRef> {
        Arc::new(ProcessRef {
            root: Arc::clone(self),
            id: process.id(),
            credentials,
            files: SlabArc::downgrade(process.files()),
        })
    }
}

impl ProcessRef {
    /// Returns the table of descriptors.
    ///
    /// # Errors
    /// `ENOENT` if the process is gone.
    fn files(&self) -> Result<SlabArc<Files<RcuObject>>, Errno> {
        self.files.upgrade().ok_or(Errno::ENOENT)
    }

    /// Returns the attributes of an inode of the process.
    fn stat(&self, what: ProcInode, kind: FileKind, mode: u32) -> Stat {
        // 31 bits of the process ID, 2 of the kind, 31 of the index or descriptor.
        let (kind_bits, rest) = match what {
            ProcInode::Fixed(index) => (0, i32::from(index)),
            ProcInode::Descriptor(fd) => (1, fd),
            ProcInode::Fdinfo(fd) => (2, fd),
        };
        let process = u64::from(self.id.cast_unsigned());
        let inode = process << 33 | kind_bits << 31 | u64::from(rest.cast_unsigned());
        Stat {
            device: self.root.device,
            uid: self.credentials.uid,
            gid: self.credentials.gid,
            links: if kind == FileKind::Directory { 2 } else { 1 },
            ..Stat::new(kind, Mode::new(mode), inode)
        }
    }
}

impl Inode for ProcRoot {
    fn has_fixed_names(&self) -> bool {
        true
    }

    fn stat(&self) -> Stat {
        Stat {
            device: self.device,
            links: 2,
            ..Stat::new(FileKind::Directory, Mode::new(0o555), Self::NUMBER)
        }
    }

    fn open(self: Arc<Self>, opening: &Opening<'_>) -> Result<FileRef<RcuObject>, Errno> {
        opening.directory(self)
    }

    fn lookup(&self, name: &[u8], context: &PathContext<'_>) -> Result<Arc<dyn Inode>, Errno> {
        if name == b"self" {
            return Ok(Arc::new(GeneratedLink {
                stat: Stat {
                    device: self.device,
                    ..Stat::new(FileKind::Symlink, Mode::ALL, ProcRoot::SELF)
                },
                data: (),
                target: |(), context| {
                    let process = context.process().ok_or(Errno::ENOENT)?;
                    Ok(Target::Path(process.id().to_string().into_bytes().into()))
                },
                dentry: |()| None,
            }));
        }
        let process = context.process().ok_or(Errno::ENOENT)?;
        let id = number(name).ok_or(Errno::ENOENT)?;
        let root = self.me.upgrade().ok_or(Errno::ENOENT)?;
        let shown = match id == process.id() {
            true => root.shown(process, context.credentials()),
            false => {
                let other = process.kernel().find_process(id).ok_or(Errno::ENOENT)?;
                root.shown(&other, other.credentials())
            }
        };
        Ok(Arc::new(ProcessDirectory { shown }))
    }

    fn names(&self) -> Result<Vec<DirEntry>, Errno> {
        Ok(vec![DirEntry {
            name: b"self".as_slice().into(),
            inode: Self::SELF,
            kind: FileKind::Symlink,
            cookie: DirEntry::FIRST_COOKIE,
        }])
    }
}

impl std::fmt::Debug for ProcessRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ProcessRef({})", self.id)
    }
}

/// Parses a number as the names spell it: in decimal, without leading zeros.
fn number(name: &[u8]) -> Option<i32> {
    let text = std::str::from_utf8(name).ok()?;
    let number: i32 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}
