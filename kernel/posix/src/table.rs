//! The plain table, for embedders that bring their own objects.
//!
//! A table maps descriptors to pointers of the embedder, and counts the references to them. A
//! reference to an *open file* is a descriptor in a table, or an [`fdt_file`] that a lookup
//! returned. When the last one is dropped, the thread that drops it calls the table's `release`
//! function with the pointer, once.
//!
//! `table/at.rs` has the operations at a descriptor that the caller chooses, `table/data.rs` those
//! on the [data](fdt_data) of a descriptor, and `table/private.rs` a table of private descriptors.
//! `table/handles.rs` passes tables, references, reservations and sections to the caller and takes
//! them back; with the feature `debug`, `table/checked_handles.rs` does that, and finds misuses.
//!
//! Any thread may call any function. A lookup costs some nanoseconds more than in Rust, for the
//! freezer and the guard against panics: see `docs/performance.md`. Errors are stored in errno, as
//! in the POSIX part.
//!
//! # Borrowed access
//!
//! Between [`fdt_read_lock`] and [`fdt_read_unlock`] a lookup needs no reference.
//! [`fdt_table_borrow`] returns the pointer. If another thread closes the descriptor meanwhile,
//! `release` may already have been called for the object. So memory that `release` would free must
//! outlive the section: free it in the table's `free` function, which is called when no section can
//! see the object any more.
//!
//! # Lifetime of objects and of `user`
//!
//! `free` is called for an object some time after `release`, once no section can see the object any
//! more, in batches with other objects. Until then everything that `free` uses must stay valid: the
//! object, `user`, and the code. [`fdt_barrier`] returns when `free` has been called for all
//! objects that were released before. `free` is also called, for all objects that were released
//! before and that no section of another thread can see:
//! - when the last table of a family (tables that were forked from one another) is freed.
//!   [`fdt_table_free`] waits for sections then, so that `user` may be freed when it returns, if no
//!   [`fdt_file`] of the tables is left;
//! - when a thread ends that has released objects, without waiting, and not during a fork. Objects
//!   that the thread releases after that stay for later: in destructors of `pthread_key_create(3)`,
//!   or of thread locals, that run after those of this library;
//! - when the process ends by `exit(3)` or by the end of `main`, after a short wait at most.
//!   Handlers that were registered with `atexit(3)` before the first table was created run later;
//!   they call `free` as at other times.
//!
//! `user` may be freed when all those tables and files are gone, and after that [`fdt_barrier`] has
//! returned. The last [`fdt_table_free`] has the same effect, if it came after the last
//! [`fdt_file_put`] and outside of a section, of `free`, and of a handler of `pthread_atfork(3)`.
//!
//! # Locks in `free`
//!
//! `free` is called for objects of all tables, in calls about any of them, and at the end of
//! threads. So a thread must not hold a lock that `free` takes in a call of this library that
//! closes, puts, frees or waits ([`fdt_barrier`]), in `pthread_join(3)` of a thread that has
//! released objects, or in `fork(2)`, which waits for calls of `free` that are under way.
//!
//! # Safety
//! A table is valid from [`fdt_table_new`] to [`fdt_table_free`]; an `fdt_file` until its one
//! [`fdt_file_put`]; a reservation until its one [`fdt_table_install`], [`fdt_table_install_data`]
//! or [`fdt_table_cancel`], and its table outlives it. The functions that are passed to a table are
//! called on any thread, and do not unwind.

mod at;
#[cfg(feature = "debug")]
mod checked_handles;
mod data;
#[cfg(not(feature = "debug"))]
mod handles;
mod private;

#[cfg(feature = "debug")]
use checked_handles as handles;

use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fdtable::{Error, FdFlags, FileRef, Files, Rcu, host_fork, rcu};
use fdtable_shm::Mutex;
use fdtable_vfs::Errno;

use crate::abi::call::{self, ReturnValue, guarded, set_errno};
use crate::abi::uaccess;
use crate::host::blocking;

