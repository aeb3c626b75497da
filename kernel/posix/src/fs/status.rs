//! Status of files and file systems: `stat`, `statfs` and their variants.

use std::ffi::{c_char, c_int, c_uint};
use std::mem;

use fdtable_vfs::fs::{Mode, StatFs, Timestamp};
use fdtable_vfs::{Errno, FileKind, Stat};
use libc::{AT_FDCWD, AT_SYMLINK_NOFOLLOW};

use crate::abi::call::call;
use crate::abi::path::Target;
use crate::abi::pin::LastLink;
use crate::abi::system::System;
use crate::abi::uaccess;
use crate::fs::attributes::at_flags;
use crate::host;
use crate::host::file::HostFile;

/// Returns the status of a path: `stat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_stat(path: *const c_char, stat: *mut libc::stat) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_fstatat(AT_FDCWD, path, stat, 0) }
}

/// Returns the status of a path, without following a symbolic link: `lstat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_lstat(path: *const c_char, stat: *mut libc::stat) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_fstatat(AT_FDCWD, path, stat, AT_SYMLINK_NOFOLLOW) }
}

/// Returns the status of an open file: `fstat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_fstat(fd: c_int, stat: *mut libc::stat) -> c_int {
    call(|system| {
        let described = system.describe(fd)?;
        // SAFETY: as the caller promises.
        unsafe { uaccess::put(stat, described) }
    })
}

/// Returns the status of a path relative to a directory: `fstatat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_fstatat(
    directory: c_int,
    path: *const c_char,
    stat: *mut libc::stat,
    flags: c_int,
) -> c_int {
    call(|system| {
        let at_flags = at_flags(flags)?;
        // SAFETY: as the caller promises.
        let described = match unsafe { system.target(directory, path, LastLink::of(flags)) }? {
            Target::Ours(at, path) => {
                let found = system.process.fstatat(at, &path, at_flags);
                to_stat(status_of_inode(found, path.is_empty())?)
            }
            Target::Host(path) => {
                let (directory, path, flags) = path.at(flags);
                host::fstatat(directory.get(), path, flags)?
            }
        };
        // SAFETY: as the caller promises.
        unsafe { uaccess::put(stat, described) }
    })
}

/// Returns the status of an inode. There is none of an eventfd and other anonymous files, which
/// `/proc/self/fd` and `O_PATH` show as a device without a number.
fn status_of_inode(
    found: Result<Stat, Errno>,
    is_of_descriptor: bool,
) -> Result<Option<Stat>, Errno> {
    match found {
        Err(Errno::EOPNOTSUPP) if is_of_descriptor => Ok(None),
        Ok(stat) if stat.kind == FileKind::CharDevice && stat.rdev == 0 => Ok(None),
        found => found.map(Some),
    }
}

/// Returns the status of a path relative to a directory, with the birth time: `statx(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_statx(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    statx: *mut libc::statx,
) -> c_int {
    call(|system| {
        let of_ours = at_flags(flags & !libc::AT_STATX_SYNC_TYPE)?;
        let is_both = flags & libc::AT_STATX_SYNC_TYPE == libc::AT_STATX_SYNC_TYPE;
        if mask & libc::STATX__RESERVED.cast_unsigned() != 0 || is_both {
            return Err(Errno::EINVAL);
        }
        // SAFETY: as the caller promises.
        match unsafe { system.target(directory, path, LastLink::of(flags)) }? {
            Target::Ours(at, path) => {
                let found = system.process.fstatat(at, &path, of_ours);
                let found = status_of_inode(found, path.is_empty())?;
                // SAFETY: as the caller promises.
                unsafe { uaccess::put(statx, to_statx(found)) }
            }
            Target::Host(path) => {
                let (directory, path, flags) = path.at(flags);
                // SAFETY: the path is a C string; the rest as the caller promises.
                host::done(unsafe {
                    libc::statx(directory.get(), path.as_ptr(), flags, mask, statx)
                })
            }
        }
    })
}

/// Returns the status of the file system of a path: `statfs(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_statfs(path: *const c_char, statfs: *mut libc::statfs64) -> c_int {
    call(|system| {
        // SAFETY: as the caller promises.
        let described = match unsafe { system.target(AT_FDCWD, path, LastLink::Follow) }? {
            Target::Ours(at, path) => to_statfs(&system.process.statfs(at, path)?),
            Target::Host(path) => {
                // SAFETY: the path is a C string, and the call stores such a struct.
                unsafe { host::stored(|statfs| libc::statfs64(path.as_ptr(), statfs)) }?
            }
        };
        // SAFETY: as the caller promises.
        unsafe { uaccess::put(statfs, described) }
    })
}

