//! Private descriptors: 64-bit handles that are never reused.
//!
//! A table of them has the same objects and callbacks as a plain table, and its references are
//! `fdt_file` too. No search for a lowest descriptor, fork or exec touches it.

use core::ffi::{c_int, c_uint, c_void};

use fdtable::{FileRef, PrivateFd, PrivateFiles, Rcu};

use super::{
    Callbacks, Object, box_from_raw, box_into_raw, fdt_callback, fdt_file, file_into_raw, file_ref,
    prepare, wait_for_callbacks, with_errno,
};

/// Table of private descriptors.
pub struct fdt_private {
    files: PrivateFiles<Rcu<Object>>,
    callbacks: Callbacks,
}

/// Creates an empty table of private descriptors, at most `limit` open ones.
///
/// A private descriptor has 64 bits, is neither 0 nor `UINT64_MAX`, and stays invalid once it was
/// closed. `release`, `free` and `user` are those of `fdt_table_new`. Returns null with `ENOMEM`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_private_new(
    limit: c_uint,
    release: fdt_callback,
    free: fdt_callback,
    user: *mut c_void,
) -> *mut fdt_private {
    with_errno(|| {
        prepare()?;
        box_into_raw(fdt_private {
            files: PrivateFiles::with_limit(limit),
            callbacks: Callbacks {
                release,
                free,
                user,
            },
        })
    })
}

/// Closes every descriptor of a table, and frees the table. Null is ignored.
///
/// Waits for sections and calls `free`, as `fdt_table_free` does for the last of the tables that
/// were forked from one another.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_private_free(table: *mut fdt_private) {
    if table.is_null() {
        return;
    }
    with_errno(|| {
        // SAFETY: the caller got it from this library, and does not use it any more.
        drop(unsafe { box_from_raw(table) });
        Ok(0)
    });
    // Fails inside a section or a callback, as documented.
    let _ = wait_for_callbacks();
}

/// Opens `object` at a descriptor that was never given out before.
///
/// Returns the descriptor, or 0 with `EMFILE` or `ENOMEM`. After an error the object belongs to the
/// caller again, and no function is called for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_private_open(table: *const fdt_private, object: *mut c_void) -> u64 {
    on!(table, {
        let open = |file| table.files.open(file);
        Ok(table.callbacks.open(object, open)?.to_bits())
    })
}

/// Opens the file of a reference at a private descriptor. The caller keeps the reference, which may
/// be from another table, as for `fdt_table_open_file`. Returns the descriptor, or 0 with `EMFILE`
/// or `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_private_open_file(
    table: *const fdt_private,
    file: *mut fdt_file,
) -> u64 {
    on!(table, {
        // SAFETY: as the caller promises.
        let file = unsafe { file_ref(file) }?;
        Ok(table.files.open(FileRef::clone(&file))?.to_bits())
    })
}

/// Returns a reference to the open file of a private descriptor, or null with `EBADF`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_private_get(table: *const fdt_private, fd: u64) -> *mut fdt_file {
    on!(table, {
        let file = table.files.get(PrivateFd::from_bits(fd))?;
        Ok(file_into_raw(file))
    })
}

/// Closes a private descriptor. Returns 0, or -1 with `EBADF`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_private_close(table: *const fdt_private, fd: u64) -> c_int {
    done_on!(table, table.files.close(PrivateFd::from_bits(fd)))
}