pub use at::*;
pub use data::*;
use handles::{
    check_reservation, file_from_raw, file_into_raw, file_ref, mark_as_used, store_reservation,
    table_from_raw, table_into_raw, table_ref, take_reservation,
};
pub use private::*;

/// How long a thread sleeps before it checks again for the end of sections.
const PAUSE: Duration = Duration::from_micros(50);

/// Maximum rounds of callbacks at process exit: callbacks of one round may queue more.
const ROUNDS: usize = 16;

/// Callback of a table, with the pointer of an open file and the table's `user` pointer.
#[allow(non_camel_case_types)]
pub type fdt_callback = Option<unsafe extern "C" fn(object: *mut c_void, user: *mut c_void)>;

/// Table of descriptors.
///
/// A null pointer to a table, reference, reservation or section, or to a place for a result that is
/// not optional, is `EFAULT`. Functions that return nothing ignore it. These are undefined, and end
/// the process in a library that is built with the feature `debug`: to use what was freed, put,
/// ended before, or a copy of a reservation that was installed or cancelled; to use a reservation
/// with another table than its own; to end a section on another thread, or before one inside it; to
/// end a thread inside a section. Such a library also ends the process where `EINVAL` says that a
/// reservation was used before, and no handler of a signal may call it.
#[allow(non_camel_case_types)]
pub struct fdt_table {
    files: Files<Rcu<Object>>,
    callbacks: Callbacks,
    family: Family,
}

/// Reference to an open file.
#[allow(non_camel_case_types)]
pub struct fdt_file {
    /// Never constructed: a pointer to an `fdt_file` is a `FileRef`.
    _none: PhantomData<Object>,
}

/// Read-side section of a thread: returned by [`fdt_read_lock`], passed to [`fdt_read_unlock`].
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct fdt_section {
    /// Opaque to the caller.
    opaque: [MaybeUninit<usize>; 2],
}

/// Reserved descriptor that has no file yet. It may be kept across calls, copied, and installed or
/// cancelled once, by any thread; its table outlives it. To cancel one that is marked as used, or
/// is all zero, does nothing.
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct fdt_reservation {
    /// Opaque to the caller.
    opaque: [MaybeUninit<usize>; 3],
}

/// Callbacks of a table for its objects.
#[derive(Clone, Copy)]
struct Callbacks {
    release: fdt_callback,
    free: fdt_callback,
    user: *mut c_void,
}

/// Shared by tables that were forked from one another. `user` may be freed after the last of them.
type Family = Arc<()>;

/// Object of the embedder, in an open file.
struct Object {
    pointer: *mut c_void,
    callbacks: Callbacks,
    /// True after `release`: the object was in an open file, and was not returned to the embedder.
    is_released: Cell<bool>,
    /// True if it could not be opened: then it belongs to the embedder again.
    is_returned: Cell<bool>,
}

// SAFETY: the embedder promises that its functions and pointers may be used on any thread.
unsafe impl Send for Object {}
// SAFETY: as above; this module never dereferences the pointers. The one release writes the cell
// `is_released`, and the one drop after it reads the cell. `is_returned` is written before that, by
// a thread that has all references.
unsafe impl Sync for Object {}

impl Object {
    fn release(&self) {
        if self.is_returned.get() {
            return;
        }
        self.is_released.set(true);
        if let Some(release) = self.callbacks.release {
            // SAFETY: the embedder's function gets the embedder's pointers.
            unsafe { release(self.pointer, self.callbacks.user) };
        }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if let Some(free) = self.callbacks.free.filter(|_| self.is_released.get()) {
            // SAFETY: as above.
            unsafe { free(self.pointer, self.callbacks.user) };
        }
    }
}

impl Callbacks {
    fn file(self, object: *mut c_void) -> Result<FileRef<Rcu<Object>>, Errno> {
        let object = Object {
            pointer: object,
            callbacks: self,
            is_released: Cell::new(false),
            is_returned: Cell::new(false),
        };
        Ok(FileRef::builder(object)
            .on_release(|object, _| Object::release(object))
            .rcu()
            .try_build()?)
    }

