//! Differences between an operating system, a kernel and the model checker: atomics, locks, cells,
//! and the busy-wait step.
//!
//! The rest of the crate names only this module, so the source that runs in production and
//! the source that runs under `loom` are the same. [`kernel`] is the interface for kernels.

#[cfg(loom)]
#[allow(missing_docs, reason = "they are those of the standard library")]
pub mod atomic;
#[cfg(not(feature = "std"))]
pub(crate) mod hooks;
pub mod kernel;
#[cfg(not(feature = "std"))]
pub mod thread;

#[cfg(not(loom))]
pub use core::sync::atomic;

#[cfg(loom)]
pub use loom::sync::Arc;

/// The lock that sleeps.
#[cfg(all(not(loom), feature = "std", not(feature = "processes")))]
mod sleeping {
    pub(super) use parking_lot::{Mutex, MutexGuard};

    /// Hands the lock to a thread that sleeps on it, if one does, and takes it again.
    pub(super) fn bump<T>(guard: &mut MutexGuard<'_, T>) {
        MutexGuard::bump(guard);
    }
}

/// The lock that sleeps, in memory that processes may share.
#[cfg(all(not(loom), feature = "processes"))]
mod sleeping {
    pub(super) use fdtable_shm::{Mutex, MutexGuard};

    /// Releases the lock to a thread that sleeps on it, if one does, and takes it again.
    pub(super) fn bump<T>(guard: &mut MutexGuard<'_, T>) {
        MutexGuard::unlocked(guard, std::thread::yield_now);
    }
}

/// A lock for the update side. It is held for a bounded number of steps and never while a
/// caller's code runs.
#[cfg(loom)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

/// A lock for the update side. It is held for a bounded number of steps and never while a
/// caller's code runs.
#[cfg(all(not(loom), feature = "std"))]
pub struct Mutex<T>(sleeping::Mutex<T>);

/// A lock for the update side. It is held for a bounded number of steps and never while a
/// caller's code runs.
#[cfg(all(not(loom), not(feature = "std")))]
pub struct Mutex<T>(crate::spin::SpinLock<T>);

#[cfg(loom)]
type RawGuard<'a, T> = loom::sync::MutexGuard<'a, T>;
#[cfg(all(not(loom), feature = "std"))]
type RawGuard<'a, T> = sleeping::MutexGuard<'a, T>;
#[cfg(all(not(loom), not(feature = "std")))]
type RawGuard<'a, T> = crate::spin::SpinGuard<'a, T>;

/// The right to use what a [`Mutex`] guards.
pub struct MutexGuard<'a, T> {
    #[cfg(any(loom, not(feature = "std")))]
    lock: &'a Mutex<T>,
    /// Absent only inside [`MutexGuard::let_others`].
    raw: Option<RawGuard<'a, T>>,
}

/// Keeps other code that uses the library off this CPU until [`leave_lock`], where a kernel
/// [can](kernel::Platform::enter_lock). Nests. Does nothing with `std`: a thread that waits for a
/// lock sleeps or yields its CPU.
#[inline(always)]
pub fn enter_lock() {
    #[cfg(not(feature = "std"))]
    hooks::enter_lock();
}

/// Undoes one [`enter_lock`].
///
/// # Safety
/// This thread has entered a lock that it did not leave yet.
#[inline(always)]
pub unsafe fn leave_lock() {
    #[cfg(not(feature = "std"))]
    // SAFETY: as the caller promises.
    unsafe {
        hooks::leave_lock();
    }
}

/// Allocates a page of a kernel, at a multiple of its size: see
/// [`Platform::allocate_page`](kernel::Platform::allocate_page). With `std`, from the global
/// allocator.
#[must_use]
pub fn allocate_page(node: u16) -> Option<core::ptr::NonNull<u8>> {
    #[cfg(not(feature = "std"))]
    return hooks::allocate_page(node);
    #[cfg(feature = "std")]
    <kernel::Defaults as kernel::Platform>::allocate_page(node)
}

