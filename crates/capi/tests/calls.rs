//! The C interface, called from Rust.

#![allow(clippy::multiple_unsafe_ops_per_block)] // A test's promises hold for all of its calls.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Mutex;

use fdtable_capi::*;

/// Arguments of the callbacks of a table.
static RELEASED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

unsafe extern "C" fn release(object: *mut c_void, user: *mut c_void) {
    RELEASED.lock().unwrap().push(object.addr() + user.addr());
}

fn object(number: usize) -> *mut c_void {
    ptr::without_provenance_mut(number)
}

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Returns the lowest open descriptor at or above `from`, or -1.
unsafe fn next_open(table: *const fdt_table, from: c_int) -> c_int {
    // SAFETY: as the caller promises, the table lives.
    unsafe { fdt_table_next(table, from, ptr::null_mut(), ptr::null_mut()) }
}

#[test]
fn an_object_is_released_once_with_its_last_reference() {
    let table = fdt_table_new(8, Some(release), None, object(1000));
    // SAFETY: the table lives to the end of the test, and each reference is put once.
    unsafe {
        assert_eq!(fdt_table_open(table, object(1), 0), 0);
        assert_eq!(fdt_table_dup(table, 0), 1);
        assert_eq!(fdt_table_dup2(table, 0, 5), 5);
        assert_eq!(next_open(table, 2), 5);
        let file = fdt_table_get(table, 1);
        let again = fdt_file_clone(file);
        assert_eq!(fdt_file_object(again), object(1));
        assert_eq!(fdt_table_close_range(table, 0, 7, 0), 0);
        assert!(fdt_table_get(table, 0).is_null());
        assert_eq!(errno(), libc::EBADF);
        fdt_file_put(file);
        assert!(!RELEASED.lock().unwrap().contains(&1001));
        fdt_file_put(again);
        assert_eq!(
            RELEASED
                .lock()
                .unwrap()
                .iter()
                .filter(|&&one| one == 1001)
                .count(),
            1
        );
        fdt_table_free(table);
    }
}

#[test]
fn a_descriptor_can_be_reserved_before_its_file() {
    let table = fdt_table_new(2, None, None, ptr::null_mut());
    let mut taken = [const { std::mem::MaybeUninit::<fdt_reservation>::uninit() }; 2];
    let [first, second] = &mut taken;
    // SAFETY: the table lives to the end of the test, and each reservation is used once.
    unsafe {
        assert_eq!(fdt_table_reserve(table, 1, first.as_mut_ptr()), 0);
        assert_eq!(fdt_table_reserve(table, 0, second.as_mut_ptr()), 1);
        assert_eq!(fdt_table_open(table, object(1), 0), -1);
        assert_eq!(errno(), libc::EMFILE);
        assert_eq!(fdt_table_install(table, first.as_mut_ptr(), object(7)), 0);
        fdt_table_cancel(second.as_mut_ptr());
        assert_eq!(
            (fdt_table_get_flags(table, 0), fdt_table_get_flags(table, 1)),
            (1, -1)
        );
        let child = fdt_table_fork(table);
        assert_eq!(fdt_table_exec(child), 0);
        assert_eq!((next_open(child, 0), next_open(table, 0)), (-1, 0));
        fdt_table_free(child);
        fdt_table_free(table);
    }
}

/// A library with checks ends the process instead.
#[cfg(not(feature = "debug"))]
#[test]
fn a_reservation_that_was_used_is_einval() {
    let table = fdt_table_new(8, None, None, ptr::null_mut());
    let mut taken = std::mem::MaybeUninit::<fdt_reservation>::uninit();
    let taken = taken.as_mut_ptr();
    // SAFETY: the table lives to the end of the test, and the reservation was filled in.
    unsafe {
        assert_eq!(fdt_table_reserve(table, 0, taken), 0);
        assert_eq!(fdt_table_install(table, taken, object(1)), 0);
        let answers = [
            fdt_table_install(table, taken, object(2)),
            fdt_table_install_data(table, taken, object(2), ptr::null()),
        ];
        assert_eq!((answers, errno()), ([-1; 2], libc::EINVAL));
        fdt_table_cancel(taken);
        assert_eq!(fdt_table_get_flags(table, 0), 0, "it was cancelled");
        fdt_table_free(table);
    }
}

#[test]
fn a_section_sees_objects_without_references() {
    let table = fdt_table_new(4, None, None, ptr::null_mut());
    // SAFETY: the table lives to the end of the test, and the section ends where it began.
    unsafe {
        fdt_table_open(table, object(42), 0);
        let section = fdt_read_lock();
        assert_eq!(fdt_table_borrow(table, 0, &raw const section), object(42));
        assert!(fdt_table_borrow(table, 3, &raw const section).is_null());
        assert_eq!(errno(), libc::EBADF);
        fdt_read_unlock(section);
        assert_eq!(fdt_table_set_limit(table, 1), 0);
        assert_eq!(fdt_table_dup(table, 0), -1);
        assert_eq!(errno(), libc::EMFILE);
        fdt_table_free(table);
    }
}

#[test]
fn an_unknown_flag_is_einval_and_changes_nothing() {
    let table = fdt_table_new(8, None, None, ptr::null_mut());
    let mut taken = std::mem::MaybeUninit::<fdt_reservation>::uninit();
    // SAFETY: the table lives to the end of the test, and no reservation is made.
    unsafe {
        assert_eq!(fdt_table_open(table, object(1), 0), 0);
        for flags in [2, 3, 1 << 31, u32::MAX] {
            let answers = [
                fdt_table_open(table, object(2), flags),
                fdt_table_dup3(table, 0, 1, flags),
                fdt_table_dup3(table, 7, 7, flags),
                fdt_table_reserve(table, flags, taken.as_mut_ptr()),
                fdt_table_set_flags(table, 0, flags),
            ];
            assert_eq!((answers, errno()), ([-1; 5], libc::EINVAL), "{flags:#x}");
            assert_eq!(next_open(table, 1), -1, "{flags:#x}");
            assert_eq!(fdt_table_get_flags(table, 0), 0, "{flags:#x}");
        }
        fdt_table_free(table);
    }
}

#[test]
fn a_null_table_is_efault() {
    let none = ptr::null_mut();
    // SAFETY: null is refused.
    let closed = unsafe { fdt_table_close(none, 1) };
    assert_eq!((closed, errno()), (-1, libc::EFAULT));
    // SAFETY: null is refused.
    assert!(unsafe { fdt_table_get(none, 1) }.is_null() && errno() == libc::EFAULT);
    // SAFETY: null is refused.
    assert!(unsafe { fdt_table_fork(none) }.is_null() && errno() == libc::EFAULT);
}
