//! `pathconf` and `fpathconf`: features and limits of a file system.

use std::ffi::{c_char, c_int, c_long};

use fdtable_vfs::Errno;

use crate::abi::call::call;
use crate::abi::links::LastLink;
use crate::abi::target::Target;
use crate::host;
use crate::host::file::HostFile;

/// Returns a configuration value of a path: `pathconf(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_pathconf(path: *const c_char, name: c_int) -> c_long {
    call(|system| {
        // SAFETY: as the caller promises.
        match unsafe { system.target(libc::AT_FDCWD, path, LastLink::Follow) }? {
            Target::Ours(at, path) => {
                system.process.statfs(at, path)?;
                value(name)
            }
            Target::Host(path) => {
                // SAFETY: the path is a C string.
                host::value(|| unsafe { libc::pathconf(path.as_ptr(), name) })
            }
        }
    })
}

/// Returns a configuration value of an open file: `fpathconf(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_fpathconf(fd: c_int, name: c_int) -> c_long {
    call(|system| {
        let file = system.file(fd)?;
        match HostFile::below(&**file) {
            Some(host_file) => {
                let used = host_file.fd();
                // SAFETY: the call takes no pointer.
                host::value(|| unsafe { libc::fpathconf(used.get(), name) })
            }
            None => value(name),
        }
    })
}

/// Returns a configuration value of our file systems.
fn value(name: c_int) -> Result<c_long, Errno> {
    Ok(match name {
        // Only memory limits the number of links. This is the value that glibc returns for unknown
        // file systems.
        libc::_PC_LINK_MAX => 127,
        libc::_PC_NAME_MAX => 255,
        libc::_PC_PATH_MAX | libc::_PC_PIPE_BUF => 4096,
        libc::_PC_MAX_CANON | libc::_PC_MAX_INPUT => 255,
        libc::_PC_CHOWN_RESTRICTED | libc::_PC_NO_TRUNC | libc::_PC_2_SYMLINKS => 1,
        libc::_PC_VDISABLE => 0,
        libc::_PC_FILESIZEBITS => 64,
        libc::_PC_REC_XFER_ALIGN | libc::_PC_REC_MIN_XFER_SIZE | libc::_PC_ALLOC_SIZE_MIN => 4096,
        // Unlimited, or not supported.
        libc::_PC_SYNC_IO
        | libc::_PC_ASYNC_IO
        | libc::_PC_PRIO_IO
        | libc::_PC_SOCK_MAXBUF
        | libc::_PC_REC_INCR_XFER_SIZE
        | libc::_PC_REC_MAX_XFER_SIZE
        | libc::_PC_SYMLINK_MAX => -1,
        _ => return Err(Errno::EINVAL),
    })
}
