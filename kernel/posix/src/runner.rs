//! Functions for a runner of unmodified programs, beside the calls.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use fdtable::Files;
use fdtable_vfs::{DescriptorChoice, Errno, RcuObject};

use crate::abi::boot::{self, system};
use crate::abi::guard::{guarded, inside};
use crate::abi::{faults, uaccess};
use crate::host::direct;
pub use crate::host::fd::tell_threads;
pub use crate::host::process::exchange_mask;
use crate::process::closing::closing;
use crate::process::fork::{UNSHARING, unshare_files};
use crate::process::supervisor;

pub use crate::abi::handlers::{bit, set_of};
pub use crate::host::direct::{DirectCall, DirectCalls};
pub use crate::host::maps;
pub use crate::passthrough::host_call;
pub use crate::process::fork::{Child, end};
pub use crate::process::supervisor::release as release_from_supervisor;
pub use crate::process::supervisor::{Threads, begin_tracing, start as start_supervisor};
pub use crate::process::tree::{must_exit, next_name, reap, request_exit};

/// Creates the process, as the first call does. From then on the host's calls that may block, and
/// transfers of host files, are made by `calls`.
pub fn begin(calls: DirectCalls) {
    direct::set(calls);
    system();
}

/// Creates the process with a directory of the host as its root. The program sees what the host has
/// there, and its changes stay in memory. `/proc`, `/dev` and `/sys` stay the host's. A working
/// directory below the root stays, any other becomes the root. It must be called before every other
/// call.
///
/// # Errors
/// `EBUSY` if the process exists already; `ENOTDIR` if it is not a directory; those of the host's
/// `realpath` and `open`.
pub fn begin_in(root: &CStr) -> Result<(), Errno> {
    guarded(|| boot::begin_in(root))
}

/// Shows the program what the host has below a directory, under the same path, and keeps its
/// changes in memory.
///
/// # Errors
/// `ENOTDIR` if it is not a directory; `EBUSY` if files are in memory there already; `EINVAL` for
/// the root; `EOPNOTSUPP` below `/dev` and `/proc`; those of the host's `realpath` and `open`.
pub fn overlay(directory: &CStr) -> Result<(), Errno> {
    guarded(|| system().overlay(directory))
}

/// Keeps the files below a path in memory: `fdt_mount` without the privilege that it needs.
///
/// # Errors
/// `EBUSY` if files are in memory there already; `EINVAL` for the root.
pub fn mount(path: &CStr) -> Result<(), Errno> {
    guarded(|| system().mount_for_runner(path.to_bytes()))
}

/// Moves the host process to a directory in which no file can be made, if the working directory is
/// in memory. A relative path of the host is not valid afterwards.
///
/// # Errors
/// Errors of the host's `chdir`.
pub fn leave_host_directory() -> Result<(), Errno> {
    guarded(|| system().leave_host_directory())
}

/// Calls `look` with the table of descriptors of the process, on any thread. Its allocations are
/// private to the process.
///
/// # Errors
/// Errors of `look`.
pub fn with_files<R>(look: impl FnOnce(&Files<RcuObject>) -> Result<R, Errno>) -> Result<R, Errno> {
    guarded(|| {
        let _private = fdtable_shm::leave();
        let _same = UNSHARING.lock();
        look(system().process.files())
    })
}

/// Has a closed descriptor wait for so many opens until it is used again. Processes that are made
/// later inherit that.
///
/// # Errors
/// `ENOMEM`.
pub fn set_quarantine(opens: u32) -> Result<(), Errno> {
    guarded(|| Ok(system().process.files().set_quarantine(opens)?))
}

/// Sets both limits of the descriptors of the process, also above those of the host.
pub fn limit_descriptors(limit: u32) {
    inside(|| system().process.limit_descriptors(limit));
}

/// Has new files, pipes, sockets and events take any free descriptor from now on, instead of the
/// lowest, as long as 0, 1 and 2 are open. An open finds out only at its end that no descriptor is
/// free: a file that it has created or truncated then stays so.
pub fn open_any_descriptor() {
    let kernel = system().process.kernel();
    kernel.set_descriptor_choice(DescriptorChoice::Any);
}

/// Returns a string of the program, or `None` if it cannot be read or is longer than a path.
///
/// # Safety
/// No other thread writes to it during the call.
pub unsafe fn string(at: *const c_char) -> Option<Vec<u8>> {
    // SAFETY: as the caller promises.
    let string = unsafe { uaccess::string(at) };
    string.ok().map(|text| text.to_bytes().to_vec())
}

/// Returns a string of the program, or `None` if there is no terminator in the first `limit` bytes.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// No other thread writes to it during the call.
pub unsafe fn string_below(at: *const c_char, limit: usize) -> Result<Option<CString>, c_int> {
    // SAFETY: as the caller promises.
    let string = unsafe { uaccess::string_below(at, limit) };
    string
        .map(|text| text.map(CStr::to_owned))
        .map_err(|error| error.errno())
}

/// Returns a value of the program. It may be unaligned.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// If the memory at `at` can be read, it holds a valid `T`.
pub unsafe fn value<T: Copy>(at: *const T) -> Result<T, c_int> {
    // SAFETY: as the caller promises.
    unsafe { uaccess::get(at) }.map_err(Errno::errno)
}

/// Writes a value of the program. It may be unaligned.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// If `at` can be an address, the program has a `T` there.
pub unsafe fn put<T: Copy>(at: *mut T, value: T) -> Result<(), c_int> {
    // SAFETY: as the caller promises.
    unsafe { uaccess::put(at, value) }.map_err(Errno::errno)
}

/// Ends the calling thread, which is in no call, if this is a completion process.
pub fn end_completion() {
    if supervisor::is_completion_process() {
        supervisor::end_thread();
    }
}

/// Closes the descriptors with `FD_CLOEXEC`, as a new program does.
pub fn close_on_exec() {
    let _ = guarded(|| {
        // Without memory for it the descriptors stay open, and there is no caller to report it to.
        unshare_files()?;
        let system = system();
        let _ = closing(system, 0, u32::MAX, || {
            system.process.files().close_on_exec(drop)
        });
        Ok(())
    });
}

/// Has `/proc/self/exe` lead to the file of a descriptor, which may be closed afterwards. If there
/// is no such descriptor, the link leads to the runner.
pub fn set_executable(fd: c_int) {
    inside(|| {
        let system = system();
        system.executable.store(system.file(fd).ok());
    });
}

/// Has `/proc/self/maps` show these bytes, which each open asks for.
pub fn set_mappings(mappings: fn() -> Vec<u8>) {
    // It may be set already.
    let _ = system().mappings.set(mappings);
}

/// Continues after an access to memory of the program that has failed, if a fault was in one.
/// Returns true if it was. For handlers of SIGSEGV and SIGBUS that replace those of this library.
///
/// # Safety
/// The context is that of the handler.
pub unsafe fn leave_access(context: *mut c_void) -> bool {
    // SAFETY: as the caller promises.
    unsafe { faults::leave_routine(context.cast()) }
}
