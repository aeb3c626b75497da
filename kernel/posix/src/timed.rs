//! Safe access to the calls that benchmarks time, through the C interface.
//!
//! Each call goes through a pointer to the C function that is opaque to the compiler, like a call
//! from another language.

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::hint::black_box;
use std::ptr;

use crate::{
    fdt_close, fdt_dup, fdt_fcntl, fdt_file, fdt_file_put, fdt_open, fdt_read, fdt_read_lock,
    fdt_read_unlock, fdt_table, fdt_table_borrow, fdt_table_free, fdt_table_get, fdt_table_new,
    fdt_table_open,
};

/// The five POSIX functions that are timed.
pub struct Calls {
    open: unsafe extern "C" fn(*const c_char, c_int, libc::mode_t) -> c_int,
    close: unsafe extern "C" fn(c_int) -> c_int,
    dup: unsafe extern "C" fn(c_int) -> c_int,
    fcntl: unsafe extern "C" fn(c_int, c_int, c_ulong) -> c_int,
    read: unsafe extern "C" fn(c_int, *mut c_void, usize) -> isize,
}

/// The host's functions, with fixed parameters instead of `...`.
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
    /// Returns the functions of this library.
    pub fn ours() -> Self {
        black_box(Calls {
            open: fdt_open,
            close: fdt_close,
            dup: fdt_dup,
            fcntl: fdt_fcntl,
            read: fdt_read,
        })
    }

    /// Returns the functions of the host.
    pub fn host() -> Self {
        black_box(Calls {
            open: of_host::open,
            close: libc::close,
            dup: libc::dup,
            fcntl: of_host::fcntl,
            read: libc::read,
        })
    }

    /// Opens `/dev/zero` for reading. Returns a negative value if that fails.
    pub fn open_zero(&self) -> c_int {
        // SAFETY: the path is a C string.
        unsafe { (self.open)(c"/dev/zero".as_ptr(), libc::O_RDONLY, 0) }
    }

    /// Opens a path for reading and writing, and creates the file if there is none. Returns a
    /// negative value if that fails.
    pub fn open_file(&self, path: &CStr) -> c_int {
        // SAFETY: the path is a C string.
        unsafe { (self.open)(path.as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o600) }
    }

    /// Opens an existing file for reading and writing. Returns a negative value if that fails.
    pub fn open_existing(&self, path: &CStr) -> c_int {
        // SAFETY: the path is a C string.
        unsafe { (self.open)(path.as_ptr(), libc::O_RDWR, 0) }
    }

    /// Returns the flags of a descriptor.
    pub fn flags(&self, fd: c_int) -> c_int {
        // SAFETY: the command has no argument.
        unsafe { (self.fcntl)(fd, libc::F_GETFD, 0) }
    }

    /// Reads one byte, and returns how many it read.
    pub fn read_byte(&self, fd: c_int) -> isize {
        let mut byte = 0_u8;
        // SAFETY: there is room for one byte.
        unsafe { (self.read)(fd, (&raw mut byte).cast(), 1) }
    }

    /// Duplicates a descriptor.
    pub fn dup(&self, fd: c_int) -> c_int {
        // SAFETY: the call takes no pointer.
        unsafe { (self.dup)(fd) }
    }

    /// Closes a descriptor.
    pub fn close(&self, fd: c_int) -> c_int {
        // SAFETY: the call takes no pointer.
        unsafe { (self.close)(fd) }
    }
}

/// Plain table, as an embedder in C uses it.
pub struct PlainTable {
    table: *mut fdt_table,
    get: unsafe extern "C" fn(*const fdt_table, c_int) -> *mut fdt_file,
    put: unsafe extern "C" fn(*mut fdt_file),
}

impl PlainTable {
    /// Creates a table with `count` open descriptors. Returns `None` without memory.
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

impl Drop for PlainTable {
    fn drop(&mut self) {
        // SAFETY: this is the last use of the table.
        unsafe { fdt_table_free(self.table) };
    }
}
