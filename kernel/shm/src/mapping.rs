//! The shared mapping: one range of addresses for the heap, and the section of statics in place.
//!
//! The range is a memfd without a name in the file system. It has its full size from the start, as
//! a limit on the size of files would refuse it later, and takes memory as it is used. Pages are
//! handed out in runs of a power of two. A free run is kept in a list of its size, which is in the
//! header. Its memory goes back to the system, unless little is kept: to take it again costs a
//! fault for each page.

use std::io;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicPtr};

use crate::hooks::{HOOKS, has_heavy_fence};
use crate::lock::Mutex;

/// The size of the range in bytes: 64 GiB. It is never used up before the memory of the machine.
const SIZE: usize = 1 << 36;

/// The end of the range, which is in no run: 1 GiB. See [`aside`].
const ASIDE: usize = 1 << 30;

/// The alignment of the range in bytes, and so the largest of a run: 1 GiB.
pub(crate) const ALIGN: usize = 1 << 30;

/// The smallest run, in bytes.
pub(crate) const RUN: usize = 1 << 16;

/// The number of sizes of runs: from [`RUN`] to [`SIZE`].
const ORDERS: usize = (SIZE / RUN).ilog2() as usize + 1;

/// How much memory of free runs is kept, in bytes.
const KEPT: usize = 32 << 20;

/// Pages of the system, in bytes.
const PAGE: usize = 4096;

/// How much of the range becomes large pages at once, in bytes: what a small tree uses. A process
/// that is forked maps pages anew, each with a fault, and a large page with one.
const LARGE: usize = 4 << 20;

/// True once [`begin`] was called.
static IS_SHARED: AtomicBool = AtomicBool::new(false);

/// The first byte of the range.
static START: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Returns true if there is shared memory. From then on, forks of this process share it.
#[inline]
pub fn is_shared() -> bool {
    // Relaxed: it is written while there is one thread, and the others see what was written before
    // their start.
    IS_SHARED.load(Relaxed)
}

/// Beginning of the range.
pub(crate) struct Header {
    pub(crate) runs: Mutex<Runs>,
    pub(crate) small: [Mutex<crate::heap::Free>; crate::heap::CLASSES],
}

/// The runs that are free.
pub(crate) struct Runs {
    /// How much of the range was ever used, in bytes.
    used: usize,
    /// The first free run of each size, or null. Each begins with a [`FreeRun`].
    free: [*mut u8; ORDERS],
    /// How many bytes of them still have their memory.
    kept: usize,
}

/// Beginning of a free run: the next one, and whether it still has its memory.
#[repr(C)]
#[derive(Clone, Copy)]
struct FreeRun {
    next: *mut u8,
    memory: Memory,
}

/// State of the pages of a free run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    Kept,
    /// It was never used, or is the system's again.
    None,
}

/// No more memory of free runs is kept.
struct Full;

// SAFETY: the runs belong to no thread, and the lock of the header guards them.
unsafe impl Send for Runs {}

/// Returns the header. Only with shared memory.
pub(crate) fn header() -> &'static Header {
    // SAFETY: `begin` has written it, and the mapping stays.
    unsafe { &*START.load(Relaxed).cast::<Header>() }
}

/// Returns true if an address is in the shared range.
#[inline]
pub(crate) fn contains(place: *const u8) -> bool {
    // Relaxed: as in `is_shared`. Before `begin` the range begins at 0, and no object is there.
    let start = START.load(Relaxed).addr();
    start != 0 && place.addr().wrapping_sub(start) < SIZE
}

/// Returns the order of the runs that have so many bytes, if there are some.
fn order_of(size: usize) -> Option<usize> {
    let runs = size.checked_next_multiple_of(RUN)? / RUN;
    let order = runs.checked_next_power_of_two()?.ilog2() as usize;
    (order < ORDERS).then_some(order)
}

impl Runs {
    /// Takes a run of an order: a free one, half of a larger one, or a new one.
    fn take(&mut self, order: usize) -> Option<NonNull<u8>> {
        let there = (order..ORDERS).find(|&larger| !self.free[larger].is_null());
        let Some(mut larger) = there else {
            return self.take_new(order);
        };
        let run = self.free[larger];
        // SAFETY: a free run begins with that, and the lock is held.
        let FreeRun { next, memory } = unsafe { run.cast::<FreeRun>().read() };
        self.free[larger] = next;
        if memory == Memory::Kept {
            self.kept -= RUN << larger;
        }
        while larger > order {
            larger -= 1;
            // SAFETY: it is inside of the run, which is twice as large.
            let half = unsafe { run.add(RUN << larger) };
            self.put(half, larger, memory);
        }
        NonNull::new(run)
    }

    /// Takes a run from the part of the range that was never used.
    fn take_new(&mut self, order: usize) -> Option<NonNull<u8>> {
        let size = RUN << order;
        let at = self.used.checked_next_multiple_of(size)?;
        let end = at.checked_add(size).filter(|&end| end <= SIZE - ASIDE)?;
        // The part that is left out becomes runs of smaller sizes.
        while self.used < at {
            let order = ((self.used / RUN).trailing_zeros() as usize).min(ORDERS - 1);
            let skipped = self.used;
            self.used += RUN << order;
            // SAFETY: it is inside of the range.
            let run = unsafe { START.load(Relaxed).add(skipped) };
            self.put(run, order, Memory::None);
        }
        self.used = end;
        // SAFETY: as above.
        NonNull::new(unsafe { START.load(Relaxed).add(at) })
    }

