//! A freezer: keeps all other threads outside of calls while one thread works alone.
//!
//! That thread may look at all memory, or have it copied by `fork(2)`.
//!
//! A child of `fork(2)` has one thread and a copy of everything, the locks of all other threads
//! included. A lock that one of them held is never released there, and what it had half updated
//! stays so. So calls *enter* the freezer, and a thread that is about to fork *freezes* it:
//! newcomers wait, and the freezing thread waits for those inside. Then no other thread holds a
//! lock of this library, and none is between two steps. A thread that sleeps inside of a call, and
//! may do so for long, *steps out* for that time: then it holds nothing, and a freeze does not wait
//! for it. ([`host_fork`](crate::host_fork) is what forks use. The name is that of Linux's freezer,
//! which does not wake sleepers either.)
//!
//! Entering happens at each call and freezing at each fork, so the cost is where the fork is. The
//! steps, with letters that stand at the same steps in the code:
//!
//! | | entering thread | | freezing thread |
//! |---|---|---|---|
//! | (A) | store "inside" in the thread's own record | (P) | take the turn, for one thread at a time; set "frozen" |
//! | (B) | light fence | (Q) | heavy fence |
//! | (C) | load "frozen", acquire: leave again, wait and begin anew if it is set | (R) | load every other record, acquire, until it says "outside" |
//! | (D) | work, then store "outside", release | (T) | work, then clear "frozen", release; release the turn, and wake waiting threads |
//!
//! The fences order (A) with (C) and (P) with (R) (see [`fence`](mod@crate::fence)): either (C)
//! sees (P), and the thread does nothing inside; or (R) sees (A) or a later store of the same
//! thread, and only "outside" satisfies it. Each store of "outside" is a release and (R) acquires:
//! the freezing thread sees what was done inside. And a thread that enters after (T) acquires in
//! (C) what was done meanwhile.
//!
//! The record is the one of [read-side sections](crate::rcu), on its owner's own cache line. The
//! word of (C) also says whether the light fence suffices, so that the frequent path loads it once.
//!
//! # Nesting, signals, the freezing thread
//!
//! The record counts how deep the thread is inside, and says whether (C) has let it in. A thread
//! that was let in and enters again does not look: a freeze waits for it, so it must not wait for
//! the freeze. A signal handler may therefore enter, wherever it has interrupted its thread.
//! Between (A) and (C) it finds that the thread was not let in, and looks itself; the thread looks
//! again after it. While the freezer is frozen a handler waits, as any newcomer does, unless its
//! thread is inside, or has frozen it.
//!
//! The freezing thread is inside from then on, so that it can continue to call. If it was inside
//! before, it steps out while another thread's freeze is in the way, and its own freeze does not
//! wait for it. Nor does it wait for its own freeze, wherever a handler interrupts it, and if it
//! steps out and in again: the turn has its name before "frozen" is set, and until that is cleared.
//!
//! # Rules
//!
//! - A thread that enters holds nothing that a thread inside may wait for: no read-side section, no
//!   lock, no [quiescent-state reader](crate::rcu::qsbr::Reader) online. It may have to wait for a
//!   freeze, which waits for the threads inside. Take them after entering.
//! - The same holds for a thread that steps in again, and for one that freezes.
//! - A thread that steps out holds no lock and owns nothing unfinished: what it holds is lost in a
//!   child.
//! - No thread inside waits for one that has stepped out. That one may have to wait for a freeze to
//!   step in again, and the freeze waits for those inside. So a [callback](crate::rcu::defer) that
//!   steps out is for programs where no thread inside calls [`barrier`](crate::rcu::barrier).
//! - Guards of one thread are dropped in reverse order. Otherwise its count is wrong: a freeze
//!   waits forever, or not at all for this thread. Memory in this process stays safe.
//! - A thread that leaks an [`Entry`] stays inside: no other thread can freeze any more.
//! - The first entry of a thread claims its record, which allocates, so it is not for signal
//!   handlers. Nor is freezing. A handler may not use what the interrupted thread may be using:
//!   locks are not for handlers, and entering does not change that. Entering does not change
//!   `errno`.
//!
//! # Costs
//!
//! Measured on a 2-CPU x86-64: entering and leaving 1.1 ns where `membarrier(2)` works (a read-side
//! section is 0.9 ns), 3 ns more in another entry; freezing and thawing 0.24 µs when no other
//! thread of the process runs and 1 to 10 µs when one does, plus what those inside need to leave.

mod wait;

