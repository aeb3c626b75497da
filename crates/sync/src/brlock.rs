//! A big-reader lock: a reader-writer lock whose read side is two plain stores.
//!
//! Many threads hold the read side for a few instructions each. Now and then a writer *excludes*
//! them: it waits until all readers have left, and has exclusive access until it *admits* readers
//! again. A reader that finds itself excluded does not wait but takes a slow path, for which the
//! caller has a lock. The steps, with letters that stand at the same steps in the code:
//!
//! | | reader | | writer |
//! |---|---|---|---|
//! | (E) | store the lock's address in the thread's own record, release | (S) | count the lock as excluding |
//! | (F) | light fence | (G) | heavy fence |
//! | (H) | load the count, acquire: leave again if it is not 0 | (W) | load every record, acquire, until it has another address |
//! | (J) | work, then store 0, release | (K) | work, then lower the count, release |
//!
//! The fences order (E) with (H) and (S) with (W) (see [`fence`](mod@crate::fence)): either (H)
//! sees (S), and the reader does no work; or (W) sees (E), or a later store of the same thread, and
//! is satisfied only by (J) or one that comes after it: a later (J), or the (E) of another lock.
//! All are releases, and (W) acquires, so the writer sees what the reader did. A reader that loads
//! in (H) the count that (K) stored acquires what the writer did.
//!
//! The record is the one of [read-side sections](crate::rcu), which has the thread's own cache
//! line. A reader of the lock also enters a section: two stores, and one fence for both. The name
//! is the one of the kernel; the fence is moved from the reader to the writer, as in its
//! `percpu_rw_semaphore`.

use crate::hint::cold_path;
use core::marker::PhantomData;
use core::ptr;

use crate::platform::atomic::AtomicUsize;
use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::platform::{enter_lock, leave_lock};
use crate::rcu::{self, Guard, Section};

/// A big-reader lock. It guards no memory of its own.
///
/// ```
/// use fdtable_sync::brlock::BrLock;
///
/// let lock = BrLock::new();
/// let reader = lock.read().expect("no writer");
/// drop(reader);
/// lock.exclude_readers();
/// assert!(lock.read().is_none());
/// lock.admit_readers();
/// ```
#[derive(Debug)]
pub struct BrLock {
    /// How many times readers are excluded. Only writers store it, under the caller's lock.
    exclusions: AtomicUsize,
}

/// Holds the read side of a lock, and a read-side section with it, until it is dropped. If a thread
/// leaks it, a writer waits forever.
#[derive(Debug)]
#[must_use = "the read side is released when this is dropped"]
pub struct ReadGuard<'g> {
    section: Section,
    /// Borrows the lock. Not `Send`: stays on its thread.
    lock: PhantomData<(&'g BrLock, *const ())>,
}

impl BrLock {
    /// Makes a lock without readers or writer.
    #[must_use]
    pub fn new() -> Self {
        Self {
            exclusions: AtomicUsize::new(0),
        }
    }

    /// Takes the read side, unless a writer excludes readers, or the thread holds the read side of
    /// any such lock already. Never waits; allocates at a thread's first section. The caller must
    /// release it before it waits for a thread that may exclude readers.
    #[inline(always)]
    pub fn read(&self) -> Option<ReadGuard<'_>> {
        // (E), (F)
        self.admit(rcu::enter_brlock)
    }

    /// Takes the read side as [`read`](Self::read) does, but may refuse inside of two sections or
    /// more. Refuses at a thread's first section, and where readers take full fences. For paths
    /// that must not call anything.
    #[inline(always)]
    pub fn try_read(&self) -> Option<ReadGuard<'_>> {
        // (E), (F)
        self.admit(rcu::enter_brlock_plainly)
    }

    /// Has a reader announce itself by `enter`, and admits it, or makes it leave again.
    #[inline(always)]
    fn admit(&self, enter: impl FnOnce(usize) -> Option<Section>) -> Option<ReadGuard<'_>> {
        // A writer that waits for a reader keeps its CPU: the reader is on another one.
        enter_lock();
        let Some(section) = enter(ptr::from_ref(self).addr()) else {
            // SAFETY: entered above.
            unsafe { leave_lock() };
            return None;
        };
        let guard = ReadGuard {
            section,
            lock: PhantomData,
        };
        // (H) Acquire: pairs with the release in (K).
        if self.exclusions.load(Acquire) == 0 {
            return Some(guard);
        }
        cold_path();
        None
    }

    /// Excludes readers, once more if they are excluded, and waits until all have left.
    ///
    /// For one writer at a time: the caller holds a lock around this and
    /// [`admit_readers`](Self::admit_readers). Without it readers may be admitted while a writer
    /// believes that it has excluded them. The lock guards no memory of its own. Code that relies
    /// on exclusive access is unsafe, and has to hold that lock.
    ///
    /// Blocks forever if the calling thread holds the read side.
    pub fn exclude_readers(&self) {
        // (S) Relaxed, and no exchange: only the holder of the caller's lock writes it, and the
        // fence below orders it with what follows.
        self.exclusions
            .store(self.exclusions.load(Relaxed) + 1, Relaxed);
        // No reader was admitted since they were excluded before.
        if self.exclusions.load(Relaxed) > 1 {
            return;
        }
        // (G), (W)
        rcu::wait_for_readers(ptr::from_ref(self).addr());
    }

    /// Undoes one [`exclude_readers`](Self::exclude_readers), with the same lock held. Never
    /// blocks.
    ///
    /// # Panics
    /// If readers are not excluded.
    pub fn admit_readers(&self) {
        // Relaxed: only the holder of the caller's lock writes it.
        let left = self.exclusions.load(Relaxed).checked_sub(1);
        // (K) Release: pairs with the acquire in (H).
        self.exclusions
            .store(left.expect("readers are excluded"), Release);
    }
}

