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
//! # Safety
//! A table lives from [`fdt_table_new`] to [`fdt_table_free`]; an `fdt_file` to its one
//! [`fdt_file_put`]; a reservation to its one [`fdt_table_install`] or [`fdt_table_cancel`], and its
//! table outlives it. The functions that are given to a table are called on any thread, and do not
//! unwind.

use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop, MaybeUninit};

use fdtable::rcu::Guard;
use fdtable::{FdFlags, FileRef, Files, Reservation, freezer, host_fork, rcu};
use fdtable_vfs::Errno;

use crate::frame::call::{framed, set_errno};
use crate::frame::caller;

/// Function that a table calls with the pointer of an open file and what the table was made with.
#[allow(non_camel_case_types)]
pub type fdt_callback = Option<unsafe extern "C" fn(object: *mut c_void, user: *mut c_void)>;

/// Table of descriptors.
#[allow(non_camel_case_types)]
pub struct fdt_table {
    files: Files<Object>,
    callbacks: Callbacks,
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
/// an open file goes; `free` when no read-side section can see it any more. Each may be null.
/// Answers null with `ENOMEM`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_table_new(
    limit: c_uint,
    release: fdt_callback,
    free: fdt_callback,
    user: *mut c_void,
) -> *mut fdt_table {
    framed(|| {
        host_fork::register().map_err(|_| Errno::ENOMEM)?;
        made(fdt_table {
            files: Files::with_limit(limit),
            callbacks: Callbacks {
                release,
                free,
                user,
            },
        })
    })
}

/// Closes every descriptor of a table, and frees it. Null is no table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_free(table: *mut fdt_table) {
    if table.is_null() {
        return;
    }
    framed(|| {
        // SAFETY: made by `made`, and the caller is the last to have it.
        drop(unsafe { Box::from_raw(table) });
        Ok(0)
    });
}

/// Opens `object` at the lowest free number, with `FD_CLOEXEC` or 0. Answers the number, or -1 with
/// `EINVAL` for other flags, `EMFILE` or `ENOMEM`; the object is the caller's again then, and no function is called for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_open(
    table: *const fdt_table,
    object: *mut c_void,
    flags: c_uint,
) -> c_int {
    framed(|| {
        // SAFETY: as the caller promises.
        let table = unsafe { alive(table) }?;
        let reserved = table.files.reserve(descriptor_flags(flags)?)?;
        let file = table.file(object)?;
        Ok(reserved.install(file).raw())
    })
}

/// Takes a reference to the open file of a number. Answers null with `EBADF`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_get(table: *const fdt_table, fd: c_int) -> *mut fdt_file {
    framed(|| {
        // SAFETY: as the caller promises.
        let table = unsafe { alive(table) }?;
        Ok(given(table.files.get(fd)?))
    })
}

/// Drops a reference. Null is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_file_put(file: *mut fdt_file) {
    if file.is_null() {
        return;
    }
    framed(|| {
        // SAFETY: the caller had it from us, and has it no more.
        drop(unsafe { taken(file) });
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
    let file = ManuallyDrop::new(unsafe { taken(file) });
    given(FileRef::clone(&file))
}

/// Returns the object of an open file, which stays as long as the reference.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_file_object(file: *mut fdt_file) -> *mut c_void {
    if file.is_null() {
        set_errno(Errno::EFAULT);
        return std::ptr::null_mut();
    }
    // SAFETY: as above.
    let file = ManuallyDrop::new(unsafe { taken(file) });
    file.pointer
}

/// Closes a descriptor. Answers 0, or -1 with `EBADF` or `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_close(table: *const fdt_table, fd: c_int) -> c_int {
    framed(|| {
        // SAFETY: as the caller promises.
        unsafe { alive(table) }?.files.close(fd)?;
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
    framed(|| {
        // SAFETY: as the caller promises.
        unsafe { alive(table) }?.files.close_range(first, last)?;
        Ok(0)
    })
}

/// Opens the file of `old` under the lowest free number too: `dup(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_dup(table: *const fdt_table, old: c_int) -> c_int {
    // SAFETY: as the caller promises.
    framed(|| Ok(unsafe { alive(table) }?.files.dup(old)?.raw()))
}

