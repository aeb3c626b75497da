//! Mounts: which paths are ours.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use fdtable_vfs::fs::{Credentials, FileSystem, Mode};
use fdtable_vfs::{At, AtFlags, CloneFlags, DevFs, Errno, MemFs, MemFsLimits, ProcFs, Process};

use crate::abi::call::call;
use crate::abi::system::System;
use crate::abi::{trace, uaccess};
use crate::fs::mount_list::{self, Entry, MountOptions};

/// Mounts an empty in-memory file system at `path`. All paths below it lead there, whatever the
/// host has there. As on a `tmpfs`, its files take at most half of the host's memory, and every
/// user may make files in its root. Fails with `EBUSY` if there is a mount already, and with
/// `EINVAL` for the root.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_mount(path: *const c_char) -> c_int {
    call(|system| {
        // SAFETY: as the caller promises.
        let path = unsafe { uaccess::string(path) }?;
        system.mount(path.to_bytes(), MountOptions::default())?;
        Ok(0)
    })
}

/// Unmounts and discards a file system: its paths are the host's again. Fails with `EINVAL` if
/// `path` is not a mount, and with `EBUSY` while a file in it is open or is the working directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_umount(path: *const c_char) -> c_int {
    call(|system| {
        // SAFETY: as the caller promises.
        let path = unsafe { uaccess::string(path) }?;
        system.unmount(path.to_bytes())?;
        Ok(0)
    })
}

/// Paths of `/dev` and `/proc` that are ours.
const FIXED_MOUNTS: [&[u8]; 9] = [
    b"/dev/null",
    b"/dev/zero",
    b"/dev/full",
    b"/dev/fd",
    b"/dev/stdin",
    b"/dev/stdout",
    b"/dev/stderr",
    b"/proc/self/fd",
    b"/proc/self/fdinfo",
];

impl System {
    /// Makes the paths below `path` ours.
    ///
    /// # Errors
    /// Those of [`fdt_mount`].
    fn mount(&self, path: &[u8], options: MountOptions) -> Result<(), Errno> {
        let point = self.mount_point(path)?;
        if self.routes.load().has_mount(&point) {
            return Err(Errno::EBUSY);
        }
        let limits = MemFsLimits {
            memory: options.size,
            ..MemFsLimits::NONE
        };
        self.mount_at(&point, Arc::new(MemFs::with_limits(limits)))?;
        // Nothing leads there before the route does.
        let mode = Mode::new(options.mode);
        self.mounter()?
            .fchmodat(At::Cwd, &point, mode, AtFlags::empty())?;
        self.routes
            .rcu(|routes| Arc::new(routes.with_mount(point.clone())));
        Ok(())
    }

    /// Mounts what the environment lists. Writes a line to standard error for what cannot be
    /// mounted: its paths are the host's.
    pub(crate) fn mount_environment(&self) {
        for Entry { path, options } in mount_list::of_environment() {
            let options = match options {
                Ok(options) => options,
                Err(option) => {
                    trace::write(b"FDT_MOUNT: no valid option", &option);
                    continue;
                }
            };
            match self.mount(&path, options) {
                Ok(()) => {
                    if let Some(trace) = &self.trace {
                        trace.mount(&path);
                    }
                }
                Err(_) => trace::write(b"FDT_MOUNT: no valid mount", &path),
            }
        }
    }

    /// Mounts the devices and `/proc/self/fd`. They replace the host paths that would show the
    /// host's descriptors, and the devices that programs use most.
    pub(crate) fn mount_devices(&self) {
        let mounted = self
            .mount_at(b"/dev", Arc::new(DevFs::new()))
            .and_then(|()| self.mount_at(b"/proc", Arc::new(ProcFs::new())));
        if mounted.is_ok() {
            for path in FIXED_MOUNTS {
                self.routes
                    .rcu(|routes| Arc::new(routes.with_mount(path.to_vec())));
            }
        }
    }

    /// Mounts a file system at a new path of our side.
    fn mount_at(&self, point: &[u8], fs: Arc<dyn FileSystem>) -> Result<(), Errno> {
        let mounter = self.mounter()?;
        let mut below = Vec::new();
        for name in point
            .split(|&byte| byte == b'/')
            .filter(|name| !name.is_empty())
        {
            below.push(b'/');
            below.extend_from_slice(name);
            match mounter.mkdir(&below) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        mounter.mount(point, fs)
    }

    /// Returns the process as it mounts: what this library mounts needs no capability of the
    /// program, but user 0.
    fn mounter(&self) -> Result<Process, Errno> {
        let mounter = self
            .process
            .clone_with(CloneFlags::FILES | CloneFlags::FS)?;
        let Credentials { uid, gid, .. } = self.process.credentials();
        mounter.set_ids(uid, gid);
        Ok(mounter)
    }

    /// Makes the paths below `path` the host's again.
    ///
    /// # Errors
    /// Those of [`fdt_umount`].
    pub(crate) fn unmount(&self, path: &[u8]) -> Result<(), Errno> {
        let point = self.mount_point(path)?;
        if FIXED_MOUNTS.contains(&point.as_slice()) || !self.routes.load().has_mount(&point) {
            return Err(Errno::EINVAL);
        }
        self.mounter()?.unmount(&point)?;
        self.routes
            .rcu(|routes| Arc::new(routes.without_mount(&point)));
        Ok(())
    }

    /// Returns the normal form of a mount point.
    fn mount_point(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut point = self.routes.load().absolute(path);
        while point.last() == Some(&b'/') {
            point.pop();
        }
        if point.is_empty() {
            return Err(Errno::EINVAL);
        }
        Ok(point)
    }
}
