//! The pages of the shared range: one range of addresses for the heap.
//!
//! Pages are handed out in runs of a power of two. A free run is kept in a list of its size. Its
//! memory goes back to the system, unless little is kept: to take it again costs a fault for each
//! page.

use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;

use crate::lock::Mutex;

/// The size of the range in bytes: 64 GiB. It is never used up before the memory of the machine.
pub(crate) const SIZE: usize = 1 << 36;

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

/// The first byte of the range.
static START: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// The runs that are free, on cache lines of their own.
#[repr(align(64))]
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

// SAFETY: the runs belong to no thread, and their lock guards them.
unsafe impl Send for Runs {}

fdtable_sync::global! {
    pub(crate) static RUNS: Mutex<Runs> = Mutex::new(Runs {
        used: 0,
        free: [ptr::null_mut(); ORDERS],
        kept: 0,
    });
}

/// Has what a small tree uses become large pages, before the first fork. A process that is forked
/// maps pages anew, each with a fault, and a large page with one.
pub fn make_large_pages() {
    const LARGE: usize = 4 << 20;
    // Not every C library has a name for it.
    const MADV_COLLAPSE: libc::c_int = 25;
    // It is advice: a host without large pages has small ones.
    // SAFETY: the range is this module's, and its contents stay.
    unsafe { libc::madvise(START.load(Relaxed).cast(), LARGE, MADV_COLLAPSE) };
}

/// Sets the first byte of the range. Called once, while there is one thread.
pub(crate) fn set_start(start: *mut u8) {
    // Relaxed: there is one thread.
    START.store(start, Relaxed);
}

/// Returns true if an address is in the shared range.
#[inline]
pub(crate) fn contains(place: *const u8) -> bool {
    // Relaxed: it is written while there is one thread. Before `begin` the range begins at 0, and
    // no object is there.
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
    RUNS.lock().take(order)
}

/// Gives pages back.
///
/// # Safety
/// [`map_pages`] returned them for the same size; they are given back once, and no longer used.
pub unsafe fn unmap_pages(pages: NonNull<u8>, size: usize) {
    let Some(order) = order_of(size) else {
        return;
    };
    if RUNS.lock().put_kept(pages.as_ptr(), order).is_ok() {
        return;
    }
    // Before another thread can take it. If the system refuses, the memory stays in use.
    // SAFETY: the caller gives up these pages.
    unsafe { libc::madvise(pages.as_ptr().cast(), RUN << order, libc::MADV_REMOVE) };
    let mut runs = RUNS.lock();
    runs.put(pages.as_ptr(), order, Memory::None);
}

/// Returns memory that is mapped in all processes, and that the heap never uses: its first byte,
/// and its size in bytes. It is for one process that works on others, which hands it out by itself.
/// Only with shared memory.
#[must_use]
pub fn aside() -> (*mut u8, usize) {
    // Relaxed: as in `contains`.
    (START.load(Relaxed).wrapping_add(SIZE - ASIDE), ASIDE)
}
