//! Who the process is: the permissions of our files are for the effective user and group of the host.
//!
//! The host changes them, and our process follows.

use std::ffi::c_int;

use libc::{gid_t, uid_t};

use crate::abi::call::call;
use crate::host;

/// Sets the user: `setuid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setuid(user: uid_t) -> c_int {
    // SAFETY: it touches no memory.
    follow(|| unsafe { libc::setuid(user) })
}

/// Sets the group: `setgid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setgid(group: gid_t) -> c_int {
    // SAFETY: it touches no memory.
    follow(|| unsafe { libc::setgid(group) })
}

/// Sets the effective user: `seteuid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_seteuid(user: uid_t) -> c_int {
    // SAFETY: it touches no memory.
    follow(|| unsafe { libc::seteuid(user) })
}

/// Sets the effective group: `setegid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setegid(group: gid_t) -> c_int {
    // SAFETY: it touches no memory.
    follow(|| unsafe { libc::setegid(group) })
}

/// Sets the real and the effective user: `setreuid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setreuid(real: uid_t, effective: uid_t) -> c_int {
    // SAFETY: it touches no memory.
    follow(|| unsafe { libc::setreuid(real, effective) })
}

/// Sets the real and the effective group: `setregid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setregid(real: gid_t, effective: gid_t) -> c_int {
    // SAFETY: it touches no memory.
    follow(|| unsafe { libc::setregid(real, effective) })
}

/// Sets the real, the effective and the saved user: `setresuid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setresuid(real: uid_t, effective: uid_t, saved: uid_t) -> c_int {
    // SAFETY: it touches no memory.
    follow(|| unsafe { libc::setresuid(real, effective, saved) })
}

/// Sets the real, the effective and the saved group: `setresgid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setresgid(real: gid_t, effective: gid_t, saved: gid_t) -> c_int {
    // SAFETY: it touches no memory.
    follow(|| unsafe { libc::setresgid(real, effective, saved) })
}

/// Has the host change who the process is, and takes that over.
fn follow(change: impl FnOnce() -> c_int) -> c_int {
    call(|system| {
        host::done(change())?;
        let (user, group) = host::effective_ids();
        system.process.set_ids(user, group);
        Ok(0)
    })
}
