//! The state of operations that few tables use: quarantine, waiters, and the hook of closes.
//!
//! A table allocates it when it first uses one of them, in one box. The operations are in
//! [`quarantine`](crate::quarantine), [`wait`](crate::wait) and [`on_close`](crate::on_close).

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;

use fdtable_sync::bitmap::BITS;
use fdtable_sync::fallible::OutOfMemory;
use fdtable_sync::unwind;

use crate::{Fd, FdData, FileRef, Files};

/// The state, with the lock of the table.
pub(crate) struct Rare<T: ?Sized> {
    pub(crate) quarantine: Quarantine,
    pub(crate) waiters: Waiters,
    pub(crate) on_close: Option<OnClose<T>>,
}

impl<T: ?Sized> Rare<T> {
    pub(crate) fn new() -> Self {
        Self {
            quarantine: Quarantine::default(),
            waiters: Waiters::default(),
            on_close: None,
        }
    }

    /// Returns true if the quarantine is off, nothing is in it or waits, and there is no hook.
    pub(crate) fn is_new(&self) -> bool {
        let quarantine = &self.quarantine;
        let is_in_use = quarantine.is_on() || !quarantine.waiting.is_empty();
        !is_in_use && self.waiters.is_empty() && self.on_close.is_none()
    }
}

/// A hook of closes.
pub(crate) type Hook<T> = dyn Fn(Fd, &FileRef<T>, FdData) + Send + Sync;

/// The hook of a table.
pub(crate) struct OnClose<T: ?Sized> {
    pub(crate) hook: Arc<Hook<T>>,
    /// Calls it when the table is dropped, which does not know that `T` is `Send` and `Sync`.
    pub(crate) end: fn(&Files<T>, &Hook<T>),
}

/// The maximum number of descriptors in quarantine. It bounds the work to free them all, to find
/// one of them, or to keep them out of a child.
const MAX_WAITING: usize = 1024;

/// The descriptors in quarantine.
#[derive(Default)]
pub(crate) struct Quarantine {
    /// How many opens a descriptor waits for; 0 if the mode is off.
    pub(crate) opens: u32,
    /// The number of opens so far.
    pub(crate) now: u64,
    /// The descriptors, and the number of opens before each was closed.
    waiting: VecDeque<(usize, u64)>,
}

impl Quarantine {
    /// Returns true if a closed descriptor enters quarantine.
    pub(crate) fn is_on(&self) -> bool {
        self.opens > 0
    }

    /// Returns how many descriptors in quarantine `choose` picks.
    pub(crate) fn count(&self, choose: impl Fn(usize) -> bool) -> usize {
        let chosen = |&&(number, _): &&(usize, u64)| choose(number);
        self.waiting.iter().filter(chosen).count()
    }

    /// Makes room for as many descriptors as a leaf has.
    pub(crate) fn prepare(&mut self) -> Result<(), OutOfMemory> {
        self.waiting.try_reserve(BITS).map_err(|_| OutOfMemory)
    }

    /// Adds a descriptor. If there are too many, removes the oldest and returns it. Call
    /// [`prepare`](Self::prepare) first.
    pub(crate) fn push(&mut self, number: usize) -> Option<usize> {
        let is_full = self.waiting.len() >= MAX_WAITING;
        let oldest = is_full.then(|| self.waiting.pop_front()).flatten();
        self.waiting.push_back((number, self.now));
        oldest.map(|(number, _)| number)
    }

    /// Removes the oldest descriptor that `choose` picks.
    pub(crate) fn take(&mut self, choose: impl Fn(usize) -> bool) -> Option<usize> {
        let found = self.waiting.iter().position(|&(number, _)| choose(number));
        let (number, _) = self.waiting.remove(found?)?;
        Some(number)
    }

    /// Removes the oldest descriptor if it has waited for long enough.
    pub(crate) fn pop_due(&mut self) -> Option<usize> {
        let &(number, since) = self.waiting.front()?;
        (self.now - since >= u64::from(self.opens)).then(|| {
            self.waiting.pop_front();
            number
        })
    }
}

/// The waiting tasks, in the order of their arrival.
#[derive(Default)]
pub(crate) struct Waiters(Vec<Waker>);

/// The waiters to wake. They are woken when this is dropped: after the lock is released.
#[must_use = "dropping this wakes the waiters; do it outside of the lock"]
pub(crate) struct Woken(Vec<Waker>);

impl Waiters {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a waiter, unless it waits already. If it is not added, it stays with the caller:
    /// dropping it runs a caller's code, which must not run under the lock.
    pub(crate) fn add(&mut self, waker: &mut Option<Waker>) -> Result<(), OutOfMemory> {
        let is_new = |new: &Waker| !self.0.iter().any(|there| there.will_wake(new));
        if waker.as_ref().is_some_and(is_new) {
            self.0.try_reserve(1).map_err(|_| OutOfMemory)?;
            self.0.extend(waker.take());
        }
        Ok(())
    }

    /// Takes all waiters.
    pub(crate) fn take(&mut self) -> Woken {
        Woken(core::mem::take(&mut self.0))
    }
}

impl Woken {
    /// No waiters.
    pub(crate) const fn none() -> Self {
        Self(Vec::new())
    }
}

impl Drop for Woken {
    /// Wakes each waiter. A panic of a waker is contained: the thread that wakes the task is not
    /// responsible for it, and must complete its change.
    fn drop(&mut self) {
        unwind::finish(|| {
            while let Some(waker) = self.0.pop() {
                unwind::contain(|| waker.wake());
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
