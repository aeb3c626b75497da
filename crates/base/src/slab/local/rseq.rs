//! The magazines of the processors by *restartable sequences*.
//!
//! A restartable sequence is a run of instructions that ends with one store, the *commit*. The
//! kernel knows where it begins and ends: a thread that is preempted, moved to another processor or
//! given a signal in between goes on at its beginning and not where it was (`linux/rseq.h`, Linux ≥
//! 4.18). So whoever gets to the commit has had the processor to itself since the beginning, and
//! what it found there still holds. That takes neither a lock nor an atomic exchange.
//!
//! There are four sequences, in `rseq/x86_64.rs`. Pop and push work on the loaded magazine;
//! *exchange* exchanges the two, and *load* puts a magazine in. Somebody who *drains* takes the
//! magazines of all processors from afar. The steps, with letters that stand at the same steps in
//! the code:
//!
//! | | a sequence | | who drains |
//! |---|---|---|---|
//! | (A) | begin: tell the kernel where it begins and ends | (S) | set `stopped` |
//! | (B) | load the number of the processor; leave if there is no place for it | (T) | restart all sequences |
//! | (C) | load the magazine; exchange and load: both | (U) | take the magazines out of their places |
//! | (D) | load its count, and leave if it lacks what is asked for; pop: load the object; push: store it above the count | (V) | restart all sequences |
//! | (X) | exchange and load only: leave if `stopped` is set | (W) | clear `stopped` |
//! | (E) | commit. Pop and push: store the count, which has the hits in the same word; exchange and load: store both places, with one instruction | | |
//!
//! A restart is `membarrier(2)` with the command for it (Linux ≥ 5.10). It is a full fence on every
//! processor that runs a thread of this process. When it returns, each sequence that had begun
//! before is over in one of two ways: it has committed, which is seen; or it begins again at (A)
//! and sees what was done before the restart. A thread that did not run was preempted, and begins
//! again anyway.
//!
//! Case by case:
//!
//! - *Another thread on the same processor* runs only after the first was preempted. If that was
//!   before its (E), the first begins again and loads everything anew. It leaves nothing behind but
//!   perhaps an object that push stored above the count, where nobody looks and the next push
//!   stores another. If it was after (E), all is done. This holds for each pair of sequences.
//! - *A thread that is moved* between (A) and (E) begins again with the number of the new
//!   processor, which (B) loads inside of the sequence. Between two operations it has objects or a
//!   magazine in its hands, which belong to it and to no processor.
//! - *A displaced magazine* is in no place after the (E) of load. Threads that found it at (C) were
//!   preempted by the one that got to (E); they begin again, and find another. So it belongs to the
//!   thread that displaced it, wherever that one is moved.
//! - *A drain against pop and push.* A thread elsewhere may be between (C) and (E) when (U) takes
//!   its magazine out of its place. Either it commits before (V) is over, and the count is right;
//!   or it begins again and finds that there is none. After (V) nobody is at the magazine, and
//!   nobody can get to it: it belongs to who drains. Until then that one has only linked it into a
//!   list, by a word that the sequences leave alone.
//! - *A drain against exchange and load.* These write the places, as (U) does, and must not undo
//!   it. One that came past (X) before (S) has either committed before (T) is over, and (U) finds
//!   what it stored; or it begins again, and leaves at (X). So from (T) to (W) nobody writes the
//!   places but who drains. One that finds `stopped` cleared by (W) has begun after (V), and sees
//!   (U). Therefore none of these words needs an ordering of its own. A thread that leaves at (X)
//!   goes the way of one without magazines, to the slabs.
//! - *Two who drain* hold a lock, one after the other.
//! - *A signal handler* interrupts the sequence of its own thread, which begins again after it. It
//!   may take objects and give them back here; what the cache has behind this, it may not.
//! - *What is in an object* is seen by whoever takes it next. On the same processor: the kernel
//!   orders the threads that it runs there. From another one: the restart has ordered it, or
//!   the lock of the depot.
//! - *A child after a fork* has one thread, whose area is registered. What the others of the
//!   parent had not committed has not happened. If one of them was draining, the child cannot drain
//!   and loads no magazines, as with any lock that somebody holds at a fork: the
//!   [freezer](crate::freezer) sees to it that nobody is.
//!
//! A thread that has no area of its own (its number is negative), or is on a processor of a higher
//! number than the system told, leaves at (B): nothing comes and nothing goes here. It must not use
//! the place of another processor, not even with a lock, as sequences do not look at locks. Where
//! there are no areas at all, as under valgrind or with another C library than glibc ≥ 2.35, or no
//! restart, the [locks](super::locked) are used.
//!
//! Two things to know. An area keeps the address of the last sequence until the kernel next looks:
//! a library with this code in it must not be unloaded while threads live that ran it. And a
//! debugger that goes step by step interrupts each step: it does not get through a sequence, but
//! past it with a breakpoint behind.