/// Frees a page of a kernel.
///
/// # Safety
/// [`allocate_page`] returned it; it is freed once, and no longer used.
pub unsafe fn free_page(page: core::ptr::NonNull<u8>) {
    #[cfg(not(feature = "std"))]
    // SAFETY: as the caller promises.
    unsafe {
        hooks::free_page(page);
    }
    #[cfg(feature = "std")]
    // SAFETY: as the caller promises.
    unsafe {
        <kernel::Defaults as kernel::Platform>::free_page(page);
    }
}

/// Panic message of a guard that is used inside of its own method.
const HELD: &str = "the lock is held outside of let_others";

impl<T> MutexGuard<'_, T> {
    /// Releases the lock to a thread that waits for it, if one does, and takes it again. The
    /// guarded value may have changed.
    ///
    /// A thread that only released and took the lock would keep it: the others look for it too
    /// rarely to find it free. With `std` the lock is handed to a thread that sleeps on it. Without
    /// `std` it is free briefly.
    #[allow(
        clippy::missing_panics_doc,
        reason = "only this function takes the inner guard away, and it puts it back"
    )]
    pub fn let_others(&mut self) {
        #[cfg(all(not(loom), feature = "std"))]
        sleeping::bump(self.raw.as_mut().expect(HELD));
        #[cfg(any(loom, not(feature = "std")))]
        {
            self.raw = None;
            #[cfg(not(loom))]
            relax(0);
            self.raw = self.lock.lock().raw.take();
        }
    }
}

impl<T> core::ops::Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.raw.as_ref().expect(HELD)
    }
}

impl<T> core::ops::DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.raw.as_mut().expect(HELD)
    }
}

impl<T> Mutex<T> {
    /// Makes an unlocked lock around `value`.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        #[cfg(feature = "std")]
        return Self(sleeping::Mutex::new(value));
        #[cfg(not(feature = "std"))]
        return Self(crate::spin::SpinLock::new(value));
    }

    /// Makes an unlocked lock around `value`.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    /// Waits for the lock and takes it. May sleep; never call it inside a read-side section
    /// that the holder of the lock may wait for.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(loom)]
        return self.guard(
            self.0
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        );
        #[cfg(not(loom))]
        return self.try_lock().unwrap_or_else(|| self.wait());
    }

    /// Keeps away a few times before it sleeps. A holder nearly always runs on, and is done before
    /// this thread could be suspended and woken. And where more threads run than there are CPUs, a
    /// thread that yields its CPU at each contention waits for all others. The first wait is longer
    /// than for a lock of one word, since a search takes longer than a change in a leaf.
    #[cfg(not(loom))]
    #[cold]
    fn wait(&self) -> MutexGuard<'_, T> {
        for attempts in LONG..WAITS {
            keep_away(attempts);
            if let Some(guard) = self.try_lock() {
                return guard;
            }
        }
        self.guard(self.0.lock())
    }

    /// Takes the lock if no thread holds it. Never waits.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        #[cfg(loom)]
        return self.0.try_lock().ok().map(|raw| self.guard(raw));
        #[cfg(not(loom))]
        return self.0.try_lock().map(|raw| self.guard(raw));
    }

    #[inline]
    fn guard<'a>(&'a self, raw: RawGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard {
            #[cfg(any(loom, not(feature = "std")))]
            lock: self,
            raw: Some(raw),
        }
    }

    /// Borrows the value. No other thread can, as `self` is borrowed exclusively.
    pub fn get_mut(&mut self) -> &mut T {
        #[cfg(loom)]
        return self
            .0
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        #[cfg(not(loom))]
        return self.0.get_mut();
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// From this step on a waiting thread yields its CPU.
#[cfg(not(loom))]
const YIELDS: u32 = 64;

/// Lets others run: a busy-wait step. `attempts` counts the caller's steps so far. After a few, the
/// thread yields its CPU, since the thread that it waits for may need it.
pub fn relax(attempts: u32) {
    #[cfg(loom)]
    {
        // Repeated waiting for a thread that is never run shows a model nothing new.
        if attempts >= 3 {
            loom::skip_branch();
        }
        loom::thread::yield_now();
    }
    #[cfg(not(loom))]
    {
        if cfg!(feature = "std") && attempts < YIELDS {
            core::hint::spin_loop();
            return;
        }
        // After many more it sleeps: a thread of a higher priority would not let the other run by
        // yielding its CPU.
        #[cfg(feature = "std")]
        if attempts < 1024 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(core::time::Duration::from_micros(50));
        }
        #[cfg(not(feature = "std"))]
        hooks::relax(attempts);
    }
}

