//! Calls that change which paths are ours: `mount` and `umount`.

use std::ffi::{c_char, c_int};

use crate::abi::call::call;
use crate::abi::mount_list::MountOptions;
use crate::abi::uaccess;

/// Mounts an empty in-memory file system at `path`. All paths below it lead there, whatever the
/// host has there. As on a `tmpfs`, its files take at most half of the host's memory, and every
/// user may make files in its root. Fails with `EBUSY` if there is a mount already, and with
/// `EINVAL` for the root.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_mount(path: *const c_char) -> c_int {
    call(|system| {
        // SAFETY: as the caller promises.
        let path = unsafe { uaccess::string(path) }?;
        system.mount(&system.mounter()?, path.to_bytes(), MountOptions::default())
    })
}

/// Unmounts and discards a file system: its paths are the host's again. Fails with `EINVAL` if
/// `path` is not a mount, and with `EBUSY` while a file in it is open or is the working directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_umount(path: *const c_char) -> c_int {
    call(|system| {
        // SAFETY: as the caller promises.
        let path = unsafe { uaccess::string(path) }?;
        system.unmount(path.to_bytes())
    })
}
