//! Handles of the caller: pointers to tables, references, reservations and sections.
//!
//! Here each of them is the Rust value itself, and costs nothing more. A library with the feature
//! `debug` has `checked_handles.rs` instead, with the same functions.

use alloc::boxed::Box;
use core::mem::{self, ManuallyDrop, MaybeUninit};

use fdtable::rcu::Guard;
use fdtable::{FileRef, Rcu, Reservation, rcu};
use fdtable_sync::fallible::try_box;

use super::{Object, fdt_file, fdt_reservation, fdt_section, fdt_table};
use crate::environment::{Entry, enter};
use crate::errno::Errno;
use crate::memory::check;

/// Content of an [`fdt_section`]. The guard is dropped first.
type Section<'s> = (Guard<'s>, Entry);

/// Reservation in an [`fdt_reservation`], until it is used.
type Unused<'t> = Option<Reservation<'t, Rcu<Object>>>;

const _: () = assert!(size_of::<FileRef<Rcu<Object>>>() == size_of::<*mut fdt_file>());
const _: () = assert!(size_of::<Section<'_>>() <= size_of::<fdt_section>());
const _: () = assert!(size_of::<Unused<'_>>() <= size_of::<fdt_reservation>());

/// Begins a function of the interface. `_body` names it.
#[inline(always)]
pub(super) fn begin_call<F>(_body: &F) {}

/// Passes a table or a weak reference to the caller.
///
/// # Errors
/// `ENOMEM`.
pub(super) fn box_into_raw<T>(handle: T) -> Result<*mut T, Errno> {
    Ok(Box::into_raw(try_box(handle)?))
}

/// Takes a table or a weak reference back from the caller.
///
/// # Safety
/// The pointer came from [`box_into_raw`], and is taken back once.
pub(super) unsafe fn box_from_raw<T>(handle: *mut T) -> T {
    // SAFETY: as the caller promises.
    *unsafe { Box::from_raw(handle) }
}

/// Returns a reference to a table or a weak reference of the caller.
///
/// # Errors
/// `EFAULT` if it is null.
///
/// # Safety
/// A value that is not null is not freed yet.
#[inline(always)]
pub(super) unsafe fn box_ref<'t, T>(handle: *const T) -> Result<&'t T, Errno> {
    // SAFETY: as the caller promises.
    unsafe { handle.as_ref() }.ok_or(Errno::EFAULT)
}

/// Passes a reference to the caller.
pub(super) fn file_into_raw(file: FileRef<Rcu<Object>>) -> *mut fdt_file {
    // SAFETY: both are one pointer, which only `file_from_raw` uses.
    unsafe { mem::transmute::<FileRef<Rcu<Object>>, *mut fdt_file>(file) }
}

/// Takes a reference back from the caller.
///
/// # Safety
/// The pointer came from [`file_into_raw`], and only one of the values made from it is dropped.
pub(super) unsafe fn file_from_raw(file: *mut fdt_file) -> FileRef<Rcu<Object>> {
    // SAFETY: as the caller promises.
    unsafe { mem::transmute::<*mut fdt_file, FileRef<Rcu<Object>>>(file) }
}

/// Returns a reference of the caller. The caller keeps it.
///
/// # Errors
/// `EFAULT` if it is null.
///
/// # Safety
/// If it is not null, the caller got it from this library and does not put it during the call.
pub(super) unsafe fn file_ref(
    file: *mut fdt_file,
) -> Result<ManuallyDrop<FileRef<Rcu<Object>>>, Errno> {
    if file.is_null() {
        return Err(Errno::EFAULT);
    }
    // SAFETY: as the caller promises: this copy is not dropped.
    Ok(ManuallyDrop::new(unsafe { file_from_raw(file) }))
}

/// Marks a reservation as used.
///
/// # Safety
/// There is room at `at`.
pub(super) unsafe fn mark_as_used(at: *mut fdt_reservation) {
    // SAFETY: as the caller promises, and by the assertion above.
    unsafe { at.cast::<Unused<'_>>().write_unaligned(None) };
}

/// Stores a reservation for the caller.
///
/// # Safety
/// There is room at `at`.
pub(super) unsafe fn store_reservation(
    at: *mut fdt_reservation,
    _table: *const fdt_table,
    reserved: Reservation<'_, Rcu<Object>>,
) {
    // SAFETY: as the caller promises, and by the assertion above.
    unsafe { at.cast::<Unused<'_>>().write_unaligned(Some(reserved)) };
}

/// Checks that a reservation can be installed.
///
/// # Errors
/// `EFAULT` if it is null; `EINVAL` if it was used before.
///
/// # Safety
/// If `at` can be an address, a reservation is there, marked or not.
pub(super) unsafe fn check_reservation(
    at: *const fdt_reservation,
    _table: *const fdt_table,
) -> Result<(), Errno> {
    check(at)?;
    // SAFETY: as the caller promises: this copy is not dropped.
    let held = unsafe { at.cast::<ManuallyDrop<Unused<'_>>>().read_unaligned() };
    if held.is_none() {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// Takes a reservation back from the caller, and marks it as used.
///
/// # Errors
/// Errors of [`check_reservation`].
///
/// # Safety
/// If `at` can be an address, a reservation is there: it is marked, or its table is not freed and
/// no copy of it was taken back.
pub(super) unsafe fn take_reservation<'t>(
    at: *mut fdt_reservation,
) -> Result<Reservation<'t, Rcu<Object>>, Errno> {
    check(at)?;
    // SAFETY: as the caller promises. The value that is read is the only one: it is overwritten.
    let held = unsafe { at.cast::<Unused<'t>>().read_unaligned() };
    // SAFETY: there is room, as above.
    unsafe { mark_as_used(at) };
    held.ok_or(Errno::EINVAL)
}

/// Begins a section.
pub(super) fn begin_section() -> fdt_section {
    let entry = enter();
    let inside = (rcu::read_lock(), entry);
    let mut section = fdt_section {
        opaque: [MaybeUninit::uninit(); 2],
    };
    // SAFETY: there is room, by the assertion above, and the alignment of a word suffices.
    unsafe {
        (&raw mut section.opaque)
            .cast::<Section<'_>>()
            .write(inside);
    };
    section
}

/// Ends a section.
///
/// # Safety
/// [`begin_section`] returned it on this thread, and it is ended once.
pub(super) unsafe fn end_section(section: &fdt_section) {
    let inside = (&raw const section.opaque).cast::<Section<'static>>();
    // SAFETY: as the caller promises.
    drop(unsafe { inside.read() });
}

/// Returns the guard of a section.
///
/// # Errors
/// `EFAULT` if it is null.
///
/// # Safety
/// If it is not null, [`begin_section`] returned it on this thread, and it lasts.
#[inline(always)]
pub(super) unsafe fn section_guard<'s>(
    section: *const fdt_section,
) -> Result<&'s Guard<'s>, Errno> {
    let inside = section.cast::<Section<'s>>();
    // SAFETY: as the caller promises.
    let (guard, _) = unsafe { inside.as_ref() }.ok_or(Errno::EFAULT)?;
    Ok(guard)
}
