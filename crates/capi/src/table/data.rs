//! The data of a descriptor besides its object: flags and a word of the embedder.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr;

use fdtable::{ClosedFile, FdData, FileRef, Rcu};

use super::{
    Object, check_reservation, descriptor_flags, fdt_file, fdt_reservation, fdt_table,
    file_into_raw, file_ref, take_reservation,
};
use crate::errno::Errno;
use crate::memory::{check, check_if_any, get_if_any, put_if_any};

/// Data of a descriptor besides its object.
///
/// It belongs to the descriptor, as `FD_CLOEXEC` does: `fdt_table_dup` and `fdt_table_dup2` do not
/// copy it, `fdt_table_rename` and `fdt_table_fork` do. A null pointer to it means no flags
/// and the word 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fdt_data {
    /// `FD_CLOEXEC` or 0.
    pub flags: c_uint,
    /// A word of the caller.
    pub word: u64,
}

impl From<FdData> for fdt_data {
    fn from(data: FdData) -> Self {
        Self {
            flags: data.flags.bits(),
            word: data.word,
        }
    }
}

/// File and data of a descriptor that was closed or replaced.
type Closed = (ClosedFile<Rcu<Object>>, FdData);

/// Opens `object` at the lowest free descriptor, with data.
///
/// Returns the descriptor, or -1 with `EINVAL` for unknown flags, `EMFILE` or `ENOMEM`. After an
/// error the object belongs to the caller again, and no function is called for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_open_data(
    table: *const fdt_table,
    object: *mut c_void,
    data: *const fdt_data,
) -> c_int {
    on!(table, {
        // SAFETY: as the caller promises.
        let data = unsafe { read(data) }?;
        let open = |file| table.files.open(file, data);
        Ok(table.callbacks.open(object, open)?.raw())
    })
}

/// Opens `object` at the lowest free descriptor that is `min` or more. `data` may be null.
///
/// Returns the descriptor, or -1 with `EINVAL` for unknown flags, or if `min` is negative or at or
/// above the limit, `EMFILE` or `ENOMEM`. After an error the object belongs to the caller again,
/// and no function is called for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_open_min(
    table: *const fdt_table,
    min: c_int,
    object: *mut c_void,
    data: *const fdt_data,
) -> c_int {
    on!(table, {
        // SAFETY: as the caller promises.
        let reserved = table.files.reserve_from(min, unsafe { read(data) }?)?;
        let file = table.callbacks.file(object)?;
        Ok(reserved.install(file).raw())
    })
}

/// Duplicates `old` to the lowest free descriptor that is `min` or more: `fcntl(2)` with `F_DUPFD`.
/// `data` may be null.
///
/// Returns the descriptor, or -1 with `EBADF` if `old` is not open, `EINVAL` as for
/// `fdt_table_open_min`, `EMFILE` or `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_dup_min(
    table: *const fdt_table,
    old: c_int,
    min: c_int,
    data: *const fdt_data,
) -> c_int {
    on!(table, {
        // SAFETY: as the caller promises.
        let data = unsafe { read(data) }?;
        Ok(table.files.dup_min(old, min, data)?.raw())
    })
}

/// Opens the file of a reference at the lowest free descriptor, as `fdt_table_dup` opens that of a
/// descriptor. `data` may be null.
///
/// The caller keeps the reference, which may be from another table; the callbacks and `user` of
/// that one are then used as long as the file is open here.
///
/// Returns the descriptor, or -1 with `EINVAL` for unknown flags, `EMFILE` or `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_open_file(
    table: *const fdt_table,
    file: *mut fdt_file,
    data: *const fdt_data,
) -> c_int {
    on!(table, {
        // SAFETY: as the caller promises.
        let file = unsafe { file_ref(file) }?;
        // SAFETY: as the caller promises.
        let data = unsafe { read(data) }?;
        Ok(table.files.open(FileRef::clone(&file), data)?.raw())
    })
}

/// Installs `object` at a reserved descriptor, with other data than it was reserved with.
///
/// Returns the descriptor, or -1; then the object belongs to the caller again. After `EINVAL` for
/// unknown flags the descriptor stays reserved. After `ENOMEM` it is free, and the reservation is
/// used up. `EINVAL` for a reservation that was used before is that of `fdt_table_install`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_install_data(
    table: *const fdt_table,
    reservation: *mut fdt_reservation,
    object: *mut c_void,
    data: *const fdt_data,
) -> c_int {
    let of = table;
    on!(table, {
        // SAFETY: as the caller promises.
        let data = unsafe { read(data) }?;
        // SAFETY: as the caller promises, it was filled in.
        unsafe { check_reservation(reservation, of) }?;
        // SAFETY: as the caller promises, no copy of it was used.
        let reserved = unsafe { take_reservation(reservation) }?;
        let install = |file| reserved.install_with(file, data);
        Ok(table.callbacks.open(object, install)?.raw())
    })
}

