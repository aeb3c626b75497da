//! The magazines of the CPUs by *restartable sequences*.
//!
//! For what a sequence is, see [`sequence`](mod@fdtable_sync::sequence). A thread that reaches the
//! commit has had the CPU to itself since the beginning. That takes neither a lock nor an atomic
//! exchange.
//!
//! There are four sequences, in `rseq/x86_64.rs`. Pop and push work on the loaded magazine;
//! *exchange* exchanges the two, and *load* puts a magazine in. A *drain* takes the magazines of
//! all CPUs from any CPU. The steps, with letters that stand at the same steps in the code:
//!
//! | | a sequence | | a drain |
//! |---|---|---|---|
//! | (A) | begin: tell the kernel where it begins and ends | (S) | set `stopped` |
//! | (B) | load the index of the CPU; leave if there is no place for it | (T) | restart all sequences |
//! | (C) | load the magazine; exchange and load: both | (U) | take the magazines out of their places |
//! | (D) | load its count, and leave if it lacks what is asked for; pop: load the object; push: store it above the count | (V) | restart all sequences |
//! | (X) | exchange and load only: leave if `stopped` is set | (W) | clear `stopped` |
//! | (E) | commit. Pop and push: store the count; exchange and load: store both places, with one instruction | | |
//!
//! Case by case:
//!
//! - *Another thread on the same CPU* runs only after the first was preempted. If that was before
//!   its (E), the first begins again and loads everything anew. It leaves nothing behind but
//!   perhaps an object that push stored above the count. No thread reads it there, and the next
//!   push overwrites it. If it was after (E), all is done. This holds for each pair of sequences.
//! - *A thread that is moved* between (A) and (E) begins again with the index of the new CPU,
//!   which (B) loads inside the sequence. Between two operations it holds objects or a magazine;
//!   these belong to it and to no CPU.
//! - *A displaced magazine* is in no place after the (E) of load. Threads that found it at (C) were
//!   preempted by the one that got to (E); they begin again, and find another. So it belongs to the
//!   thread that displaced it, wherever that one is moved.
//! - *A drain against pop and push.* A thread elsewhere may be between (C) and (E) when (U) takes
//!   its magazine out of its place. Either it commits before (V) is over, and the count is right;
//!   or it begins again and finds that there is none. After (V) no thread uses the magazine, and no
//!   thread can reach it: it belongs to the drain. Until then the drain has only linked it into a
//!   list, by a word that the sequences leave alone.
//! - *A drain against exchange and load.* These write the places, as (U) does, and must not undo
//!   it. One that came past (X) before (S) has either committed before (T) is over, and (U) finds
//!   its stores; or it begins again, and leaves at (X). So from (T) to (W) only the drain writes
//!   the places. One that finds `stopped` cleared by (W) has begun after (V), and sees (U).
//!   Therefore none of these words needs an ordering of its own. A thread that leaves at (X)
//!   continues like one without magazines, with the slabs.
//! - *Two drains* hold a lock, one after the other.
//! - *A restart that fails*, where processes share memory: at (T) nothing has changed. At (V) the
//!   magazines that were taken may be in use. The next drain that gets past (V) has them. Until
//!   then `stopped` stays set, as an exchange or a load may have loaded a place before (U).
//! - *A signal handler* interrupts the sequence of its own thread, which begins again after it. It
//!   may take and free objects here, but may not use the parts of the cache behind this.
//! - *The contents of an object* are visible to the next thread that takes it. On the same CPU: the
//!   kernel orders the threads that it runs there. From another one: the restart has ordered it, or
//!   the lock of the depot.
//! - *Another process* that shares the magazines is as another thread. One that is killed in a
//!   sequence has not begun it, or has ended it.
//! - *A child after a fork* has one thread, whose area is registered. Uncommitted sequences of the
//!   parent's other threads have not happened. If one of them was draining, the child cannot drain
//!   and loads no magazines, as with any lock that is held at a fork: the
//!   [freezer](mod@fdtable_sync::host_fork) ensures that no thread drains then.
//!
//! A thread leaves at (B) if it has no area of its own (its index is negative), or if the index
//! of its CPU is higher than the system reported: it takes and stores nothing here. It must not use
//! the place of another CPU, not even with a lock, as sequences do not check locks. The locks of
//! the pairs are used where there are no areas at all, as under valgrind or with another C library
//! than glibc ≥ 2.35, or where there is no restart.

