//! The one process that all calls of the host process are calls of.
//!
//! It begins at the first call: with the host's limits, the host's 0, 1 and 2 under the same
//! numbers, and file systems at the mounts. A fork of the host process copies it as all memory.

use std::ffi::{OsString, c_int};
use std::os::unix::ffi::OsStringExt;
use std::sync::OnceLock;

use arc_swap::ArcSwap;
use fdtable::{FdFlags, FileRef, Files, Limits, host_fork};
use fdtable_vfs::{Errno, MemFs, Object, Process};

use crate::abi::routing::Routes;
use crate::host;
use crate::host::file::{HostFile, Keep};
use crate::stdio::atfork;

/// Where our file system is if `FDT_MOUNT` does not say.
const DEFAULT_MOUNT: &[u8] = b"/fdt";

/// The process, and what the host's part of the world needs.
pub(crate) struct System {
    pub(crate) process: Process,
    /// Which paths are ours. Replaced as a whole.
    pub(crate) routes: ArcSwap<Routes>,
}

static SYSTEM: OnceLock<System> = OnceLock::new();

/// Returns the process. The first call makes it.
#[inline(always)]
pub(crate) fn system() -> &'static System {
    match SYSTEM.get() {
        Some(system) => system,
        None => begin(),
    }
}

#[cold]
fn begin() -> &'static System {
    SYSTEM.get_or_init(System::new)
}

impl System {
    fn new() -> Self {
        // Without memory for it, a fork of the host finds the table as it happens to be.
        let _ = host_fork::register().map(|()| atfork::register());
        host::in_children(number_the_child);
        let process = Process::with(Files::new(), MemFs::default());
        process.set_id(host::process_id());
        inherit_limits(&process);
        process.umask(host::current_umask().into());
        let (user, group) = host::effective_ids();
        process.set_ids(user, group);
        inherit_standard_files(&process);
        let system = System {
            process,
            routes: ArcSwap::from_pointee(Routes::new(host::current_directory())),
        };
        system.mount_devices();
        for mount in mounts_of_environment() {
            // A name that is no path is no mount.
            let _ = system.mount(&mount);
        }
        system
    }

    /// Returns the open file of a number.
    pub(crate) fn file(&self, fd: c_int) -> Result<FileRef<dyn Object>, Errno> {
        Ok(self.process.files().get(fd)?)
    }

    /// Passes on what was made of an argument. What is wrong with the descriptor comes first, as on the
    /// host.
    #[inline]
    pub(crate) fn after<R>(&self, fd: c_int, argument: Result<R, Errno>) -> Result<R, Errno> {
        if let Err(errno) = argument {
            self.process.files().flags(fd)?;
            return Err(errno);
        }
        argument
    }

    /// Gives an open file of the host a number here. It is the host's caller's again if this fails.
    pub(crate) fn adopt(&self, number: c_int, flags: FdFlags) -> Result<c_int, Errno> {
        let reserved = self.process.files().reserve(flags)?;
        let file = HostFile::of(number, Keep::No)?;
        Ok(reserved.install(file).raw())
    }
}

/// Gives the process its number, after a fork of the host.
extern "C" fn number_the_child() {
    if let Some(system) = SYSTEM.get() {
        system.process.set_id(host::process_id());
    }
}

/// Takes over the host's limits, so that `EMFILE` comes where `getrlimit` says.
fn inherit_limits(process: &Process) {
    if let Ok(limit) = host::limit(libc::RLIMIT_NOFILE) {
        let clamped = |value: u64| u32::try_from(value).unwrap_or(1 << 31).min(1 << 31);
        let (soft, hard) = (clamped(limit.rlim_cur), clamped(limit.rlim_max));
        // The host has checked that the one is not above the other.
        let _ = process.files().set_limits(Limits { soft, hard });
    }
}

/// Gives the host's 0, 1 and 2, as far as they are open, the same numbers here.
fn inherit_standard_files(process: &Process) {
    let mut free = Vec::new();
    for number in 0..=2 {
        let Ok(reserved) = process.files().reserve(FdFlags::empty()) else {
            return;
        };
        match HostFile::of(number, Keep::Open) {
            Ok(file) => drop(reserved.install(file)),
            // It stays free, and the next one gets its own number all the same.
            Err(_) => free.push(reserved),
        }
    }
}

fn mounts_of_environment() -> Vec<Vec<u8>> {
    match std::env::var_os("FDT_MOUNT").map(OsString::into_vec) {
        None => vec![DEFAULT_MOUNT.to_vec()],
        Some(paths) => paths
            .split(|&byte| byte == b':')
            .filter(|path| !path.is_empty())
            .map(<[u8]>::to_vec)
            .collect(),
    }
}