/// How often a thread keeps away from a lock before it yields its CPU.
#[cfg(not(loom))]
const WAITS: u32 = 5;

/// The first step of a thread that keeps away from a [`Mutex`]: four microseconds, of a wait of 28
/// that would be 31 from step 0 on.
#[cfg(not(loom))]
const LONG: u32 = 2;

/// Does nothing for about a microsecond, and twice as long for each attempt before. That is some
/// dozens of times as long as a lock is held, so that the holder can take it again and again
/// meanwhile.
#[cfg(not(loom))]
fn keep_away(attempts: u32) {
    const FIRST: u32 = 32;
    for _ in 0..FIRST << attempts {
        core::hint::spin_loop();
    }
    // A kernel serves the requests of other CPUs in it.
    #[cfg(not(feature = "std"))]
    hooks::relax(attempts);
}

/// Keeps away from a lock that another thread holds for some tens of instructions. `attempts`
/// counts the caller's looks so far. After a few, the thread yields its CPU.
pub fn back_off(attempts: u32) {
    #[cfg(loom)]
    relax(attempts);
    #[cfg(not(loom))]
    match attempts.checked_sub(WAITS) {
        None => keep_away(attempts),
        Some(more) => relax(YIELDS.saturating_add(more)),
    }
}

/// Declares a static of the kernel: one that all processes share, if they share anything. Loom
/// makes it anew for every execution of a model. Without both it is a plain constant-initialised
/// static.
#[cfg(all(feature = "processes", not(loom)))]
#[macro_export]
macro_rules! global {
    ($(#[$meta:meta])* pub$(($($scope:tt)+))? static $name:ident: $type:ty = $init:expr;) => {
        $(#[$meta])*
        #[unsafe(link_section = "fdt_shared")]
        pub$(($($scope)+))? static $name: $type = $init;
    };
}

/// Declares a static of the kernel: one that all processes share, if they share anything. Loom
/// makes it anew for every execution of a model. Without both it is a plain constant-initialised
/// static.
#[cfg(not(all(feature = "processes", not(loom))))]
#[macro_export]
macro_rules! global {
    ($(#[$meta:meta])* pub$(($($scope:tt)+))? static $name:ident: $type:ty = $init:expr;) => {
        $crate::own! {
            $(#[$meta])*
            pub$(($($scope)+))? static $name: $type = $init;
        }
    };
}

/// Declares a static that each process has for itself. Loom makes it anew for every execution of a
/// model. Without loom it is a plain constant-initialised static.
#[macro_export]
macro_rules! own {
    ($(#[$meta:meta])* pub$(($($scope:tt)+))? static $name:ident: $type:ty = $init:expr;) => {
        #[cfg(not(loom))]
        $(#[$meta])*
        pub$(($($scope)+))? static $name: $type = $init;
        #[cfg(loom)]
        $crate::platform::lazy_static! {
            $(#[$meta])*
            pub$(($($scope)+))? static ref $name: $type = $init;
        }
    };
}
pub use crate::{global, own};
#[cfg(loom)]
#[doc(hidden)]
pub use loom::lazy_static;
