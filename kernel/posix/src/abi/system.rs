//! The one process behind all calls of the host process.
//!
//! The first call creates it: with the host's limits, the host's descriptors 0, 1 and 2 under the
//! same numbers, and file systems at the mounts. A fork of the host process copies it like all
//! memory.

use std::ffi::{CStr, c_int};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use crossbeam_utils::atomic::AtomicCell;
use fdtable::{FdFlags, FileRef, Files, Limits, host_fork};
use fdtable_shm::Mutex;
use fdtable_vfs::{Errno, Limit, MemFs, OpenFlags, Process, RcuObject, Resource};

use crate::abi::routing::{Routes, Side};
use crate::abi::trace::Trace;
use crate::abi::{faults, handlers};
use crate::fs::mounts::limits;
use crate::host;
use crate::host::file::{HostFile, Keep};
use crate::host::lower::open_directory;
use crate::process::credentials::copy_credentials;
use crate::process::io_signals::HostSignals;
use crate::process::tree;

/// The process, and the routing of paths. Each process of a tree that shares a kernel has its own,
/// in memory of its own.
pub(crate) struct System {
    pub(crate) process: &'static Process,
    /// Routes of paths. Replaced as a whole.
    pub(crate) routes: Own<Routes>,
    /// Held while the working directory changes, on both sides and in the routes.
    pub(crate) directory: Mutex<()>,
    /// Messages about routing, if the program's user wants them.
    pub(crate) trace: Option<Trace>,
    /// The file of the program, if a runner has loaded it: what `/proc/self/exe` leads to.
    pub(crate) executable: Own<Option<FileRef<RcuObject>>>,
    /// Returns what `/proc/self/maps` shows, if a runner has set it.
    pub(crate) mappings: OnceLock<fn() -> Vec<u8>>,
}

static SYSTEM: AtomicCell<Option<&'static System>> = AtomicCell::new(None);

/// Held while the process is created.
static CREATION: Mutex<()> = Mutex::new(());

/// A value that is replaced as a whole. The memory of the pointer's bookkeeping is private to the
/// process.
pub(crate) struct Own<T>(ArcSwap<T>);

impl<T> Own<T> {
    fn new(value: T) -> Self {
        let _private = fdtable_shm::leave();
        Own(ArcSwap::from_pointee(value))
    }

    /// Returns the value.
    pub(crate) fn load(&self) -> arc_swap::Guard<Arc<T>> {
        let _private = fdtable_shm::leave();
        self.0.load()
    }

    /// Replaces the value.
    pub(crate) fn store(&self, value: T) {
        let _private = fdtable_shm::leave();
        self.0.store(Arc::new(value));
    }

    /// Replaces the value by what `next` makes of it, which may run more than once.
    pub(crate) fn rcu(&self, mut next: impl FnMut(&T) -> T) {
        let _private = fdtable_shm::leave();
        self.0.rcu(|value| Arc::new(next(value)));
    }
}

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
    let _inside = fdtable_shm::enter();
    let system = System::new(root, routes);
    install(system)
}

/// Makes a system that of this process.
fn install(system: System) -> &'static System {
    let _private = fdtable_shm::leave();
    let system = Box::leak(Box::new(system));
    SYSTEM.store(Some(system));
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
            system.record_directory(Side::Ours).map(drop)
        }
        _ => Ok(()),
    }
}

impl System {
    fn new(root: MemFs, routes: Routes) -> Self {
        // Handlers are those of this process.
        let private = fdtable_shm::leave();
        // If there is no memory for the handlers, a fork of the host copies the table in its
        // current state, which may be inconsistent.
        let _ = host_fork::register();
        host::in_children(set_process_id);
        faults::install();
        handlers::install();
        drop(private);
        let process = Process::with(Files::new(), root);
        process.set_id(host::process_id());
        process.kernel().set_signal_sender(Arc::new(HostSignals));
        inherit_limits(&process);
        process.umask(host::current_umask().into());
        inherit_standard_files(&process);
        let system = System {
            process: tree::root(process),
            routes: Own::new(routes),
            directory: Mutex::new(()),
            trace: Trace::of_environment(),
            executable: Own::new(None),
            mappings: OnceLock::new(),
        };
        system.mount_devices();
        system.mount_environment();
        // Last: the mounts of the environment are there for every user.
        copy_credentials(system.process);
        system
    }