    /// Makes a file of `object`, and opens it. If that fails, the object belongs to the caller
    /// again, and no callback is called for it.
    fn open<R>(
        self,
        object: *mut c_void,
        open: impl FnOnce(FileRef<Rcu<Object>>) -> Result<R, Error>,
    ) -> Result<R, Errno> {
        let file = self.file(object)?;
        // Until it is marked, the file that could not be opened must not be released.
        let kept = file.clone();
        Ok(open(file).inspect_err(|_| kept.is_returned.set(true))?)
    }
}

/// Creates an empty table whose descriptors are below `limit`.
///
/// `release` is called when the last reference to an open file is dropped. `free` is called when no
/// read-side section can see the object any more: at the latest in `fdt_barrier`, or when the last
/// table that was forked from this one is freed. It may be called before, also at the end of a
/// thread or in `exit(3)`, if no section or fork is in the way. Each may be null, and may be called
/// on any thread, also while that thread ends. `user` may be freed when the last `fdt_table_free`
/// of this table and its forks has returned, outside of a section, of `free` and of a handler of a
/// fork; if a reference of `fdt_table_get` was put after that, `fdt_barrier` must have returned
/// too. Returns null with `ENOMEM`.
///
/// `free` may take a lock, if no thread holds that lock in a call of `fork`, `fdt_barrier`,
/// `fdt_table_free`, or another call that may call `free`, or while it waits for the end of a
/// thread that has used a table.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_table_new(
    limit: c_uint,
    release: fdt_callback,
    free: fdt_callback,
    user: *mut c_void,
) -> *mut fdt_table {
    with_errno(|| {
        host_fork::register().map_err(|_| Errno::ENOMEM)?;
        run_callbacks_at_exit()?;
        Ok(table_into_raw(fdt_table {
            files: Files::with_limit(limit),
            callbacks: Callbacks {
                release,
                free,
                user,
            },
            family: Arc::new(()),
        }))
    })
}

/// Closes every descriptor of a table, and frees the table. Null is ignored.
///
/// If it is the last of the tables that were forked from one another, waits for sections like
/// `fdt_barrier`: when it returns, `free` has been called for every object of theirs that was
/// released. Inside a section, a call of `free`, or a handler of a fork it does not wait.
///
/// Calls `free` also for objects that other tables have released: the caller must not hold a lock
/// that a `free` function takes, or that a thread takes inside a section.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_free(table: *mut fdt_table) {
    if table.is_null() {
        return;
    }
    let is_last = with_errno(|| {
        // SAFETY: the caller got it from this library, and does not use it any more.
        let fdt_table { files, family, .. } = unsafe { table_from_raw(table) };
        drop(files);
        // `into_inner` returns `None` if another thread is freeing another table: that one is the
        // last then.
        Ok(c_int::from(Arc::into_inner(family).is_some()))
    });
    if is_last == 1 {
        // Fails inside a section or a callback, as documented.
        let _ = wait_for_callbacks();
    }
}

/// Waits until `free` has been called for every object that was released before.
///
/// That includes objects of any table, released by any thread; so it waits for the sections of all
/// threads. It calls some of the functions itself. Returns 0, or -1 with `EDEADLK` inside a section
/// of this thread, inside a call of `free`, or, if it would have to wait, in a handler of
/// `pthread_atfork` between those of this library.
///
/// Objects that are released meanwhile do not delay it for long. It is no cancellation point. A
/// fork does not wait for it, also inside a call of `release`.
///
/// The caller must not hold a lock that a `free` function takes, or that a thread takes inside a
/// section.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_barrier() -> c_int {
    match wait_for_callbacks() {
        Ok(()) => 0,
        Err(errno) => {
            set_errno(errno);
            -1
        }
    }
}

