//! A lock of one word, which names the record of its owner.
//!
//! The word is 0 if the lock is free. Otherwise it has the *name* of its owner, which is the index
//! of a record plus one, and a bit for waiters. With letters that stand at the same steps in the
//! code:
//!
//! | | take | | release |
//! |---|---|---|---|
//! | (W) | *wants* of the record names the lock, and the kind of repair | (F) | exchange the word for 0 |
//! | (X) | exchange 0 for the name of the record | (K) | wake a waiter if there was one |
//! | (H) | an entry of *holds* names the lock; clear *wants* | (C) | clear the entry |
//!
//! A burial takes a lock in *wants* or *holds* as held if its word names the record. A thread that
//! dies before (X) or after (F) does not have it: there the word names no thread, or another one.
//! No other record has this name: it is used again only after its burial, which frees the lock. The
//! lock has its memory until (C), since whatever led the thread there lasts longer than that.
//!
//! A wake-up may be lost: the thread dies between (F) and (K), or a woken thread dies. So waiters
//! sleep for a limited time, [`Kernel::patience`]. After that they ask for the life sign of the
//! owner's process, and [recover](Thread::recover) the locks of a dead one.

use core::hint::spin_loop;

use crate::burial::Kernel;
use crate::death::die_here;
use crate::platform::Ordering::{Acquire, Relaxed, Release};
use crate::platform::{AtomicU32, object, program_order, size, sleep, wake};
use crate::records::{INDEX_BITS, Record, Thread};

const WAITERS: u32 = 1;
const INDEX_SHIFT: u32 = 1;
const _: () = assert!(INDEX_SHIFT + INDEX_BITS <= u32::BITS);

/// Where the kind of repair is in an entry: above the bits of an address.
const KIND_SHIFT: u32 = 56;

/// How often a thread looks again before it sleeps.
const SPINS: usize = size(100, 1);

/// The kind of repair of a lock whose owner may die at any time.
pub const NO_REPAIR: u8 = u8::MAX;

/// A lock. It guards no memory of its own. All zero is a free lock.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Lock {
    word: AtomicU32,
}

/// The right to use what a [`Lock`] guards.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct Guard<'a> {
    lock: &'a Lock,
    thread: &'a Thread<'a>,
    /// The entry of *holds*.
    entry: usize,
}

