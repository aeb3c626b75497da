//! A [`Platform`] on the host, as a kernel could have it.
//!
//! System calls of the host take the place of a kernel's hardware: the heavy fence is
//! `membarrier(2)`, and the sequences of a CPU are restarted by the rseq area of the thread that
//! it runs, which the segment `gs` leads to. A lock disables no preemption, but it counts as a
//! kernel does. So figures are those of a kernel while no more threads run than there are CPUs,
//! each [pinned](enter) to one.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use fdtable::platform::{PAGE, Platform};

/// Services of the host.
pub struct Host;

#[cfg(any(feature = "std", feature = "platform"))]
fdtable::set_platform!(Host);

/// Set by [`use_sequences`].
static HAS_SEQUENCES: AtomicBool = AtomicBool::new(false);

/// How far the area of a thread is from the base of `gs`. Not 0, which would be none.
const AREA: isize = 32;

std::thread_local! {
    static WORD: Cell<*mut ()> = const { Cell::new(ptr::null_mut()) };
    /// The count of entered locks, which a kernel has for each CPU.
    static LOCKS: Cell<usize> = const { Cell::new(0) };
    static INTERRUPT: Cell<Option<fn()>> = const { Cell::new(None) };
    /// True while memory for the data of a CPU is refused.
    static IS_SHORT: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: each hook does what its documentation says, for threads of the host: `LOCKS` is the
// count of the locks of a thread, whose preemption is harmless on the host, since `relax` yields.
unsafe impl Platform for Host {
    #[inline(always)]
    fn cpus() -> usize {
        if is_missing(Hook::Cpus) {
            return 1;
        }
        configured_cpus()
    }

    #[inline(always)]
    fn cpu() -> usize {
        // SAFETY: glibc keeps the area at this offset for as long as the thread lives, and the
        // index of the CPU in it at 4.
        unsafe { area().wrapping_add(4).cast::<u32>().read_volatile() as usize }
    }

    #[inline(always)]
    fn thread_word() -> *mut () {
        WORD.get()
    }

    unsafe fn set_thread_word(word: *mut ()) {
        if !is_missing(Hook::ThreadWord) {
            WORD.set(word);
        }
    }

    #[inline(always)]
    fn enter_lock() {
        if let Some(handler) = INTERRUPT.take() {
            handler();
        }
        LOCKS.set(LOCKS.get() + 1);
    }

    #[inline(always)]
    unsafe fn leave_lock() {
        LOCKS.set(LOCKS.get() - 1);
    }

    fn relax(attempts: u32) {
        if attempts < 64 {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }

    fn has_heavy_fence() -> bool {
        registered() && !is_missing(Hook::HeavyFence)
    }

    fn heavy_fence() {
        assert!(registered() && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ));
    }

    fn sequence_area() -> Option<isize> {
        HAS_SEQUENCES.load(Relaxed).then_some(AREA)
    }

    fn allocate_page(_node: u16) -> Option<NonNull<u8>> {
        // SAFETY: the size is not zero.
        NonNull::new(unsafe { HEAP.alloc(PAGE_LAYOUT) })
    }

    unsafe fn free_page(page: NonNull<u8>) {
        // SAFETY: allocated with this layout, and the caller gives it up.
        unsafe { HEAP.dealloc(page.as_ptr(), PAGE_LAYOUT) };
    }

    fn nanoseconds() -> u64 {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the struct is ours.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }

    fn want_tick() {
        WANTS_TICK.store(true, Relaxed);
    }
}

/// The library has asked for a tick since this was cleared.
pub static WANTS_TICK: AtomicBool = AtomicBool::new(false);

/// The layout of a page.
const PAGE_LAYOUT: Layout = match Layout::from_size_align(PAGE, PAGE) {
    Ok(layout) => layout,
    Err(_) => panic!("the size is a power of two"),
};

/// Registers the process for fences, once.
fn registered() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let register = libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ;
    *REGISTERED.get_or_init(|| membarrier(register))
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: `membarrier` takes integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

unsafe extern "C" {
    /// Where each thread has its rseq area: an offset from the thread pointer, of glibc ≥ 2.35.
    static __rseq_offset: isize;
}

fn configured_cpus() -> usize {
    static CPUS: OnceLock<usize> = OnceLock::new();
    *CPUS.get_or_init(|| {
        // SAFETY: `sysconf` takes an integer and touches no memory of ours.
        let configured = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
        usize::try_from(configured).unwrap_or(1)
    })
}

/// Returns the address of the calling thread's rseq area.
#[inline(always)]
fn area() -> *mut u8 {
    let thread: *mut u8;
    // SAFETY: the ABI keeps the thread pointer itself at `fs:0`; the load has no side effect.
    unsafe {
        std::arch::asm!(
            "mov {}, fs:0", out(reg) thread, options(nostack, preserves_flags, pure, readonly)
        );
    }
    // SAFETY: glibc never changes it after the start.
    thread.wrapping_offset(unsafe { __rseq_offset })
}

/// A hook that a kernel may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// The number of CPUs: there seems to be one.
    Cpus,
    /// The word of a thread: it is never stored.
    ThreadWord,
    /// The heavy fence.
    HeavyFence,
}