/// Opens `object` at the lowest free descriptor, with `FD_CLOEXEC` or 0.
///
/// Returns the descriptor, or -1 with `EINVAL` for other flags, `EMFILE` or `ENOMEM`. After an
/// error the object belongs to the caller again, and no function is called for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_open(
    table: *const fdt_table,
    object: *mut c_void,
    flags: c_uint,
) -> c_int {
    with_errno(|| {
        // SAFETY: as the caller promises.
        let table = unsafe { table_ref(table) }?;
        let reserved = table.files.reserve(descriptor_flags(flags)?)?;
        let file = table.callbacks.file(object)?;
        Ok(reserved.install(file).raw())
    })
}

/// Returns a reference to the open file of a descriptor, or null with `EBADF`. References to one
/// open file may have different addresses: `fdt_file_object` names it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_get(table: *const fdt_table, fd: c_int) -> *mut fdt_file {
    with_errno(|| {
        // SAFETY: as the caller promises.
        let table = unsafe { table_ref(table) }?;
        Ok(file_into_raw(table.files.get(fd)?))
    })
}

/// Drops a reference. Null is ignored. If it was the last one, `release` is called here, and `free`
/// later: see `fdt_barrier`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_file_put(file: *mut fdt_file) {
    if file.is_null() {
        return;
    }
    with_errno(|| {
        // SAFETY: the caller got it from this library, and does not use it any more.
        drop(unsafe { file_from_raw(file) });
        Ok(0)
    });
}

/// Returns one more reference to the same open file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_file_clone(file: *mut fdt_file) -> *mut fdt_file {
    without_freezer(|| {
        // SAFETY: as the caller promises.
        let file = unsafe { file_ref(file) }?;
        Ok(file_into_raw(FileRef::clone(&file)))
    })
}

/// Returns the object of an open file, valid as long as the reference.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_file_object(file: *mut fdt_file) -> *mut c_void {
    without_freezer(|| {
        // SAFETY: as the caller promises.
        let file = unsafe { file_ref(file) }?;
        Ok(file.pointer)
    })
}

/// Closes a descriptor. Returns 0, or -1 with `EBADF` or `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_close(table: *const fdt_table, fd: c_int) -> c_int {
    with_errno(|| {
        // SAFETY: as the caller promises.
        drop(unsafe { table_ref(table) }?.files.close(fd)?);
        Ok(0)
    })
}

/// Closes all descriptors from `first` to `last`. Returns 0, or -1 with `EINVAL` or `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_close_range(
    table: *const fdt_table,
    first: c_uint,
    last: c_uint,
) -> c_int {
    with_errno(|| {
        // SAFETY: as the caller promises.
        unsafe { table_ref(table) }?
            .files
            .close_range(first, last, drop)?;
        Ok(0)
    })
}

/// Duplicates `old` to the lowest free descriptor: `dup(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_dup(table: *const fdt_table, old: c_int) -> c_int {
    // SAFETY: as the caller promises.
    with_errno(|| Ok(unsafe { table_ref(table) }?.files.dup(old)?.raw()))
}

/// Duplicates `old` to the descriptor `new`: `dup2(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_dup2(table: *const fdt_table, old: c_int, new: c_int) -> c_int {
    with_errno(|| {
        // SAFETY: as the caller promises.
        drop(unsafe { table_ref(table) }?.files.dup2(old, new)?);
        Ok(new)
    })
}

/// Duplicates `old` to the descriptor `new`, with `FD_CLOEXEC` or 0: `dup3(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_dup3(
    table: *const fdt_table,
    old: c_int,
    new: c_int,
    flags: c_uint,
) -> c_int {
    with_errno(|| {
        let flags = descriptor_flags(flags)?;
        // SAFETY: as the caller promises.
        let table = unsafe { table_ref(table) }?;
        drop(table.files.dup3(old, new, flags)?);
        Ok(new)
    })
}

/// Returns the flags of a descriptor, 0 or `FD_CLOEXEC`, or -1 with `EBADF`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_get_flags(table: *const fdt_table, fd: c_int) -> c_int {
    with_errno(|| {
        // SAFETY: as the caller promises.
        let table = unsafe { table_ref(table) }?;
        Ok(table.files.fd_flags(fd)?.bits().cast_signed())
    })
}