impl Lock {
    /// A free lock.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
        }
    }

    /// Takes the lock, and waits for it if necessary. If this thread dies with the lock, the burial
    /// calls [`Kernel::repair`] with `kind`, unless that is [`NO_REPAIR`], before it frees the
    /// lock.
    ///
    /// # Panics
    /// If this thread holds this lock, or [`LOCKS`](crate::records::LOCKS) of them, already.
    ///
    /// # Safety
    /// The lock is in shared memory, and stays there until the guard is dropped or the dead thread
    /// is buried.
    #[inline]
    pub unsafe fn lock<'a>(
        &'a self,
        thread: &'a Thread<'a>,
        kind: u8,
        kernel: &impl Kernel,
    ) -> Guard<'a> {
        self.take(thread, kind, 0)
            .unwrap_or_else(|| self.wait(thread, kind, kernel))
    }

    /// Takes the lock if it is free.
    ///
    /// # Panics
    /// If this thread holds [`LOCKS`](crate::records::LOCKS) already.
    ///
    /// # Safety
    /// As [`lock`](Self::lock).
    #[inline]
    pub unsafe fn try_lock<'a>(&'a self, thread: &'a Thread<'a>, kind: u8) -> Option<Guard<'a>> {
        self.take(thread, kind, 0)
    }

    /// (W), (X), (H)
    #[inline(always)]
    fn take<'a>(&'a self, thread: &'a Thread<'a>, kind: u8, waiters: u32) -> Option<Guard<'a>> {
        let record = thread.record;
        // Relaxed: only this thread writes them.
        let entry = record
            .holds
            .iter()
            .position(|entry| entry.load(Relaxed) == 0)
            .expect("a thread holds too many locks");
        let wanted = thread.records.address(self) | u64::from(kind) << KIND_SHIFT;
        record.wants.store(wanted, Relaxed); // (W)
        program_order();
        die_here!(37);
        let word = name(thread.index) | waiters;
        // (X) Acquire: pairs with the release in (F), so what the last owner did is visible.
        let taken = self.word.compare_exchange(0, word, Acquire, Relaxed);
        program_order();
        die_here!(38);
        if taken.is_ok() {
            record.holds[entry].store(wanted, Relaxed); // (H)
            program_order();
            die_here!(39);
        }
        record.wants.store(0, Relaxed);
        program_order();
        die_here!(40);
        let guard = || Guard {
            lock: self,
            thread,
            entry,
        };
        taken.is_ok().then(guard)
    }

    #[cold]
    fn wait<'a>(&'a self, thread: &'a Thread<'a>, kind: u8, kernel: &impl Kernel) -> Guard<'a> {
        let owner = self.word.load(Relaxed) & !WAITERS;
        assert_ne!(
            owner,
            name(thread.index),
            "a thread takes a lock that it holds"
        );
        for _ in 0..SPINS {
            spin_loop();
            if self.word.load(Relaxed) == 0
                && let Some(guard) = self.take(thread, kind, 0)
            {
                return guard;
            }
        }
        loop {
            // This thread may have been woken, and others may still sleep: its release wakes one.
            if let Some(guard) = self.take(thread, kind, WAITERS) {
                return guard;
            }
            let owner = self.word.load(Relaxed);
            if owner == 0 {
                continue;
            }
            let waited = owner | WAITERS;
            let marked = self
                .word
                .compare_exchange(owner, waited, Relaxed, Relaxed)
                .is_ok();
            if !marked {
                continue;
            }
            die_here!(41);
            sleep(&self.word, waited, kernel.patience());
            if self.word.load(Relaxed) == waited {
                // The record may have another process by now, which is looked after then.
                let process = thread.records.process_of((owner >> INDEX_SHIFT) - 1);
                thread.recover(process, kernel);
            }
        }
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn is_free(&self) -> bool {
        self.word.load(Acquire) == 0
    }
}

/// The word of a lock whose owner has the record `index`.
fn name(index: u32) -> u32 {
    (index + 1) << INDEX_SHIFT
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        // (F) Release: pairs with (X) of the next owner.
        let word = self.lock.word.swap(0, Release);
        program_order();
        die_here!(42);
        if word & WAITERS != 0 {
            wake(&self.lock.word, 1); // (K)
        }
        die_here!(43);
        self.thread.record.holds[self.entry].store(0, Relaxed); // (C)
        program_order();
        die_here!(44);
    }
}

/// The locks that a dead thread holds, each with its kind of repair.
pub(crate) fn held(record: &Record, index: u32) -> impl Iterator<Item = (&Lock, u8)> {
    let wanted = record.wants.load(Relaxed);
    let entries = record.holds.iter().map(|entry| entry.load(Relaxed));
    let entries = entries.filter(move |entry| *entry != wanted);
    core::iter::once(wanted)
        .chain(entries)
        .filter(|entry| *entry != 0)
        .map(|entry| {
            let kind = (entry >> KIND_SHIFT) as u8;
            // SAFETY: what led the dead thread to the lock lasts until its burial clears it.
            let lock: &Lock = unsafe { object(entry & ((1 << KIND_SHIFT) - 1)) };
            (lock, kind)
        })
        // Relaxed: all that a dead thread has stored is visible.
        .filter(move |(lock, _)| lock.word.load(Relaxed) & !WAITERS == name(index))
}

/// Frees the locks of a dead thread, which are repaired.
pub(crate) fn free_all(record: &Record, index: u32) {
    for (lock, _) in held(record, index) {
        // Release: pairs with (X) of the next owner, so the repair is visible.
        lock.word.swap(0, Release);
        die_here!(45);
        wake(&lock.word, i32::MAX);
        die_here!(46);
    }
    for entry in record.holds.iter().chain([&record.wants]) {
        if entry.load(Relaxed) != 0 {
            entry.store(0, Relaxed);
            die_here!(47);
        }
    }
}
