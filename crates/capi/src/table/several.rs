//! Several descriptors at once: all of them, or none.

use core::ffi::{c_int, c_uint, c_void};

use super::{
    box_ref, descriptor_flags, fdt_reservation, fdt_table, mark_as_used, store_reservation,
    with_errno,
};
use crate::memory::{check, check_if_any};

/// Opens two objects at the two lowest free descriptors, atomically: `pipe(2)`.
///
/// `flags` is `FD_CLOEXEC` or 0. Stores the descriptors in `fds`. Returns 0, or -1 with `EINVAL`
/// for other flags, `EMFILE` or `ENOMEM`. After an error both objects belong to the caller again,
/// no function is called for them, and nothing is stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_open_pair(
    table: *const fdt_table,
    first: *mut c_void,
    second: *mut c_void,
    flags: c_uint,
    fds: *mut c_int,
) -> c_int {
    on!(table, {
        check(fds)?;
        let flags = descriptor_flags(flags)?;
        let open = |pair| table.files.open_pair(pair, flags);
        let opened = table.callbacks.open(first, |one| {
            table.callbacks.open(second, |other| open((one, other)))
        })?;
        // SAFETY: as the caller promises, there is room for two.
        unsafe {
            fds.write_unaligned(opened.0.raw());
            fds.add(1).write_unaligned(opened.1.raw());
        }
        Ok(0)
    })
}

/// Reserves the `count` lowest free descriptors: for the files of a message, up to 256 atomically,
/// and more in steps of 256.
///
/// `flags` is `FD_CLOEXEC` or 0. Fills in as many `reservations`, and stores the descriptors in
/// `fds`, unless that is null, in ascending order. Returns 0; or marks all reservations as used,
/// and returns -1 with `EINVAL` for other flags, `EMFILE` or `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_reserve_many(
    table: *const fdt_table,
    count: usize,
    flags: c_uint,
    reservations: *mut fdt_reservation,
    fds: *mut c_int,
) -> c_int {
    with_errno(|| {
        check(reservations)?;
        check_if_any(fds)?;
        for index in 0..count {
            // SAFETY: as the caller promises, there is room for as many.
            unsafe { mark_as_used(reservations.add(index)) };
        }
        // SAFETY: as the caller promises.
        let files = &unsafe { box_ref(table) }?.files;
        let reserved = files.reserve_many(count, descriptor_flags(flags)?)?;
        for (index, one) in reserved.enumerate() {
            // SAFETY: as the caller promises, there is room for as many.
            unsafe {
                if !fds.is_null() {
                    fds.add(index).write_unaligned(one.fd().raw());
                }
                store_reservation(reservations.add(index), table, one);
            }
        }
        Ok(0)
    })
}
