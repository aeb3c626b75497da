//! Locks that no fork of the process copies while they are held.

use fdtable::host_fork;
use parking_lot::{Mutex, MutexGuard};

/// A value behind a lock. A thread that forks waits until no other thread holds it.
pub(crate) struct Guarded<T>(Mutex<T>);

/// The right to use the value.
pub(crate) struct Guard<'a, T> {
    // In this order: the lock is released before a fork may go on.
    value: MutexGuard<'a, T>,
    _fork_guard: host_fork::ForkGuard,
}

impl<T> Guarded<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let _fork_guard = host_fork::enter();
        Guard {
            value: self.0.lock(),
            _fork_guard,
        }
    }
}

impl<T> std::ops::Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> std::ops::DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
