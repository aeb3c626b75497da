//! Waiters: threads and tasks that wait until a descriptor is free, until a reservation ends, or
//! until no thread uses a file through a descriptor.
//!
//! While there are waiters, the tree's gate is shut, so that every change takes the slow path. A
//! change there that frees a descriptor, or ends a reservation or a use, takes the waiters and
//! wakes them after the lock is released. They check again, and wait again if their condition is
//! not met. Without waiters this costs nothing.

use alloc::vec::Vec;
use core::mem;
use core::task::Waker;

use fdtable_base::unwind;

use super::{FdTable, Structure};
use crate::Error;

/// The waiters, in the order of their arrival.
#[derive(Default)]
pub(super) struct Waiters(Vec<Waiter>);

/// A waiting task or thread.
pub(crate) enum Waiter {
    Task(Waker),
    #[cfg(feature = "std")]
    Thread(std::thread::Thread),
}

/// The waiters to wake. They are woken when this is dropped: after the lock is released.
#[must_use = "dropping this wakes the waiters; do it outside of the lock"]
pub(super) struct Woken(Vec<Waiter>);

impl Waiter {
    fn wake(self) {
        match self {
            Self::Task(waker) => waker.wake(),
            #[cfg(feature = "std")]
            Self::Thread(thread) => thread.unpark(),
        }
    }
}

impl Drop for Woken {
    /// Wakes each waiter. A panic of a waker is contained: the thread that wakes the task is not
    /// responsible for it, and must complete its change.
    fn drop(&mut self) {
        unwind::finish(|| {
            while let Some(waiter) = self.0.pop() {
                unwind::contain(|| waiter.wake());
            }
        });
    }
}

/// A table may end while abandoned tasks wait: their wakers are dropped, and that may panic.
impl Drop for Waiters {
    fn drop(&mut self) {
        unwind::finish(|| {
            while let Some(waiter) = self.0.pop() {
                drop(waiter);
            }
        });
    }
}

impl Waiters {
    /// Adds a waiter, unless it waits already. If it is not added, it stays with the caller:
    /// dropping it runs a caller's code, which must not run under the lock.
    fn add(&mut self, waiter: &mut Option<Waiter>) -> Result<(), Error> {
        let is_new = |new: &Waiter| !self.0.iter().any(|there| there.is_same(new));
        if waiter.as_ref().is_some_and(is_new) {
            self.0.try_reserve(1).map_err(|_| Error::NoMemory)?;
            self.0.extend(waiter.take());
        }
        Ok(())
    }
}

impl Waiter {
    /// Returns true if waking one also wakes the other.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Task(one), Self::Task(other)) => one.will_wake(other),
            #[cfg(feature = "std")]
            (Self::Thread(one), Self::Thread(other)) => one.id() == other.id(),
            #[cfg(feature = "std")]
            _ => false,
        }
    }
}

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Calls `ask`. If it returns nothing, registers `waiter`, to be woken after the next change.
    /// Returns an error of `ask` unchanged.
    pub(crate) fn ask_or_wait<R>(
        &self,
        waiter: Waiter,
        ask: impl FnOnce(&Self, &mut Structure<'_, T>) -> Result<Option<R>, Error>,
    ) -> Result<Option<R>, Error> {
        // Dropped after the lock.
        let mut waiter = Some(waiter);
        let mut structure = self.tree.lock();
        // Shut before `ask`: a change that comes after it sees the waiter.
        structure.shut_gate();
        let answer = ask(self, &mut structure);
        if matches!(answer, Ok(None)) {
            let first = structure.waiters.0.is_empty();
            match structure.waiters.add(&mut waiter) {
                // It stays shut until the waiters are taken.
                Ok(()) if first => return answer,
                Ok(()) => {}
                Err(error) => {
                    structure.open_gate();
                    return Err(error);
                }
            }
        }
        structure.open_gate();
        answer
    }

    /// Takes all waiters after a change.
    pub(super) fn take_waiters(structure: &mut Structure<'_, T>) -> Woken {
        if structure.waiters.0.is_empty() {
            return Woken(Vec::new());
        }
        structure.open_gate();
        Woken(mem::take(&mut structure.waiters.0))
    }
}
