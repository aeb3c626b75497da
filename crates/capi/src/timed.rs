//! Safe access to the lookups that benchmarks time, through the C interface.
//!
//! Each call goes through a pointer to the C function that is opaque to the compiler, like a call
//! from another language.

use core::ffi::c_int;
use core::hint::black_box;
use core::ptr;

use crate::{
    fdt_file, fdt_file_put, fdt_read_lock, fdt_read_unlock, fdt_table, fdt_table_borrow,
    fdt_table_free, fdt_table_get, fdt_table_new, fdt_table_open,
};

/// Table, as an embedder in C uses it.
pub struct Table {
    table: *mut fdt_table,
    get: unsafe extern "C" fn(*const fdt_table, c_int) -> *mut fdt_file,
    put: unsafe extern "C" fn(*mut fdt_file),
}

impl Table {
    /// Creates a table with `count` open descriptors. Returns `None` without memory.
    pub fn with_descriptors(count: u32) -> Option<Self> {
        let table = fdt_table_new(count, None, None, ptr::null_mut());
        if table.is_null() {
            return None;
        }
        let made = black_box(Table {
            table,
            get: fdt_table_get,
            put: fdt_file_put,
        });
        for _ in 0..count {
            // SAFETY: the table exists, and the object is never dereferenced.
            let fd = unsafe { fdt_table_open(table, ptr::null_mut(), 0) };
            if fd < 0 {
                return None;
            }
        }
        Some(made)
    }

    /// Takes and drops a reference.
    pub fn get_and_put(&self, fd: c_int) {
        // SAFETY: the table exists.
        let file = unsafe { (self.get)(self.table, fd) };
        // SAFETY: the reference was taken above, and is dropped once.
        unsafe { (self.put)(file) };
    }

    /// Looks up a descriptor without a reference, in a read-side section of its own.
    pub fn borrow(&self, fd: c_int) {
        let section = fdt_read_lock();
        // SAFETY: the table exists, and the section lasts.
        black_box(unsafe { fdt_table_borrow(self.table, fd, &raw const section) });
        // SAFETY: it was begun above.
        unsafe { fdt_read_unlock(section) };
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: this is the last use of the table.
        unsafe { fdt_table_free(self.table) };
    }
}
