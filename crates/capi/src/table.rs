/// Runs the body of a function of C on what a pointer of its caller refers to: the argument with
/// this name, a table or a weak reference. An error is stored in errno.
macro_rules! on {
    ($handle:ident, $body:expr) => {
        $crate::table::with_errno(|| {
            // SAFETY: the caller of the function frees it neither before nor during the call.
            let $handle = unsafe { $crate::table::box_ref($handle) }?;
            $body
        })
    };
}

/// Runs a body like `on`, and returns 0 instead of its result, which is dropped.
macro_rules! done_on {
    ($handle:ident, $body:expr) => {
        on!($handle, {
            let _ = $body?;
            Ok(0)
        })
    };
}

mod at;
#[cfg(feature = "debug")]
mod checked_handles;
mod data;
#[cfg(not(feature = "debug"))]
mod handles;
mod private;
mod sections;
mod several;
mod weak;

#[cfg(feature = "debug")]
use checked_handles as handles;

use core::cell::Cell;
use core::ffi::{c_int, c_uint, c_void};
use core::marker::PhantomData;
use core::mem::MaybeUninit;

use fdtable::{Error, FdFlags, FileRef, Files, Rcu};

use crate::environment::{guarded, prepare, set_errno, wait_for_callbacks};
use crate::errno::{Errno, ReturnValue};
use crate::memory;

pub use at::*;
pub use data::*;
use handles::{
    box_from_raw, box_into_raw, box_ref, check_reservation, file_from_raw, file_into_raw, file_ref,
    mark_as_used, store_reservation, take_reservation,
};
pub use private::*;
pub use sections::*;
pub use several::*;
pub use weak::*;

/// Flag of `fdt_table_close_range`, as on Linux and FreeBSD.
const CLOSE_RANGE_CLOEXEC: c_uint = 4;

/// Callback of a table, with the pointer of an open file and the table's `user` pointer.
pub type fdt_callback = Option<unsafe extern "C" fn(object: *mut c_void, user: *mut c_void)>;

/// Table of descriptors.
///
/// A null pointer to a table, reference, reservation, section or function, or to a place for a
/// result that is not optional, is `EFAULT`. Functions that return nothing ignore it. These are
/// undefined, and end the process in a library that is built with the feature `debug`: to use what
/// was freed, put, ended before, or a copy of a reservation that was installed or cancelled; to use
/// a reservation with another table than its own; to end a section on another thread, or before one
/// inside it; to end a thread inside a section. Such a library also ends the process where `EINVAL`
/// says that a reservation was used before, and no handler of a signal may call it.
pub struct fdt_table {
    files: Files<Rcu<Object>>,
    callbacks: Callbacks,
    family: Family,
}

/// Reference to an open file.
pub struct fdt_file {
    /// Never constructed: a pointer to an `fdt_file` is a `FileRef`.
    _none: PhantomData<Object>,
}

/// Reserved descriptor that has no file yet. It may be kept across calls, copied, and installed or
/// cancelled once, by any thread; its table outlives it. To cancel one that is marked as used, or
/// is all zero, does nothing.
#[repr(C)]
pub struct fdt_reservation {
    /// Opaque to the caller.
    opaque: [MaybeUninit<usize>; 2],
}

/// Callbacks of a table for its objects.
#[derive(Clone, Copy)]
struct Callbacks {
    release: fdt_callback,
    free: fdt_callback,
    user: *mut c_void,
}

/// Shared by tables that were forked from one another. `user` may be freed after the last of them.
type Family = FileRef<()>;

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
// SAFETY: as above; this module never dereferences the pointers. The one release, by the thread
// that revokes the file or drops the last reference, writes the cell `is_released`, and the one
// drop after it reads the cell. `is_returned` is written before that, by a thread that has all
// references.
unsafe impl Sync for Object {}

