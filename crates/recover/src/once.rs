//! A cell that is made once, by the first thread that needs it.
//!
//! A lock guards the making, and one store commits it. If the maker dies before that store, its
//! burial frees the lock, and the next thread begins again: what the first one had made so far
//! leaks.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

use crate::burial::Kernel;
use crate::death::die_here;
use crate::lock::{Lock, NO_REPAIR};
use crate::platform::AtomicU32;
use crate::platform::Ordering::{Acquire, Relaxed, Release};
use crate::records::Thread;

/// A value that is made once. It has no destructor: the value stays.
#[derive(Debug)]
pub struct Once<T> {
    lock: Lock,
    /// 1 if the value is there.
    is_made: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is written by the owner of the lock, once, before it is shared.
unsafe impl<T: Send + Sync> Sync for Once<T> {}

impl<T> Once<T> {
    /// A cell without a value.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            lock: Lock::new(),
            is_made: AtomicU32::new(0),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Returns the value, if it was made.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // Acquire: pairs with the release of the maker, so the value is visible.
        if self.is_made.load(Acquire) == 0 {
            return None;
        }
        Some(self.value())
    }

    /// Returns the value. Makes it first if necessary, while other threads wait.
    ///
    /// # Panics
    /// If `make` needs this value.
    ///
    /// # Safety
    /// The cell is in shared memory, and stays there.
    #[inline]
    pub unsafe fn get_or_make(
        &self,
        thread: &Thread<'_>,
        kernel: &impl Kernel,
        make: impl FnOnce() -> T,
    ) -> &T {
        match self.get() {
            Some(value) => value,
            // SAFETY: as the caller says.
            None => unsafe { self.make(thread, kernel, make) },
        }
    }

    #[cold]
    unsafe fn make(
        &self,
        thread: &Thread<'_>,
        kernel: &impl Kernel,
        make: impl FnOnce() -> T,
    ) -> &T {
        // SAFETY: as the caller says.
        let _lock = unsafe { self.lock.lock(thread, NO_REPAIR, kernel) };
        // Relaxed: the lock orders it.
        if self.is_made.load(Relaxed) == 0 {
            let value = MaybeUninit::new(make());
            die_here!(48);
            // SAFETY: the lock is held, and no thread reads the value before the store below.
            unsafe { self.value.get().write(value) };
            die_here!(49);
            // Release: pairs with the acquire in `get`.
            self.is_made.store(1, Release);
            die_here!(50);
        }
        self.value()
    }

    /// The value, which was made.
    fn value(&self) -> &T {
        // SAFETY: it is not written again.
        let value = unsafe { &*self.value.get() };
        // SAFETY: it was written before the store that says so, which the caller has seen.
        unsafe { value.assume_init_ref() }
    }
}

#[cfg(not(loom))]
impl<T> Default for Once<T> {
    fn default() -> Self {
        Self::new()
    }
}