/// Returns a reference to the open file of a descriptor, and its data at that moment, or null with
/// `EBADF` or `EFAULT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_get_data(
    table: *const fdt_table,
    fd: c_int,
    data: *mut fdt_data,
) -> *mut fdt_file {
    on!(table, {
        check(data)?;
        let (file, found) = table.files.get_with_data(fd)?;
        // SAFETY: as the caller promises, there is room.
        unsafe { put_if_any(data, found.into()) };
        Ok(file_into_raw(file))
    })
}

/// Sets the word of a descriptor. Stores the one that it had in `before`, unless that is null.
///
/// Returns 0, or -1 with `EBADF` or `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_set_word(
    table: *const fdt_table,
    fd: c_int,
    word: u64,
    before: *mut u64,
) -> c_int {
    on!(table, {
        check_if_any(before)?;
        let was = table.files.set_word(fd, word)?;
        // SAFETY: as the caller promises, there is room.
        unsafe { put_if_any(before, was) };
        Ok(0)
    })
}

/// Sets the word of a descriptor to `new` if it is `*expected`. If it is not, stores it there.
///
/// Returns 1 if the word was set, 0 if it was another one, or -1 with `EBADF` or `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_exchange_word(
    table: *const fdt_table,
    fd: c_int,
    expected: *mut u64,
    new: u64,
) -> c_int {
    on!(table, {
        check(expected)?;
        // SAFETY: as the caller promises.
        let wanted = unsafe { expected.read_unaligned() };
        let was = table.files.exchange_word(fd, wanted, new)?;
        // SAFETY: as the caller promises.
        unsafe { expected.write_unaligned(was) };
        Ok(c_int::from(was == wanted))
    })
}

/// Closes a descriptor, and returns its file and its data.
///
/// Stores the reference that the table had in `file`; if that is null, drops it. Stores the data in
/// `data`, unless that is null. Returns 0, or -1 with `EBADF` or `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_close_data(
    table: *const fdt_table,
    fd: c_int,
    file: *mut *mut fdt_file,
    data: *mut fdt_data,
) -> c_int {
    on!(table, {
        let close = || Ok(Some(table.files.close_if(fd, None)?));
        // SAFETY: as the caller promises, there is room.
        unsafe { pass(file, data, close) }
    })
}

/// Returns the lowest open descriptor at or above `from`, with its file and its data.
///
/// Stores a reference in `file` and the data in `data`, unless they are null. If there is no such
/// descriptor, returns -1 and leaves errno unchanged. To iterate, begin with 0, and go on with the
/// descriptor plus 1; descriptors that are opened or closed meanwhile may be found or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_next(
    table: *const fdt_table,
    from: c_int,
    file: *mut *mut fdt_file,
    data: *mut fdt_data,
) -> c_int {
    on!(table, {
        check_if_any(file)?;
        check_if_any(data)?;
        let Some((fd, found, its)) = table.files.iter_from(from).next() else {
            return Ok(-1);
        };
        // SAFETY: as the caller promises, there is room.
        unsafe {
            put_if_any(data, its.into());
            if !file.is_null() {
                put_if_any(file, file_into_raw(found));
            }
        }
        Ok(fd.raw())
    })
}

/// Reads data of the caller.
///
/// # Errors
/// `EFAULT`; `EINVAL` if a flag is unknown.
///
/// # Safety
/// If `at` can be an address, an `fdt_data` is there.
pub(super) unsafe fn read(at: *const fdt_data) -> Result<FdData, Errno> {
    // SAFETY: as the caller promises.
    let Some(data) = (unsafe { get_if_any(at) })? else {
        return Ok(FdData::default());
    };
    Ok(FdData::new(descriptor_flags(data.flags)?, data.word))
}

/// Runs `close`, and passes what it has closed or replaced to the caller: without any, a null file,
/// and 0 as data. Drops a file for which there is no place. Returns 0.
///
/// # Errors
/// `EFAULT`, before `close` is called; errors of `close`.
///
/// # Safety
/// If they can be addresses, there is room at both places.
pub(super) unsafe fn pass(
    file: *mut *mut fdt_file,
    data: *mut fdt_data,
    close: impl FnOnce() -> Result<Option<Closed>, Errno>,
) -> Result<c_int, Errno> {
    check_if_any(file)?;
    check_if_any(data)?;
    let (closed, its) = close()?.unzip();
    // SAFETY: as the caller promises.
    unsafe { put_if_any(data, its.unwrap_or_default().into()) };
    if !file.is_null() {
        let raw = closed.map_or(ptr::null_mut(), |it| file_into_raw(it.into_file()));
        // SAFETY: as the caller promises.
        unsafe { put_if_any(file, raw) };
    }
    Ok(0)
}
