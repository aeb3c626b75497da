//! Limits: `getrlimit`, `setrlimit` and `prlimit` of descriptors and of file sizes, and
//! `sysconf(_SC_OPEN_MAX)`. All other limits are the host's.

use std::ffi::c_int;
use std::ptr;

use fdtable_vfs::{Errno, Limit, Resource};

use crate::abi::call::call;
use crate::abi::system::System;
use crate::abi::uaccess;
use crate::host;

/// Returns a limit: `getrlimit(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_getrlimit(resource: c_int, limit: *mut libc::rlimit) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fdt_prlimit(0, resource, ptr::null(), limit) }
}

/// Sets a limit: `setrlimit(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_setrlimit(resource: c_int, limit: *const libc::rlimit) -> c_int {
    call(|system| {
        // SAFETY: as the caller promises.
        let new = unsafe { uaccess::get(limit) }?;
        system.limit(0, resource, Some(new)).map(drop)
    })
}

/// Returns a limit, and optionally sets it: `prlimit(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_prlimit(
    process: libc::pid_t,
    resource: c_int,
    new: *const libc::rlimit,
    old: *mut libc::rlimit,
) -> c_int {
    call(|system| {
        // SAFETY: as the caller promises.
        let new = unsafe { uaccess::get_if_any(new) }?;
        let before = system.limit(process, resource, new)?;
        if !old.is_null() || new.is_none() {
            // SAFETY: as the caller promises.
            unsafe { uaccess::put(old, before) }?;
        }
        Ok(())
    })
}

impl System {
    /// Sets a limit, if there is a new one, and returns the previous limit.
    fn limit(
        &self,
        process: libc::pid_t,
        resource: c_int,
        new: Option<libc::rlimit>,
    ) -> Result<libc::rlimit, Errno> {
        let ours = match resource.cast_unsigned() {
            libc::RLIMIT_NOFILE => Resource::NoFile,
            libc::RLIMIT_FSIZE => Resource::FileSize,
            _ => return host::prlimit(process, resource, new),
        };
        if process != 0 && process != host::process_id() {
            return host::prlimit(process, resource, new);
        }
        let before = self.process.getrlimit(ours);
        if let Some(new) = new {
            self.set_limit(ours, resource, &before, new)?;
        }
        Ok(libc::rlimit {
            rlim_cur: before.soft,
            rlim_max: before.hard,
        })
    }

    fn set_limit(
        &self,
        ours: Resource,
        resource: c_int,
        before: &Limit,
        new: libc::rlimit,
    ) -> Result<(), Errno> {
        let limit = Limit {
            soft: new.rlim_cur,
            hard: new.rlim_max,
        };
        if limit.hard > before.hard && limit.soft <= limit.hard {
            // The host decides whether the caller may. The new limit applies to the host's
            // descriptors too.
            host::prlimit(0, resource, Some(new))?;
        }
        self.process.setrlimit(ours, limit)?;
        if ours == Resource::FileSize {
            raise_size_limit_of_host(limit.soft);
        }
        Ok(())
    }
}

/// Raises the host's limit of the size of files. It also applies to the memory of files that are
/// mapped, so it is never below the size of one.
fn raise_size_limit_of_host(soft: u64) {
    let Ok(limit) = host::limit(libc::RLIMIT_FSIZE) else {
        return;
    };
    if soft > limit.rlim_cur {
        let rlim_cur = soft.min(limit.rlim_max);
        // It cannot fail: the hard limit stays.
        let _ = host::prlimit(
            0,
            libc::RLIMIT_FSIZE as c_int,
            Some(libc::rlimit { rlim_cur, ..limit }),
        );
    }
}