use core::marker::PhantomData;

use crossbeam_utils::CachePadded;

use crate::fence;
use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::platform::atomic::{AtomicU32, AtomicUsize};
use crate::platform::{global, relax};
use crate::rcu::{self, Record};

/// Set while entering threads must take a full fence.
const FENCED: u32 = 1;

/// Set while the freezer is frozen.
const FROZEN: u32 = 2;

/// The freezer of the process.
pub(crate) struct Freezer {
    /// [`FENCED`] and [`FROZEN`]. Read at each entry, so it has a line of its own.
    word: CachePadded<AtomicU32>,
    /// The thread whose turn it is to freeze, or 0. Taken before [`FROZEN`] is set, and released
    /// after it is cleared.
    holder: AtomicUsize,
    /// How many freezes that thread has nested. Only that thread uses it.
    depth: AtomicUsize,
}

global! {
    pub(crate) static FREEZER: Freezer = Freezer::new();
}

/// Proof that the thread is inside. The thread leaves when this is dropped. It belongs to the
/// thread that made it.
#[derive(Debug)]
#[must_use = "the thread leaves when this is dropped"]
pub struct Entry {
    record: &'static Record,
    /// Not `Send`: stays on its thread.
    stays: PhantomData<*const ()>,
}

/// Proof that the thread stepped out of all its entries, or of none if it was not inside. The
/// thread steps in again when this is dropped, and may have to wait for that. It belongs to the
/// thread that made it.
#[derive(Debug)]
#[must_use = "the thread steps in again when this is dropped"]
pub struct SteppedOut {
    /// The record, and the word that it had, of a thread that was inside.
    before: Option<(&'static Record, usize)>,
    /// Not `Send`: stays on its thread.
    stays: PhantomData<*const ()>,
}

/// Enters: until the guard drops, a freeze waits for this thread. Entries nest.
///
/// Waits while the freezer is frozen by another thread, unless this one is inside already.
/// Allocates at a thread's first entry or section only. Not to be called inside a read-side section
/// that is older than the thread's outermost entry: see the rules [above](self). Costs a few loads
/// and stores of the thread's own memory.
///
/// ```
/// use fdtable_sync::freezer;
///
/// fn call() -> i32 {
///     let _inside = freezer::enter();
///     // A fork does not happen in here.
///     0
/// }
/// assert_eq!(call(), 0);
/// ```
#[inline(always)]
pub fn enter() -> Entry {
    Entry {
        record: rcu::enter_freezer(),
        stays: PhantomData,
    }
}

/// Enters as [`enter`] does, but does not wait. Returns `None` if another thread has frozen the
/// freezer, and this one is not inside already.
#[cfg(any(test, not(loom)))]
pub(crate) fn try_enter() -> Option<Entry> {
    rcu::try_enter_freezer().map(|record| Entry {
        record,
        stays: PhantomData,
    })
}

/// Steps out of all entries of this thread until the guard drops. For a thread that is about to
/// sleep. Does nothing if the thread is not inside: that costs a load. Callable anywhere.
///
/// The caller must not hold anything of the library that a child needs: a lock is not released
/// there. Neither blocks nor allocates; dropping the guard waits while the freezer is frozen. Not
/// to be called inside a read-side section.
///
/// ```
/// use fdtable_sync::freezer;
///
/// let _inside = freezer::enter();
/// let out = freezer::step_out();
/// // Sleep here. A fork may happen meanwhile.
/// drop(out);
/// ```
pub fn step_out() -> SteppedOut {
    SteppedOut {
        before: rcu::step_out_of_freezer(),
        stays: PhantomData,
    }
}

/// Freezes: from now on newcomers wait. Returns when no other thread is inside. Nests. The calling
/// thread is inside from then on, until it [thaws](thaw).
///
/// Blocks: for another thread's freeze, and for threads inside, as long as they take; forever if
/// one of them waits for this thread. May allocate. A thread that is inside steps out while it
/// waits for another thread's freeze. Not to be called in a signal handler; inside a read-side
/// section only where no thread inside waits for grace periods.
///
/// ```
/// use fdtable_sync::freezer;
///
/// freezer::freeze();
/// // All other threads are outside.
/// freezer::thaw();
/// ```
#[doc(alias = "freeze_processes")]
pub fn freeze() {
    FREEZER.freeze();
}

/// Undoes one [`freeze`] of this thread; the last one wakes all waiting threads. Does nothing for a
/// thread that has not frozen. Never blocks; enters the operating system.
#[doc(alias = "thaw_processes")]
pub fn thaw() {
    FREEZER.thaw();
}

/// Returns true if the calling thread has frozen the freezer, for example between the handlers of a
/// host fork. Then other threads that are about to enter or to step in are blocked, and the caller
/// must not wait for one. Neither blocks nor allocates; callable anywhere.
///
/// ```
/// use fdtable_sync::freezer;
///
/// assert!(!freezer::is_frozen_here());
/// freezer::freeze();
/// assert!(freezer::is_frozen_here());
/// freezer::thaw();
/// ```
#[must_use]
pub fn is_frozen_here() -> bool {
    FREEZER.is_held()
}

impl Freezer {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self {
            word: CachePadded::new(AtomicU32::new(FENCED)),
            holder: AtomicUsize::new(0),
            depth: AtomicUsize::new(0),
        }
    }

