//! The kernel's own lock: it spins, with interrupts off.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

use x86_64::instructions::interrupts;

/// A value that one CPU at a time uses, for a short time.
pub struct Lock<T> {
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: only the holder of the lock touches the value.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The right to use the value. Interrupts of the CPU are off until it is dropped.
pub struct Guard<'l, T> {
    lock: &'l Lock<T>,
    were_enabled: bool,
}

impl<T> Lock<T> {
    pub const fn new(value: T) -> Self {
        Self {
            is_taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    pub fn lock(&self) -> Guard<'_, T> {
        let were_enabled = interrupts::are_enabled();
        interrupts::disable();
        // Acquire: pairs with the release of the drop, so the value is as its last user left it.
        while self.is_taken.swap(true, Ordering::Acquire) {
            core::hint::spin_loop();
        }
        Guard {
            lock: self,
            were_enabled,
        }
    }

    /// Takes the value whoever has it.
    ///
    /// # Safety
    /// No other CPU uses the value any more, or that does not matter.
    pub unsafe fn steal(&self) -> Guard<'_, T> {
        Guard {
            lock: self,
            were_enabled: false,
        }
    }
}

impl<T: Default> Default for Lock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and the guard is borrowed alone.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `lock`.
        self.lock.is_taken.store(false, Ordering::Release);
        if self.were_enabled {
            interrupts::enable();
        }
    }
}
