//! The plain table, for embedders who bring their own objects.
//!
//! A table maps numbers to pointers of the embedder, which are counted here: when the last reference
//! to an *open file* goes, be it a number of a table or an [`fdt_file`] that a lookup has given out,
//! the table's release function is called with the pointer, once, on the thread that dropped it.
//!
//! Every function may be called by any thread. A lookup costs what it costs in Rust: see
//! `docs/performance.md`. Errors go to errno, as in the other part.
//!
//! # Borrowed access
//!
//! Between [`fdt_read_lock`] and [`fdt_read_unlock`] a lookup needs no reference:
//! [`fdt_table_borrow`] answers the pointer, whose object may have been released already when the
//! descriptor was closed meanwhile. What the release function frees must therefore outlive the
//! section: free it in the table's `free` function, which is called when no section can see the
//! object any more.
//!
//! # When an object and `user` may go
//!
//! `free` is called for an object some time after `release`: when no section can see the object any more,
//! and then with others, in batches. By then what it needs must still be there: the object, `user`, and
//! the code. [`fdt_barrier`] returns when it has been called for all objects that were released before.
//! It is also called, for all that were released before and that no section of another thread is in the
//! way of:
//! - when the last table goes of those that were forked from one another: [`fdt_table_free`] waits for
//!   sections then, so that `user` may go when it returns, if no [`fdt_file`] of the tables is left;
//! - when a thread ends that has used a table, without waiting;
//! - when the process ends by `exit(3)` or by the end of `main`, without waiting for long. Later than that,
//!   in what was registered with `atexit(3)` before the first table was made, `free` is called as before.
//!
//! `user` may go when all those tables and files have, and [`fdt_barrier`] has returned since, or the last
//! [`fdt_table_free`], if it came after the last [`fdt_file_put`] and outside of a section and of `free`.
//!
//! # Safety
//! A table lives from [`fdt_table_new`] to [`fdt_table_free`]; an `fdt_file` to its one
//! [`fdt_file_put`]; a reservation to its one [`fdt_table_install`] or [`fdt_table_cancel`], and its
//! table outlives it. The functions that are given to a table are called on any thread, and do not
//! unwind.

use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fdtable::rcu::Guard;
use fdtable::{FdFlags, FileRef, Files, Reservation, freezer, host_fork, rcu};
use fdtable_vfs::Errno;
use parking_lot::Mutex;

use crate::abi::call::{guarded, set_errno, with_errno};
use crate::abi::uaccess;

/// How long a thread sleeps before it looks again for the end of sections.
const PAUSE: Duration = Duration::from_micros(50);

/// How often the end of the process looks for callbacks: those of one round may queue more.
const ROUNDS: usize = 16;

/// Function that a table calls with the pointer of an open file and what the table was made with.
#[allow(non_camel_case_types)]
pub type fdt_callback = Option<unsafe extern "C" fn(object: *mut c_void, user: *mut c_void)>;

/// Table of descriptors.
#[allow(non_camel_case_types)]
pub struct fdt_table {
    files: Files<Object>,
    callbacks: Callbacks,
    family: Family,
}

/// Reference to an open file.
#[allow(non_camel_case_types)]
pub struct fdt_file {
    /// It is never made: a pointer to one is a `FileRef`.
    _none: PhantomData<Object>,
}

/// Read-side section of a thread: what [`fdt_read_lock`] answers and [`fdt_read_unlock`] takes.
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct fdt_section {
    /// Not for the caller.
    opaque: [MaybeUninit<usize>; 2],
}

/// Number that is taken and has no file yet.
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct fdt_reservation {
    /// Not for the caller.
    opaque: [MaybeUninit<usize>; 2],
}

/// What a table does with its objects.
#[derive(Clone, Copy)]
struct Callbacks {
    release: fdt_callback,
    free: fdt_callback,
    user: *mut c_void,
}

/// What tables have in common that were forked from one another: `user`, who may go when the last of them
/// has.
type Family = Arc<()>;

/// Object of the embedder, in an open file.
struct Object {
    pointer: *mut c_void,
    callbacks: Callbacks,
    /// Its end has come: it was in an open file, and is not the embedder's again.
    is_released: Cell<bool>,
}

// SAFETY: the embedder's functions are for any thread, and so are its pointers, as it promises.
unsafe impl Send for Object {}
// SAFETY: as above; here nobody looks behind the pointers. The cell is written by the one release, and
// read by the one drop after it.
unsafe impl Sync for Object {}