impl fdt_table {
    fn fork(&self) -> Result<Self, Errno> {
        Ok(Self {
            files: self.files.fork()?,
            callbacks: self.callbacks,
            family: self.family.clone(),
        })
    }
}

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
    fn open<R, E: Into<Errno>>(
        self,
        object: *mut c_void,
        open: impl FnOnce(FileRef<Rcu<Object>>) -> Result<R, E>,
    ) -> Result<R, Errno> {
        let file = self.file(object)?;
        // Until it is marked, the file that could not be opened must not be released.
        let kept = file.clone();
        open(file).map_err(|error| {
            kept.is_returned.set(true);
            error.into()
        })
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
        prepare()?;
        box_into_raw(fdt_table {
            files: Files::with_limit(limit),
            callbacks: Callbacks {
                release,
                free,
                user,
            },
            family: FileRef::builder(()).try_build()?,
        })
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
        let fdt_table { files, family, .. } = unsafe { box_from_raw(table) };
        drop(files);
        // `into_inner` returns `None` if another thread is freeing another table: that one is the
        // last then.
        Ok(c_int::from(FileRef::into_inner(family).is_some()))
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
    or_errno(wait_for_callbacks().map(|()| 0))
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
    on!(table, {
        let reserved = table.files.reserve(descriptor_flags(flags)?)?;
        let file = table.callbacks.file(object)?;
        Ok(reserved.install(file).raw())
    })
}

/// Returns a reference to the open file of a descriptor, or null with `EBADF`. References to one
/// open file may have different addresses: `fdt_file_object` names it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_get(table: *const fdt_table, fd: c_int) -> *mut fdt_file {
    on!(table, Ok(file_into_raw(table.files.get(fd)?)))
}

/// Drops a reference. Null is ignored. If it was the last one, `release` is called here, and `free`
/// later: see `fdt_barrier`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_file_put(file: *mut fdt_file) {
    // SAFETY: the caller got it from this library, and does not use it any more.
    unless_null(file, || drop(unsafe { file_from_raw(file) }));
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

/// Revokes an open file: lookups of its descriptors return `EIO` from now on.
///
/// `release` is called here if no call has revoked the file before, and not again with the last
/// reference. The descriptors stay, and are closed and duplicated like others. Threads with a
/// reference, or inside a section, may still use the object, which decides what its operations
/// return; `free` is called after them. Returns 1 if this call revoked the file, and 0 if another
/// one did.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_file_revoke(file: *mut fdt_file) -> c_int {
    // SAFETY: as the caller promises.
    with_errno(|| Ok(FileRef::revoke(&*unsafe { file_ref(file) }?).into()))
}

/// Closes a descriptor. Returns 0, or -1 with `EBADF` or `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_close(table: *const fdt_table, fd: c_int) -> c_int {
    done_on!(table, table.files.close(fd))
}

/// Closes all descriptors from `first` to `last`, or sets `FD_CLOEXEC` on them: `close_range(2)`.
///
/// `flags` is `CLOSE_RANGE_CLOEXEC` or 0; for `CLOSE_RANGE_UNSHARE` see `fdt_table_unshare`.
/// Returns 0, or -1 with `EINVAL` for other flags, or if `first` is greater than `last`, or
/// `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_close_range(
    table: *const fdt_table,
    first: c_uint,
    last: c_uint,
    flags: c_uint,
) -> c_int {
    done_on!(
        table,
        match flags {
            0 => table.files.close_range(first, last, drop),
            CLOSE_RANGE_CLOEXEC => table.files.set_cloexec_range(first, last),
            _ => Err(Error::InvalidArgument),
        }
    )
}

/// Duplicates `old` to the lowest free descriptor: `dup(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_dup(table: *const fdt_table, old: c_int) -> c_int {
    on!(table, Ok(table.files.dup(old)?.raw()))
}

/// Duplicates `old` to the descriptor `new`: `dup2(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_dup2(table: *const fdt_table, old: c_int, new: c_int) -> c_int {
    on!(table, {
        drop(table.files.dup2(old, new)?);
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
    on!(table, {
        drop(table.files.dup3(old, new, descriptor_flags(flags)?)?);
        Ok(new)
    })
}

/// Returns the flags of a descriptor, 0 or `FD_CLOEXEC`, or -1 with `EBADF`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_get_flags(table: *const fdt_table, fd: c_int) -> c_int {
    on!(table, Ok(table.files.fd_flags(fd)?.bits().cast_signed()))
}

