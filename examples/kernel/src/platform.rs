//! Services of this kernel for `fdtable`.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use fdtable::platform::Platform;

use crate::{clock, cpu, interrupts, pages, threads};

struct Machine;

fdtable::set_platform!(Machine);

/// How heavy fences reach other CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// By an interrupt.
    Interrupt,
    /// By waiting until each CPU has had an interrupt, such as that of its timer.
    Tick,
}

static WAITS_FOR_TICKS: AtomicBool = AtomicBool::new(false);

/// The library has asked for a tick, and the worker has not made it yet.
static WANTS_TICK: AtomicBool = AtomicBool::new(false);

/// Chooses how heavy fences reach other CPUs from now on. Both ways work at the same time.
pub fn set_fence(fence: Fence) {
    WAITS_FOR_TICKS.store(fence == Fence::Tick, Ordering::Relaxed);
}

/// Runs a heavy fence, for a check of it.
pub fn heavy_fence() {
    Machine::heavy_fence();
}

/// Runs callbacks of the library that are due, for the worker thread.
pub fn work() {
    if WANTS_TICK.swap(false, Ordering::Relaxed) {
        // Refused inside of sections and callbacks, where the worker never is.
        let _ = fdtable::rcu::tick();
    }
}

// SAFETY: each hook does what its documentation says; see the functions that it calls.
unsafe impl Platform for Machine {
    fn cpus() -> usize {
        cpu::count()
    }

    #[inline(always)]
    fn cpu() -> usize {
        cpu::id()
    }

    #[inline(always)]
    fn thread_word() -> *mut () {
        cpu::thread_word()
    }

    unsafe fn set_thread_word(word: *mut ()) {
        cpu::set_thread_word(word);
    }

    #[inline(always)]
    fn enter_lock() {
        cpu::disable_preemption();
    }

    #[inline(always)]
    unsafe fn leave_lock() {
        cpu::enable_preemption();
    }

    fn relax(attempts: u32) {
        if attempts >= 16 && cpu::is_preemptible() {
            threads::yield_now();
        } else {
            core::hint::spin_loop();
        }
    }

    fn has_heavy_fence() -> bool {
        true
    }

    fn heavy_fence() {
        if WAITS_FOR_TICKS.load(Ordering::Relaxed) {
            interrupts::wait_for_interrupts();
        } else {
            interrupts::on_all_others(fence);
        }
    }

    fn sequence_area() -> Option<isize> {
        Some(cpu::AREA)
    }

    fn allocate_page(_node: u16) -> Option<NonNull<u8>> {
        pages::allocate()
    }

    unsafe fn free_page(page: NonNull<u8>) {
        // SAFETY: as the caller promises.
        unsafe { pages::free(page) };
    }

    fn nanoseconds() -> u64 {
        clock::nanoseconds()
    }

    fn want_tick() {
        WANTS_TICK.store(true, Ordering::Relaxed);
    }
}

/// Function that an interrupt runs on another CPU.
fn fence() {
    core::sync::atomic::fence(Ordering::SeqCst);
}
