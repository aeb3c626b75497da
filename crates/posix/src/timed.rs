//! The calls that experiments time, through the C interface: for Rust that has no `unsafe`.
//!
//! Each call goes through a pointer to the C function that the compiler does not see through, as a call
//! from another language does.

use std::ffi::{c_char, c_int, c_ulong, c_void};
use std::hint::black_box;
use std::ptr;

use crate::{
    fdt_close, fdt_dup, fdt_fcntl, fdt_file, fdt_file_put, fdt_open, fdt_read, fdt_read_lock,
    fdt_read_unlock, fdt_table, fdt_table_borrow, fdt_table_free, fdt_table_get, fdt_table_new,
    fdt_table_open,
};

/// The five functions of POSIX that are timed.
pub struct Calls {
    open: unsafe extern "C" fn(*const c_char, c_int, libc::mode_t) -> c_int,
    close: unsafe extern "C" fn(c_int) -> c_int,
    dup: unsafe extern "C" fn(c_int) -> c_int,
    fcntl: unsafe extern "C" fn(c_int, c_int, c_ulong) -> c_int,
    read: unsafe extern "C" fn(c_int, *mut c_void, usize) -> isize,
}

/// The host's functions, with their ellipses as the arguments that are given.
mod of_host {
    use std::ffi::{c_char, c_int, c_ulong};

    pub(super) unsafe extern "C" fn open(
        path: *const c_char,
        flags: c_int,
        mode: libc::mode_t,
    ) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { libc::open(path, flags, mode) }
    }

    pub(super) unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { libc::fcntl(fd, command, argument) }
    }
}

impl Calls {
    /// Returns ours.
    pub fn ours() -> Self {
        black_box(Calls {
            open: fdt_open,
            close: fdt_close,
            dup: fdt_dup,
            fcntl: fdt_fcntl,
            read: fdt_read,
        })
    }

    /// Returns the host's.
    pub fn host() -> Self {
        black_box(Calls {
            open: of_host::open,
            close: libc::close,
            dup: libc::dup,
            fcntl: of_host::fcntl,
            read: libc::read,
        })
    }

    /// Opens `/dev/zero` for reading; negative if that fails.
    pub fn open_zero(&self) -> c_int {
        // SAFETY: the path is a string.
        unsafe { (self.open)(c"/dev/zero".as_ptr(), libc::O_RDONLY, 0) }
    }

    /// Asks for the flags of a descriptor.
    pub fn flags(&self, fd: c_int) -> c_int {
        // SAFETY: the command has no argument.
        unsafe { (self.fcntl)(fd, libc::F_GETFD, 0) }
    }

    /// Reads one byte, and returns how many it read.
    pub fn read_byte(&self, fd: c_int) -> isize {
        let mut byte = 0_u8;
        // SAFETY: there is room for one.
        unsafe { (self.read)(fd, (&raw mut byte).cast(), 1) }
    }

    /// Gives a file a second number.
    pub fn dup(&self, fd: c_int) -> c_int {
        // SAFETY: it takes a number.
        unsafe { (self.dup)(fd) }
    }

    /// Frees a number.
    pub fn close(&self, fd: c_int) -> c_int {
        // SAFETY: it takes a number.
        unsafe { (self.close)(fd) }
    }
}

/// Plain table, as an embedder in C has it.
pub struct PlainTable {
    table: *mut fdt_table,
    get: unsafe extern "C" fn(*const fdt_table, c_int) -> *mut fdt_file,
    put: unsafe extern "C" fn(*mut fdt_file),
}

impl PlainTable {
    /// Makes one with `count` descriptors. Nothing without memory.
    pub fn with_descriptors(count: u32) -> Option<Self> {
        let table = fdt_table_new(count, None, None, ptr::null_mut());
        if table.is_null() {
            return None;
        }
        let made = black_box(PlainTable {
            table,
            get: fdt_table_get,
            put: fdt_file_put,
        });
        for _ in 0..count {
            // SAFETY: the table is there, and nobody looks behind the object.
            let fd = unsafe { fdt_table_open(table, ptr::null_mut(), 0) };
            if fd < 0 {
                return None;
            }
        }
        Some(made)
    }

    /// Takes and drops a reference.
    pub fn get_and_put(&self, fd: c_int) {
        // SAFETY: the table is there.
        let file = unsafe { (self.get)(self.table, fd) };
        // SAFETY: it was had just now.
        unsafe { (self.put)(file) };
    }

    /// Looks a descriptor up without a reference, in a section of its own.
    pub fn borrow(&self, fd: c_int) {
        let section = fdt_read_lock();
        // SAFETY: the table is there, and the section lasts.
        black_box(unsafe { fdt_table_borrow(self.table, fd, &raw const section) });
        // SAFETY: it was begun above.
        unsafe { fdt_read_unlock(section) };
    }
}

impl Drop for PlainTable {
    fn drop(&mut self) {
        // SAFETY: the last use.
        unsafe { fdt_table_free(self.table) };
    }
}
