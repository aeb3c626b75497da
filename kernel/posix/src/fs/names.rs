//! Calls that create, rename and remove names.
//!
//! A name stays on its side: a rename or link between the two sides fails with `EXDEV`, as between
//! two file systems of the host.

use std::ffi::{CString, c_char, c_int, c_uint};

use fdtable_vfs::{AtFlags, Errno, FileKind, RenameFlags, UnlinkFlags};
use libc::{AT_FDCWD, mode_t, ssize_t};

use crate::abi::call::call;
use crate::abi::path::Target;
use crate::abi::pin::{LastLink, above_and_end};
use crate::abi::system::System;
use crate::abi::uaccess;
use crate::host;

/// Creates a directory: `mkdir(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_mkdir(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_mkdirat(AT_FDCWD, path, mode) }
}

/// Creates a directory relative to another: `mkdirat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_mkdirat(directory: c_int, path: *const c_char, mode: mode_t) -> c_int {
    call(|system| {
        // SAFETY: as the caller promises.
        match unsafe { system.target(directory, path, LastLink::Parent) }? {
            Target::Ours(at, path) => system.process.mkdirat(at, path, mode),
            Target::Host(path) => {
                // SAFETY: the path is a C string.
                host::done(unsafe { libc::mkdirat(path.directory().get(), path.as_ptr(), mode) })
            }
        }
    })
}

/// Creates a file or a FIFO: `mknod(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_mknod(
    path: *const c_char,
    mode: mode_t,
    device: libc::dev_t,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_mknodat(AT_FDCWD, path, mode, device) }
}

/// Creates a file or a FIFO relative to a directory: `mknodat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_mknodat(
    directory: c_int,
    path: *const c_char,
    mode: mode_t,
    device: libc::dev_t,
) -> c_int {
    call(|system| {
        let kind = kind(mode)?;
        // SAFETY: as the caller promises.
        match unsafe { system.target(directory, path, LastLink::Parent) }? {
            Target::Ours(at, path) => system.process.mknodat(at, path, kind, mode),
            Target::Host(path) => {
                let (directory, path) = (path.directory(), path.as_ptr());
                // SAFETY: the path is a C string.
                host::done(unsafe { libc::mknodat(directory.get(), path, mode, device) })
            }
        }
    })
}

fn kind(mode: mode_t) -> Result<FileKind, Errno> {
    match mode & libc::S_IFMT {
        0 | libc::S_IFREG => Ok(FileKind::Regular),
        libc::S_IFIFO => Ok(FileKind::Fifo),
        libc::S_IFSOCK => Ok(FileKind::Socket),
        libc::S_IFCHR => Ok(FileKind::CharDevice),
        libc::S_IFBLK => Ok(FileKind::BlockDevice),
        libc::S_IFDIR => Err(Errno::EPERM),
        _ => Err(Errno::EINVAL),
    }
}

/// Removes a name of a file: `unlink(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_unlink(path: *const c_char) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_unlinkat(AT_FDCWD, path, 0) }
}

/// Removes an empty directory: `rmdir(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_rmdir(path: *const c_char) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_unlinkat(AT_FDCWD, path, libc::AT_REMOVEDIR) }
}

/// Removes a name relative to a directory: `unlinkat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_unlinkat(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
) -> c_int {
    call(|system| {
        let what = UnlinkFlags::from_bits(flags.cast_unsigned()).ok_or(Errno::EINVAL)?;
        // SAFETY: as the caller promises.
        match unsafe { system.target(directory, path, LastLink::Parent) }? {
            Target::Ours(at, path) => system.process.unlinkat(at, path, what),
            Target::Host(path) => {
                // SAFETY: the path is a C string.
                host::done(unsafe { libc::unlinkat(path.directory().get(), path.as_ptr(), flags) })
            }
        }
    })
}

/// Renames a file: `rename(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_rename(old: *const c_char, new: *const c_char) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_renameat2(AT_FDCWD, old, AT_FDCWD, new, 0) }
}

/// Renames a file, with paths relative to directories: `renameat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_renameat(
    old_directory: c_int,
    old: *const c_char,
    new_directory: c_int,
    new: *const c_char,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_renameat2(old_directory, old, new_directory, new, 0) }
}

