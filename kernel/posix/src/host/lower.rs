//! Directories of the host below file systems in memory.
//!
//! A lower file is a path below a directory that has an open host descriptor.
//! So a tree takes one descriptor, and each of its files that is open takes one more. The host's
//! directory is not changed by reads either: files are opened with `O_NOATIME` where that is
//! allowed.
//!
//! A call here never leaves the freezer: its caller may hold the lock of a file or of a directory,
//! which a fork must not copy.

use std::any::Any;
use std::ffi::{CStr, CString, c_int};
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::sync::Arc;

use fdtable::FileRef;
use fdtable_vfs::fs::{
    Lower, LowerBytes, LowerDevice, LowerDirectory, LowerFile, LowerInode, LowerName, Timestamp,
    VfsPath,
};
use fdtable_vfs::{Errno, FileKind, OpenFlags, RcuObject, Stat};

use super::direct::{direct, words};
use super::fd::HostFd;
use super::file::{HostFile, kind_of, signed};
use super::in_use::InUse;
use crate::host::{self, OwnedHostFd};

/// Path below a directory of the host that is open: a lower directory or a lower regular file.
#[derive(Clone, Debug)]
struct HostPlace {
    top: Arc<OwnedHostFd>,
    /// `.` for the directory itself.
    path: CString,
}

#[derive(Debug)]
struct HostDevice {
    place: HostPlace,
    rdev: u64,
}

/// Open lower file of the host.
#[derive(Debug)]
pub(crate) struct HostBytes {
    host_fd: HostFd,
    /// By which a process that does not have the descriptor opens the file.
    place: HostPlace,
}

/// Opens a directory of the host as a lower directory.
///
/// # Errors
/// `ENOTDIR` if it is not a directory; those of the host's `open`.
pub(crate) fn open_directory(path: &CStr) -> Result<Arc<dyn LowerDirectory>, Errno> {
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    let top = Arc::new(host::openat_inside(libc::AT_FDCWD, path, flags, 0)?);
    let path = c".".to_owned();
    Ok(Arc::new(HostPlace { top, path }))
}

impl HostBytes {
    /// Returns the open file of the host behind a lower one.
    pub(crate) fn below(bytes: &dyn LowerBytes) -> Option<&HostBytes> {
        (bytes as &dyn Any).downcast_ref()
    }

    /// Returns the host descriptor.
    ///
    /// # Errors
    /// Errors of the host's `open`, if this process lacks the descriptor.
    pub(crate) fn fd(&self) -> Result<InUse, Errno> {
        let open = || Ok(self.place.open_file(libc::O_RDONLY)?.into_raw());
        self.host_fd.get_or_open(open)
    }

    /// Seeks data or a hole; nothing if there is none. The position of the host is not used.
    fn seek(&self, from: u64, whence: c_int) -> Result<Option<u64>, Errno> {
        match host::lseek(self.fd()?.get(), signed(from)?, whence) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::ENXIO) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl Drop for HostBytes {
    fn drop(&mut self) {
        self.host_fd.close();
    }
}

impl HostPlace {
    fn join(&self, name: &[u8]) -> Result<Self, Errno> {
        let path = match self.path.to_bytes() {
            b"." => name.to_vec(),
            path => [path, b"/", name].concat(),
        };
        Ok(HostPlace {
            top: Arc::clone(&self.top),
            path: CString::new(path).map_err(|_| Errno::ENOENT)?,
        })
    }

    /// Calls the host with the descriptor of a directory, and the path of the file below it. Opens
    /// directories on a path that is too long for the host: processes have the top alone.
    fn call<R>(&self, call: impl FnOnce(RawFd, &CStr) -> Result<R, Errno>) -> Result<R, Errno> {
        let mut opened: Option<OwnedHostFd> = None;
        let mut path = self.path.as_c_str();
        loop {
            let top = opened.as_ref().unwrap_or(&self.top).0;
            let bytes = path.to_bytes_with_nul();
            let Some(begin) = bytes.get(..libc::PATH_MAX as usize) else {
                return call(top, path);
            };
            let slash = begin.iter().rposition(|&byte| byte == b'/');
            let end = slash.ok_or(Errno::ENAMETOOLONG)?;
            let directory = CString::new(&begin[..end]).map_err(|_| Errno::ENOENT)?;
            let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
            opened = Some(host::openat_inside(top, &directory, flags, 0)?);
            path = CStr::from_bytes_with_nul(&bytes[end + 1..]).map_err(|_| Errno::ENOENT)?;
        }
    }

    /// Opens the file for reading.
    fn open_file(&self, flags: c_int) -> Result<OwnedHostFd, Errno> {
        let flags = flags | libc::O_NOFOLLOW;
        let open = |flags| self.call(|top, path| host::openat_inside(top, path, flags, 0));
        match open(flags | libc::O_NOATIME) {
            // It belongs to another user.
            Err(Errno::EPERM) => open(flags),
            opened => opened,
        }
    }
}

impl LowerDirectory for HostPlace {
    fn stat(&self) -> Result<Stat, Errno> {
        let mut statx = MaybeUninit::<libc::statx>::uninit();
        let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT;
        let mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
        let place = statx.as_mut_ptr();
        self.call(|top, path| {
            let a = words!(top, path.as_ptr(), flags, mask, place);
            // SAFETY: the path is a C string, and there is room for the result.
            unsafe { direct(libc::SYS_statx, a) }
        })?;
        // SAFETY: the call has initialized it.
        Ok(to_stat(&unsafe { statx.assume_init() }))
    }