impl Default for BrLock {
    fn default() -> Self {
        Self::new()
    }
}

impl ReadGuard<'_> {
    /// Returns a guard for the read-side section that comes with the read side.
    #[inline(always)]
    pub fn section(&self) -> Guard<'_> {
        // SAFETY: this thread entered the section with the read side, and leaves it when `self` is
        // dropped, which the guard borrows.
        unsafe { Guard::of(None) }
    }
}

impl Drop for ReadGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // (J)
        // SAFETY: this thread took the read side when this was made. The locks that it has taken
        // since borrow this.
        unsafe { self.section.record().leave_brlock() };
        // SAFETY: as above; the section ends once, here, and was entered with the read side.
        unsafe { self.section.leave_kept() };
        // SAFETY: entered before this was made.
        unsafe { leave_lock() };
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn readers_are_excluded_until_they_are_admitted_as_often() {
        let lock = BrLock::new();
        drop(lock.read().expect("no writer"));
        lock.exclude_readers();
        lock.exclude_readers();
        assert!(lock.read().is_none());
        lock.admit_readers();
        assert!(lock.read().is_none());
        lock.admit_readers();
        assert!(lock.read().is_some());
    }

    #[test]
    fn a_thread_reads_one_lock_at_a_time() {
        let (one, two) = (BrLock::new(), BrLock::new());
        let reader = one.read().expect("no writer");
        assert!(two.read().is_none());
        drop(reader);
        assert!(two.read().is_some());
    }

    #[test]
    fn a_thread_still_reads_one_lock_when_the_section_around_it_ends() {
        let (one, two) = (BrLock::new(), BrLock::new());
        let outer = rcu::read_lock();
        let reader = one.read().expect("no writer");
        drop(outer);
        assert!(two.read().is_none() && two.try_read().is_none());
        drop(reader);
        assert!(two.read().is_some());
    }

    /// What breaks if this is wrong: a section that the try entered is left too late or too early.
    #[test]
    fn a_try_enters_one_section_inside_of_another_and_leaves_it() {
        let lock = BrLock::new();
        drop(rcu::read_lock());
        let outer = rcu::read_lock();
        let reader = lock.try_read();
        // Where readers take full fences, a try refuses.
        let is_free = reader.is_some();
        assert_eq!(is_free, crate::fence::prepare());
        let inner = rcu::read_lock();
        drop(outer);
        drop(reader);
        assert_eq!(rcu::synchronize(), Err(rcu::WouldDeadlock));
        drop(inner);
        rcu::synchronize().expect("outside of sections");
        let two = [rcu::read_lock(), rcu::read_lock()];
        assert!(lock.try_read().is_none(), "it would have to call");
        drop(two);
        rcu::synchronize().expect("outside of sections");
    }

    #[test]
    fn a_reader_is_in_a_section() {
        let lock = BrLock::new();
        let outer = rcu::read_lock();
        let reader = lock.read().expect("no writer");
        drop(outer);
        assert_eq!(rcu::synchronize(), Err(rcu::WouldDeadlock));
        drop(reader);
        rcu::synchronize().expect("outside of sections");
    }

    #[test]
    fn a_writer_waits_for_readers() {
        let lock = BrLock::new();
        let (tell, hear) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let reader = lock.read().expect("no writer");
            let lock = &lock;
            scope.spawn(move || {
                lock.exclude_readers();
                tell.send(()).expect("the test listens");
            });
            let soon = core::time::Duration::from_millis(20);
            assert!(hear.recv_timeout(soon).is_err(), "there is a reader");
            drop(reader);
            hear.recv().expect("the reader has left");
        });
    }
}