use core::ptr::NonNull;

use super::Pair;
use crate::fallible::OutOfMemory;
use crate::percpu::PerCpu;
use crate::slab::magazine::{Lack, Magazine, MagazineList};
use crate::sync::Mutex;
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::Relaxed;

use sequence::Area;

#[cfg(loom)]
#[path = "rseq/model.rs"]
pub(super) mod sequence;
#[cfg(all(
    feature = "std",
    target_os = "linux",
    target_arch = "x86_64",
    target_pointer_width = "64",
    not(loom)
))]
#[path = "rseq/x86_64.rs"]
mod sequence;
#[cfg(not(any(
    loom,
    all(
        feature = "std",
        target_os = "linux",
        target_arch = "x86_64",
        target_pointer_width = "64"
    )
)))]
#[path = "rseq/missing.rs"]
mod sequence;

/// The magazines of all processors.
pub(super) struct Cpus {
    /// Where a thread finds its rseq area.
    area: Area,
    /// A processor of a number past the last has none.
    pairs: PerCpu<Pair>,
    /// Set while somebody drains: no other puts a magazine in a place.
    stopped: AtomicBool,
    /// Held by who drains.
    drains: Mutex<()>,
}

impl Cpus {
    /// Makes the places, or nothing where the system cannot restart sequences.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no memory for them.
    pub(super) fn try_new() -> Result<Option<Self>, OutOfMemory> {
        let Some(area) = Area::find() else {
            return Ok(None);
        };
        Ok(Some(Self {
            area,
            pairs: PerCpu::try_with_copies(sequence::copies(), |_| Pair::new())?,
            stopped: AtomicBool::new(false),
            drains: Mutex::new(()),
        }))
    }

    /// As [`Local::pop`](super::Local::pop).
    #[inline(always)]
    pub(super) fn pop(&self) -> Option<NonNull<u8>> {
        NonNull::new(sequence::pop(self)).or_else(|| self.pop_previous())
    }

    /// As [`Local::push`](super::Local::push).
    #[inline(always)]
    pub(super) fn push(&self, object: NonNull<u8>) -> Result<(), NonNull<u8>> {
        if sequence::push(self, object) {
            return Ok(());
        }
        self.push_previous(object)
    }

    /// Goes on with the previous magazine if it has an object.
    #[cold]
    #[inline(never)]
    fn pop_previous(&self) -> Option<NonNull<u8>> {
        // Once more only if others have taken what was exchanged for: they have got on.
        while sequence::exchange(self, Lack::Objects) {
            if let Some(object) = NonNull::new(sequence::pop(self)) {
                return Some(object);
            }
        }
        None
    }

    /// Goes on with the previous magazine if it has room.
    #[cold]
    #[inline(never)]
    fn push_previous(&self, object: NonNull<u8>) -> Result<(), NonNull<u8>> {
        while sequence::exchange(self, Lack::Room) {
            if sequence::push(self, object) {
                return Ok(());
            }
        }
        Err(object)
    }

    /// Loads a magazine if both lack that, as [`Pair::load`].
    pub(super) fn load(&self, magazine: Magazine, lack: Lack) -> Option<Magazine> {
        let displaced = sequence::load(self, magazine.into_raw(), lack);
        // SAFETY: it is in no place any more and belongs to who displaced it, or it is the given
        // one.
        unsafe { Magazine::from_raw(displaced) }
    }

    /// Takes the magazines of all processors.
    pub(super) fn drain(&self, drained: &mut MagazineList) {
        let _drains = self.drains.lock();
        // (S) Relaxed, as are the next: the restarts order them.
        self.stopped.store(true, Relaxed);
        // (T)
        sequence::restart(self.area);
        // (U) Linked and not looked into until (V).
        let taken = self.pairs.iter().flat_map(Pair::take).flatten();
        taken.for_each(|magazine| drained.push(magazine));
        // (V)
        sequence::restart(self.area);
        // (W)
        self.stopped.store(false, Relaxed);
    }

    /// Shows the magazines of each processor, while they are used.
    pub(super) fn look(&self, look: &mut dyn FnMut(&Pair)) {
        self.pairs.iter().for_each(look);
    }

    #[cfg(all(test, loom))]
    pub(super) fn pair_of_first(&self) -> &Pair {
        self.pairs.of(0)
    }

    /// For who is alone.
    pub(super) fn pairs(&mut self) -> impl Iterator<Item = &Pair> {
        self.pairs.iter()
    }
}
