//! The creation of the process behind all calls.
//!
//! The first call creates it: with the host's limits, the host's descriptors 0, 1 and 2 as
//! its own, and file systems at the mounts. A fork of the host process copies it like all
//! memory.

use std::ffi::CStr;
use std::sync::{Arc, OnceLock};

use fdtable::{FdFlags, Files, host_fork};
use fdtable_shm::Mutex;
use fdtable_vfs::{Errno, Limit, MemFs, Process, Resource};

use crate::abi::mounts::limits;
use crate::abi::routing::{Routes, Side};
use crate::abi::system::{Own, SYSTEM, System, install};
use crate::abi::{faults, handlers};
use crate::host;
use crate::host::copy_credentials;
use crate::host::file::{HostFile, Keep};
use crate::host::lower::open_directory;
use crate::process::io_signals::HostSignals;
use crate::process::tree;

/// Held while the process is created.
static CREATION: Mutex<()> = Mutex::new(());

/// Returns the process. The first call creates it.
#[inline(always)]
pub(crate) fn system() -> &'static System {
    match SYSTEM.load() {
        Some(system) => system,
        None => begin(),
    }
}

#[cold]
fn begin() -> &'static System {
    let _alone = CREATION.lock();
    // Another thread may have been first.
    SYSTEM.load().unwrap_or_else(|| {
        let routes = Routes::new(host::current_directory());
        create(MemFs::default(), routes)
    })
}

/// Creates the process. The caller has found none, and holds the lock.
fn create(root: MemFs, routes: Routes) -> &'static System {
    let _shared = fdtable_shm::enter();
    let system = made(root, routes);
    install(system)
}

/// Makes the process: with the state of the host process.
fn made(root: MemFs, routes: Routes) -> System {
    // Handlers are those of this process.
    let private = fdtable_shm::leave();
    // If there is no memory for the handlers, a fork of the host copies the table in its
    // current state, which may be inconsistent.
    let _ = host_fork::register();
    // SAFETY: the function is valid for the life of the process. If there is no memory to register
    // it, a child reports its parent's process ID in the owner of a lock.
    unsafe { libc::pthread_atfork(None, None, Some(set_process_id)) };
    faults::install();
    handlers::install();
    drop(private);
    let process = Process::with(Files::new(), root);
    process.set_id(host::process_id());
    process.kernel().set_signal_sender(Arc::new(HostSignals));
    process.kernel().set_process_finder(tree::process_of);
    inherit_limits(&process);
    process.umask(host::current_umask().into());
    inherit_standard_files(&process);
    let system = System {
        process: tree::root(process),
        routes: Own::new(routes),
        directory: Mutex::new(()),
        executable: Own::new(None),
        mappings: OnceLock::new(),
    };
    system.mount_devices();
    system.mount_environment();
    // Last: the mounts of the environment are there for every user.
    copy_credentials(system.process);
    system
}

/// Creates the process with a directory of the host as its root, over which changes stay in memory.
/// A working directory below it stays, any other becomes the root.
///
/// # Errors
/// `EBUSY` if the process exists already; `ENOTDIR` if it is not a directory; those of the host's
/// `realpath` and `open`.
pub(crate) fn begin_in(root: &CStr) -> Result<(), Errno> {
    let whole = host::real_path(root)?;
    let fs = MemFs::over(open_directory(&whole)?, limits(host::half_of_memory()))?;
    let alone = CREATION.lock();
    if SYSTEM.load().is_some() {
        return Err(Errno::EBUSY);
    }
    let system = create(fs, Routes::rooted());
    drop(alone);
    system.make_host_points()?;
    let directory = host::current_directory();
    let top = whole.to_bytes();
    let top = top.strip_suffix(b"/").unwrap_or(top);
    match directory.strip_prefix(top) {
        Some(below) if below.starts_with(b"/") => {
            system.process.chdir(below)?;
            system.record_directory(Side::Ours)
        }
        _ => Ok(()),
    }
}

/// Sets the process ID in the child of a host fork.
extern "C" fn set_process_id() {
    // In a tree that shares a kernel, `SYSTEM` still has the parent's process.
    if let Some(system) = SYSTEM.load().filter(|_| !host_fork::shares_memory()) {
        system.process.set_id(host::process_id());
    }
}

/// Copies the host's limits, so that `EMFILE` and `EFBIG` come where `getrlimit` says.
fn inherit_limits(process: &Process) {
    if let Ok(limit) = host::limit(libc::RLIMIT_NOFILE) {
        let (soft, hard) = (limit.rlim_cur.min(1 << 31), limit.rlim_max.min(1 << 31));
        // The host guarantees that soft is not above hard, and no limit is raised.
        let _ = process.setrlimit(Resource::NoFile, Limit { soft, hard });
    }
    if let Ok(limit) = host::limit(libc::RLIMIT_FSIZE) {
        let limit = Limit {
            soft: limit.rlim_cur,
            hard: limit.rlim_max,
        };
        // As above.
        let _ = process.setrlimit(Resource::FileSize, limit);
    }
}

/// Takes over the host's descriptors 0, 1 and 2 as those of the process, as far as they are open.
fn inherit_standard_files(process: &Process) {
    let mut free = Vec::new();
    for host_fd in 0..=2 {
        let Ok(reserved) = process.files().reserve(FdFlags::empty()) else {
            return;
        };
        match HostFile::of(host_fd, Keep::Open) {
            Ok(file) => drop(reserved.install(file)),
            // Hold the reservation, so that the next file gets the same descriptor as on the host.
            Err(_) => free.push(reserved),
        }
    }
}
