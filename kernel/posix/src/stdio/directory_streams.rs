//! Directory streams: `opendir`, `readdir` and their variants, on directories of either side.
//!
//! The C library's own streams use host descriptors. These streams use `getdents64`. Its records
//! have the layout of `struct dirent` on 64-bit Linux, so entries are returned in place.

use std::ffi::{c_char, c_int, c_long, c_void};
use std::{mem, ptr};

use fdtable_shm::Mutex;
use fdtable_vfs::{Errno, FileKind};
use libc::{DIR, dirent};

use crate::abi::call::{call, call_returning_errno, errno, set_errno};
use crate::abi::uaccess;
use crate::fs::directories::fdt_getdents64;
use crate::fs::open::fdt_open;
use crate::fs::transfers::fdt_lseek;
use crate::host;
use crate::process::descriptors::fdt_close;

/// Bytes of one read.
const BUFFER: usize = 32 * 1024;

/// Contents of a `DIR` of ours.
struct Stream {
    fd: c_int,
    read: Mutex<Read>,
}

/// Entries that were read, and the position of the program.
struct Read {
    /// Of whole words, for the alignment of the records.
    buffer: Vec<u64>,
    filled: usize,
    at: usize,
    /// Position after the last entry that was returned.
    position: c_long,
}

/// Opens a directory stream: `opendir(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_opendir(path: *const c_char) -> *mut DIR {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: as the caller promises.
    let fd = unsafe { fdt_open(path, flags, 0) };
    if fd < 0 {
        return ptr::null_mut();
    }
    call(|_| {
        stream(fd).inspect_err(|_| {
            fdt_close(fd);
        })
    })
}

/// Opens a stream on a directory descriptor, and takes ownership of the descriptor: `fdopendir(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_fdopendir(fd: c_int) -> *mut DIR {
    call(|system| {
        if system.file(fd)?.stat().map(|stat| stat.kind) != Ok(FileKind::Directory) {
            return Err(Errno::ENOTDIR);
        }
        stream(fd)
    })
}

/// Closes a stream and its descriptor: `closedir(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_closedir(directory: *mut DIR) -> c_int {
    if directory.is_null() {
        set_errno(Errno::EINVAL);
        return -1;
    }
    // SAFETY: `stream` created it, as a slice of one, and it is closed once.
    let stream = unsafe { Box::from_raw(directory.cast::<[Stream; 1]>()) };
    fdt_close(stream[0].fd)
}

/// Returns the descriptor of a stream: `dirfd(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_dirfd(directory: *mut DIR) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { of(directory) }.fd
}

/// Returns the next entry, valid until the next call, or null at the end: `readdir(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_readdir(directory: *mut DIR) -> *mut dirent {
    let before = errno();
    // SAFETY: as the caller promises.
    let next = unsafe { of(directory) }.next();
    // Null means the end if errno is unchanged; waiting for a lock may have changed it.
    set_errno(next.err().unwrap_or(before));
    next.unwrap_or(ptr::null_mut())
}

/// Copies the next entry to the caller: `readdir_r(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_readdir_r(
    directory: *mut DIR,
    entry: *mut dirent,
    result: *mut *mut dirent,
) -> c_int {
    call_returning_errno(|_| {
        // SAFETY: as the caller promises.
        let next = unsafe { of(directory) }.next()?;
        if !next.is_null() {
            // SAFETY: the entry is in the buffer, and is not longer than the struct.
            unsafe { copy_entry(next, entry.cast()) }?;
        }
        let found = if next.is_null() { next } else { entry };
        // SAFETY: as the caller promises.
        unsafe { uaccess::put(result, found) }
    })
}

/// Resets a stream to the start: `rewinddir(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_rewinddir(directory: *mut DIR) {
    // SAFETY: as the caller promises.
    unsafe { fdt_seekdir(directory, 0) };
}

/// Returns the position of a stream: `telldir(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_telldir(directory: *mut DIR) -> c_long {
    // SAFETY: as the caller promises.
    unsafe { of(directory) }.read.lock().position
}

/// Sets the position of a stream to one from `telldir`: `seekdir(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_seekdir(directory: *mut DIR, position: c_long) {
    // SAFETY: as the caller promises.
    let stream = unsafe { of(directory) };
    let mut read = stream.read.lock();
    fdt_lseek(stream.fd, position, libc::SEEK_SET);
    read.position = position;
    read.at = read.filled;
}

/// Function that selects entries.
pub(crate) type Filter = Option<unsafe extern "C" fn(entry: *const dirent) -> c_int>;

/// Function that compares entries.
pub(crate) type Compare =
    Option<unsafe extern "C" fn(one: *mut *const dirent, other: *mut *const dirent) -> c_int>;

