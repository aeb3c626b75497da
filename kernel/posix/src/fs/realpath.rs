//! `realpath`: a path without symbolic links, `.` and `..`.

use std::ffi::{CStr, CString, c_char};

use fdtable_vfs::{Errno, FileKind};

use crate::abi::call::call;
use crate::abi::links::LastLink;
use crate::abi::system::System;
use crate::abi::target::Target;
use crate::abi::uaccess;
use crate::host;

/// Maximum number of links in a path walk.
const MAXSYMLINKS: usize = 40;

/// Resolves a path to one without symbolic links: `realpath(3)`. The result is in `resolved` (4,096
/// bytes), or allocated with `malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_realpath(path: *const c_char, resolved: *mut c_char) -> *mut c_char {
    call(|system| {
        if path.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: as the caller promises.
        let found = match unsafe { system.target(libc::AT_FDCWD, path, LastLink::Follow) }? {
            Target::Host(path) => {
                // SAFETY: the path is a C string; the rest as the caller promises.
                return host::check_pointer(unsafe { libc::realpath(path.as_ptr(), resolved) });
            }
            Target::Ours(_, path) => system.resolve(&path)?,
        };
        let found = CString::new(found).map_err(|_| Errno::EINVAL)?;
        // SAFETY: as the caller promises.
        unsafe { put_path(resolved, &found) }
    })
}

/// Resolves a path to one without symbolic links, allocated with `malloc`:
/// `canonicalize_file_name(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_canonicalize_file_name(path: *const c_char) -> *mut c_char {
    // SAFETY: as the caller promises.
    unsafe { fdt_realpath(path, std::ptr::null_mut()) }
}

/// Copies a path to the caller's buffer, or to memory from `malloc`.
///
/// # Safety
/// If `to` can be an address, there is room for 4,096 bytes.
unsafe fn put_path(to: *mut c_char, path: &CStr) -> Result<*mut c_char, Errno> {
    let bytes = path.to_bytes_with_nul();
    if bytes.len() > libc::PATH_MAX as usize {
        return Err(Errno::ENAMETOOLONG);
    }
    let place = if to.is_null() {
        host::allocate(bytes.len())?
    } else {
        to.cast()
    };
    // SAFETY: as the caller promises, or allocated above.
    unsafe { uaccess::bytes_mut(place, bytes.len()) }?.copy_from_slice(bytes);
    Ok(place.cast())
}

impl System {
    /// Walks a path of our side, name by name.
    fn resolve(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        let mut reached = if path[0] == b'/' {
            Vec::new()
        } else {
            self.process.getcwd()?
        };
        if reached == b"/" {
            reached.clear();
        }
        let mut left: Vec<Vec<u8>> = names(path);
        let mut links = 0;
        while let Some(name) = left.pop() {
            if name == b"." || name == b".." {
                self.only_directory(&reached)?;
            }
            if name == b"." {
                continue;
            }
            if name == b".." {
                reached.truncate(reached.iter().rposition(|&byte| byte == b'/').unwrap_or(0));
                continue;
            }
            let next = [reached.as_slice(), b"/", name.as_slice()].concat();
            if self.lstat(&next)?.kind != FileKind::Symlink {
                reached = next;
                continue;
            }
            links += 1;
            if links > MAXSYMLINKS {
                return Err(Errno::ELOOP);
            }
            let leads_to = self.process.readlinkat(libc::AT_FDCWD, &next)?;
            if leads_to.first() == Some(&b'/') {
                reached.clear();
            }
            if leads_to.ends_with(b"/") {
                left.push(b".".to_vec());
            }
            left.extend(names(&leads_to));
        }
        if path.ends_with(b"/") {
            self.only_directory(&reached)?;
        }
        if reached.is_empty() {
            reached.push(b'/');
        }
        Ok(reached)
    }

    /// Checks that what a walk has reached is a directory; the empty path is the root.
    fn only_directory(&self, reached: &[u8]) -> Result<(), Errno> {
        if !reached.is_empty() && self.lstat(reached)?.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        Ok(())
    }
}

/// Returns the names of a path, last one first.
fn names(path: &[u8]) -> Vec<Vec<u8>> {
    path.rsplit(|&byte| byte == b'/')
        .filter(|name| !name.is_empty())
        .map(<[u8]>::to_vec)
        .collect()
}
