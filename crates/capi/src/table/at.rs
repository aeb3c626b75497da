//! An object at a descriptor that the caller chooses: replace, open there, rename, close if.

use core::ffi::{c_int, c_void};
use core::ptr;

use super::data::{fdt_data, pass, read};
use super::{fdt_file, fdt_table, file_ref};

/// Opens `object` at the descriptor `fd`, open or free, in place of what was there, atomically.
///
/// Stores the reference to the displaced file in `displaced`, or null if `fd` was free; if
/// `displaced` is null, drops the reference. Stores the data that the descriptor had in
/// `displaced_data`, unless that is null. `data` may be null.
///
/// Returns 0, or -1 with `EINVAL` for unknown flags, `EBADF` if `fd` is negative or at or above the
/// limit, `EBUSY` if it is reserved, or `ENOMEM`. After an error the object belongs to the caller
/// again, no function is called for it, and nothing is stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_replace(
    table: *const fdt_table,
    fd: c_int,
    object: *mut c_void,
    data: *const fdt_data,
    displaced: *mut *mut fdt_file,
    displaced_data: *mut fdt_data,
) -> c_int {
    on!(table, {
        // SAFETY: as the caller promises.
        let data = unsafe { read(data) }?;
        let replace = |file| table.files.replace(fd, file, data);
        let open = || table.callbacks.open(object, replace);
        // SAFETY: as the caller promises, there is room.
        unsafe { pass(displaced, displaced_data, open) }
    })
}

/// Opens `object` at the free descriptor `fd`. `data` may be null.
///
/// Returns 0, or -1 with `EEXIST` if the descriptor is open, `EINVAL` for unknown flags, `EBADF` if
/// it is negative or at or above the limit, `EBUSY` if it is reserved, or `ENOMEM`. After an error
/// the object belongs to the caller again, and no function is called for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_open_at(
    table: *const fdt_table,
    fd: c_int,
    object: *mut c_void,
    data: *const fdt_data,
) -> c_int {
    on!(table, {
        // SAFETY: as the caller promises.
        let data = unsafe { read(data) }?;
        let open = |file| table.files.open_at(fd, file, data);
        table.callbacks.open(object, open)?;
        Ok(0)
    })
}

/// Opens `object` at the descriptor `fd` like `fdt_table_replace`, if `expected` is open there.
///
/// Returns 0, or -1 with `EBADF` if the descriptor is not open, `ESTALE` if another file is open
/// there, `EINVAL` for unknown flags, or `ENOMEM`. After an error the object belongs to the caller
/// again, no function is called for it, and nothing is stored. The caller keeps the reference
/// `expected`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_replace_if(
    table: *const fdt_table,
    fd: c_int,
    expected: *mut fdt_file,
    object: *mut c_void,
    data: *const fdt_data,
    displaced_data: *mut fdt_data,
) -> c_int {
    on!(table, {
        // SAFETY: as the caller promises.
        let expected = unsafe { file_ref(expected) }?;
        // SAFETY: as the caller promises.
        let data = unsafe { read(data) }?;
        let replace = |file| table.files.replace_if(fd, &expected, file, data).map(Some);
        let open = || table.callbacks.open(object, replace);
        // SAFETY: as the caller promises, there is room.
        unsafe { pass(ptr::null_mut(), displaced_data, open) }
    })
}

/// Closes the descriptor `fd`, if `expected` is open there.
///
/// Stores the data that the descriptor had in `data`, unless that is null. Returns 0, or -1 with
/// `EBADF` if the descriptor is not open, `ESTALE` if another file is open there, or `ENOMEM`. The
/// caller keeps the reference `expected`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_close_if(
    table: *const fdt_table,
    fd: c_int,
    expected: *mut fdt_file,
    data: *mut fdt_data,
) -> c_int {
    on!(table, {
        // SAFETY: as the caller promises.
        let expected = unsafe { file_ref(expected) }?;
        let close = || Ok(Some(table.files.close_if(fd, Some(&expected))?));
        // SAFETY: as the caller promises, there is room.
        unsafe { pass(ptr::null_mut(), data, close) }
    })
}

/// Moves what is open at `from` to the descriptor `to`, with its data, and frees `from`,
/// atomically.
///
/// Stores what was open at `to` like `fdt_table_replace`. The same descriptor twice is no change. A
/// lookup in another thread may find the file at both descriptors for a moment, and never at
/// neither.
///
/// Returns 0, or -1 with `EBADF` if `from` is not open, or `to` is negative or at or above the
/// limit, `EBUSY` if `to` is reserved, or `ENOMEM`. After an error nothing is stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_rename(
    table: *const fdt_table,
    from: c_int,
    to: c_int,
    displaced: *mut *mut fdt_file,
    displaced_data: *mut fdt_data,
) -> c_int {
    on!(table, {
        let rename = || Ok(table.files.rename(from, to)?);
        // SAFETY: as the caller promises, there is room.
        unsafe { pass(displaced, displaced_data, rename) }
    })
}
