//! The file system of `/dev`.
//!
//! It has the devices `null`, `zero` and `full`, which programs transfer to and from, and the links
//! `fd`, `stdin`, `stdout` and `stderr` into `/proc`. It is read-only.

use std::sync::{Arc, Weak};

use fdtable::FileRef;

use super::generated_link::GeneratedLink;
use super::{
    Dentry, DirEntry, FileKind, FileSystem, Inode, Mode, MountPoint, Opening, PathContext, Stat,
    StatFs, Target, device_number, inode_number,
};
use crate::{Errno, RcuObject};

mod device;

use device::{Device, DeviceInode};

/// File system of devices, to be mounted on `/dev`. In Linux: `devtmpfs`.
///
/// ```
/// use std::sync::Arc;
/// use fdtable_vfs::{DevFs, Errno, OpenFlags, Process};
///
/// # fn main() -> Result<(), Errno> {
/// let process = Process::new();
/// process.mkdir("/dev")?;
/// process.mount("/dev", Arc::new(DevFs::default()))?;
/// let zero = process.open("/dev/zero", OpenFlags::RDONLY)?;
/// let mut buf = [1; 4];
/// assert_eq!(process.read(zero, &mut buf)?, 4);
/// assert_eq!(buf, [0; 4]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DevFs {
    root: Arc<DevRoot>,
}

#[derive(Debug)]
struct DevRoot {
    stat: Stat,
    entries: Vec<(&'static str, Arc<dyn Inode>)>,
    mounted: MountPoint,
}

const DEVICES: [(&str, Device); 3] = [
    ("null", Device::Null),
    ("zero", Device::Zero),
    ("full", Device::Full),
];

const LINKS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

impl Default for DevFs {
    /// Makes the file system. Allocates.
    fn default() -> Self {
        let device = device_number::fresh();
        let stat = |kind, mode, size| Stat {
            device,
            size,
            ..Stat::new(kind, Mode::new(mode), inode_number::fresh())
        };
        let root = Arc::new_cyclic(|root: &Weak<DevRoot>| {
            let devices = DEVICES.map(|(name, what)| {
                let stat = stat(FileKind::CharDevice, 0o666, 0);
                let inode = DeviceInode::new(what, stat, name, root.clone());
                (name, Arc::new(inode) as Arc<dyn Inode>)
            });
            let links = LINKS.map(|(name, target)| {
                let link = GeneratedLink {
                    stat: stat(FileKind::Symlink, 0o777, target.len() as u64),
                    data: (root.clone(), name, target),
                    target: |(_, _, target), _| Ok(Target::Path(target.as_bytes().into())),
                    dentry: |(root, name, _)| dentry(root, name),
                };
                (name, Arc::new(link) as Arc<dyn Inode>)
            });
            let entries: Vec<_> = devices.into_iter().chain(links).collect();
            DevRoot {
                stat: Stat {
                    links: 2,
                    ..stat(FileKind::Directory, 0o755, entries.len() as u64)
                },
                entries,
                mounted: MountPoint::default(),
            }
        });
        DevFs { root }
    }
}

impl FileSystem for DevFs {
    fn root(&self) -> Arc<dyn Inode> {
        Arc::clone(&self.root) as Arc<dyn Inode>
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn statfs(&self) -> StatFs {
        StatFs::new(StatFs::TMPFS, self.root.stat.device)
    }
}

impl Inode for DevRoot {
    fn stat(&self) -> Stat {
        self.stat
    }

    fn open(self: Arc<Self>, opening: &Opening<'_>) -> Result<FileRef<RcuObject>, Errno> {
        opening.directory(self)
    }

    fn lookup(&self, name: &[u8], _context: &PathContext<'_>) -> Result<Arc<dyn Inode>, Errno> {
        let found = self
            .entries
            .iter()
            .find(|(other, _)| other.as_bytes() == name);
        Ok(Arc::clone(&found.ok_or(Errno::ENOENT)?.1))
    }

    fn names(&self) -> Result<Vec<DirEntry>, Errno> {
        let entry = |(cookie, (name, inode)): (u64, &(&str, Arc<dyn Inode>))| DirEntry {
            name: name.as_bytes().into(),
            inode: inode.number(),
            kind: inode.kind(),
            cookie,
        };
        Ok((DirEntry::FIRST_COOKIE..)
            .zip(&self.entries)
            .map(entry)
            .collect())
    }

    fn mount_point(&self) -> Option<&MountPoint> {
        Some(&self.mounted)
    }
}

/// Returns the dentry of a name in the root directory.
fn dentry(root: &Weak<DevRoot>, name: &str) -> Option<Dentry> {
    Some(Dentry {
        parent: root.upgrade()?,
        name: name.as_bytes().into(),
        is_unhashed: false,
    })
}