/// Returns the status of the file system of an open file: `fstatfs(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_fstatfs(fd: c_int, statfs: *mut libc::statfs64) -> c_int {
    call(|system| {
        let file = system.file(fd)?;
        let described = match HostFile::with_inode_below(&**file) {
            Some(host_file) => {
                // SAFETY: the call stores such a struct.
                unsafe { host::stored(|statfs| libc::fstatfs64(host_file.fd().get(), statfs)) }?
            }
            None => to_statfs(&system.process.fstatfs(fd)?),
        };
        // SAFETY: as the caller promises.
        unsafe { uaccess::put(statfs, described) }
    })
}

impl System {
    /// Returns the status of an open file of either side.
    pub(crate) fn describe(&self, fd: c_int) -> Result<libc::stat, Errno> {
        let file = self.file(fd)?;
        match HostFile::with_inode_below(&**file) {
            Some(host_file) => host::fstat(host_file.fd().get()),
            None => Ok(to_stat(status_of_inode(file.stat(), true)?)),
        }
    }
}

/// Status of an anonymous file, but for its type: it has none.
const ANONYMOUS: Stat = Stat::new(FileKind::CharDevice, Mode::new(0o600), 0);

/// Converts a status, or that of an anonymous file, to the C struct.
fn to_stat(found: Option<Stat>) -> libc::stat {
    let stat = found.unwrap_or(ANONYMOUS);
    // SAFETY: all zeroes is a valid value of this struct of integers.
    let mut out: libc::stat = unsafe { mem::zeroed() };
    out.st_dev = stat.device;
    out.st_ino = stat.inode;
    out.st_mode = found.map_or(stat.mode.bits(), |stat| stat.mode_bits());
    out.st_nlink = stat.links.into();
    out.st_uid = stat.uid;
    out.st_gid = stat.gid;
    out.st_rdev = stat.rdev;
    out.st_size = stat.size.cast_signed();
    out.st_blksize = stat.block_size.into();
    out.st_blocks = stat.blocks.cast_signed();
    (out.st_atime, out.st_atime_nsec) = (stat.atime.seconds, stat.atime.nanos.into());
    (out.st_mtime, out.st_mtime_nsec) = (stat.mtime.seconds, stat.mtime.nanos.into());
    (out.st_ctime, out.st_ctime_nsec) = (stat.ctime.seconds, stat.ctime.nanos.into());
    out
}

fn to_statx(found: Option<Stat>) -> libc::statx {
    let stat = found.unwrap_or(ANONYMOUS);
    // SAFETY: all zeroes is a valid value of this struct of integers.
    let mut out: libc::statx = unsafe { mem::zeroed() };
    out.stx_mask = libc::STATX_BASIC_STATS | found.map_or(0, |_| libc::STATX_BTIME);
    out.stx_blksize = stat.block_size;
    out.stx_nlink = stat.links;
    out.stx_uid = stat.uid;
    out.stx_gid = stat.gid;
    out.stx_mode = found.map_or(stat.mode.bits(), |stat| stat.mode_bits()) as u16;
    out.stx_ino = stat.inode;
    out.stx_size = stat.size;
    out.stx_blocks = stat.blocks;
    (out.stx_dev_major, out.stx_dev_minor) = (libc::major(stat.device), libc::minor(stat.device));
    (out.stx_rdev_major, out.stx_rdev_minor) = (libc::major(stat.rdev), libc::minor(stat.rdev));
    out.stx_atime = to_statx_timestamp(stat.atime);
    out.stx_btime = to_statx_timestamp(stat.btime);
    out.stx_ctime = to_statx_timestamp(stat.ctime);
    out.stx_mtime = to_statx_timestamp(stat.mtime);
    out
}

fn to_statx_timestamp(time: Timestamp) -> libc::statx_timestamp {
    // SAFETY: all zeroes is a valid value of this struct of integers.
    let mut out: libc::statx_timestamp = unsafe { mem::zeroed() };
    out.tv_sec = time.seconds;
    out.tv_nsec = time.nanos;
    out
}

fn to_statfs(statfs: &StatFs) -> libc::statfs64 {
    // SAFETY: all zeroes is a valid value of this struct of integers.
    let mut out: libc::statfs64 = unsafe { mem::zeroed() };
    out.f_type = statfs.magic.cast_signed();
    out.f_bsize = statfs.block_size.into();
    out.f_frsize = statfs.block_size.into();
    out.f_blocks = statfs.blocks;
    out.f_bfree = statfs.free_blocks;
    out.f_bavail = statfs.free_blocks;
    out.f_files = statfs.inodes;
    out.f_ffree = statfs.free_inodes;
    // SAFETY: both are 64 bits, and every bit pattern is valid.
    out.f_fsid = unsafe { mem::transmute::<u64, libc::fsid_t>(statfs.id) };
    out.f_namelen = statfs.name_max.into();
    if statfs.is_read_only {
        out.f_flags = libc::ST_RDONLY.cast_signed();
    }
    out
}
