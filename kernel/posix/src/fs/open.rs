//! Calls that open a path.

use std::ffi::{c_char, c_int};

use fdtable_vfs::{Errno, OpenFlags};

use crate::abi::call::call;
use crate::abi::links::LastLink;
use crate::abi::system::System;
use crate::abi::target::{HostPath, Target};
use crate::host;
use crate::host::file::HostFile;

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
        // SAFETY: as the caller promises.
        let target = unsafe { system.target(directory, path, LastLink::of_open(flags)) }?;
        system.open(&target, flags, mode)
    })
}

/// Creates or truncates a file, and opens it for writing: `creat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_creat(path: *const c_char, mode: libc::mode_t) -> c_int {
    let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
    // SAFETY: as the caller promises.
    unsafe { fdt_openat(libc::AT_FDCWD, path, flags, mode) }
}

impl System {
    /// Opens a path on its side.
    pub(crate) fn open(
        &self,
        target: &Target<'_>,
        flags: c_int,
        mode: libc::mode_t,
    ) -> Result<c_int, Errno> {
        match target {
            Target::Ours(at, path) => {
                // Like the host, ignore unknown flags, and let every file be large.
                let flags = OpenFlags::from_bits_truncate(flags.cast_unsigned());
                let flags = flags | OpenFlags::LARGEFILE;
                if self.process.takes_any_descriptor() {
                    let file = self.process.open_file(*at, path, flags, mode)?;
                    return Ok(self
                        .process
                        .files()
                        .open_any(file, flags.descriptor())?
                        .raw());
                }
                Ok(self.process.openat(*at, path, flags, mode)?.raw())
            }
            Target::Host(path) => self.open_on_host(path, flags, mode),
        }
    }

    fn open_on_host(
        &self,
        path: &HostPath<'_>,
        flags: c_int,
        mode: libc::mode_t,
    ) -> Result<c_int, Errno> {
        let descriptor = OpenFlags::from_bits_retain(flags.cast_unsigned()).descriptor();
        let flags = flags | path.open_flags();
        if self.process.takes_any_descriptor() {
            let host_fd = host::openat(path.directory(), path.path(), flags, mode)?;
            let file = HostFile::own(host_fd)?;
            return Ok(self.process.files().open_any(file, descriptor)?.raw());
        }
        let reserved = self.process.files().reserve(descriptor)?;
        let host_fd = host::openat(path.directory(), path.path(), flags, mode)?;
        let file = HostFile::own(host_fd)?;
        Ok(reserved.install(file).raw())
    }
}
