//! A spin lock: a value under a [lock of one word](crate::lock).

use crate::platform::const_fn;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use crate::lock::{LockTag, RawLock};

/// A lock in a `SpinLock` is found by its place, so it needs no tag of its own.
const TAG: LockTag = LockTag::of(0);

/// A value that one thread at a time may use, for a few instructions: the lock is a [`RawLock`].
#[derive(Debug)]
pub struct SpinLock<T> {
    lock: RawLock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is touched by the holder of the lock alone, on whatever thread.
unsafe impl<T: Send> Sync for SpinLock<T> {}

/// The right to use the value. The lock is held until this is dropped.
#[must_use = "the value is unlocked when this is dropped"]
pub struct SpinGuard<'l, T> {
    lock: &'l SpinLock<T>,
    /// Not `Send`: a lock is released on the thread that took it.
    stays: PhantomData<*const ()>,
}

impl<T> SpinLock<T> {
    const_fn! {
        /// Makes an unlocked lock around `value`.
        pub fn new(value: T) -> Self {
            Self {
                lock: RawLock::new(TAG),
                value: UnsafeCell::new(value),
            }
        }
    }

    /// Waits for the lock and takes it.
    #[inline(always)]
    pub fn lock(&self) -> SpinGuard<'_, T> {
        self.lock.lock(TAG);
        SpinGuard {
            lock: self,
            stays: PhantomData,
        }
    }

    /// Takes the lock if no thread holds it. Never waits.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
        self.lock.try_lock(TAG).then(|| SpinGuard {
            lock: self,
            stays: PhantomData,
        })
    }

    /// Borrows the value. No other thread can, as `self` is borrowed exclusively.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Waits for the lock and takes it without a guard, for a thread that holds many. The lock
    /// stays taken until [`unlock_raw`](Self::unlock_raw).
    pub fn lock_raw(&self) {
        self.lock.lock(TAG);
    }

    /// Releases the lock.
    ///
    /// # Safety
    /// The caller holds it, by [`lock_raw`](Self::lock_raw), and does not use the value any more.
    pub unsafe fn unlock_raw(&self) {
        // SAFETY: as the caller promises.
        unsafe { self.lock.unlock(TAG) };
    }

    /// Returns the address of the value. Only the holder of the lock may dereference it.
    pub fn as_ptr(&self) -> *mut T {
        self.value.get()
    }
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: only the holder of the lock touches the value, and `self` is borrowed.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: only the holder of the lock touches the value, and `self` is borrowed alone.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: taken when this was made, and the value is not borrowed any more.
        unsafe { self.lock.lock.unlock(TAG) };
    }
}