/// Sets the flags of a descriptor. Returns 0, or -1 with `EBADF`, `EINVAL` or `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_set_flags(
    table: *const fdt_table,
    fd: c_int,
    flags: c_uint,
) -> c_int {
    with_errno(|| {
        let flags = descriptor_flags(flags)?;
        // SAFETY: as the caller promises.
        unsafe { table_ref(table) }?.files.set_fd_flags(fd, flags)?;
        Ok(0)
    })
}

/// Reserves the lowest free descriptor for a file that is installed later.
///
/// `flags` is `FD_CLOEXEC` or 0. Fills in `reservation`, and returns the descriptor; or marks it as
/// used, and returns -1 with `EINVAL` for other flags, `EMFILE` or `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_reserve(
    table: *const fdt_table,
    flags: c_uint,
    reservation: *mut fdt_reservation,
) -> c_int {
    with_errno(|| {
        uaccess::check(reservation, 1)?;
        // SAFETY: as the caller promises, there is room.
        unsafe { mark_as_used(reservation) };
        // SAFETY: as the caller promises.
        let files = &unsafe { table_ref(table) }?.files;
        let reserved = files.reserve(descriptor_flags(flags)?)?;
        let fd = reserved.fd().raw();
        // SAFETY: as the caller promises, there is room.
        unsafe { store_reservation(reservation, table, reserved) };
        Ok(fd)
    })
}

/// Installs `object` at a reserved descriptor of the same table, and marks the reservation as used.
///
/// Returns the descriptor, or -1: then the object belongs to the caller again. After `ENOMEM` the
/// descriptor stays reserved. `EINVAL` means that the reservation was used before; copies of it are
/// not marked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_install(
    table: *const fdt_table,
    reservation: *mut fdt_reservation,
    object: *mut c_void,
) -> c_int {
    with_errno(|| {
        // SAFETY: as the caller promises.
        let callbacks = unsafe { table_ref(table) }?.callbacks;
        // SAFETY: as the caller promises, it was filled in.
        unsafe { check_reservation(reservation, table) }?;
        let file = callbacks.file(object)?;
        // SAFETY: as the caller promises, no copy of it was used.
        let reserved = unsafe { take_reservation(reservation) }?;
        Ok(reserved.install(file).raw())
    })
}

/// Frees a reserved descriptor, and marks the reservation as used. Null, and a reservation that is
/// marked, are ignored. Does not change errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_cancel(reservation: *mut fdt_reservation) {
    if reservation.is_null() {
        return;
    }
    with_errno(|| {
        // SAFETY: as the caller promises, it was filled in, and no copy of it was used.
        drop(unsafe { take_reservation(reservation) });
        Ok(0)
    });
}

/// Creates a table with the same open files at the same descriptors: `fork(2)`. Returns null with
/// `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_fork(table: *const fdt_table) -> *mut fdt_table {
    with_errno(|| {
        // SAFETY: as the caller promises.
        let table = unsafe { table_ref(table) }?;
        Ok(table_into_raw(fdt_table {
            files: table.files.fork()?,
            callbacks: table.callbacks,
            family: Arc::clone(&table.family),
        }))
    })
}

/// Closes the descriptors that have `FD_CLOEXEC`: `execve(2)`. Returns 0, or -1 with `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_exec(table: *const fdt_table) -> c_int {
    with_errno(|| {
        // SAFETY: as the caller promises.
        unsafe { table_ref(table) }?.files.close_on_exec(drop)?;
        Ok(0)
    })
}

/// Returns the lowest open descriptor at or above `from`. If there is none, returns -1 and leaves
/// errno unchanged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_next_open(table: *const fdt_table, from: c_int) -> c_int {
    with_errno(|| {
        // SAFETY: as the caller promises.
        let next = unsafe { table_ref(table) }?.files.next_open(from);
        Ok(next.map_or(-1, |fd| fd.raw()))
    })
}

