//! Devices without hardware: `null`, `zero` and `full`.
//!
//! They have no position, and never block.

use std::io::{IoSlice, IoSliceMut};
use std::sync::{Arc, Weak};

use fdtable::FileRef;

use super::{DevRoot, dentry};
use crate::fs::{Dentry, Inode, LockSet, Opening, SeekTo, Stat, VfsPath};
use crate::vectored::{gather, scatter};
use crate::{Errno, Object, OpenFlags, RcuObject, Status, Transfer, TransferMode};

/// Most bytes of a transfer inside a read-side section: 65,536. A grace period waits for it.
const SHORT: usize = 64 << 10;

/// Behaviour of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Device {
    /// Reads as empty, and discards writes.
    Null,
    /// Reads as zeros, and discards writes.
    Zero,
    /// Reads as zeros, and fails writes with `ENOSPC`.
    Full,
}

/// Inode of a device.
#[derive(Debug)]
pub(super) struct DeviceInode {
    device: Device,
    stat: Stat,
    locks: LockSet,
    name: &'static str,
    root: Weak<DevRoot>,
}

/// Open device.
#[derive(Debug)]
struct OpenDevice {
    device: Device,
    inode: Arc<DeviceInode>,
    path: VfsPath,
    status: Status,
}

impl Device {
    /// Returns the device number, as on Linux.
    const fn number(self) -> u64 {
        let minor = match self {
            Device::Null => 3,
            Device::Zero => 5,
            Device::Full => 7,
        };
        1 << 8 | minor
    }

    fn read(self, buf: &mut [u8]) -> usize {
        match self {
            Device::Null => 0,
            Device::Zero | Device::Full => {
                buf.fill(0);
                buf.len()
            }
        }
    }

    fn write(self, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Device::Full => Err(Errno::ENOSPC),
            _ => Ok(bytes.len()),
        }
    }
}

impl DeviceInode {
    /// Makes the inode of a device, with the attributes `stat`.
    pub(super) fn new(device: Device, stat: Stat, name: &'static str, root: Weak<DevRoot>) -> Self {
        DeviceInode {
            device,
            stat: Stat {
                rdev: device.number(),
                ..stat
            },
            locks: LockSet::new(),
            name,
            root,
        }
    }
}

impl Inode for DeviceInode {
    /// Opening has no side effect: there is no hardware.
    fn open_has_side_effect(&self) -> bool {
        false
    }

    fn stat(&self) -> Stat {
        self.stat
    }

    fn open(self: Arc<Self>, opening: &Opening<'_>) -> Result<FileRef<RcuObject>, Errno> {
        opening.file(OpenDevice {
            device: self.device,
            path: opening.path(self.clone()),
            inode: self,
            status: Status::new(opening.flags()),
        })
    }

    fn dentry(&self) -> Option<Dentry> {
        dentry(&self.root, self.name)
    }
}

impl Object for OpenDevice {
    fn status_cell(&self) -> Option<&Status> {
        Some(&self.status)
    }

    /// No call blocks, so long transfers are never refused either.
    fn is_nonblocking(&self) -> bool {
        false
    }

    fn path(&self) -> Option<VfsPath> {
        Some(self.path.clone())
    }

    fn locks(&self) -> Option<&LockSet> {
        Some(&self.inode.locks)
    }

    fn read_to(&self, bufs: &mut [IoSliceMut<'_>], how: Transfer<'_>) -> Result<usize, Errno> {
        self.status.check_access(OpenFlags::can_read)?;
        scatter(bufs, |buf| match how.mode {
            TransferMode::Section if buf.len() > SHORT => Err(Errno::EAGAIN),
            _ => Ok(self.device.read(buf)),
        })
    }

    /// As on Linux, a device gets no write of several buffers without a byte.
    fn write_from(&self, bufs: &[IoSlice<'_>], how: Transfer<'_>) -> Result<usize, Errno> {
        self.status.check_access(OpenFlags::can_write)?;
        if how.is_vectored && bufs.iter().all(|buf| buf.is_empty()) {
            return Ok(0);
        }
        gather(bufs, |bytes| self.device.write(bytes))
    }

    fn stat(&self) -> Result<Stat, Errno> {
        self.status.check()?;
        Ok(self.inode.stat())
    }

    /// The position is always 0.
    fn try_seek(&self, to: SeekTo) -> Result<u64, Errno> {
        self.seek(to)
    }

    fn seek(&self, _to: SeekTo) -> Result<u64, Errno> {
        self.status.check()?;
        Ok(0)
    }

    fn release(&self) {}

    fn revoke(&self) {
        self.status.end(Errno::EIO);
    }
}