/// A bit for each hook that is missing.
static MISSING: AtomicUsize = AtomicUsize::new(0);

/// Lets a hook do what its default does. To be called before anything of the library.
pub fn do_without(hook: Hook) {
    MISSING.fetch_or(1 << hook as usize, Relaxed);
}

fn is_missing(hook: Hook) -> bool {
    MISSING.load(Relaxed) & 1 << hook as usize != 0
}

/// Lets the library use restartable sequences. Each thread must [`enter`] before it uses the
/// library from then on. To be called before anything else of the library.
pub fn use_sequences() {
    HAS_SEQUENCES.store(true, Relaxed);
}

/// Prepares the calling thread: pins it to a CPU, modulo the number of CPUs, and has `gs` lead to
/// its area.
///
/// # Panics
/// If the host refuses.
pub fn enter(cpu: usize) {
    // SAFETY: an all-zero `cpu_set_t` is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the index is below the number of CPUs, and well below the size of the set.
    unsafe { libc::CPU_SET(cpu % configured_cpus(), &mut set) };
    // SAFETY: the set lives on this frame and has the given size.
    let pinned = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    assert_eq!(pinned, 0, "the CPU is there");
    const ARCH_SET_GS: libc::c_int = 0x1001;
    let base = area().wrapping_offset(-AREA);
    // SAFETY: nothing else of this process uses the segment.
    let is_set = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, base) };
    assert_eq!(is_set, 0, "the base of a segment can be set");
}

/// Returns how many locks the calling thread has entered and not left.
pub fn entered_locks() -> usize {
    LOCKS.get()
}

/// Interrupts the calling thread by `handler` where it next enters a lock: the last moment before
/// interrupts are disabled. Unlike a hook, a handler may call the library.
pub fn interrupt(handler: fn()) {
    INTERRUPT.set(Some(handler));
}

/// Refuses the calling thread memory for the data of CPUs, or no longer.
pub fn refuse_data_of_cpus(is_short: bool) {
    IS_SHORT.set(is_short);
}

/// Ends the use of the library by the calling thread.
pub fn leave() {
    fdtable::rcu::end_thread();
}

/// The alignment from which on memory is for the data of a CPU or a thread, in bytes.
const LINES: usize = 128;

/// The system's heap, which counts what is taken.
pub struct Counting;

#[global_allocator]
static HEAP: Counting = Counting;

std::thread_local! {
    static TAKEN: RefCell<Option<Vec<Layout>>> = const { RefCell::new(None) };
}
static LIVE: AtomicUsize = AtomicUsize::new(0);
static TAKEN_LINES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's heap does it; what is beside it allocates nothing, or is not counted itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() >= LINES {
            if IS_SHORT.get() {
                return ptr::null_mut();
            }
            TAKEN_LINES.fetch_add(1, Relaxed);
        }
        // Not while the list itself grows.
        let _ = TAKEN.try_with(|taken| {
            if let Ok(mut taken) = taken.try_borrow_mut()
                && let Some(taken) = taken.as_mut()
            {
                LIVE.fetch_add(layout.size(), Relaxed);
                taken.push(layout);
            }
        });
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) };
    }
}

/// Returns how often any thread took memory for the data of CPUs or threads.
pub fn taken_lines() -> usize {
    TAKEN_LINES.load(Relaxed)
}

/// Runs `work`, and returns the layouts that the calling thread took from the heap in it.
pub fn taken_in<R>(work: impl FnOnce() -> R) -> (R, Vec<Layout>) {
    TAKEN.with(|taken| *taken.borrow_mut() = Some(Vec::with_capacity(1024)));
    let answer = work();
    let taken = TAKEN.with(|taken| taken.borrow_mut().take());
    (answer, taken.unwrap_or_default())
}