    fn names(&self) -> Result<Vec<LowerName>, Errno> {
        let directory = self.open_file(libc::O_RDONLY | libc::O_DIRECTORY)?;
        let mut names = Vec::new();
        let mut records = vec![0; 32 << 10];
        loop {
            let a = words!(directory.0, records.as_mut_ptr(), records.len());
            // SAFETY: the buffer has this length.
            let filled = unsafe { direct(libc::SYS_getdents64, a) }?;
            if filled == 0 {
                return Ok(names);
            }
            let mut left = &records[..filled as usize];
            while let Some((record, rest)) = Record::split(left) {
                left = rest;
                if matches!(record.name, b"." | b"..") {
                    continue;
                }
                let kind = match record.kind() {
                    Some(kind) => kind,
                    None => self.join(record.name)?.stat()?.kind,
                };
                names.push(LowerName {
                    name: record.name.into(),
                    inode: record.inode,
                    kind,
                });
            }
        }
    }

    fn lookup(&self, name: &[u8]) -> Result<LowerInode, Errno> {
        let place = self.join(name)?;
        let stat = place.stat()?;
        let file = match stat.kind {
            FileKind::Regular => Lower::Regular(Arc::new(place)),
            FileKind::Directory => Lower::Directory(Arc::new(place)),
            FileKind::Symlink => Lower::Symlink(place.call(host::readlinkat)?.into()),
            FileKind::Fifo => Lower::Fifo,
            FileKind::Socket => Lower::Socket,
            FileKind::CharDevice | FileKind::BlockDevice => {
                let rdev = stat.rdev;
                Lower::Device(Arc::new(HostDevice { place, rdev }))
            }
        };
        Ok(LowerInode { stat, file })
    }
}

impl LowerFile for HostPlace {
    fn open(&self) -> Result<Arc<dyn LowerBytes>, Errno> {
        Ok(Arc::new(HostBytes {
            host_fd: HostFd::new(self.open_file(libc::O_RDONLY)?.into_raw()),
            place: self.clone(),
        }))
    }
}

impl LowerDevice for HostDevice {
    fn open(&self, flags: OpenFlags, inode: VfsPath) -> Result<FileRef<RcuObject>, Errno> {
        // No file is created if the host has removed or replaced the device meanwhile.
        let flags = flags - OpenFlags::CREAT - OpenFlags::EXCL - OpenFlags::TRUNC;
        let flags = flags.bits().cast_signed() | libc::O_NOFOLLOW;
        let open = |top, path: &CStr| host::openat_inside(top, path, flags, 0);
        let opened = self.place.call(open)?;
        let stat = host::fstat(opened.0)?;
        let is_device = matches!(stat.st_mode & libc::S_IFMT, libc::S_IFCHR | libc::S_IFBLK);
        if !is_device || stat.st_rdev != self.rdev {
            return Err(Errno::ENXIO);
        }
        HostFile::device(opened, inode)
    }
}

impl LowerBytes for HostBytes {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        host::pread_inside(self.fd()?.get(), buf, signed(offset)?)
    }

    fn next_data(&self, from: u64) -> Result<Option<u64>, Errno> {
        self.seek(from, libc::SEEK_DATA)
    }

    fn next_hole(&self, from: u64) -> Result<Option<u64>, Errno> {
        self.seek(from, libc::SEEK_HOLE)
    }
}

/// Record of the host's `getdents64(2)`.
struct Record<'r> {
    inode: u64,
    kind: u8,
    name: &'r [u8],
}

impl<'r> Record<'r> {
    /// Splits the first record off.
    fn split(records: &'r [u8]) -> Option<(Self, &'r [u8])> {
        let inode = u64::from_ne_bytes(*records.first_chunk()?);
        let length = u16::from_ne_bytes([*records.get(16)?, *records.get(17)?]);
        let (record, rest) = records.split_at_checked(length.into())?;
        let kind = *record.get(18)?;
        let name = record.get(19..)?;
        let end = name.iter().position(|&byte| byte == 0)?;
        let name = &name[..end];
        Some((Record { inode, kind, name }, rest))
    }

    /// Returns the kind, if the host lists kinds.
    fn kind(&self) -> Option<FileKind> {
        // Kinds are numbered as in the mode of a file.
        let kind = kind_of(u32::from(self.kind) << 12);
        (kind.dirent_type() == self.kind).then_some(kind)
    }
}

fn to_stat(statx: &libc::statx) -> Stat {
    let mode = u32::from(statx.stx_mode);
    let time = |at: libc::statx_timestamp| Timestamp {
        seconds: at.tv_sec,
        nanos: at.tv_nsec,
    };
    Stat {
        device: libc::makedev(statx.stx_dev_major, statx.stx_dev_minor),
        links: statx.stx_nlink,
        uid: statx.stx_uid,
        gid: statx.stx_gid,
        rdev: libc::makedev(statx.stx_rdev_major, statx.stx_rdev_minor),
        size: statx.stx_size,
        block_size: statx.stx_blksize,
        blocks: statx.stx_blocks,
        atime: time(statx.stx_atime),
        mtime: time(statx.stx_mtime),
        ctime: time(statx.stx_ctime),
        btime: time(statx.stx_btime),
        ..Stat::new(kind_of(mode), mode.into(), statx.stx_ino)
    }
}
