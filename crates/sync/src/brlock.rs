//! A gate that costs nothing to pass: a reader-writer lock whose read side is two plain stores.
//!
//! Many threads *enter* the gate for a few instructions each. Now and then a thread *shuts* it,
//! waits until all threads that entered have left, and has exclusive access until it opens the gate
//! again. A thread that finds the gate shut does not wait at it but takes a slow path, for which
//! the caller has a lock. The steps, with letters that stand at the same steps in the code:
//!
//! | | entering thread | | shutting thread |
//! |---|---|---|---|
//! | (E) | store the gate's address in the thread's own record, release | (S) | count the gate as shut |
//! | (F) | light fence | (G) | heavy fence |
//! | (H) | load "shut": leave again if it is | (W) | load every record, acquire, until it is not here |
//! | (J) | work, then store "nowhere", release | (K) | work, then count it as opened, release |
//!
//! The fences order (E) with (H) and (S) with (W) (see [`fence`](mod@crate::fence)): either (H)
//! sees (S), and the thread does nothing inside; or (W) sees (E), or a later store of the same
//! thread, and is satisfied only by (J) or one that comes after it: a later (J), or the (E) of
//! another gate. All are releases, and (W) acquires: the shutting thread sees what was done inside.
//! And a thread that enters after (K) and sees the gate open by it acquires in (H) what was done
//! while it was shut.
//!
//! The record is the one of [read-side sections](crate::rcu), which has the thread's own cache
//! line. A thread that enters a gate also enters a section: two stores, and one fence for both. The
//! kernel calls this a *big-reader lock*; here the fence is moved from the reader to the writer, as
//! in its `percpu_rw_semaphore`.

use crate::hint::cold_path;
use core::marker::PhantomData;
use core::ptr;

use crate::platform::atomic::AtomicUsize;
use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::rcu::{self, Guard, Section};

/// A gate, open at first.
#[derive(Debug)]
pub struct BrLock {
    /// How many times the gate is shut. Written by threads that shut and open, under the caller's
    /// lock.
    shut: AtomicUsize,
}

/// Proof that the thread entered a gate, and a read-side section with it. The thread is inside
/// until this is dropped. A thread that leaks it stays inside: the gate cannot be shut any more.
#[derive(Debug)]
#[must_use = "the thread leaves when this is dropped"]
pub struct ReadGuard<'g> {
    section: Section,
    /// Borrows the gate. Not `Send`: stays on its thread.
    gate: PhantomData<(&'g BrLock, *const ())>,
}

impl ReadGuard<'_> {
    /// Returns the section that was entered with the gate, for lookups.
    #[inline(always)]
    pub fn section(&self) -> Guard<'_> {
        // The guard leaves nothing, and is gone before this.
        // SAFETY: the thread is in the section of this, which outlives the guard and stays on it.
        unsafe { Guard::of(None) }
    }
}

impl BrLock {
    /// Makes an open gate.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shut: AtomicUsize::new(0),
        }
    }

    /// Enters, unless the gate is shut or the thread is inside of a gate already. Never waits;
    /// allocates at a thread's first section. The caller must leave before it waits for a thread
    /// that may shut the gate.
    #[inline(always)]
    pub fn enter(&self) -> Option<ReadGuard<'_>> {
        // (E), (F)
        self.admit(rcu::enter_brlock(ptr::from_ref(self).addr())?)
    }

    /// Enters as [`enter`](Self::enter) does, but may refuse inside of sections. Refuses at a
    /// thread's first section, and where readers take full fences. For paths that must not call
    /// anything.
    #[inline(always)]
    pub fn try_enter(&self) -> Option<ReadGuard<'_>> {
        // (E), (F)
        self.admit(rcu::enter_brlock_plainly(ptr::from_ref(self).addr())?)
    }

    /// Admits a thread that has announced that it is inside, or makes it leave again.
    #[inline(always)]
    fn admit(&self, section: Section) -> Option<ReadGuard<'_>> {
        let entry = ReadGuard {
            section,
            gate: PhantomData,
        };
        // (H) Acquire: pairs with the release in (K).
        if self.shut.load(Acquire) == 0 {
            return Some(entry);
        }
        cold_path();
        None
    }

    /// Shuts the gate, once more if it is shut, and waits until no thread is inside. For one thread
    /// at a time: the caller holds a lock around this and [`open`](Self::open). Without it the gate
    /// may be open for a thread that has shut it. The gate guards no memory of its own. Code that
    /// relies on exclusive access is unsafe, and has to hold that lock.
    pub fn shut(&self) {
        // (S) Relaxed, and no exchange: only the holder of the caller's lock writes it, and the
        // fence below orders it with what follows.
        self.shut.store(self.shut.load(Relaxed) + 1, Relaxed);
        // No thread has come in since it was shut before.
        if self.shut.load(Relaxed) > 1 {
            return;
        }
        // (G), (W)
        rcu::wait_for_inside(ptr::from_ref(self).addr());
    }

    /// Undoes one [`shut`](Self::shut), with the same lock held.
    ///
    /// # Panics
    /// If the gate is not shut.
    pub fn open(&self) {
        // Relaxed: only the holder of the caller's lock writes it.
        let shut = self.shut.load(Relaxed).checked_sub(1);
        // (K) Release: pairs with the acquire in (H).
        self.shut.store(shut.expect("it is shut"), Release);
    }
}

impl Default for BrLock {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ReadGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // (J)
        // SAFETY: this thread entered when this was made. What was locked inside borrows this.
        unsafe { self.section.record().leave_brlock() };
        // SAFETY: as above; the section ends once, here.
        unsafe { self.section.leave() };
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_shut_gate_lets_nobody_in_until_it_is_open_again() {
        let gate = BrLock::new();
        drop(gate.enter().expect("it is open"));
        gate.shut();
        gate.shut();
        assert!(gate.enter().is_none());
        gate.open();
        assert!(gate.enter().is_none());
        gate.open();
        assert!(gate.enter().is_some());
    }

    #[test]
    fn a_thread_is_inside_of_one_gate_at_a_time() {
        let (one, two) = (BrLock::new(), BrLock::new());
        let inside = one.enter().expect("it is open");
        assert!(two.enter().is_none());
        drop(inside);
        assert!(two.enter().is_some());
    }

    #[test]
    fn a_thread_stays_inside_of_one_gate_when_the_section_around_it_ends() {
        let (one, two) = (BrLock::new(), BrLock::new());
        let outer = rcu::read_lock();
        let inside = one.enter().expect("it is open");
        drop(outer);
        assert!(two.enter().is_none() && two.try_enter().is_none());
        drop(inside);
        assert!(two.enter().is_some());
    }

    #[test]
    fn who_is_inside_is_in_a_section() {
        let gate = BrLock::new();
        let outer = rcu::read_lock();
        let inside = gate.enter().expect("it is open");
        drop(outer);
        assert_eq!(rcu::synchronize(), Err(rcu::WouldDeadlock));
        drop(inside);
        rcu::synchronize().expect("outside of sections");
    }

    #[test]
    fn who_shuts_the_gate_waits_for_those_inside() {
        let gate = BrLock::new();
        let (tell, hear) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let inside = gate.enter().expect("it is open");
            let gate = &gate;
            scope.spawn(move || {
                gate.shut();
                tell.send(()).expect("the test listens");
            });
            let soon = core::time::Duration::from_millis(20);
            assert!(hear.recv_timeout(soon).is_err(), "a thread is inside");
            drop(inside);
            hear.recv().expect("no thread is inside any more");
        });
    }
}