/// Renames a file, with flags: `renameat2(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_renameat2(
    old_directory: c_int,
    old: *const c_char,
    new_directory: c_int,
    new: *const c_char,
    flags: c_uint,
) -> c_int {
    call(|system| {
        // SAFETY: as the caller promises.
        let old = unsafe { system.target(old_directory, old, LastLink::Parent) }?;
        // SAFETY: as the caller promises.
        let new = match unsafe { system.target(new_directory, new, LastLink::Parent) } {
            Err(errno) => return Err(system.error_of_parent(&old, errno)),
            Ok(new) => new,
        };
        match (&old, &new) {
            (Target::Ours(old_at, old), Target::Ours(new_at, new)) => {
                let flags = RenameFlags::from_bits(flags).ok_or(Errno::EINVAL)?;
                let process = &system.process;
                process.renameat2(*old_at, old, *new_at, new, flags)
            }
            (Target::Host(old), Target::Host(new)) => {
                if system.is_above_overlay(old)? || system.is_above_overlay(new)? {
                    return Err(Errno::EBUSY);
                }
                let (old_at, new_at) = (old.directory(), new.directory());
                let (old_at, new_at) = (old_at.get(), new_at.get());
                let (old, new) = (old.as_ptr(), new.as_ptr());
                // SAFETY: the paths are C strings.
                host::done(unsafe { libc::renameat2(old_at, old, new_at, new, flags) })
            }
            _ => {
                // The two flags exclude each other.
                let known = RenameFlags::from_bits(flags).filter(|flags| !flags.is_all());
                known.ok_or(Errno::EINVAL)?;
                let errno = system.error_of_parent(&new, Errno::EXDEV);
                Err(system.error_of_parent(&old, errno))
            }
        }
    })
}

/// Creates a hard link: `link(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_link(old: *const c_char, new: *const c_char) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_linkat(AT_FDCWD, old, AT_FDCWD, new, 0) }
}

/// Creates a hard link, with paths relative to directories: `linkat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_linkat(
    old_directory: c_int,
    old: *const c_char,
    new_directory: c_int,
    new: *const c_char,
    flags: c_int,
) -> c_int {
    call(|system| {
        let last = match flags & libc::AT_SYMLINK_FOLLOW {
            0 => LastLink::Keep,
            _ => LastLink::Follow,
        };
        // SAFETY: as the caller promises.
        let old = unsafe { system.target(old_directory, old, last) }?;
        // SAFETY: as the caller promises.
        let new = match unsafe { system.target(new_directory, new, LastLink::Parent) } {
            Err(errno) => return Err(system.error_of_linked(&old, flags, errno)),
            Ok(new) => new,
        };
        match (&old, &new) {
            (Target::Ours(old_at, old), Target::Ours(new_at, new)) => {
                let flags = AtFlags::from_bits(flags.cast_unsigned()).ok_or(Errno::EINVAL)?;
                system.process.linkat(*old_at, old, *new_at, new, flags)
            }
            (Target::Host(old), Target::Host(new)) => {
                let (old_at, new_at) = (old.directory(), new.directory());
                let (old_at, new_at) = (old_at.get(), new_at.get());
                let (old, new) = (old.as_ptr(), new.as_ptr());
                // SAFETY: the paths are C strings.
                host::done(unsafe { libc::linkat(old_at, old, new_at, new, flags) })
            }
            _ => {
                let errno = match system.error_of_linked(&new, 0, Errno::EEXIST) {
                    Errno::ENOENT => system.error_of_parent(&new, Errno::EXDEV),
                    errno => errno,
                };
                Err(system.error_of_linked(&old, flags, errno))
            }
        }
    })
}

