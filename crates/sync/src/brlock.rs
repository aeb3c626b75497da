//! A big-reader lock: a reader-writer lock whose read side is two plain stores.
//!
//! Many threads hold the read side for a few instructions each. Now and then a writer *excludes*
//! them: it waits until all readers have left, and has exclusive access until it *admits* readers
//! again. A reader that finds itself excluded does not wait but takes a slow path, for which the
//! caller has a lock. The steps, with letters that stand at the same steps in the code:
//!
//! | | reader | | writer |
//! |---|---|---|---|
//! | (A) | store the lock's address in a word of the thread's record | (P) | count the lock as excluding |
//! | (B) | light fence | (Q) | heavy fence |
//! | (C) | load the count, acquire: leave again if it is not 0 | (R) | load the word of every record until it has another address |
//! | (D) | work, then store 0 | (K) | work, then lower the count, release |
//!
//! The argument is that of [announcements](crate::announce): either (C) sees (P), and the reader
//! does no work; or (R) sees (A) or a later store, and is satisfied only by (D) or one that comes
//! after it: a later (D), or the (A) of another lock. A reader that loads in (C) the count that (K)
//! stored acquires what the writer did.
//!
//! A reader of the lock also enters a [read-side section](crate::rcu): two stores, and one fence
//! for both. The name is the one of the kernel; the fence is moved from the reader to the writer,
//! as in its `percpu_rw_semaphore`.

use core::marker::PhantomData;
use core::ptr;

use crate::announce::{RECORDS, Record, fence_all, own_or_none, own_record};
use crate::hint::cold_path;
use crate::platform::atomic::AtomicUsize;
use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::platform::{KeptCpu, keep_cpu, wait_while};
use crate::rcu::{Guard, Section, first_record};

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
#[derive(Debug, Default)]
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
    /// Dropped last.
    _keeps_cpu: KeptCpu,
    /// Borrows the lock. Not `Send`: stays on its thread.
    lock: PhantomData<(&'g BrLock, *const ())>,
}

impl BrLock {
    /// Makes a lock without readers or writer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the read side, unless a writer excludes readers, or the thread holds the read side of
    /// any such lock already. Never waits; allocates at a thread's first section. The caller must
    /// release it before it waits for a thread that may exclude readers.
    #[inline(always)]
    pub fn read(&self) -> Option<ReadGuard<'_>> {
        self.admit(|lock| own_record().or_else(first_record)?.read(lock))
    }

    /// Takes the read side as [`read`](Self::read) does, but may refuse inside of two sections or
    /// more. Refuses at a thread's first section, and where readers take full fences. For paths
    /// that must not call anything.
    #[inline(always)]
    pub fn try_read(&self) -> Option<ReadGuard<'_>> {
        self.admit(|lock| own_or_none().try_read(lock))
    }

    /// Returns what readers announce.
    #[inline(always)]
    fn name(&self) -> u64 {
        ptr::from_ref(self).addr() as u64
    }

    /// Has a reader announce itself by `enter`, and admits it, or makes it leave again.
    #[inline(always)]
    fn admit(&self, enter: impl FnOnce(u64) -> Option<Section>) -> Option<ReadGuard<'_>> {
        // A writer that waits for a reader keeps its CPU: the reader is on another one.
        let keeps_cpu = keep_cpu();
        // (A), (B)
        let section = enter(self.name())?;
        // (C)
        if !self.excludes_readers() {
            return Some(ReadGuard {
                section,
                _keeps_cpu: keeps_cpu,
                lock: PhantomData,
            });
        }
        cold_path();
        // SAFETY: entered above, and nothing was looked at.
        unsafe { release(section) };
        None
    }

    /// Returns true if readers are excluded. A reader of what a lock guards that every writer of
    /// this one passes asks under that lock, and need not take the read side.
    #[inline(always)]
    pub fn excludes_readers(&self) -> bool {
        // Acquire: pairs with the release in (K).
        self.exclusions.load(Acquire) != 0
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
        // (P) Relaxed, and no exchange: only the holder of the caller's lock writes it, and the
        // fence below orders it with what follows.
        self.exclusions
            .store(self.exclusions.load(Relaxed) + 1, Relaxed);
        // No reader was admitted since they were excluded before.
        if self.exclusions.load(Relaxed) > 1 {
            return;
        }
        fence_all(|_| true);
        for record in RECORDS.iter() {
            // (R)
            wait_while(|| record.words.brlock.seen() == self.name());
        }
    }

    /// Undoes one [`exclude_readers`](Self::exclude_readers), with the same lock held. Never
    /// blocks.
    ///
    /// # Panics
    /// If readers are not excluded.
    pub fn admit_readers(&self) {
        // Relaxed: only the holder of the caller's lock writes it.
        let left = self.exclusions.load(Relaxed).checked_sub(1);
        // (K) Release: pairs with the acquire in (C).
        self.exclusions
            .store(left.expect("readers are excluded"), Release);
    }
}

/// Releases the read side.
///
/// # Safety
/// This thread has taken it with the section, and releases it once, here.
#[inline(always)]
unsafe fn release(section: Section) {
    // (D) The locks that the thread has taken since borrow the guard.
    section.record().words.brlock.set(0);
    // SAFETY: the caller's promise.
    unsafe { section.leave_kept() };
}

/// The half that touches the thread's own record.
impl Record {
    /// Enters a section, and announces the thread as a reader of the lock. Refuses if it reads a
    /// lock already.
    #[inline(always)]
    fn read(&'static self, lock: u64) -> Option<Section> {
        self.try_read(lock).or_else(|| {
            let is_free = self.words.brlock.get() == 0;
            is_free.then(|| self.enter_with(|record| record.words.brlock.set(lock)))
        })
    }

    /// As [`read`](Self::read), but may refuse inside of two sections or more.
    #[inline(always)]
    fn try_read(&'static self, lock: u64) -> Option<Section> {
        // The thread may read a lock in a counted section.
        if self.words.brlock.get() != 0 {
            cold_path();
            return None;
        }
        self.try_enter_with(|record| record.words.brlock.set(lock))
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
        // SAFETY: this thread took the read side with the section, and stays its owner.
        unsafe { release(self.section) };
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::rcu;

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