    #[cfg(loom)]
    fn new() -> Self {
        Self {
            word: CachePadded::new(AtomicU32::new(FENCED)),
            holder: AtomicUsize::new(0),
            depth: AtomicUsize::new(0),
        }
    }

    /// (C) Returns true if a thread may be inside. The thread has announced itself and passed a
    /// light fence.
    #[inline(always)]
    pub(crate) fn admits(&self) -> bool {
        // Acquire: pairs with the release in (T).
        match self.word.load(Acquire) {
            0 => true,
            word => self.admits_fenced(word),
        }
    }

    #[cold]
    fn admits_fenced(&self, mut word: u32) -> bool {
        if word & FENCED != 0 {
            if fence::prepare() {
                // Relaxed: a thread that still sees the bit takes a fence too many. An exchange
                // leaves the other bit as it is, and passes on what (T) released.
                self.word.fetch_and(!FENCED, Relaxed);
            }
            fence::full();
            // Acquire: as above, after the fence (B) that counts.
            word = self.word.load(Acquire);
        }
        word & FROZEN == 0 || self.is_held()
    }

    /// Waits until the freezer is not frozen. Another freeze may begin at once.
    pub(crate) fn wait(&self) {
        wait::until_clear(&self.word, FROZEN);
    }

    fn freeze(&self) {
        if self.is_held() {
            // Relaxed: a thread sees its own stores.
            self.depth.store(self.depth.load(Relaxed) + 1, Relaxed);
            return;
        }
        let turn = rcu::await_turn_outside(|| self.take_turn());
        // (Q), (R)
        turn.wait_for_others();
    }

    /// (P)
    fn take_turn(&self) {
        let name = rcu::thread_name();
        let mut attempts = 0;
        // Acquire: pairs with the release with which the last freezing thread released the turn, so
        // that "frozen" is set after it was cleared. No model sees it, since exchanges happen there
        // in the order of their steps. Relaxed on failure: nothing is done then.
        while self
            .holder
            .compare_exchange(0, name, Acquire, Relaxed)
            .is_err()
        {
            self.wait();
            // "Frozen" is not set when the turn was just taken or is about to be released.
            relax(attempts);
            attempts = attempts.saturating_add(1);
        }
        // Relaxed: only this thread uses it until the turn is released.
        self.depth.store(1, Relaxed);
        // Relaxed: the fence (Q) orders it with what follows.
        self.word.fetch_or(FROZEN, Relaxed);
    }

    fn thaw(&self) {
        if !self.is_held() {
            return;
        }
        // Relaxed, both: as in `freeze`.
        let depth = self.depth.load(Relaxed) - 1;
        self.depth.store(depth, Relaxed);
        if depth > 0 {
            return;
        }
        // (T) Release: pairs with the acquire in (C).
        self.word.fetch_and(!FROZEN, Release);
        // Release: pairs with the acquire in (P).
        self.holder.store(0, Release);
        // After both: a thread that waits for the turn finds it free.
        wait::wake_all(&self.word);
        // After it: a signal handler in between must not wait for this thread.
        rcu::leave_freezer();
    }

    /// Returns true if the calling thread has frozen it, or is about to.
    fn is_held(&self) -> bool {
        // Relaxed: a thread sees its own stores, and no other stores its name.
        self.holder.load(Relaxed) == rcu::thread_name()
    }
}

impl Drop for Entry {
    #[inline(always)]
    fn drop(&mut self) {
        // (D)
        self.record.leave_freezer();
    }
}

impl Drop for SteppedOut {
    fn drop(&mut self) {
        if let Some((record, word)) = self.before.take() {
            record.step_in(word);
        }
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod tests;