impl System {
    /// Returns the error of a lookup of the first path of a link, which comes before `errno`, that
    /// of the second one or of both.
    #[cold]
    fn error_of_linked(&self, old: &Target<'_>, flags: c_int, errno: Errno) -> Errno {
        let follow = flags & libc::AT_SYMLINK_FOLLOW != 0;
        let mut found = AtFlags::from_bits_truncate(flags.cast_unsigned()) & AtFlags::EMPTY_PATH;
        found.set(AtFlags::SYMLINK_NOFOLLOW, !follow);
        let (looked_up, is_empty) = match old {
            Target::Ours(at, path) => {
                let looked_up = self.process.fstatat(*at, path, found).map(drop);
                (looked_up, path.is_empty())
            }
            Target::Host(path) => {
                let (directory, path, flags) = path.at(found.bits().cast_signed());
                let looked_up = host::fstatat(directory.get(), path, flags).map(drop);
                (looked_up, path.is_empty())
            }
        };
        match old.error().map_or(looked_up, Err) {
            // The file of the descriptor has no inode, but is there.
            Err(Errno::EOPNOTSUPP) if is_empty => errno,
            looked_up => looked_up.err().unwrap_or(errno),
        }
    }

    /// Returns the error of a lookup of the directory of a path of a rename, which comes before
    /// `errno`.
    #[cold]
    fn error_of_parent(&self, path: &Target<'_>, errno: Errno) -> Errno {
        let bytes = match path {
            Target::Ours(_, path) => path,
            Target::Host(path) => path.path().to_bytes(),
        };
        if bytes.is_empty() {
            return Errno::ENOENT;
        }
        let parent = [above_and_end(bytes).0, b"."].concat();
        let found = match path {
            Target::Ours(at, _) => self.process.fstatat(*at, &parent, AtFlags::empty()).err(),
            Target::Host(path) => match CString::new(parent) {
                Ok(parent) => host::fstatat(path.directory().get(), &parent, 0).err(),
                Err(_) => None,
            },
        };
        path.error().or(found).unwrap_or(errno)
    }
}

/// Creates a symbolic link: `symlink(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_symlink(target: *const c_char, path: *const c_char) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_symlinkat(target, AT_FDCWD, path) }
}

/// Creates a symbolic link relative to a directory: `symlinkat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_symlinkat(
    target: *const c_char,
    directory: c_int,
    path: *const c_char,
) -> c_int {
    call(|system| {
        // SAFETY: as the caller promises.
        let leads_to = unsafe { uaccess::string(target) }?;
        // SAFETY: as the caller promises.
        match unsafe { system.target(directory, path, LastLink::Parent) }? {
            Target::Ours(at, path) => system.process.symlinkat(leads_to.to_bytes(), at, path),
            Target::Host(path) => {
                let (directory, path) = (path.directory(), path.as_ptr());
                // SAFETY: both are C strings.
                host::done(unsafe { libc::symlinkat(leads_to.as_ptr(), directory.get(), path) })
            }
        }
    })
}

/// Reads the target of a symbolic link: `readlink(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_readlink(
    path: *const c_char,
    buf: *mut c_char,
    size: usize,
) -> ssize_t {
    // SAFETY: as the caller promises.
    unsafe { fdt_readlinkat(AT_FDCWD, path, buf, size) }
}

/// Reads the target of a symbolic link relative to a directory: `readlinkat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_readlinkat(
    directory: c_int,
    path: *const c_char,
    buf: *mut c_char,
    size: usize,
) -> ssize_t {
    call(|system| {
        // In the host's kernel the size is an `int`.
        if size == 0 || c_int::try_from(size).is_err() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: as the caller promises.
        let text = unsafe { uaccess::string(path) }?;
        let leads_to = match system.own_link(text.to_bytes())? {
            Some(leads_to) => leads_to,
            // SAFETY: as the caller promises.
            None => match unsafe { system.target(directory, path, LastLink::Keep) }? {
                Target::Ours(at, path) => system.process.readlinkat(at, path)?,
                Target::Host(path) => {
                    let (directory, path) = (path.directory(), path.as_ptr());
                    // SAFETY: the path is a C string; the rest as the caller promises.
                    let count = unsafe { libc::readlinkat(directory.get(), path, buf, size) };
                    return host::check(count).map(isize::cast_unsigned);
                }
            },
        };
        let count = leads_to.len().min(size);
        // SAFETY: as the caller promises.
        let buf = unsafe { uaccess::bytes_mut(buf.cast(), count) }?;
        buf.copy_from_slice(&leads_to[..count]);
        Ok(count)
    })
}
