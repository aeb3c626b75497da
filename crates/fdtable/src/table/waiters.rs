//! Those who wait for something to happen to a number: that one is free, that a reservation ends,
//! that nobody uses a file through it any more.
//!
//! While somebody waits, the tree's gate is shut, so that every change takes the long way. What
//! frees a number there, or ends something, takes the waiters with it and wakes them after the
//! lock. They look again, and wait again if it was not for them. Nobody who does not wait pays
//! for it.

use alloc::vec::Vec;
use core::mem;
use core::task::Waker;

use fdtable_base::unwind;

use super::{FdTable, Structure};
use crate::Error;

/// Who waits, in the order in which they came.
#[derive(Default)]
pub(super) struct Waiters(Vec<Waiter>);

/// Somebody who waits.
pub(crate) enum Waiter {
    Task(Waker),
    #[cfg(feature = "std")]
    Thread(std::thread::Thread),
}

/// Those who are to be woken. They are when this is dropped: after the lock.
#[must_use = "dropping this wakes those who wait; do it outside of the lock"]
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
    /// Wakes each. A panic of a waker is contained: the thread whose change wakes a task has
    /// nothing to do with it, and its change is not to be left half done.
    fn drop(&mut self) {
        unwind::finish(|| {
            while let Some(waiter) = self.0.pop() {
                unwind::contain(|| waiter.wake());
            }
        });
    }
}

/// A table may end while tasks wait that were given up: wakers are dropped, and that may panic.
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
    /// Adds a waiter, unless it waits already. It is left to the caller if it is not added: to drop
    /// it runs a caller's code, which must not run under the lock.
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
    /// Tells whether to wake the one is to wake the other.
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
    /// Asks whether what is waited for has come, and has `waiter` woken after the next change if
    /// it has not. Answers an error of `ask` as it is.
    pub(crate) fn ask_or_wait<R>(
        &self,
        waiter: Waiter,
        ask: impl FnOnce(&Self, &mut Structure<'_, T>) -> Result<Option<R>, Error>,
    ) -> Result<Option<R>, Error> {
        // Dropped after the lock.
        let mut waiter = Some(waiter);
        let mut structure = self.tree.lock();
        // Shut before the question: what comes after it is seen.
        structure.shut_gate();
        let answer = ask(self, &mut structure);
        if matches!(answer, Ok(None)) {
            let first = structure.waiters.0.is_empty();
            match structure.waiters.add(&mut waiter) {
                // It stays shut until they are taken.
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

    /// Takes all who wait, since something has changed.
    pub(super) fn take_waiters(structure: &mut Structure<'_, T>) -> Woken {
        if structure.waiters.0.is_empty() {
            return Woken(Vec::new());
        }
        structure.open_gate();
        Woken(mem::take(&mut structure.waiters.0))
    }
}
