//! The working directory, and reads of directories by descriptor.

use std::ffi::{c_char, c_int, c_void};

use fdtable_vfs::{DirEntry, Errno, FileKind, Stat};
use libc::{AT_FDCWD, ssize_t};

use crate::abi::call::call;
use crate::abi::path::Target;
use crate::abi::pin::LastLink;
use crate::abi::routing::{Links, Side};
use crate::abi::uaccess;
use crate::host;
use crate::host::file::HostFile;

/// Changes the working directory: `chdir(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_chdir(path: *const c_char) -> c_int {
    call(|system| {
        // SAFETY: as the caller promises.
        match unsafe { system.target(AT_FDCWD, path, LastLink::Follow) }? {
            Target::Ours(_, path) => {
                system.change_directory(Side::Ours, || system.process.chdir(path))
            }
            Target::Host(path) if system.routes.load().links() == Links::Cross => {
                system.enter(host::open_directory(path.directory().get(), path.path())?)
            }
            Target::Host(path) => {
                // SAFETY: the path is a C string.
                let change = || host::done(unsafe { libc::chdir(path.as_ptr()) });
                system.change_directory(Side::Host, change)
            }
        }
    })
}

/// Changes the working directory to an open directory: `fchdir(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_fchdir(fd: c_int) -> c_int {
    call(|system| {
        let file = system.file(fd)?;
        match HostFile::below(&**file) {
            None => system.change_directory(Side::Ours, || system.process.fchdir(fd)),
            // A lock on the directory does not last until the next change.
            Some(host_file) if system.routes.load().links() == Links::Cross => {
                system.enter(host::open_directory(host_file.fd().get(), c".")?)
            }
            Some(host_file) => {
                // SAFETY: the call takes no pointer.
                let change = || host::done(unsafe { libc::fchdir(host_file.fd().get()) });
                system.change_directory(Side::Host, change)
            }
        }
    })
}

/// Stores the path of the working directory, and returns its length with the null: `getcwd(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_getcwd(buf: *mut c_char, size: usize) -> ssize_t {
    call(|system| {
        if system.routes.load().side() == Side::Host {
            // SAFETY: as the caller promises.
            return host::check(unsafe { libc::syscall(libc::SYS_getcwd, buf, size) })
                .map(|length| length as usize);
        }
        let mut path = system.process.getcwd()?;
        path.push(0);
        if size < path.len() {
            return Err(Errno::ERANGE);
        }
        // SAFETY: as the caller promises.
        unsafe { uaccess::bytes_mut(buf.cast(), path.len()) }?.copy_from_slice(&path);
        Ok(path.len())
    })
}

/// Reads directory entries: `getdents64(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_getdents64(fd: c_int, buf: *mut c_void, size: usize) -> ssize_t {
    call(|system| {
        let file = system.opened_file(fd)?;
        if let Some(host_file) = HostFile::below(&**file) {
            // SAFETY: as the caller promises.
            return host::check(unsafe {
                libc::syscall(libc::SYS_getdents64, host_file.fd().get(), buf, size)
            })
            .map(|count| count as usize);
        }
        let is_directory = |stat: Stat| stat.kind == FileKind::Directory;
        if !file.stat().is_ok_and(is_directory) {
            return Err(Errno::ENOTDIR);
        }
        // In the host's kernel the size is an `int`.
        let size = usize::try_from(size as c_int).map_err(|_| Errno::EINVAL)?;
        // SAFETY: as the caller promises.
        let room = unsafe { uaccess::writable_prefix(buf, size) };
        let entries = match system.process.read_dir_sized(fd, room, record_length) {
            // The first entry ends in memory that cannot be written.
            Err(Errno::EINVAL) if room < size => return Err(Errno::EFAULT),
            entries => entries?,
        };
        // SAFETY: as the caller promises.
        let buf = unsafe { uaccess::bytes_mut(buf, room) }?;
        let mut filled = 0;
        for entry in &entries {
            filled += write_record(&mut buf[filled..], entry);
        }
        Ok(filled)
    })
}

/// Bytes of a record before the name: inode, offset, length, type.
const DIRENT_HEADER: usize = 19;

/// Returns the length of an entry's record: with the terminating null, in whole words.
fn record_length(entry: &DirEntry) -> usize {
    (DIRENT_HEADER + entry.name.len() + 1).next_multiple_of(8)
}

/// Writes a record (`struct linux_dirent64`), and returns its length.
fn write_record(out: &mut [u8], entry: &DirEntry) -> usize {
    let length = record_length(entry);
    let record = &mut out[..length];
    record.fill(0);
    record[..8].copy_from_slice(&entry.inode.to_ne_bytes());
    record[8..16].copy_from_slice(&entry.next().to_ne_bytes());
    record[16..18].copy_from_slice(&(length as u16).to_ne_bytes());
    record[18] = entry.kind.dirent_type();
    record[DIRENT_HEADER..DIRENT_HEADER + entry.name.len()].copy_from_slice(&entry.name);
    length
}