/// Sets the exclusive upper bound for new descriptors. Returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_set_limit(table: *const fdt_table, limit: c_uint) -> c_int {
    with_errno(|| {
        // SAFETY: as the caller promises.
        let files = &unsafe { table_ref(table) }?.files;
        let hard = limit.max(files.limits().hard);
        files.set_limits(fdtable::Limits { soft: limit, hard })?;
        Ok(0)
    })
}

/// Begins a read-side section of the calling thread. It must be short, and must not block. Sections
/// nest. A fork of the host process waits for its end.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_read_lock() -> fdt_section {
    handles::begin_section()
}

/// Ends a section, on the thread that began it. Nested sections end in reverse order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_read_unlock(section: fdt_section) {
    handles::begin_call(&fdt_read_unlock);
    // SAFETY: `fdt_read_lock` returned it on this thread, and the caller passes it in once.
    unsafe { handles::end_section(&section) };
}

/// Returns the object of a descriptor, valid until the section of this thread ends, or null with
/// `EBADF`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_borrow(
    table: *const fdt_table,
    fd: c_int,
    section: *const fdt_section,
) -> *mut c_void {
    without_freezer(|| {
        // SAFETY: `fdt_read_lock` returned it, and the section lasts, as the caller promises.
        let guard = unsafe { handles::section_guard(section) }?;
        // SAFETY: as the caller promises.
        let table = unsafe { table_ref(table) }?;
        Ok(table.files.get_rcu(fd, guard)?.pointer)
    })
}

/// Runs the body of a function. An error is stored in errno.
#[inline(always)]
fn with_errno<R: ReturnValue>(body: impl FnOnce() -> Result<R, Errno>) -> R {
    handles::begin_call(&body);
    call::with_errno(body)
}

/// Runs the body of a function that takes no lock, or that a section keeps from forks. An error is
/// stored in errno.
#[inline(always)]
fn without_freezer<R: ReturnValue>(body: impl FnOnce() -> Result<R, Errno>) -> R {
    handles::begin_call(&body);
    body().unwrap_or_else(|errno| {
        set_errno(errno);
        R::FAILED
    })
}

/// Waits until all callbacks that are queued now have run. It waits outside of the freezer: a
/// callback may sleep in a call of this library, and wait at its end for a fork of the host
/// process.
///
/// # Errors
/// `EDEADLK` inside a section or a callback, and where it would wait in a handler of a fork.
fn wait_for_callbacks() -> Result<(), Errno> {
    let mut barrier = rcu::Barrier::new();
    while !guarded(|| barrier.poll().map_err(|_| Errno::EDEADLK))? {
        // The thread that runs a callback may wait for the end of the fork, or not exist in the
        // child.
        if host_fork::is_frozen_here() {
            return Err(Errno::EDEADLK);
        }
        // In a call of `release` the thread is inside by the outer call.
        blocking(|| {
            thread::sleep(PAUSE);
            Ok(())
        })?;
    }
    Ok(())
}

/// Registers an exit handler that runs the queued callbacks. Handlers that the embedder registers
/// later run before it.
///
/// # Errors
/// `ENOMEM`; the next call tries again.
fn run_callbacks_at_exit() -> Result<(), Errno> {
    extern "C" fn at_exit() {
        // Each round runs what the previous one queued. The number is limited, because another
        // thread may never leave its section.
        for _ in 0..ROUNDS {
            if !matches!(guarded(|| Ok(rcu::try_barrier())), Ok(Ok(_))) {
                return;
            }
        }
    }
    static IS_REGISTERED: Mutex<bool> = Mutex::new(false);
    let mut is_registered = IS_REGISTERED.lock();
    if !*is_registered {
        // SAFETY: the function stays valid for the life of the process: this library is never
        // unloaded.
        if unsafe { libc::atexit(at_exit) } != 0 {
            return Err(Errno::ENOMEM);
        }
        *is_registered = true;
    }
    Ok(())
}

fn descriptor_flags(flags: c_uint) -> Result<FdFlags, Errno> {
    FdFlags::from_bits(flags).ok_or(Errno::EINVAL)
}
