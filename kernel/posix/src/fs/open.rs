//! Calls that open a path.

use std::ffi::{CStr, c_char, c_int};

use fdtable::{Fd, FdFlags, Reservation, host_fork};
use fdtable_vfs::fs::ResolveFlags;
use fdtable_vfs::{Errno, OpenFlags, RcuObject};

use crate::abi::call::call;
use crate::abi::path::{HostPath, Target};
use crate::abi::pin::LastLink;
use crate::abi::system::System;
use crate::abi::uaccess;
use crate::host::file::HostFile;
use crate::host::{self, OpenHow};

/// Opens a path: `open(2)`. `mode` is the third argument in C, if the flags require one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_open(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_openat(libc::AT_FDCWD, path, flags, mode) }
}

/// Opens a path relative to a directory: `openat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_openat(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mode: libc::mode_t,
) -> c_int {
    call(|system| {
        // Before the path, as on the host.
        let both = libc::O_CREAT | libc::O_DIRECTORY;
        if flags & both == both && flags & libc::O_PATH == 0 {
            return Err(Errno::EINVAL);
        }
        let mut opening = Opening {
            system,
            flags,
            mode,
            reserved: None,
        };
        // SAFETY: as the caller promises.
        let target = unsafe {
            system.target_to_open(directory, path, flags, &mut |directory, path| {
                opening.reserve()?;
                host::open_without_links(directory, path, flags, mode)
            })
        }?;
        match target {
            Target::Host(path) => opening.finish(path),
            Target::Ours(at, path) => {
                drop(opening);
                system.open_ours(at, &path, flags, mode)
            }
        }
    })
}

/// Creates or truncates a file, and opens it for writing: `creat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_creat(path: *const c_char, mode: libc::mode_t) -> c_int {
    let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
    // SAFETY: as the caller promises.
    unsafe { fdt_openat(libc::AT_FDCWD, path, flags, mode) }
}

/// Opens a path by a struct: `openat2(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_openat2(
    directory: c_int,
    path: *const c_char,
    how: *const libc::open_how,
    size: usize,
) -> c_int {
    call(|system| {
        // SAFETY: as the caller promises.
        let how = unsafe { argument(how.cast(), size) }?;
        let flags = how.flags as c_int;
        let resolve = ResolveFlags::from_bits_retain(how.resolve);
        let mut is_absolute = false;
        let target = match how.resolve {
            // SAFETY: as the caller promises.
            0 => unsafe {
                system.target_to_open(directory, path, flags, &mut |directory, path| {
                    let resolve = libc::RESOLVE_NO_SYMLINKS;
                    let _out = host_fork::blocking_section();
                    host::openat2_inside(directory, path, OpenHow { resolve, ..how })
                })
            },
            _ => {
                // SAFETY: as the caller promises.
                let mut path = unsafe { uaccess::string(path) }?;
                if resolve.contains(ResolveFlags::IN_ROOT) {
                    path = below_root(path);
                }
                is_absolute = path.to_bytes().starts_with(b"/");
                if is_absolute && resolve.contains(ResolveFlags::BENEATH) {
                    check(how)?;
                    return Err(Errno::EXDEV);
                }
                system.target_of(directory, path, LastLink::of_open(flags))
            }
        };
        match target? {
            Target::Host(path) => {
                let opened = path.into_result().or_else(|path| {
                    let name = match how.resolve {
                        0 => path.path(),
                        // The way to a file is restricted for the path as it was given.
                        _ => path.as_given(),
                    };
                    // It leads through the link of a descriptor.
                    if is_absolute && !name.to_bytes().starts_with(b"/") {
                        return Err(Errno::ELOOP);
                    }
                    host::openat2_inside(path.directory().get(), name, how)
                })?;
                system.adopt_new(opened.into_raw(), flags & libc::O_CLOEXEC)
            }
            Target::Ours(at, path) => {
                check(how)?;
                let mode = how.mode as libc::mode_t;
                if resolve.difference(ResolveFlags::CACHED).is_empty() {
                    return system.open_ours(at, &path, flags, mode);
                }
                // A link of the host has led out of the directory.
                if resolve.contains(ResolveFlags::IN_ROOT) && path.starts_with(b"/") {
                    return Err(Errno::EXDEV);
                }
                let flags = OpenFlags::from_bits_truncate(flags.cast_unsigned());
                let flags = flags | OpenFlags::LARGEFILE;
                system.process.openat2(at, &path, flags, mode, resolve)
            }
        }
    })
}

