//! The one process behind all calls of the host process, once it is [made](super::boot).

use std::ffi::c_int;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use crossbeam_utils::atomic::AtomicCell;
use fdtable::{Fd, FdFlags, FileRef};
use fdtable_shm::Mutex;
use fdtable_vfs::{Errno, OpenFlags, Process, RcuObject};

use crate::abi::routing::Routes;
use crate::host::file::{HostFile, Keep, OpenHostFd};
use crate::host::{self, OwnedHostFd};

/// The process, and the routing of paths. Each process of a tree that shares a kernel has its own,
/// in memory of its own.
pub(crate) struct System {
    pub(crate) process: &'static Process,
    /// Routes of paths. Replaced as a whole.
    pub(crate) routes: Own<Routes>,
    /// Held while the working directory changes, on both sides and in the routes.
    pub(crate) directory: Mutex<()>,
    /// The file of the program, if a runner has loaded it: what `/proc/self/exe` leads to.
    pub(crate) executable: Own<Option<FileRef<RcuObject>>>,
    /// Returns what `/proc/self/maps` shows, if a runner has set it.
    pub(crate) mappings: OnceLock<fn() -> Vec<u8>>,
}

pub(super) static SYSTEM: AtomicCell<Option<&'static System>> = AtomicCell::new(None);

/// A value that is replaced as a whole. The memory of the pointer's bookkeeping is private to the
/// process.
pub(crate) struct Own<T>(ArcSwap<T>);

impl<T> Own<T> {
    pub(super) fn new(value: T) -> Self {
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

    /// Replaces the value, and returns it.
    fn replace(&self, value: T) -> Self {
        let _private = fdtable_shm::leave();
        Own(ArcSwap::from(self.0.swap(Arc::new(value))))
    }

    /// Replaces the value by what `next` makes of it, which may run more than once.
    pub(crate) fn rcu(&self, mut next: impl FnMut(&T) -> T) {
        let _private = fdtable_shm::leave();
        self.0.rcu(|value| Arc::new(next(value)));
    }
}

/// Makes a system that of this process.
pub(super) fn install(system: System) -> &'static System {
    let _private = fdtable_shm::leave();
    let system = Box::leak(Box::new(system));
    SYSTEM.store(Some(system));
    system
}

impl System {
    /// Makes another process that of this memory, in the place of this one.
    pub(crate) fn become_process(&self, process: &'static Process) {
        process.set_id(host::process_id());
        let _private = fdtable_shm::leave();
        install(System {
            process,
            routes: self.routes.replace(Routes::new(Vec::new())),
            directory: Mutex::new(()),
            executable: self.executable.replace(None),
            mappings: self.mappings.clone(),
        });
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

    /// Returns the host descriptor of a descriptor, if it has a host file.
    ///
    /// # Errors
    /// `EBADF` if the descriptor is not open.
    #[inline]
    pub(crate) fn host_fd(&self, fd: c_int) -> Result<Option<OpenHostFd>, Errno> {
        Ok(OpenHostFd::of(self.file(fd)?))
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
    pub(crate) fn adopt(&self, host_fd: c_int, flags: FdFlags) -> Result<Fd, Errno> {
        let reserved = self.process.files().reserve(flags)?;
        let file = HostFile::of(host_fd, Keep::No)?;
        Ok(reserved.install(file))
    }

    /// Moves a new host descriptor into the table, and closes it on failure. `cloexec` is 0 for a
    /// descriptor without `FD_CLOEXEC`.
    pub(crate) fn adopt_new(&self, host_fd: c_int, cloexec: c_int) -> Result<Fd, Errno> {
        let file = HostFile::own(OwnedHostFd(host_fd))?;
        let flags = match cloexec {
            0 => OpenFlags::empty(),
            _ => OpenFlags::CLOEXEC,
        };
        self.process.install(flags, || Ok(file))
    }
}
