//! The fields of glibc's `FILE` that a reopened stream resets.
//!
//! The layout is that of `<bits/types/struct_FILE.h>`, which glibc keeps: its macros for `getc` and
//! `putc` are compiled into programs.

use std::ffi::{c_char, c_int, c_long, c_uint, c_ushort, c_void};
use std::{ptr, slice};

use libc::FILE;

/// Start of glibc's `FILE`.
#[repr(C)]
struct IoFile {
    flags: c_int,
    read_ptr: *mut c_char,
    read_end: *mut c_char,
    read_base: *mut c_char,
    write_base: *mut c_char,
    write_ptr: *mut c_char,
    write_end: *mut c_char,
    buf_base: *mut c_char,
    buf_end: *mut c_char,
    save_base: *mut c_char,
    backup_base: *mut c_char,
    save_end: *mut c_char,
    markers: *mut c_void,
    chain: *mut c_void,
    fileno: c_int,
    flags2: c_int,
    old_offset: c_long,
    cur_column: c_ushort,
    vtable_offset: i8,
    shortbuf: c_char,
    lock: *mut c_void,
    offset: i64,
    codecvt: *mut c_void,
    wide_data: *mut c_void,
    freeres_list: *mut c_void,
    freeres_buf: *mut c_void,
    pad: usize,
    mode: c_int,
}

const UNBUFFERED: c_uint = 0x2;
const NO_READS: c_uint = 0x4;
const NO_WRITES: c_uint = 0x8;
const EOF_SEEN: c_uint = 0x10;
const ERR_SEEN: c_uint = 0x20;
const LINE_BUF: c_uint = 0x200;
const CURRENTLY_PUTTING: c_uint = 0x800;
const IS_APPENDING: c_uint = 0x1000;

/// How a stream buffers.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Buffering {
    /// Not at all, or by lines, or in full: an argument of `setvbuf`.
    Chosen(c_int),
    /// There is no buffer yet.
    Undecided,
}

unsafe extern "C" {
    fn flockfile(stream: *mut FILE);
    fn funlockfile(stream: *mut FILE);
    fn __fpurge(stream: *mut FILE);
}

/// Lock of a stream, held.
pub(super) struct Locked(*mut IoFile);

impl Locked {
    /// Locks a stream. May block, so it must be called outside the freezer.
    ///
    /// # Safety
    /// The stream is open until the lock is dropped.
    pub(super) unsafe fn new(stream: *mut FILE) -> Self {
        // SAFETY: as the caller promises.
        unsafe { flockfile(stream) };
        Locked(stream.cast())
    }

    fn stream(&self) -> *mut FILE {
        self.0.cast()
    }

    /// Writes what is buffered, and moves the position of a file back to what was read. An error
    /// has no receiver, as in the C library's `freopen`.
    pub(super) fn flush(&self) {
        // SAFETY: the stream is open.
        unsafe { libc::fflush(self.stream()) };
    }

    /// Returns the bytes that are buffered and not written.
    pub(super) fn unwritten(&self) -> &[u8] {
        // SAFETY: the stream is open, and this thread holds its lock.
        let (base, end) = unsafe { ((*self.0).write_base, (*self.0).write_ptr) };
        let length = end.addr().saturating_sub(base.addr());
        if length == 0 {
            return &[];
        }
        // SAFETY: the buffer has these bytes.
        unsafe { slice::from_raw_parts(base.cast(), length) }
    }

    /// Drops what is buffered.
    pub(super) fn purge(&self) {
        // SAFETY: the stream is open.
        unsafe { __fpurge(self.stream()) };
    }

    /// Returns true if the stream is used for wide characters.
    pub(super) fn is_wide(&self) -> bool {
        // SAFETY: the stream is open.
        unsafe { (*self.0).mode > 0 }
    }

    pub(super) fn buffering(&self) -> Buffering {
        // SAFETY: the stream is open.
        let (flags, buf) = unsafe { ((*self.0).flags.cast_unsigned(), (*self.0).buf_base) };
        if flags & UNBUFFERED != 0 {
            Buffering::Chosen(libc::_IONBF)
        } else if flags & LINE_BUF != 0 {
            Buffering::Chosen(libc::_IOLBF)
        } else if buf.is_null() {
            Buffering::Undecided
        } else {
            Buffering::Chosen(libc::_IOFBF)
        }
    }

    /// Returns the stream to the state after `fopen`: empty, without indicators, for the given
    /// directions, with full buffering.
    pub(super) fn reset(&self, reads: bool, writes: bool, appends: bool) {
        self.purge();
        let mut flags = 0;
        for (is_set, flag) in [
            (!reads, NO_READS),
            (!writes, NO_WRITES),
            (appends, IS_APPENDING),
        ] {
            flags |= if is_set { flag } else { 0 };
        }
        let all = NO_READS
            | NO_WRITES
            | IS_APPENDING
            | EOF_SEEN
            | ERR_SEEN
            | CURRENTLY_PUTTING
            | UNBUFFERED
            | LINE_BUF;
        // SAFETY: the stream is open, and this thread holds its lock.
        let file = unsafe { &mut *self.0 };
        file.flags = (file.flags.cast_unsigned() & !all | flags).cast_signed();
        if ptr::eq(file.buf_base, &raw const file.shortbuf) {
            // An unbuffered stream: the next transfer allocates a buffer.
            file.buf_base = ptr::null_mut();
            file.buf_end = ptr::null_mut();
        }
        let start = file.buf_base;
        file.read_base = start;
        file.read_ptr = start;
        file.read_end = start;
        file.write_base = start;
        file.write_ptr = start;
        file.write_end = start;
        // The next call asks the file for its position.
        file.offset = -1;
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: the stream is open, and locked by `new`.
        unsafe { funlockfile(self.stream()) };
    }
}