const _: () = assert!(size_of::<FileRef<Object>>() == size_of::<*mut fdt_file>());
const _: () = assert!(size_of::<(freezer::Entry, Guard<'_>)>() <= size_of::<fdt_section>());
const _: () = assert!(size_of::<Reservation<'_, Object>>() <= size_of::<fdt_reservation>());

impl Object {
    fn release(&self) {
        self.is_released.set(true);
        if let Some(release) = self.callbacks.release {
            // SAFETY: the embedder's function takes the embedder's pointers.
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

impl fdt_table {
    fn file(&self, object: *mut c_void) -> Result<FileRef<Object>, Errno> {
        let object = Object {
            pointer: object,
            callbacks: self.callbacks,
            is_released: Cell::new(false),
        };
        Ok(FileRef::try_with_release(object, Object::release)?)
    }
}

/// Makes an empty table whose numbers are below `limit`. `release` is called when the last reference to
/// an open file goes; `free` when no read-side section can see it any more: at the latest in
/// `fdt_barrier`, at the end of the last table that was forked from this one, at the end of a thread that
/// has used it, or in `exit(3)`. Each may be null, and is called on any thread, also as that ends. `user`
/// may go when the last `fdt_table_free` of this table and its forks has returned, and if a reference of
/// `fdt_table_get` was put after that, then `fdt_barrier`. Answers null with `ENOMEM`.
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
        boxed(fdt_table {
            files: Files::with_limit(limit),
            callbacks: Callbacks {
                release,
                free,
                user,
            },
            family: Arc::new(()),
        })
    })
}

/// Closes every descriptor of a table, and frees it. Null is no table. If it is the last of those that
/// were forked from one another, waits for sections as `fdt_barrier` does: then `free` has been called
/// for every object of theirs that was released. Inside a section or a call of `free` it does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_free(table: *mut fdt_table) {
    if table.is_null() {
        return;
    }
    let is_last = with_errno(|| {
        // SAFETY: made by `boxed`, and the caller is the last to have it.
        let fdt_table { files, family, .. } = *unsafe { Box::from_raw(table) };
        drop(files);
        // None, if another thread frees another one: that is the last then.
        Ok(c_int::from(Arc::into_inner(family).is_some()))
    });
    if is_last == 1 {
        // Refused inside a section or a callback, as is said above.
        let _ = wait_for_callbacks();
    }
}

/// Waits until `free` has been called for every object that was released before, of any table, by any
/// thread; and so for sections of all threads. Calls some itself. Answers 0, or -1 with `EDEADLK` inside a
/// section of this thread, or inside a call of `free`.
///
/// The caller holds no lock that a `free` function takes, or that a thread takes inside a section.
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

/// Opens `object` at the lowest free number, with `FD_CLOEXEC` or 0. Answers the number, or -1 with
/// `EINVAL` for other flags, `EMFILE` or `ENOMEM`; the object is the caller's again then, and no function is called for it.
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
        let file = table.file(object)?;
        Ok(reserved.install(file).raw())
    })
}

/// Takes a reference to the open file of a number. Answers null with `EBADF`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_get(table: *const fdt_table, fd: c_int) -> *mut fdt_file {
    with_errno(|| {
        // SAFETY: as the caller promises.
        let table = unsafe { table_ref(table) }?;
        Ok(into_raw(table.files.get(fd)?))
    })
}

/// Drops a reference. Null is none. If it was the last one, the table's `release` is called here, and
/// `free` later: see `fdt_barrier`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_file_put(file: *mut fdt_file) {
    if file.is_null() {
        return;
    }
    with_errno(|| {
        // SAFETY: the caller had it from us, and has it no more.
        drop(unsafe { from_raw(file) });
        Ok(0)
    });
}

/// Takes one reference more to the same open file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_file_clone(file: *mut fdt_file) -> *mut fdt_file {
    if file.is_null() {
        set_errno(Errno::EFAULT);
        return file;
    }
    // SAFETY: the caller had it from us, and keeps it: the copy is not dropped.
    let file = ManuallyDrop::new(unsafe { from_raw(file) });
    into_raw(FileRef::clone(&file))
}

/// Returns the object of an open file, which stays as long as the reference.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_file_object(file: *mut fdt_file) -> *mut c_void {
    if file.is_null() {
        set_errno(Errno::EFAULT);
        return std::ptr::null_mut();
    }
    // SAFETY: as above.
    let file = ManuallyDrop::new(unsafe { from_raw(file) });
    file.pointer
}

/// Closes a descriptor. Answers 0, or -1 with `EBADF` or `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_close(table: *const fdt_table, fd: c_int) -> c_int {
    with_errno(|| {
        // SAFETY: as the caller promises.
        unsafe { table_ref(table) }?.files.close(fd)?;
        Ok(0)
    })
}

