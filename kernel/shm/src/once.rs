//! A cell that is filled once, by a thread of any process.

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

use crate::lock::Mutex;

/// A cell that is filled once, also in memory that processes share.
///
/// [`OnceLock`](std::sync::OnceLock) wakes the threads of its own process alone, and waits forever
/// for a thread that was killed while it filled the cell. Here the right to fill is a [`Mutex`].
/// With shared memory it passes from a dead owner to the next thread, which fills the cell anew;
/// the value of the dead thread is leaked.
///
/// ```
/// let cell = fdtable_shm::OnceCell::new();
/// assert_eq!(cell.get(), None);
/// assert_eq!(*cell.get_or_init(|| 1), 1);
/// assert_eq!(cell.set(2), Err(2));
/// ```
pub struct OnceCell<T> {
    value: UnsafeCell<MaybeUninit<T>>,
    /// Set once `value` is complete, and never cleared.
    is_filled: AtomicBool,
    /// Held by the thread that fills the cell.
    fills: Mutex<()>,
}

// SAFETY: the value is written by the holder of `fills` alone, before it is shared, and may come
// from another thread than the one that drops it.
unsafe impl<T: Send + Sync> Sync for OnceCell<T> {}

impl<T> OnceCell<T> {
    /// Makes an empty cell.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            value: UnsafeCell::new(MaybeUninit::uninit()),
            is_filled: AtomicBool::new(false),
            fills: Mutex::new(()),
        }
    }

    /// Returns the value, if there is one. Never blocks.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // Acquire: pairs with the release in `try_fill`, so the whole value is visible here.
        if !self.is_filled.load(Acquire) {
            return None;
        }
        // SAFETY: no thread writes the value after `is_filled` is set, and `self` owns it.
        let value = unsafe { &*self.value.get() };
        // SAFETY: it was written before `is_filled` was set.
        Some(unsafe { value.assume_init_ref() })
    }

    /// Returns the value. Fills the cell before that, if it is empty, by one call of `make` for all
    /// threads, or one more for each thread that was killed in it. Blocks while another thread
    /// fills the cell.
    ///
    /// # Panics
    /// If `make` does; the cell stays empty then. `make` does not use the cell: that would block
    /// forever.
    #[inline]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        match self.get() {
            Some(value) => value,
            None => match self.try_fill(make) {
                Ok(value) | Err((value, _)) => value,
            },
        }
    }

    /// Fills the cell. Blocks while another thread does.
    ///
    /// # Errors
    /// The given value, if there is one in the cell.
    pub fn set(&self, value: T) -> Result<(), T> {
        match self.try_fill(|| value) {
            Ok(_) => Ok(()),
            Err((_, make)) => Err(make()),
        }
    }

    /// Fills the cell. If it is full, returns its value and `make`.
    #[cold]
    fn try_fill<M: FnOnce() -> T>(&self, make: M) -> Result<&T, (&T, M)> {
        let _fills = self.fills.lock();
        if let Some(value) = self.get() {
            return Err((value, make));
        }
        let value = make();
        // SAFETY: `fills` keeps other writers out until this thread is done or dead, and readers
        // wait for `is_filled`. The value of a dead thread is not dropped.
        let value = unsafe { &mut *self.value.get() }.write(value);
        // Release: pairs with the acquire in `get`.
        self.is_filled.store(true, Release);
        Ok(value)
    }
}

impl<T> Drop for OnceCell<T> {
    fn drop(&mut self) {
        if *self.is_filled.get_mut() {
            // SAFETY: it was written before `is_filled` was set, and is not used after this.
            unsafe { self.value.get_mut().assume_init_drop() };
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnceCell").field(&self.get()).finish()
    }
}

impl<T> Default for OnceCell<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> From<T> for OnceCell<T> {
    fn from(value: T) -> Self {
        Self {
            value: UnsafeCell::new(MaybeUninit::new(value)),
            is_filled: AtomicBool::new(true),
            fills: Mutex::new(()),
        }
    }
}