/// Returns the same path, relative to a directory that is the root.
fn below_root(path: &CStr) -> &CStr {
    let slashes = path.to_bytes().iter().take_while(|&&byte| byte == b'/');
    match slashes.count() {
        0 => path,
        count if count == path.count_bytes() => c".",
        count => CStr::from_bytes_with_nul(&path.to_bytes_with_nul()[count..]).unwrap_or(path),
    }
}

/// Checks the argument of `openat2` as the host does.
///
/// # Errors
/// `EINVAL`.
fn check(how: OpenHow) -> Result<(), Errno> {
    const SCOPES: u64 = libc::RESOLVE_BENEATH | libc::RESOLVE_IN_ROOT;
    const OF_PATH: c_int = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let (flags, makes) = (
        how.flags as c_int,
        libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY),
    );
    let is_known = how.flags & !(host::OPEN_FLAGS as u64) == 0
        && ResolveFlags::from_bits(how.resolve).is_some();
    let is_valid = is_known
        && (flags & libc::O_PATH == 0 || flags & !OF_PATH == 0)
        && how.resolve & SCOPES != SCOPES
        && how.mode <= 0o7777
        && (how.mode == 0 || flags & makes != 0);
    match is_valid {
        true => Ok(()),
        false => Err(Errno::EINVAL),
    }
}

/// Reads the argument of `openat2`. A longer struct must have zeroes at its end.
///
/// # Errors
/// `EINVAL` if it is too short; `E2BIG` if it has more; `EFAULT`.
///
/// # Safety
/// If `at` can be an address, `size` bytes are there.
unsafe fn argument(at: *const OpenHow, size: usize) -> Result<OpenHow, Errno> {
    const PAGE: usize = 4096;
    if size < size_of::<OpenHow>() {
        return Err(Errno::EINVAL);
    }
    if size > PAGE {
        return Err(Errno::from_raw(libc::E2BIG));
    }
    // SAFETY: as the caller promises.
    let more = unsafe { uaccess::bytes(at.cast(), size) }?;
    if more[size_of::<OpenHow>()..].iter().any(|&byte| byte != 0) {
        return Err(Errno::from_raw(libc::E2BIG));
    }
    // SAFETY: as the caller promises.
    unsafe { uaccess::get(at) }
}

/// An open on the host. The descriptor is reserved before the file is created.
struct Opening<'s> {
    system: &'s System,
    flags: c_int,
    mode: libc::mode_t,
    reserved: Option<Reservation<'s, RcuObject>>,
}

impl Opening<'_> {
    /// Reserves the descriptor, unless the process takes any: then no lower one can be missed.
    fn reserve(&mut self) -> Result<(), Errno> {
        if self.reserved.is_none() && !self.system.process.takes_any_descriptor() {
            self.reserved = Some(self.system.process.files().reserve(self.descriptor())?);
        }
        Ok(())
    }

    /// Opens a path, unless the lookup has done so, and gives the file a descriptor.
    fn finish(mut self, path: HostPath<'_>) -> Result<Fd, Errno> {
        self.reserve()?;
        let opened = path.into_result().or_else(|path| {
            host::openat(path.directory().get(), path.path(), self.flags, self.mode)
        })?;
        let file = HostFile::own(opened)?;
        match self.reserved {
            Some(reserved) => Ok(reserved.install(file)),
            None => {
                let files = self.system.process.files();
                Ok(files.open_any(file, self.descriptor())?)
            }
        }
    }

    fn descriptor(&self) -> FdFlags {
        OpenFlags::from_bits_retain(self.flags.cast_unsigned()).descriptor()
    }
}

impl System {
    /// Opens a path of our side.
    pub(crate) fn open_ours(
        &self,
        directory: c_int,
        path: &[u8],
        flags: c_int,
        mode: libc::mode_t,
    ) -> Result<Fd, Errno> {
        // Like the host, ignore unknown flags, and let every file be large.
        let flags = OpenFlags::from_bits_truncate(flags.cast_unsigned());
        let flags = flags | OpenFlags::LARGEFILE;
        if self.process.takes_any_descriptor() {
            let file = self.process.open_file(directory, path, flags, mode)?;
            let files = self.process.files();
            return Ok(files.open_any(file, flags.descriptor())?);
        }
        self.process.openat(directory, path, flags, mode)
    }
}