/// Opens the file of `old` under the number `new` too: `dup2(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_dup2(table: *const fdt_table, old: c_int, new: c_int) -> c_int {
    // SAFETY: as the caller promises.
    framed(|| Ok(unsafe { alive(table) }?.files.dup2(old, new)?.raw()))
}

/// Opens the file of `old` under the number `new` too, with `FD_CLOEXEC` or 0: `dup3(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_dup3(
    table: *const fdt_table,
    old: c_int,
    new: c_int,
    flags: c_uint,
) -> c_int {
    framed(|| {
        let flags = descriptor_flags(flags)?;
        // SAFETY: as the caller promises.
        let table = unsafe { alive(table) }?;
        Ok(table.files.dup_to(old, new, flags)?.raw())
    })
}

/// Returns the flags of a descriptor, 0 or `FD_CLOEXEC`, or -1 with `EBADF`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_get_flags(table: *const fdt_table, fd: c_int) -> c_int {
    framed(|| {
        // SAFETY: as the caller promises.
        let table = unsafe { alive(table) }?;
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
    framed(|| {
        let flags = descriptor_flags(flags)?;
        // SAFETY: as the caller promises.
        unsafe { alive(table) }?.files.set_flags(fd, flags)?;
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
    framed(|| {
        caller::check(reservation, 1)?;
        // SAFETY: as the caller promises.
        let table = unsafe { alive(table) }?;
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
    framed(|| {
        // SAFETY: as the caller promises.
        let file = unsafe { alive(table) }?.file(object)?;
        // SAFETY: as the caller promises, it was filled in and is used once.
        let reserved = unsafe { reserved(reservation) };
        Ok(reserved.install(file).raw())
    })
}

/// Gives a number back that was taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_cancel(reservation: *const fdt_reservation) {
    framed(|| {
        // SAFETY: as the caller promises, it was filled in and is used once.
        drop(unsafe { reserved(reservation) });
        Ok(0)
    });
}

/// Makes a table with the same open files under the same numbers: `fork(2)`. Answers null with
/// `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_fork(table: *const fdt_table) -> *mut fdt_table {
    framed(|| {
        // SAFETY: as the caller promises.
        let table = unsafe { alive(table) }?;
        made(fdt_table {
            files: table.files.fork()?,
            callbacks: table.callbacks,
        })
    })
}

/// Closes the descriptors that have `FD_CLOEXEC`: `execve(2)`. Answers 0, or -1 with `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_exec(table: *const fdt_table) -> c_int {
    framed(|| {
        // SAFETY: as the caller promises.
        unsafe { alive(table) }?.files.exec()?;
        Ok(0)
    })
}

/// Returns the lowest open descriptor that is `from` or more, or -1, without an error, if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_next_open(table: *const fdt_table, from: c_int) -> c_int {
    framed(|| {
        // SAFETY: as the caller promises.
        let next = unsafe { alive(table) }?.files.next_open(from);
        Ok(next.map_or(-1, |fd| fd.raw()))
    })
}

/// Sets the limit below which new numbers are. Answers 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_set_limit(table: *const fdt_table, limit: c_uint) -> c_int {
    framed(|| {
        // SAFETY: as the caller promises.
        let files = &unsafe { alive(table) }?.files;
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
    let table = unsafe { alive(table) };
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
unsafe fn alive<'t>(table: *const fdt_table) -> Result<&'t fdt_table, Errno> {
    // SAFETY: as the caller promises.
    unsafe { table.as_ref() }.ok_or(Errno::EFAULT)
}

/// Hands a reference over to the caller.
fn given(file: FileRef<Object>) -> *mut fdt_file {
    // SAFETY: both are one pointer, which is looked at in `taken` alone.
    unsafe { mem::transmute::<FileRef<Object>, *mut fdt_file>(file) }
}

/// Takes a reference back.
///
/// # Safety
/// The pointer came from [`given`], and is taken back for good once.
unsafe fn taken(file: *mut fdt_file) -> FileRef<Object> {
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

fn made(table: fdt_table) -> Result<*mut fdt_table, Errno> {
    Ok(Box::into_raw(Box::new(table)))
}

fn descriptor_flags(flags: c_uint) -> Result<FdFlags, Errno> {
    FdFlags::from_bits(flags).ok_or(Errno::EINVAL)
}