/// Closes all descriptors from `first` to `last`. Answers 0, or -1 with `EINVAL` or `ENOMEM`.
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
            .close_range(first, last)?;
        Ok(0)
    })
}

/// Opens the file of `old` under the lowest free number too: `dup(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_dup(table: *const fdt_table, old: c_int) -> c_int {
    // SAFETY: as the caller promises.
    with_errno(|| Ok(unsafe { table_ref(table) }?.files.dup(old)?.raw()))
}

/// Opens the file of `old` under the number `new` too: `dup2(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_dup2(table: *const fdt_table, old: c_int, new: c_int) -> c_int {
    // SAFETY: as the caller promises.
    with_errno(|| Ok(unsafe { table_ref(table) }?.files.dup2(old, new)?.raw()))
}

/// Opens the file of `old` under the number `new` too, with `FD_CLOEXEC` or 0: `dup3(2)`.
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
        Ok(table.files.dup_to(old, new, flags)?.raw())
    })
}

/// Returns the flags of a descriptor, 0 or `FD_CLOEXEC`, or -1 with `EBADF`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_get_flags(table: *const fdt_table, fd: c_int) -> c_int {
    with_errno(|| {
        // SAFETY: as the caller promises.
        let table = unsafe { table_ref(table) }?;
        Ok(table.files.flags(fd)?.bits().cast_signed())
    })
}

/// Sets the flags of a descriptor. Answers 0, or -1 with `EBADF`, `EINVAL` or `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_set_flags(
    table: *const fdt_table,
    fd: c_int,
    flags: c_uint,
) -> c_int {
    with_errno(|| {
        let flags = descriptor_flags(flags)?;
        // SAFETY: as the caller promises.
        unsafe { table_ref(table) }?.files.set_flags(fd, flags)?;
        Ok(0)
    })
}

/// Takes the lowest free number, for a file that comes later, with `FD_CLOEXEC` or 0, and fills in
/// `reservation`. Answers the number, or -1 with `EINVAL` for other flags, `EMFILE` or `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_reserve(
    table: *const fdt_table,
    flags: c_uint,
    reservation: *mut fdt_reservation,
) -> c_int {
    with_errno(|| {
        uaccess::check(reservation, 1)?;
        // SAFETY: as the caller promises.
        let table = unsafe { table_ref(table) }?;
        let reserved = table.files.reserve(descriptor_flags(flags)?)?;
        let fd = reserved.fd().raw();
        // SAFETY: there is room, as the caller promises and the assertion above.
        unsafe {
            reservation
                .cast::<Reservation<'_, Object>>()
                .write_unaligned(reserved);
        };
        Ok(fd)
    })
}

/// Puts `object` behind a number that was taken. Answers the number, or -1 with `ENOMEM`: then the
/// object is the caller's again, and the number still taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_install(
    table: *const fdt_table,
    reservation: *const fdt_reservation,
    object: *mut c_void,
) -> c_int {
    with_errno(|| {
        // SAFETY: as the caller promises.
        let file = unsafe { table_ref(table) }?.file(object)?;
        // SAFETY: as the caller promises, it was filled in and is used once.
        let reserved = unsafe { reserved(reservation) };
        Ok(reserved.install(file).raw())
    })
}

/// Gives a number back that was taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_cancel(reservation: *const fdt_reservation) {
    with_errno(|| {
        // SAFETY: as the caller promises, it was filled in and is used once.
        drop(unsafe { reserved(reservation) });
        Ok(0)
    });
}

/// Makes a table with the same open files under the same numbers: `fork(2)`. Answers null with
/// `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_fork(table: *const fdt_table) -> *mut fdt_table {
    with_errno(|| {
        // SAFETY: as the caller promises.
        let table = unsafe { table_ref(table) }?;
        boxed(fdt_table {
            files: table.files.fork()?,
            callbacks: table.callbacks,
            family: Arc::clone(&table.family),
        })
    })
}

/// Closes the descriptors that have `FD_CLOEXEC`: `execve(2)`. Answers 0, or -1 with `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_exec(table: *const fdt_table) -> c_int {
    with_errno(|| {
        // SAFETY: as the caller promises.
        unsafe { table_ref(table) }?.files.exec()?;
        Ok(0)
    })
}

/// Returns the lowest open descriptor that is `from` or more, or -1, without an error, if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_next_open(table: *const fdt_table, from: c_int) -> c_int {
    with_errno(|| {
        // SAFETY: as the caller promises.
        let next = unsafe { table_ref(table) }?.files.next_open(from);
        Ok(next.map_or(-1, |fd| fd.raw()))
    })
}