    /// Makes that of a process that shares the kernel: a copy of what belongs to its parent.
    fn with_process(
        &self,
        process: &'static Process,
        routes: Routes,
        executable: Option<FileRef<RcuObject>>,
    ) -> Self {
        System {
            process,
            routes: Own::new(routes),
            directory: Mutex::new(()),
            trace: self.trace.as_ref().map(|_| Trace::default()),
            executable: Own::new(executable),
            mappings: self.mappings.clone(),
        }
    }

    /// Continues as another process, whose parent has made this memory.
    pub(crate) fn become_child(
        &self,
        process: &'static Process,
        routes: Routes,
        executable: Option<FileRef<RcuObject>>,
    ) {
        process.set_id(host::process_id());
        let _private = fdtable_shm::leave();
        install(self.with_process(process, routes, executable));
    }

    /// Returns true if it is the file of the program.
    pub(crate) fn is_executable(&self, file: &FileRef<RcuObject>) -> bool {
        let executable = self.executable.load();
        Option::as_ref(&executable).is_some_and(|executable| FileRef::ptr_eq(executable, file))
    }

    /// Returns the open file of a descriptor.
    pub(crate) fn file(&self, fd: c_int) -> Result<FileRef<RcuObject>, Errno> {
        Ok(self.process.files().get(fd)?)
    }

    /// Returns the open file of a descriptor, unless it was opened with `O_PATH`.
    ///
    /// # Errors
    /// `EBADF` if it was, or the descriptor is not open.
    pub(crate) fn opened_file(&self, fd: c_int) -> Result<FileRef<RcuObject>, Errno> {
        let file = self.file(fd)?;
        if file.status().contains(OpenFlags::PATH) {
            return Err(Errno::EBADF);
        }
        Ok(file)
    }

    /// Passes on the result of reading an argument. An error of the descriptor comes first, as on
    /// the host.
    #[inline]
    pub(crate) fn after<R>(&self, fd: c_int, argument: Result<R, Errno>) -> Result<R, Errno> {
        if let Err(errno) = argument {
            self.process.files().fd_flags(fd)?;
            return Err(errno);
        }
        argument
    }

    /// Gives a host file a descriptor of ours. If this fails, the host descriptor is left to the
    /// caller.
    pub(crate) fn adopt(&self, host_fd: c_int, flags: FdFlags) -> Result<c_int, Errno> {
        let reserved = self.process.files().reserve(flags)?;
        let file = HostFile::of(host_fd, Keep::No)?;
        Ok(reserved.install(file).raw())
    }

    /// Moves a new host descriptor into the table, and closes it on failure. `cloexec` is 0 for a
    /// descriptor without `FD_CLOEXEC`.
    pub(crate) fn adopt_new(&self, host_fd: c_int, cloexec: c_int) -> Result<c_int, Errno> {
        let flags = match cloexec {
            0 => FdFlags::empty(),
            _ => FdFlags::CLOEXEC,
        };
        self.adopt(host_fd, flags)
            .inspect_err(|_| host::close(host_fd))
    }
}

/// Sets the process ID in the child of a host fork.
extern "C" fn set_process_id() {
    // Where processes share a kernel, it is still the parent's.
    if let Some(system) = SYSTEM.load().filter(|_| !host_fork::shares_memory()) {
        system.process.set_id(host::process_id());
    }
}

/// Copies the host's limits, so that `EMFILE` and `EFBIG` come where `getrlimit` says.
fn inherit_limits(process: &Process) {
    if let Ok(limit) = host::limit(libc::RLIMIT_NOFILE) {
        let clamped = |value: u64| u32::try_from(value).unwrap_or(1 << 31).min(1 << 31);
        let (soft, hard) = (clamped(limit.rlim_cur), clamped(limit.rlim_max));
        // The host guarantees that soft is not above hard.
        let _ = process.files().set_limits(Limits { soft, hard });
    }
    if let Ok(limit) = host::limit(libc::RLIMIT_FSIZE) {
        let limit = Limit {
            soft: limit.rlim_cur,
            hard: limit.rlim_max,
        };
        // As above, and no limit is raised.
        let _ = process.setrlimit(Resource::FileSize, limit);
    }
}

/// Gives the host's descriptors 0, 1 and 2 the same numbers here, as far as they are open.
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
