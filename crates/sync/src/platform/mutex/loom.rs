//! The words of a lock in a model: a mutex of the checker, which is made when it is first locked.

use core::cell::UnsafeCell;
use std::sync::OnceLock;

use ::loom::sync::{Mutex, MutexGuard};

/// The words of a lock.
#[derive(Debug, Default)]
pub struct Raw {
    mutex: OnceLock<Mutex<()>>,
    /// Written by the holder alone.
    held: UnsafeCell<Option<MutexGuard<'static, ()>>>,
}

// SAFETY: `held` is used only by the holder of the mutex.
unsafe impl Sync for Raw {}
// SAFETY: a lock that is moved is not held.
unsafe impl Send for Raw {}

impl Raw {
    pub(super) fn may_have_sleepers(&self) -> bool {
        true
    }

    fn mutex(&self) -> &'static Mutex<()> {
        let mutex = self.mutex.get_or_init(|| Mutex::new(()));
        // SAFETY: a lock that is held is not dropped, and `held` is emptied when it is released.
        unsafe { &*core::ptr::from_ref(mutex) }
    }

    fn hold(&self, guard: MutexGuard<'static, ()>) {
        // SAFETY: this thread holds the mutex.
        unsafe { *self.held.get() = Some(guard) };
    }
}

// SAFETY: the checker's mutex has one holder.
unsafe impl lock_api::RawMutex for Raw {
    const INIT: Self = Self {
        mutex: OnceLock::new(),
        held: UnsafeCell::new(None),
    };

    type GuardMarker = lock_api::GuardNoSend;

    fn lock(&self) {
        let poisoned = std::sync::PoisonError::into_inner;
        self.hold(self.mutex().lock().unwrap_or_else(poisoned));
    }

    fn try_lock(&self) -> bool {
        let guard = self.mutex().try_lock().ok();
        guard.map(|guard| self.hold(guard)).is_some()
    }

    unsafe fn unlock(&self) {
        // SAFETY: this thread holds the mutex.
        let guard = unsafe { (*self.held.get()).take() };
        drop(guard);
    }
}