/// Lists the entries of a directory that `filter` selects, sorted by `compare`: `scandir(3)`. The
/// list and its entries are allocated with `malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_scandir(
    path: *const c_char,
    list: *mut *mut *mut dirent,
    filter: Option<unsafe extern "C" fn(entry: *const dirent) -> c_int>,
    compare: Option<
        unsafe extern "C" fn(one: *mut *const dirent, other: *mut *const dirent) -> c_int,
    >,
) -> c_int {
    // SAFETY: as the caller promises.
    let directory = unsafe { fdt_opendir(path) };
    if directory.is_null() {
        return -1;
    }
    // SAFETY: the stream was opened above.
    let found = unsafe { chosen(of(directory), filter) };
    let reason = errno();
    // SAFETY: it is closed once.
    unsafe { fdt_closedir(directory) };
    set_errno(reason);
    call(|_| {
        let mut owned = found?;
        if let Some(compare) = compare {
            // SAFETY: both functions take pointers to entries.
            unsafe { host::sort(&mut owned.0, compare) };
        }
        let found = owned.0.as_slice();
        uaccess::check(list, 1)?;
        let place = host::allocate(size_of_val(found).max(1))?.cast::<*mut dirent>();
        // SAFETY: there is room for all of them.
        unsafe { ptr::copy_nonoverlapping(found.as_ptr(), place, found.len()) };
        // SAFETY: as the caller promises.
        unsafe { uaccess::put(list, place) }?;
        let count = found.len() as c_int;
        // The caller frees them.
        mem::forget(owned);
        Ok(count)
    })
}

/// Copies of entries, allocated with `malloc`.
struct Entries(Vec<*mut dirent>);

impl Drop for Entries {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|entry| host::free(entry.cast()));
    }
}

/// Copies the entries that the filter selects.
///
/// # Safety
/// The function takes a pointer to an entry.
unsafe fn chosen(stream: &Stream, filter: Filter) -> Result<Entries, Errno> {
    let mut found = Entries(Vec::new());
    loop {
        let entry = stream.next()?;
        if entry.is_null() {
            return Ok(found);
        }
        // SAFETY: as the caller promises.
        if filter.is_none_or(|filter| unsafe { filter(entry) } != 0) {
            found.0.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            // SAFETY: the entry is whole.
            let length = unsafe { (*entry).d_reclen }.into();
            let copy = host::allocate(length)?;
            // SAFETY: there is room for it.
            unsafe { copy_entry(entry, copy) }?;
            found.0.push(copy.cast());
        }
    }
}

/// Creates a stream for a descriptor.
///
/// # Errors
/// `ENOMEM`.
fn stream(fd: c_int) -> Result<*mut DIR, Errno> {
    let mut buffer = uaccess::vec_with_capacity(BUFFER / 8)?;
    buffer.resize(BUFFER / 8, 0);
    let stream = Stream {
        fd,
        read: Mutex::new(Read {
            buffer,
            filled: 0,
            at: 0,
            position: 0,
        }),
    };
    let mut place = uaccess::vec_with_capacity(1)?;
    place.push(stream);
    Ok(Box::into_raw(place.into_boxed_slice()).cast())
}

/// # Safety
/// The stream is open.
unsafe fn of<'a>(directory: *mut DIR) -> &'a Stream {
    // SAFETY: `stream` created it, and it is open, as the caller promises.
    unsafe { &*directory.cast::<Stream>() }
}

impl Stream {
    /// Returns the next entry, in the buffer, or null at the end.
    fn next(&self) -> Result<*mut dirent, Errno> {
        let mut read = self.read.lock();
        if read.at >= read.filled && !read.fill(self.fd)? {
            return Ok(ptr::null_mut());
        }
        // SAFETY: `at` is below `filled`, where a record begins.
        let entry = unsafe { read.buffer.as_mut_ptr().cast::<u8>().add(read.at) }.cast::<dirent>();
        // SAFETY: the record is whole.
        let (length, position) = unsafe { ((*entry).d_reclen, (*entry).d_off) };
        read.at += usize::from(length);
        read.position = position;
        Ok(entry)
    }
}

impl Read {
    /// Reads more entries. Returns true if there were any: a removed directory has none.
    fn fill(&mut self, fd: c_int) -> Result<bool, Errno> {
        let before = errno();
        let place = self.buffer.as_mut_ptr().cast::<c_void>();
        // SAFETY: the pointer and the length are those of the buffer.
        let count = unsafe { fdt_getdents64(fd, place, BUFFER) };
        if count < 0 && errno() == Errno::ENOENT {
            set_errno(before);
            return Ok(false);
        }
        if count < 0 {
            return Err(errno());
        }
        (self.filled, self.at) = (count as usize, 0);
        Ok(count > 0)
    }
}

/// Copies a record.
///
/// # Safety
/// The record is whole, and if `to` can be an address, there is room for it.
unsafe fn copy_entry(entry: *const dirent, to: *mut c_void) -> Result<(), Errno> {
    // SAFETY: as the caller promises.
    let length = unsafe { (*entry).d_reclen }.into();
    // SAFETY: as the caller promises.
    let to = unsafe { uaccess::bytes_mut(to, length) }?;
    // SAFETY: as the caller promises.
    to.copy_from_slice(unsafe { uaccess::bytes(entry.cast(), length) }?);
    Ok(())
}
