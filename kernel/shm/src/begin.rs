//! The begin of sharing: one range of addresses for the heap, and the section of statics in place.
//!
//! The range is a memfd without a name in the file system. It has its full size from the start, as
//! a limit on the size of files would refuse it later, and takes memory as it is used.

use std::io;
use std::ptr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::hooks::{HOOKS, has_heavy_fence};
use crate::mapping::{self, ALIGN, SIZE};
use crate::thread;

/// Pages of the system, in bytes.
const PAGE: usize = 4096;

/// Makes the shared heap, and shares the statics. To be called once, before the kernel has any
/// object, while the process has one thread.
///
/// # Errors
/// A text that says what is missing: a call of the host, or, if the section of statics does not
/// fill its pages, the script of the linker. All memory is private then.
///
/// # Safety
/// The process has one thread, and has used nothing of the library or of the kernel yet. If a guard
/// of a lock of either is leaked, no reference that it gave out is used after the end of the thread
/// that locked.
pub unsafe fn begin() -> io::Result<()> {
    let (first, end) = section();
    if !first.addr().is_multiple_of(PAGE) || !end.addr().is_multiple_of(PAGE) {
        return Err(io::Error::other("a section of statics in pages of its own"));
    }
    let start = map(aligned_range()?, SIZE)?;
    // SAFETY: as the caller promises; the section is whole pages of statics that may be written.
    unsafe { share(first, end.addr() - first.addr()) }?;
    mapping::set_start(start);
    thread::set_shared();
    // Here, so that all processes have one answer: a fork passes it on.
    let _ = has_heavy_fence();
    // SAFETY: as the caller promises; the section is mapped shared, and the heap is.
    unsafe { fdtable_sync::platform::shared::register(&HOOKS) };
    Ok(())
}

/// Returns the last error of the host, with the call that has failed.
fn failed(call: &str) -> io::Error {
    let error = io::Error::last_os_error();
    io::Error::new(error.kind(), format!("{call}: {error}"))
}

/// Returns the first byte of the section of statics, and the byte behind it.
fn section() -> (*mut u8, *mut u8) {
    unsafe extern "C" {
        #[link_name = "__start_fdt_shared"]
        static FIRST: [u8; 0];
        #[link_name = "__stop_fdt_shared"]
        static END: [u8; 0];
    }
    /// Without a static in it there is no section.
    #[unsafe(link_section = "fdt_shared")]
    static PRESENT: AtomicBool = AtomicBool::new(true);
    PRESENT.store(true, Relaxed);
    (
        (&raw const FIRST).cast_mut().cast(),
        (&raw const END).cast_mut().cast(),
    )
}

/// Replaces pages of memory by a shared mapping with the same contents.
///
/// # Safety
/// They are whole pages that may be written, and no other thread uses them.
unsafe fn share(first: *mut u8, length: usize) -> io::Result<()> {
    // SAFETY: the caller's memory, which no other thread writes.
    let before = unsafe { std::slice::from_raw_parts(first, length) }.to_vec();
    File::new(length)?.map(first, length, libc::MAP_FIXED)?;
    // Not by a write to the file, which a limit on the size of files would refuse.
    // SAFETY: both have so many bytes, and nothing has used the statics meanwhile.
    unsafe { first.copy_from_nonoverlapping(before.as_ptr(), length) };
    Ok(())
}

fn map(at: *mut u8, length: usize) -> io::Result<*mut u8> {
    File::new(length)?.map(at, length, libc::MAP_NORESERVE | libc::MAP_FIXED)
}

/// Reserves the range, at a multiple of [`ALIGN`].
fn aligned_range() -> io::Result<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: an anonymous mapping at a place of the kernel's choice touches no other memory.
    let place = unsafe { libc::mmap(ptr::null_mut(), SIZE + ALIGN, libc::PROT_NONE, flags, -1, 0) };
    if place == libc::MAP_FAILED {
        return Err(failed("mmap(2) of 64 GiB"));
    }
    let place = place.cast::<u8>();
    let ahead = place.addr().next_multiple_of(ALIGN) - place.addr();
    let start = place.wrapping_add(ahead);
    // A part that stays mapped costs only address space.
    for (part, length) in [(place, ahead), (start.wrapping_add(SIZE), ALIGN - ahead)] {
        if length > 0 {
            // SAFETY: the part is of this mapping, and outside of the range.
            unsafe { libc::munmap(part.cast(), length) };
        }
    }
    Ok(start)
}

/// A memfd, until this is dropped. Its mappings stay.
struct File(libc::c_int);

impl File {
    fn new(length: usize) -> io::Result<Self> {
        // SAFETY: the name is a C string.
        let fd = unsafe { libc::memfd_create(c"fdtable".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(failed("memfd_create(2)"));
        }
        let file = Self(fd);
        let length = libc::off_t::try_from(length).map_err(io::Error::other)?;
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // A program's limit on the size of files is not for the kernel's memory, as far as it can
        // be raised.
        // SAFETY: there is room for the limit.
        unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
        if limit.rlim_max < length.cast_unsigned() {
            return Err(io::Error::other("files of 64 GiB: the limit is lower"));
        }
        let raised = libc::rlimit {
            rlim_cur: limit.rlim_max,
            ..limit
        };
        // SAFETY: the limit is valid.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const raised) };
        // SAFETY: it takes integers.
        let result = match unsafe { libc::ftruncate(fd, length) } {
            0 => Ok(file),
            _ => Err(failed("ftruncate(2)")),
        };
        // SAFETY: the limit is valid.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
        result
    }

    fn map(&self, at: *mut u8, length: usize, flags: libc::c_int) -> io::Result<*mut u8> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | flags;
        // SAFETY: at a place of the kernel's choice it touches no other memory; with `MAP_FIXED` it
        // replaces the caller's.
        let place = unsafe { libc::mmap(at.cast(), length, protection, flags, self.0, 0) };
        if place == libc::MAP_FAILED {
            return Err(failed("mmap(2)"));
        }
        // A dump of the program is not for the kernel's memory. It is advice.
        // SAFETY: the mapping was just made.
        unsafe { libc::madvise(place, length, libc::MADV_DONTDUMP) };
        Ok(place.cast())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this object's.
        unsafe { libc::close(self.0) };
    }
}