/// Sets the limit below which new numbers are. Answers 0.
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

/// Begins a read-side section of the calling thread. It must be short, and must not block; sections
/// nest. A fork of the host process waits for its end.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_read_lock() -> fdt_section {
    let inside = (freezer::enter(), rcu::read_lock());
    let mut section = fdt_section {
        opaque: [MaybeUninit::uninit(); 2],
    };
    // SAFETY: there is room, as the assertion above says, and a word's alignment is enough.
    unsafe {
        (&raw mut section.opaque)
            .cast::<(freezer::Entry, Guard<'_>)>()
            .write(inside);
    };
    section
}

/// Ends a section, on the thread that began it; the last one first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_read_unlock(section: fdt_section) {
    let inside = (&raw const section.opaque).cast::<(freezer::Entry, Guard<'static>)>();
    // SAFETY: `fdt_read_lock` has written it, and the caller gives it back once.
    let (entry, guard) = unsafe { inside.read() };
    drop(guard);
    drop(entry);
}

/// Returns the object of a descriptor, inside of a section of this thread: it is good until that ends.
/// Answers null with `EBADF`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_borrow(
    table: *const fdt_table,
    fd: c_int,
    section: *const fdt_section,
) -> *mut c_void {
    // SAFETY: `fdt_read_lock` has written it, and the section lasts, as the caller promises.
    let (_, guard) = unsafe { &*section.cast::<(freezer::Entry, Guard<'_>)>() };
    // SAFETY: as the caller promises.
    let table = unsafe { table_ref(table) };
    match table.and_then(|table| Ok(table.files.borrow(fd, guard)?)) {
        Ok(file) => file.pointer,
        Err(errno) => {
            set_errno(errno);
            std::ptr::null_mut()
        }
    }
}

/// Returns a table of the caller.
///
/// # Errors
/// `EFAULT` if it is null.
///
/// # Safety
/// A table that is not null is not freed yet.
#[inline(always)]
unsafe fn table_ref<'t>(table: *const fdt_table) -> Result<&'t fdt_table, Errno> {
    // SAFETY: as the caller promises.
    unsafe { table.as_ref() }.ok_or(Errno::EFAULT)
}

/// Hands a reference over to the caller.
fn into_raw(file: FileRef<Object>) -> *mut fdt_file {
    // SAFETY: both are one pointer, which is looked at in `from_raw` alone.
    unsafe { mem::transmute::<FileRef<Object>, *mut fdt_file>(file) }
}

/// Takes a reference back.
///
/// # Safety
/// The pointer came from [`into_raw`], and is taken back for good once.
unsafe fn from_raw(file: *mut fdt_file) -> FileRef<Object> {
    // SAFETY: as the caller promises.
    unsafe { mem::transmute::<*mut fdt_file, FileRef<Object>>(file) }
}

/// Takes a reservation back.
///
/// # Safety
/// `fdt_table_reserve` has filled it in, its table is alive, and it is taken back once.
unsafe fn reserved<'t>(reservation: *const fdt_reservation) -> Reservation<'t, Object> {
    // SAFETY: as the caller promises.
    unsafe {
        reservation
            .cast::<Reservation<'t, Object>>()
            .read_unaligned()
    }
}

fn boxed(table: fdt_table) -> Result<*mut fdt_table, Errno> {
    Ok(Box::into_raw(Box::new(table)))
}

/// Waits until all callbacks have run that are queued now. It waits outside of the freezer: a callback may
/// sleep in a call of this library, and wait for a fork of the host process at its end.
///
/// # Errors
/// `EDEADLK` inside a section or a callback.
fn wait_for_callbacks() -> Result<(), Errno> {
    let mut all_ran = false;
    while !all_ran {
        let answer = guarded(|| rcu::try_barrier().map_err(|_| Errno::EDEADLK));
        all_ran = answer?;
        if !all_ran {
            thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// Has the end of the process run what callbacks are queued then. Functions that the embedder registers
/// from now on run before.
///
/// # Errors
/// `ENOMEM`; the next call tries again.
fn run_callbacks_at_exit() -> Result<(), Errno> {
    extern "C" fn at_exit() {
        // Each round runs what those before have queued. Another thread may be inside a section for good.
        for _ in 0..ROUNDS {
            if !matches!(guarded(|| Ok(rcu::try_barrier())), Ok(Ok(_))) {
                return;
            }
        }
    }
    static IS_REGISTERED: Mutex<bool> = Mutex::new(false);
    let mut is_registered = IS_REGISTERED.lock();
    if !*is_registered {
        // SAFETY: the function stays for the life of the process: this library is not unloaded.
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
