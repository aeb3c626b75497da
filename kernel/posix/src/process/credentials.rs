//! Credentials: permission checks of our files use the user, group and capabilities that the host
//! uses for its files.
//!
//! The host changes them, and our process copies those of the calling thread. So the host's rules
//! apply, for example when a change of the user clears capabilities. All threads have the same
//! credentials here, also after a call that changes those of one thread on the host (`capset`,
//! `setfsuid`).

use std::ffi::{c_int, c_long, c_void};

use fdtable_vfs::Errno;
use libc::{gid_t, uid_t};

use crate::abi::boot::system;
use crate::abi::call::call;
use crate::abi::routing::Links;
use crate::abi::system::System;
use crate::host::watch::without_threads;
use crate::host::{self, copy_credentials, direct};

/// Sets the user IDs: `setuid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setuid(user: uid_t) -> c_int {
    // SAFETY: the call takes no pointer.
    follow_call(libc::SYS_setuid, [user, 0, 0], || unsafe {
        libc::setuid(user)
    })
}

/// Sets the group IDs: `setgid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setgid(group: gid_t) -> c_int {
    // SAFETY: the call takes no pointer.
    follow_call(libc::SYS_setgid, [group, 0, 0], || unsafe {
        libc::setgid(group)
    })
}

/// Sets the real and the effective user ID: `setreuid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setreuid(real: uid_t, effective: uid_t) -> c_int {
    // SAFETY: the call takes no pointer.
    follow_call(libc::SYS_setreuid, [real, effective, 0], || unsafe {
        libc::setreuid(real, effective)
    })
}

/// Sets the real and the effective group ID: `setregid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setregid(real: gid_t, effective: gid_t) -> c_int {
    // SAFETY: the call takes no pointer.
    follow_call(libc::SYS_setregid, [real, effective, 0], || unsafe {
        libc::setregid(real, effective)
    })
}

/// Sets the real, the effective and the saved user ID: `setresuid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setresuid(real: uid_t, effective: uid_t, saved: uid_t) -> c_int {
    // SAFETY: the call takes no pointer.
    follow_call(libc::SYS_setresuid, [real, effective, saved], || unsafe {
        libc::setresuid(real, effective, saved)
    })
}

/// Sets the real, the effective and the saved group ID: `setresgid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setresgid(real: gid_t, effective: gid_t, saved: gid_t) -> c_int {
    // SAFETY: the call takes no pointer.
    follow_call(libc::SYS_setresgid, [real, effective, saved], || unsafe {
        libc::setresgid(real, effective, saved)
    })
}

/// Sets the user ID that permissions of files are checked for, and returns the one before:
/// `setfsuid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setfsuid(user: uid_t) -> c_int {
    // SAFETY: the call takes no pointer.
    follow_thread(|| unsafe { libc::setfsuid(user) })
}

/// Sets the group ID that permissions of files are checked for, and returns the one before:
/// `setfsgid(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_setfsgid(group: gid_t) -> c_int {
    // SAFETY: the call takes no pointer.
    follow_thread(|| unsafe { libc::setfsgid(group) })
}

/// Sets the capabilities of the calling thread: `capset(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_capset(header: *mut c_void, data: *const c_void) -> c_int {
    // SAFETY: as the caller promises; the host checks both pointers.
    follow(|| unsafe { libc::syscall(libc::SYS_capset, header, data) as c_int })
}

/// Operations of `prctl` that change the credentials of the calling thread.
const CHANGES_CREDENTIALS: [c_long; 5] = [
    libc::PR_SET_KEEPCAPS as c_long,
    libc::PR_SET_SECUREBITS as c_long,
    libc::PR_CAPBSET_DROP as c_long,
    libc::PR_CAP_AMBIENT as c_long,
    libc::PR_SET_NO_NEW_PRIVS as c_long,
];

/// Makes a call of the host's `prctl(2)`, which may change how capabilities are used.
///
/// # Safety
/// The arguments are those that the call expects.
pub(crate) unsafe fn prctl(a: [c_long; 6]) -> Result<c_long, Errno> {
    // SAFETY: as the caller promises.
    let make = || unsafe { host::syscall(libc::SYS_prctl, a) };
    match CHANGES_CREDENTIALS.contains(&a[0]) {
        true => copied(|| without_threads(make)),
        false => make(),
    }
}

/// Changes the host's credentials, and ours with them, while no thread of this library exists.
fn follow(change: impl FnOnce() -> c_int) -> c_int {
    // errno is read before threads are started again.
    call(|_| copied(|| without_threads(|| host::check(change()))))
}

/// Changes credentials like [`follow`]: under a runner of programs by the call itself, otherwise by
/// the C library, which changes those of all threads. The C library of a program does that too, so
/// each thread of the program makes the call, and the signals for it are the program's.
fn follow_call(number: c_long, a: [u32; 3], by_library: impl FnOnce() -> c_int) -> c_int {
    if !direct::is_set() {
        return follow(by_library);
    }
    let [a, b, c] = a;
    // SAFETY: the call takes no pointer.
    follow(|| unsafe { libc::syscall(number, a, b, c) as c_int })
}

/// Changes credentials like [`follow`], of the calling thread alone. They have no effect on later
/// changes, so it does not matter that the threads of this library keep theirs.
fn follow_thread(change: impl FnOnce() -> c_int) -> c_int {
    call(|_| copied(|| host::check(change())))
}

impl System {
    /// Runs a lookup before a call that judges the way to a file by the real user: `access`. Only
    /// where links cross, a path is looked up before its call.
    pub(crate) fn as_real_user<R>(&self, lookup: impl FnOnce() -> R) -> R {
        let process = &self.process;
        let is_same = process.credentials() == process.real_credentials();
        match self.routes.load().links() {
            Links::Cross if !is_same => host::with_rights_of_access(lookup),
            _ => lookup(),
        }
    }
}

/// Changes the host's credentials, and copies them to our process.
pub(crate) fn copied<R>(change: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
    let result = change()?;
    copy_credentials(system().process);
    Ok(result)
}
