//! Mounts: which paths are ours.

use std::ffi::CStr;
use std::sync::Arc;

use fdtable_vfs::fs::{Credentials, FileSystem, Mode};
use fdtable_vfs::{At, AtFlags, CloneFlags, DevFs, Errno, MemFs, MemFsLimits, ProcFs, Process};

use crate::abi::mount_list::{self, Entry, MountOptions};
use crate::abi::routing::{OF_HOST, Side};
use crate::abi::system::System;
use crate::host;
use crate::host::direct::Wait;
use crate::host::lower::open_directory;

/// Returns limits of a file system whose files take at most `memory` bytes together.
pub(crate) fn limits(memory: u64) -> MemFsLimits {
    MemFsLimits {
        memory,
        ..MemFsLimits::NONE
    }
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
    /// Errors of [`fdt_mount`](crate::fs::mounts::fdt_mount).
    pub(crate) fn mount(
        &self,
        mounter: &Process,
        path: &[u8],
        options: MountOptions,
    ) -> Result<(), Errno> {
        let point = self.free_mount_point(path)?;
        let fs = MemFs::with_limits(limits(options.size));
        mount_at(mounter, &point, Arc::new(fs))?;
        // Nothing leads there before the route does.
        let mode = Mode::new(options.mode);
        mounter.fchmodat(At::Cwd, &point, mode, AtFlags::empty())?;
        self.routes.rcu(|routes| routes.with_mount(point.clone()));
        Ok(())
    }

    /// Shows a directory of the host below its own path, and keeps all changes in memory. From now
    /// on, symbolic links lead from one side to the other.
    ///
    /// # Errors
    /// `ENOTDIR` if it is not a directory; `EBUSY` if files are in memory there already; `EINVAL`
    /// for the root; `EOPNOTSUPP` below `/dev` and `/proc`; those of the host's `realpath` and
    /// `open`.
    pub(crate) fn overlay(&self, path: &CStr) -> Result<(), Errno> {
        let whole = host::real_path(path)?;
        let point = self.free_mount_point(whole.to_bytes())?;
        // File systems of ours are there, in which no directory can be made.
        if point.starts_with(b"/dev/") || point.starts_with(b"/proc/") {
            return Err(Errno::EOPNOTSUPP);
        }
        let fs = MemFs::over(open_directory(&whole)?, limits(host::half_of_memory()))?;
        mount_at(&self.privileged()?, &point, Arc::new(fs))?;
        self.routes
            .rcu(|routes| routes.with_mount(point.clone()).with_crossing_links());
        self.enter_overlay(&point)?;
        self.keep_directory()
    }

    /// Makes directories in our root where paths stay the host's, so that its listing shows them.
    pub(crate) fn make_host_points(&self) -> Result<(), Errno> {
        let mounter = self.privileged()?;
        let mut points = OF_HOST.iter();
        points.try_for_each(|path| make_directory(&mounter, path))
    }

    /// Moves the working directory to our side if it is in an overlay.
    fn enter_overlay(&self, point: &[u8]) -> Result<(), Errno> {
        let routes = self.routes.load();
        let directory = routes.directory();
        let is_inside = directory
            .strip_prefix(point)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"));
        if routes.side() == Side::Ours || !is_inside {
            return Ok(());
        }
        self.process.chdir(directory)?;
        self.record_directory(Side::Ours)
    }

    /// Moves the host process to `/proc/self` if the working directory is ours. The host may have
    /// begun in the directory below an overlay, where a crash would leave its `core`.
    ///
    /// # Errors
    /// Errors of the host's `chdir`.
    pub(crate) fn leave_host_directory(&self) -> Result<(), Errno> {
        match self.routes.load().side() {
            // SAFETY: the path is a C string.
            Side::Ours => host::check(unsafe { libc::chdir(c"/proc/self".as_ptr()) }).map(drop),
            Side::Host => Ok(()),
        }
    }

    /// Mounts what the environment lists. Writes a line to standard error for what cannot be
    /// mounted: its paths are the host's.
    pub(crate) fn mount_environment(&self) {
        let Ok(mounter) = self.mounter() else {
            return warn(b"FDT_MOUNT", b"no memory");
        };
        for Entry { path, options } in mount_list::of_environment() {
            let options = match options {
                Ok(options) => options,
                Err(option) => {
                    warn(b"FDT_MOUNT: no valid option", &option);
                    continue;
                }
            };
            if self.mount(&mounter, &path, options).is_err() {
                warn(b"FDT_MOUNT: no valid mount", &path);
            }
        }
    }

    /// Mounts the devices and `/proc/self/fd`. They replace the host paths that would show the
    /// host's descriptors, and the devices that programs use most.
    pub(crate) fn mount_devices(&self) {
        let mounted = self.mounter().and_then(|mounter| {
            mount_at(&mounter, b"/dev", Arc::new(DevFs::default()))?;
            mount_at(&mounter, b"/proc", Arc::new(ProcFs::default()))
        });
        if mounted.is_ok() {
            for path in FIXED_MOUNTS {
                self.routes.rcu(|routes| routes.with_mount(path.to_vec()));
            }
        }
    }

    /// Returns the process as it mounts: what this library mounts needs no capability of the
    /// program, but user 0.
    pub(crate) fn mounter(&self) -> Result<Process, Errno> {
        let mounter = self
            .process
            .clone_with(CloneFlags::FILES | CloneFlags::FS)?;
        let Credentials { uid, gid, .. } = self.process.credentials();
        mounter.set_ids(uid, gid);
        Ok(mounter)
    }

    /// Returns the process as the runner mounts, whoever its user is.
    fn privileged(&self) -> Result<Process, Errno> {
        let mounter = self.mounter()?;
        mounter.set_ids(0, 0);
        Ok(mounter)
    }

    /// Keeps the files below `path` in memory, as the runner was asked to.
    ///
    /// # Errors
    /// Errors of [`fdt_mount`](crate::fs::mounts::fdt_mount).
    pub(crate) fn mount_for_runner(&self, path: &[u8]) -> Result<(), Errno> {
        self.mount(&self.privileged()?, path, MountOptions::default())
    }

    /// Makes the paths below `path` the host's again.
    ///
    /// # Errors
    /// Errors of [`fdt_umount`](crate::fs::mounts::fdt_umount).
    pub(crate) fn unmount(&self, path: &[u8]) -> Result<(), Errno> {
        let point = self.mount_point(path)?;
        if FIXED_MOUNTS.contains(&point.as_slice()) || !self.routes.load().has_mount(&point) {
            return Err(Errno::EINVAL);
        }
        self.mounter()?.unmount(&point)?;
        self.routes.rcu(|routes| routes.without_mount(&point));
        Ok(())
    }

    fn free_mount_point(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let point = self.mount_point(path)?;
        match self.routes.load().has_mount(&point) {
            true => Err(Errno::EBUSY),
            false => Ok(point),
        }
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

/// Mounts a file system at a new path of our side.
fn mount_at(mounter: &Process, point: &[u8], fs: Arc<dyn FileSystem>) -> Result<(), Errno> {
    let mut below = Vec::new();
    for name in point
        .split(|&byte| byte == b'/')
        .filter(|name| !name.is_empty())
    {
        below.push(b'/');
        below.extend_from_slice(name);
        make_directory(mounter, &below)?;
    }
    mounter.mount(point, fs)
}

/// Makes a directory, unless there is one.
fn make_directory(mounter: &Process, path: &[u8]) -> Result<(), Errno> {
    match mounter.mkdir(path) {
        Err(Errno::EEXIST) => Ok(()),
        made => made,
    }
}

/// Writes a line to the host's standard error. An error has no receiver.
fn warn(what: &[u8], path: &[u8]) {
    let line = [b"fdtable: ".as_slice(), what, b": ", path, b"\n"].concat();
    let _ = host::write(libc::STDERR_FILENO, Wait::Possible, &line);
}
