//! What differs between the hardware and the model checker: atomics, fences and futexes.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use core::time::Duration;

/// One number for the hardware, and one for the model checker, for which each access is a step.
pub(crate) const fn size(hardware: usize, model: usize) -> usize {
    if cfg!(loom) { model } else { hardware }
}

/// Keeps the stores before it before those after it, as a burial of this thread sees them.
///
/// A thread dies between two of its instructions. The host reports the death after that, so all its
/// stores are visible then, and the compiler alone could change their order.
#[inline(always)]
pub(crate) fn program_order() {
    #[cfg(not(loom))]
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// Orders the stores before it before the loads after it, for a thread that has fenced all CPUs
/// meanwhile. The model checker cannot do that, and fences here.
#[inline(always)]
pub(crate) fn light_fence() {
    program_order();
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// Exchanges a word: a locked instruction, so a full fence.
///
/// The model checker's exchange is none, and gets one.
#[inline(always)]
pub(crate) fn swap(word: &AtomicU64, value: u64, order: Ordering) -> u64 {
    let old = word.swap(value, order);
    #[cfg(not(loom))]
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
    old
}

/// The address of an object. That of a shared one is the same in all processes.
#[inline(always)]
pub(crate) fn address<T>(object: &T) -> u64 {
    core::ptr::from_ref(object).expose_provenance() as u64
}

/// The object at an address that [`address`] returned.
///
/// # Safety
/// The object is alive for `'a`.
#[inline(always)]
pub(crate) unsafe fn object<'a, T>(address: u64) -> &'a T {
    let object = core::ptr::with_exposed_provenance::<T>(address as usize);
    // SAFETY: it is the address of a `T`, which the caller says is alive.
    unsafe { &*object }
}

/// Sleeps while `word` has the value `seen`, until a [`wake`] or for at most `patience`. Processes
/// share the futex. Returns early for signals, and if the word has another value.
#[cfg(not(loom))]
pub(crate) fn sleep(word: &AtomicU32, seen: u32, patience: Duration) {
    let patience = libc::timespec {
        tv_sec: patience.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(patience.subsec_nanos()),
    };
    // SAFETY: the kernel reads a word and a time that both live.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            seen,
            &raw const patience,
        )
    };
}

/// Wakes up to `count` threads, of any process, that sleep on `word`.
#[cfg(not(loom))]
pub(crate) fn wake(word: &AtomicU32, count: i32) {
    // SAFETY: the kernel takes the address as the name of a queue, and reads nothing.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, count) };
}

/// Lets another thread of the model run.
#[cfg(loom)]
pub(crate) fn sleep(_: &AtomicU32, _: u32, _: Duration) {
    loom::thread::yield_now();
}

/// Does nothing: a thread of the model looks again by itself.
#[cfg(loom)]
pub(crate) fn wake(_: &AtomicU32, _: i32) {}