/// Sets the flags of a descriptor. Returns 0, or -1 with `EBADF`, `EINVAL` or `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_set_flags(
    table: *const fdt_table,
    fd: c_int,
    flags: c_uint,
) -> c_int {
    done_on!(
        table,
        table.files.set_fd_flags(fd, descriptor_flags(flags)?)
    )
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
        memory::check(reservation)?;
        // SAFETY: as the caller promises, there is room.
        unsafe { mark_as_used(reservation) };
        // SAFETY: as the caller promises.
        let files = &unsafe { box_ref(table) }?.files;
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
    let of = table;
    on!(table, {
        // SAFETY: as the caller promises, it was filled in.
        unsafe { check_reservation(reservation, of) }?;
        let file = table.callbacks.file(object)?;
        // SAFETY: as the caller promises, no copy of it was used.
        let reserved = unsafe { take_reservation(reservation) }?;
        Ok(reserved.install(file).raw())
    })
}

/// Frees a reserved descriptor, and marks the reservation as used. Null, and a reservation that is
/// marked, are ignored. Does not change errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_cancel(reservation: *mut fdt_reservation) {
    unless_null(reservation, || {
        // SAFETY: as the caller promises, it was filled in, and no copy of it was used.
        drop(unsafe { take_reservation(reservation) });
    });
}

/// Creates a table with the same open files at the same descriptors: `fork(2)`, and `unshare(2)`
/// with `CLONE_FILES`. Returns null with `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_fork(table: *const fdt_table) -> *mut fdt_table {
    on!(table, box_into_raw(table.fork()?))
}

/// Creates a table like `fdt_table_fork`, without the descriptors from `first` to `last`, for a
/// caller that replaces the table which it shares: `close_range(2)` with `CLOSE_RANGE_UNSHARE`.
/// Returns null with `EINVAL` if `first` is greater than `last`, or `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_unshare(
    table: *const fdt_table,
    first: c_uint,
    last: c_uint,
) -> *mut fdt_table {
    on!(table, {
        let child = table.fork()?;
        child.files.close_range(first, last, drop)?;
        box_into_raw(child)
    })
}

/// Closes the descriptors that have `FD_CLOEXEC`: `execve(2)`. Returns 0, or -1 with `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_exec(table: *const fdt_table) -> c_int {
    done_on!(table, table.files.close_on_exec(drop))
}

/// Stores the exclusive upper bound for new descriptors in `limit`. Returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_get_limit(table: *const fdt_table, limit: *mut c_uint) -> c_int {
    on!(table, {
        memory::check(limit)?;
        // SAFETY: as the caller promises, there is room.
        unsafe { limit.write_unaligned(table.files.limit()) };
        Ok(0)
    })
}

/// Sets the exclusive upper bound for new descriptors. Returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_set_limit(table: *const fdt_table, limit: c_uint) -> c_int {
    on!(table, {
        table.files.set_limit(limit);
        Ok(0)
    })
}

/// Runs the body of a function. An error is stored in errno.
#[inline(always)]
fn with_errno<R: ReturnValue>(body: impl FnOnce() -> Result<R, Errno>) -> R {
    handles::begin_call(&body);
    or_errno(guarded(body))
}

/// Runs the body of a function that returns nothing, unless the function gets null.
fn unless_null<T>(handle: *const T, body: impl FnOnce()) {
    handles::begin_call(&body);
    if !handle.is_null() {
        or_errno(guarded(|| {
            body();
            Ok(0)
        }));
    }
}

/// Runs the body of a function that takes no lock, or that a section keeps from forks. An error is
/// stored in errno.
#[inline(always)]
fn without_freezer<R: ReturnValue>(body: impl FnOnce() -> Result<R, Errno>) -> R {
    handles::begin_call(&body);
    or_errno(body())
}

/// Returns a result to the caller. An error is stored in errno.
#[inline(always)]
fn or_errno<R: ReturnValue>(result: Result<R, Errno>) -> R {
    result.unwrap_or_else(|errno| {
        set_errno(errno);
        R::FAILED
    })
}

fn descriptor_flags(flags: c_uint) -> Result<FdFlags, Errno> {
    // Hosts that have close-on-fork differ in its number, so callers in C have none.
    let known = |flags: &FdFlags| FdFlags::CLOEXEC.contains(*flags);
    FdFlags::from_bits(flags).filter(known).ok_or(Errno::EINVAL)
}