    fn put(&mut self, run: *mut u8, order: usize, memory: Memory) {
        let next = self.free[order];
        // SAFETY: the run is free, so nothing else uses it, and the lock is held.
        unsafe { run.cast::<FreeRun>().write(FreeRun { next, memory }) };
        self.free[order] = run;
        if memory == Memory::Kept {
            self.kept += RUN << order;
        }
    }

    /// Puts a run back that was used, if its memory may be kept.
    fn put_kept(&mut self, run: *mut u8, order: usize) -> Result<(), Full> {
        if self.kept + (RUN << order) > KEPT {
            return Err(Full);
        }
        self.put(run, order, Memory::Kept);
        Ok(())
    }
}

/// Takes pages of shared memory for so many bytes, at a multiple of the power of two from there on,
/// or of a gibibyte.
/// Their contents are zero or what was left. `None` if there is no room. Only with shared memory.
pub fn map_pages(size: usize) -> Option<NonNull<u8>> {
    let order = order_of(size)?;
    header().runs.lock().take(order)
}

/// Gives pages back.
///
/// # Safety
/// [`map_pages`] returned them for the same size; they are given back once, and no longer used.
pub unsafe fn unmap_pages(pages: NonNull<u8>, size: usize) {
    let Some(order) = order_of(size) else {
        return;
    };
    if header().runs.lock().put_kept(pages.as_ptr(), order).is_ok() {
        return;
    }
    // Before another thread can take it. If the system refuses, the memory stays in use.
    // SAFETY: the caller gives up these pages.
    unsafe { libc::madvise(pages.as_ptr().cast(), RUN << order, libc::MADV_REMOVE) };
    let mut runs = header().runs.lock();
    runs.put(pages.as_ptr(), order, Memory::None);
}

/// Returns memory that is mapped in all processes, and that the heap never uses: its first byte,
/// and its size in bytes. It is for one process that works on others, which hands it out by itself.
/// Only with shared memory.
#[must_use]
pub fn aside() -> (*mut u8, usize) {
    // Relaxed: as in `is_shared`.
    (START.load(Relaxed).wrapping_add(SIZE - ASIDE), ASIDE)
}

/// Answer of [`begin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// There is shared memory.
    Shared,
    /// The program was not linked for it: the section of statics does not fill its pages.
    NotLinked,
}

/// Makes the shared heap, and shares the statics. To be called once, before the kernel has any
/// object, while the process has one thread.
///
/// # Errors
/// Errors of `memfd_create(2)`, `ftruncate(2)` and `mmap(2)`. The program should end then.
///
/// # Safety
/// The process has one thread, and has used nothing of the library or of the kernel yet. If a guard
/// of a lock of either is leaked, no reference that it gave out is used after the end of the thread
/// that locked.
pub unsafe fn begin() -> io::Result<Begun> {
    let (first, end) = section();
    if !first.addr().is_multiple_of(PAGE) || !end.addr().is_multiple_of(PAGE) {
        return Ok(Begun::NotLinked);
    }
    // SAFETY: as the caller promises; the section is whole pages of statics that may be written.
    unsafe { share(first, end.addr() - first.addr()) }?;
    let start = map(aligned_range()?, SIZE)?;
    let header = ManuallyDrop::new(Header {
        runs: Mutex::new(Runs {
            used: size_of::<Header>().next_multiple_of(RUN),
            free: [ptr::null_mut(); ORDERS],
            kept: 0,
        }),
        small: [const { Mutex::new(crate::heap::Free::NONE) }; crate::heap::CLASSES],
    });
    // SAFETY: the mapping has room, and nothing else knows it.
    unsafe { start.cast::<ManuallyDrop<Header>>().write(header) };
    // Not every C library has a name for it.
    const MADV_COLLAPSE: libc::c_int = 25;
    // It is advice: a host without large pages has small ones.
    // SAFETY: the mapping was just made.
    unsafe { libc::madvise(start.cast(), LARGE, MADV_COLLAPSE) };
    // Relaxed, both: there is one thread.
    START.store(start, Relaxed);
    IS_SHARED.store(true, Relaxed);
    // Here, so that all processes have one answer: a fork passes it on.
    let _ = has_heavy_fence();
    // SAFETY: as the caller promises; the section is mapped shared, and the heap is.
    unsafe { fdtable_sync::platform::shared::register(&HOOKS) };
    Ok(Begun::Shared)
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
    let fd = File::new(length)?;
    // SAFETY: the buffer has so many bytes.
    let written = unsafe { libc::pwrite(fd.0, before.as_ptr().cast(), length, 0) };
    if written != length.cast_signed() {
        return Err(io::Error::last_os_error());
    }
    fd.map(first, length, libc::MAP_FIXED).map(drop)
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
        return Err(io::Error::last_os_error());
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
            return Err(io::Error::last_os_error());
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
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
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
            _ => Err(io::Error::last_os_error()),
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
            return Err(io::Error::last_os_error());
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
