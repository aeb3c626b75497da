//! Credentials: permission checks of our files use the host's effective user and group, and
//! `access` uses the real ones.
//!
//! The host changes them, and our process copies them.

use std::ffi::c_int;

use fdtable_vfs::Process;
use libc::{gid_t, uid_t};

use crate::abi::call::call;
use crate::host;

/// Sets the user IDs: `setuid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setuid(user: uid_t) -> c_int {
    // SAFETY: the call takes no pointer.
    follow(|| unsafe { libc::setuid(user) })
}

/// Sets the group IDs: `setgid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setgid(group: gid_t) -> c_int {
    // SAFETY: the call takes no pointer.
    follow(|| unsafe { libc::setgid(group) })
}

/// Sets the effective user ID: `seteuid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_seteuid(user: uid_t) -> c_int {
    // SAFETY: the call takes no pointer.
    follow(|| unsafe { libc::seteuid(user) })
}

/// Sets the effective group ID: `setegid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setegid(group: gid_t) -> c_int {
    // SAFETY: the call takes no pointer.
    follow(|| unsafe { libc::setegid(group) })
}

/// Sets the real and the effective user ID: `setreuid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setreuid(real: uid_t, effective: uid_t) -> c_int {
    // SAFETY: the call takes no pointer.
    follow(|| unsafe { libc::setreuid(real, effective) })
}

/// Sets the real and the effective group ID: `setregid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setregid(real: gid_t, effective: gid_t) -> c_int {
    // SAFETY: the call takes no pointer.
    follow(|| unsafe { libc::setregid(real, effective) })
}

/// Sets the real, the effective and the saved user ID: `setresuid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setresuid(real: uid_t, effective: uid_t, saved: uid_t) -> c_int {
    // SAFETY: the call takes no pointer.
    follow(|| unsafe { libc::setresuid(real, effective, saved) })
}

/// Sets the real, the effective and the saved group ID: `setresgid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setresgid(real: gid_t, effective: gid_t, saved: gid_t) -> c_int {
    // SAFETY: the call takes no pointer.
    follow(|| unsafe { libc::setresgid(real, effective, saved) })
}

/// Changes the host's credentials, and copies them to our process.
fn follow(change: impl FnOnce() -> c_int) -> c_int {
    call(|system| {
        host::done(change())?;
        copy_ids(&system.process);
        Ok(0)
    })
}

/// Copies the host's credentials.
pub(crate) fn copy_ids(process: &Process) {
    let (user, group) = host::real_ids();
    process.set_ids(user, group);
    let (user, group) = host::effective_ids();
    process.set_effective_ids(user, group);
}