use core::ptr::NonNull;

use super::Local;
use crate::magazine::{Lack, Magazine, MagazineList};
use fdtable_sync::fence::{NotRestarted, restart};
use fdtable_sync::platform::atomic::Ordering::Relaxed;
use fdtable_sync::sequence::Area;

#[cfg(loom)]
#[path = "rseq/model.rs"]
pub(super) mod sequence;
#[cfg(all(
    any(
        all(feature = "std", target_os = "linux"),
        all(feature = "platform", not(feature = "std"))
    ),
    target_arch = "x86_64",
    target_pointer_width = "64",
    not(loom)
))]
#[path = "rseq/x86_64.rs"]
mod sequence;
#[cfg(not(any(
    loom,
    all(
        any(
            all(feature = "std", target_os = "linux"),
            all(feature = "platform", not(feature = "std"))
        ),
        target_arch = "x86_64",
        target_pointer_width = "64"
    )
)))]
#[path = "rseq/missing.rs"]
mod sequence;

pub(super) use sequence::{copies, find};

/// Like [`Local::pop`].
#[inline(always)]
pub(super) fn pop(local: &Local, area: Area) -> Option<NonNull<u8>> {
    NonNull::new(sequence::pop(local, area)).or_else(|| pop_previous(local, area))
}

/// Like [`Local::push`].
#[inline(always)]
pub(super) fn push(local: &Local, area: Area, object: NonNull<u8>) -> Result<(), NonNull<u8>> {
    if sequence::push(local, area, object) {
        return Ok(());
    }
    push_previous(local, area, object)
}

/// Switches to the previous magazine if it has an object.
#[cold]
#[inline(never)]
fn pop_previous(local: &Local, area: Area) -> Option<NonNull<u8>> {
    // Repeats only if other threads have taken the exchanged objects: they have made progress.
    while sequence::exchange(local, area, Lack::Objects) {
        if let Some(object) = NonNull::new(sequence::pop(local, area)) {
            return Some(object);
        }
    }
    None
}

/// Switches to the previous magazine if it has room.
#[cold]
#[inline(never)]
fn push_previous(local: &Local, area: Area, object: NonNull<u8>) -> Result<(), NonNull<u8>> {
    while sequence::exchange(local, area, Lack::Room) {
        if sequence::push(local, area, object) {
            return Ok(());
        }
    }
    Err(object)
}

/// Loads a magazine if both lack that, like [`Pair::load`](super::pair::Pair::load).
pub(super) fn load(local: &Local, area: Area, magazine: Magazine, lack: Lack) -> Option<Magazine> {
    let displaced = sequence::load(local, area, magazine.into_raw(), lack);
    // SAFETY: it is in no place any more and belongs to the thread that displaced it, or it is
    // the given one.
    unsafe { Magazine::from_raw(displaced) }
}

/// Moves the magazines of all CPUs to a list.
///
/// # Errors
/// [`NotRestarted`]: there are none. If they were in no place any more, the next drain takes
/// them, and until then no CPU is given others.
pub(super) fn drain(
    local: &Local,
    area: Area,
    list: &mut MagazineList,
) -> Result<(), NotRestarted> {
    let mut taken = local.drains.lock();
    // (S) Relaxed, as are the next: the restarts order them.
    // weaken: drain-that-stops-no-magazine
    // weaken: drain-that-stops-no-exchange
    local.stopped.store(true, Relaxed);
    // (T)
    // weaken: drain-without-the-first-restart
    if let Err(refused) = restart(area) {
        if taken.len() == 0 {
            local.stopped.store(false, Relaxed);
        }
        return Err(refused);
    }
    // (U) Linked, and not read until (V).
    for pair in local.pairs.iter() {
        taken.extend(pair.take());
    }
    // (V)
    // weaken: drain-that-ends-before-the-second-restart
    // weaken: drain-without-the-second-restart
    if let Err(refused) = restart(area) {
        if taken.len() == 0 {
            local.stopped.store(false, Relaxed);
        }
        return Err(refused);
    }
    list.append(&mut taken);
    // (W)
    local.stopped.store(false, Relaxed);
    Ok(())
}
