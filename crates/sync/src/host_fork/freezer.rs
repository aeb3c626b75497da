//! A freezer: keeps all other threads outside of calls while one thread works alone.
//!
//! That thread may look at all memory, or have it copied by `fork(2)`.
//!
//! A child of `fork(2)` has one thread and a copy of everything, the locks of all other threads
//! included. A lock that one of them held is never released there, and what it had half updated
//! stays so. So calls *enter* the freezer, and a thread that is about to fork *freezes* it:
//! newcomers wait, and the freezing thread waits for those inside. Then no other thread holds a
//! lock of this library, and none is between two steps. A thread that sleeps inside of a call, and
//! may do so for long, does it in a *blocking section*: there it holds nothing, and a freeze does
//! not wait for it. ([`host_fork`](super) is what forks use. The name is that of Linux's freezer,
//! which does not wake sleepers either.)
//!
//! Entering happens at each call and freezing at each fork, so the cost is where the fork is. The
//! steps, with letters that stand at the same steps in the code:
//!
//! | | entering thread | | freezing thread |
//! |---|---|---|---|
//! | (A) | store "inside" in a word of the thread's record | (P) | take the turn, for one thread at a time; set "frozen" |
//! | (B) | light fence | (Q) | heavy fence |
//! | (C) | load "frozen", acquire: leave again, wait and begin anew if it is set | (R) | load the word of every other record until it says "outside" |
//! | (D) | work, then store "outside" | (T) | work, then clear "frozen", release; release the turn, and wake waiting threads |
//!
//! The argument is that of [announcements](crate::announce): either (C) sees (P), and the thread
//! does nothing inside; or (R) sees (A) or a later store, and only "outside" satisfies it. A thread
//! that enters after (T) acquires in (C) what was done meanwhile.
//!
//! The word of (C) also says whether the light fence suffices, so that the frequent path loads it
//! once.
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
//! A handler that must not use what its thread may be using asks [`put_off`]. If the thread is
//! inside, it leaves a mark, and the thread calls [a function](on_leaving) once it is outside: at
//! the end of its outermost entry, or in a blocking section before it sleeps. There it holds no
//! lock.
//!
//! The freezing thread is inside from then on, so that it can continue to call. If it was inside
//! before, it is outside while another thread's freeze is in the way, and its own freeze does not
//! wait for it. Nor does it wait for its own freeze, wherever a handler interrupts it, or at the
//! end of a blocking section of its own: the turn has its name before "frozen" is set, and until
//! that is cleared.
//!
//! # Rules
//!
//! - A thread that enters holds nothing that a thread inside may wait for: no read-side section, no
//!   lock, no [quiescent-state reader](crate::rcu::qsbr::Reader) online. It may have to wait for a
//!   freeze, which waits for the threads inside. Take them after entering.
//! - The same holds at the end of a blocking section, and for a thread that freezes.
//! - A thread in a blocking section holds no lock and owns nothing unfinished: what it holds is
//!   lost in a child.
//! - No thread inside waits for one in a blocking section. That one may have to wait for a freeze
//!   at its end, and the freeze waits for the threads inside. So a [callback](crate::rcu::defer)
//!   with a blocking section is for programs where no thread inside calls
//!   [`barrier`](crate::rcu::barrier).
//! - Guards of one thread are dropped in reverse order. Otherwise its count is wrong: a freeze
//!   waits forever, or not at all for this thread. Memory in this process stays safe.
//! - A thread that leaks a [`ForkGuard`] stays inside: no other thread can freeze any more.
//! - The first entry of a thread claims its record, which allocates, so it is not for signal
//!   handlers. Nor is freezing. A handler may not use what the interrupted thread may be using:
//!   locks are not for handlers, and entering does not change that. Entering does not change
//!   `errno`.
//!
//! # Costs
//!
//! Measured on a 2-CPU x86-64: entering and leaving 1.1 ns where `membarrier(2)` works (a read-side
//! section is 0.9 ns), 3 ns more in another entry; freezing and thawing 0.24 µs when no other
//! thread of the process runs and 1 to 10 µs when one does, plus what the threads inside need to
//! leave.

use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::compiler_fence;
use std::sync::OnceLock;

use crossbeam_utils::CachePadded;

use crate::announce::{RECORDS, Record, Word, fence_all, name, own_record};
use crate::fence;
use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::platform::atomic::{AtomicU32, AtomicUsize};
use crate::platform::{futex, own, shared, wait_while};

/// Set while entering threads must take a full fence.
const FENCED: u32 = 1;

/// Set while the freezer is frozen.
const FROZEN: u32 = 2;

/// Set when the thread was let in. Before that, the thread has announced itself and must look.
const ADMITTED: u64 = 1;

/// Set while a thread that is ending borrows the record, for the duration of its entry.
const LENT: u64 = 2;

/// One level of nesting, in the bits above. A word without any is 0.
const LEVEL: u64 = 4;

/// The word of a thread that entered once and was let in: the frequent case.
const ONCE: u64 = LEVEL | ADMITTED;

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

own! {
    pub(crate) static FREEZER: Freezer = Freezer {
        word: CachePadded::new(AtomicU32::new(FENCED)),
        holder: AtomicUsize::new(0),
        depth: AtomicUsize::new(0),
    };
}

/// Proof that the thread is inside: a freeze, and so a host fork, waits until this is dropped. It
/// belongs to the thread that made it.
#[derive(Debug)]
#[must_use = "the thread leaves when this is dropped"]
pub struct ForkGuard {
    record: &'static Record,
    /// Not `Send`: stays on its thread.
    stays: PhantomData<*const ()>,
}

/// A span in which the thread is outside, whatever it has entered before. The thread enters again
/// when this is dropped, and may have to wait for that. It belongs to the thread that made it.
#[derive(Debug)]
#[must_use = "the thread enters again when this is dropped"]
pub struct BlockingSection {
    /// The record, and the word that it had, of a thread that was inside.
    before: Option<(&'static Record, u64)>,
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
/// use fdtable_sync::host_fork;
///
/// fn call() -> i32 {
///     let _inside = host_fork::enter();
///     // A fork does not happen in here.
///     0
/// }
/// assert_eq!(call(), 0);
/// ```
#[inline(always)]
pub fn enter() -> ForkGuard {
    match own_record() {
        Some(record) => {
            record.enter_freezer();
            ForkGuard::of(record)
        }
        None => enter_first(),
    }
}

#[cold]
fn enter_first() -> ForkGuard {
    let (record, lent) = own_or_lent_record();
    record.enter_again(LEVEL | lent);
    ForkGuard::of(record)
}

/// Enters as [`enter`] does, but does not wait. Returns `None` if another thread has frozen the
/// freezer, and this one is not inside already.
#[cfg(any(test, not(loom)))]
#[cold]
pub(crate) fn try_enter() -> Option<ForkGuard> {
    let (record, lent) = own_or_lent_record();
    let before = record.freezer().get();
    if before & ADMITTED != 0 {
        record.nest_in_freezer(before);
        return Some(ForkGuard::of(record));
    }
    // In a signal handler between (A) and (C) the thread has levels already, which it keeps.
    if record.try_inside((before + LEVEL) | lent) {
        return Some(ForkGuard::of(record));
    }
    record.freezer().set(before);
    if lent != 0 {
        record.return_lent();
    }
    None
}

/// Enters as [`enter`] does, with a record that the thread borrows until it leaves: for a thread of
/// the library, which enters rarely. A record that it kept would count as a reader, and a lone
/// thread of the caller would take the fences of two.
#[cfg(not(loom))]
pub(crate) fn enter_borrowing() -> ForkGuard {
    if own_record().is_some() {
        return enter();
    }
    let record = Record::lent();
    record.enter_again(LEVEL | LENT);
    ForkGuard::of(record)
}

/// Leaves all entries of this thread until the guard drops. For a thread that is about to sleep.
/// Does nothing if the thread is not inside: that costs a load. Callable anywhere.
///
/// The caller must not hold anything of the library that a child needs: a lock is not released
/// there. Neither blocks nor allocates, unless the function of [`on_leaving`] does, which runs here
/// if a handler has put something off; dropping the guard waits while the freezer is frozen. Not to
/// be called inside a read-side section.
///
/// ```
/// use fdtable_sync::host_fork;
///
/// let _inside = host_fork::enter();
/// let outside = host_fork::blocking_section();
/// // Sleep here. A fork may happen meanwhile.
/// drop(outside);
/// ```
pub fn blocking_section() -> BlockingSection {
    BlockingSection {
        before: leave_all_levels(),
        stays: PhantomData,
    }
}

/// Freezes: from now on newcomers wait. Returns when no other thread is inside. Nests. The calling
/// thread is inside from then on, until it [thaws](thaw).
///
/// Blocks: for another thread's freeze, and for threads inside, as long as they take; forever if
/// one of them waits for this thread. May allocate. A thread that is inside is outside while
/// it waits for another thread's freeze. Not to be called in a signal handler; inside a read-side
/// section only where no thread inside waits for grace periods.
///
/// ```
/// use fdtable_sync::host_fork;
///
/// host_fork::freeze();
/// // All other threads are outside.
/// host_fork::thaw();
/// ```
#[doc(alias = "freeze_processes")]
pub fn freeze() {
    if is_frozen_here() {
        // Relaxed: a thread sees its own stores.
        FREEZER
            .depth
            .store(FREEZER.depth.load(Relaxed) + 1, Relaxed);
        return;
    }
    let own = await_turn_outside(|| FREEZER.take_turn());
    // (Q), (R)
    wait_for_others(own);
}

/// Undoes one [`freeze`] of this thread; the last one wakes all waiting threads. Does nothing for a
/// thread that has not frozen. Never blocks; enters the operating system.
#[doc(alias = "thaw_processes")]
pub fn thaw() {
    if !is_frozen_here() {
        return;
    }
    // Relaxed, both: as in `freeze`.
    let depth = FREEZER.depth.load(Relaxed) - 1;
    FREEZER.depth.store(depth, Relaxed);
    if depth > 0 {
        return;
    }
    // (T) Release: pairs with the acquire in (C).
    // weaken: turn-that-is-given-back-too-early
    FREEZER.word.fetch_and(!FROZEN, Release);
    // Release: pairs with the acquire in (P).
    FREEZER.holder.store(0, Release);
    // After both: a thread that waits for the turn finds it free.
    futex::wake(&FREEZER.word, i32::MAX);
    // After it: a signal handler in between must not wait for this thread.
    drop(own_record().map(ForkGuard::of));
}

/// Returns true if the calling thread has frozen the freezer, for example between the handlers of a
/// host fork. Then other threads that are about to enter, or to end a blocking section, are
/// blocked, and the caller must not wait for one. Neither blocks nor allocates; callable anywhere.
///
/// ```
/// use fdtable_sync::host_fork;
///
/// assert!(!host_fork::is_frozen_here());
/// host_fork::freeze();
/// assert!(host_fork::is_frozen_here());
/// host_fork::thaw();
/// ```
#[must_use]
pub fn is_frozen_here() -> bool {
    // Relaxed: a thread sees its own stores, and no other stores its name.
    FREEZER.holder.load(Relaxed) == name()
}

/// Function that a thread calls when it is outside, after a handler has put something off.
static ON_LEAVING: OnceLock<fn()> = OnceLock::new();

/// Sets the function that a thread calls when it is outside, after a signal handler of its own has
/// [put something off](put_off). The first call in the process counts.
///
/// The function runs on that thread, which holds nothing of the library there. It may use the
/// library, and it must not unwind. Neither blocks nor allocates.
pub fn on_leaving(function: fn()) {
    let _ = ON_LEAVING.set(function);
}

/// Puts off what a signal handler has to do. Returns true if the calling thread is inside: then it
/// calls the function of [`on_leaving`] once it is outside. Returns false, and does nothing, if the
/// thread is outside, where the handler can do its work.
///
/// For signal handlers: neither blocks nor allocates, and preserves `errno`.
///
/// ```
/// use fdtable_sync::host_fork;
///
/// assert!(!host_fork::put_off());
/// let inside = host_fork::enter();
/// assert!(host_fork::put_off());
/// # drop(inside);
/// ```
#[must_use]
pub fn put_off() -> bool {
    let Some(record) = own_record() else {
        return false;
    };
    let is_inside = record.freezer().get() & ADMITTED != 0;
    if is_inside {
        // Relaxed: the thread sees the stores of its handlers.
        record.words.further.put_off.store(1, Relaxed);
    }
    is_inside
}

impl Freezer {
    /// (C) Returns true if a thread may be inside. The thread has announced itself and passed a
    /// light fence.
    #[inline(always)]
    fn admits(&self) -> bool {
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
        word & FROZEN == 0 || is_frozen_here()
    }

    /// Waits until the freezer is not frozen. Another freeze may begin at once. Preserves `errno`:
    /// the caller may be a signal handler, or step in after a call of the host whose error has not
    /// been read yet. On Linux the kernel keeps the waiting threads: a child of a fork has none of
    /// them in its memory.
    #[cold]
    fn wait(&self) {
        loop {
            // Relaxed: only a look. A thread that has waited looks again, with an ordering.
            let word = self.word.load(Relaxed);
            if word & FROZEN == 0 {
                return;
            }
            futex::wait(&self.word, word, None);
        }
    }

    /// (P)
    fn take_turn(&self) {
        let own = name();
        wait_while(|| {
            // Acquire: pairs with the release with which the last freezing thread released the
            // turn, so that "frozen" is set after it was cleared. No model sees it, since exchanges
            // happen there in the order of their steps. Relaxed on failure: nothing is done then.
            let taken = self.holder.compare_exchange(0, own, Acquire, Relaxed);
            if taken.is_err() {
                self.wait();
            }
            // "Frozen" is not set when the turn was just taken or is about to be released.
            taken.is_err()
        });
        // Relaxed: only this thread uses it until the turn is released.
        self.depth.store(1, Relaxed);
        // Relaxed: the fence (Q) orders it with what follows.
        self.word.fetch_or(FROZEN, Relaxed);
    }
}

/// The half that touches the thread's own record.
impl Record {
    #[inline(always)]
    fn freezer(&self) -> &Word {
        &self.words.further.freezer
    }

    #[inline(always)]
    fn enter_freezer(&self) {
        let word = self.freezer().get();
        if word != 0 {
            return self.nest_in_freezer(word);
        }
        // (A), (B), (C)
        if !self.try_inside(LEVEL) {
            self.wait_inside(LEVEL);
        }
    }

    /// Announces that the thread is inside. Returns true if it was let in.
    #[inline(always)]
    fn try_inside(&self, word: u64) -> bool {
        // (A)
        self.freezer().set(word);
        // (B) pairs with the heavy fence (Q). Where that is not available, (C) takes a full one.
        fence::light();
        let admitted = FREEZER.admits();
        if admitted {
            self.freezer().set(word | ADMITTED);
            // A handler that interrupts what follows finds it stored.
            compiler_fence(SeqCst);
        }
        admitted
    }

    /// Waits until the thread is let in.
    #[cold]
    fn wait_inside(&self, word: u64) {
        loop {
            self.freezer().set(0);
            FREEZER.wait();
            if self.try_inside(word) {
                return;
            }
        }
    }

    /// Goes one level deeper.
    #[cold]
    fn nest_in_freezer(&self, word: u64) {
        // weaken: handler-that-takes-its-thread-for-admitted
        if word & ADMITTED != 0 {
            self.freezer().set(word + LEVEL);
        } else if !self.try_inside(word + LEVEL) {
            // In a signal handler that came between (A) and (C).
            self.wait_inside(word + LEVEL);
        }
    }

    /// (D) Leaves the freezer, or goes one level up.
    #[inline(always)]
    fn leave_freezer(&self) {
        let word = self.freezer().get();
        if word != ONCE {
            return self.unnest_in_freezer(word);
        }
        self.freezer().set(0);
        self.resume();
    }

    /// Does what handlers have put off. The thread is outside.
    #[inline(always)]
    fn resume(&self) {
        // A handler that interrupts what follows finds the thread outside, and puts nothing off.
        compiler_fence(SeqCst);
        // Relaxed: only this thread and its handlers write it.
        if self.words.further.put_off.load(Relaxed) != 0 {
            self.resume_now();
        }
    }

    #[cold]
    fn resume_now(&self) {
        // Relaxed: as above. First, as the function may enter and leave.
        self.words.further.put_off.store(0, Relaxed);
        if let Some(function) = ON_LEAVING.get() {
            function();
        }
    }

    #[cold]
    fn unnest_in_freezer(&self, word: u64) {
        match word / LEVEL {
            // Its guards were dropped in a wrong order, so it has left already.
            0 => {}
            1 => {
                // (D)
                self.freezer().set(0);
                if word & LENT != 0 {
                    self.return_lent();
                } else {
                    self.resume();
                }
            }
            // weaken: inner-entry-that-ends-the-outer
            _ => self.freezer().set(word - LEVEL),
        }
    }

    /// Ends a blocking section that began with these levels. They are added to those of entries
    /// that the thread has made since and still has. So there are never fewer levels than guards,
    /// and a borrowed record is not returned while a guard may still write there.
    fn end_blocking_section(&self, levels: u64) {
        let now = self.freezer().get();
        if now & ADMITTED != 0 {
            self.freezer().set(now + levels);
        } else {
            self.enter_again(levels);
        }
    }

    /// Enters again, as deep as it was.
    fn enter_again(&self, word: u64) {
        // weaken: blocking-section-that-ends-without-a-look
        if !self.try_inside(word) {
            self.wait_inside(word);
        }
    }
}

/// Returns the thread's own record, claimed now if it had none; and [`LENT`] if it is borrowed.
fn own_or_lent_record() -> (&'static Record, u64) {
    let (record, is_lent) = Record::own_or_lent();
    (record, if is_lent { LENT } else { 0 })
}

/// Leaves all levels of the freezer. Returns the record and the levels, if there are any.
fn leave_all_levels() -> Option<(&'static Record, u64)> {
    let record = own_record()?;
    let word = record.freezer().get();
    if word == 0 {
        return None;
    }
    // (D)
    record.freezer().set(0);
    record.resume();
    Some((record, word & !ADMITTED))
}

/// Waits outside of the freezer while `take_turn` takes the right to freeze. Then goes inside, one
/// level deeper than before.
fn await_turn_outside(take_turn: impl FnOnce()) -> &'static Record {
    let (record, lent) = own_or_lent_record();
    let before = leave_all_levels().map_or(lent, |(_, word)| word);
    take_turn();
    record.freezer().set((before + LEVEL) | ADMITTED);
    record
}

/// Waits until all threads but that of this record are outside.
fn wait_for_others(own: &Record) {
    let process = shared::process();
    // (Q) pairs with (B). The threads of other processes, with which this one shares the records,
    // have no part in it. A claim names the process before its fence, so the same holds of a claim
    // by a thread of this process.
    // weaken: fences-of-a-freeze
    fence_all(|record| record.is_of(process));
    // (R)
    for record in RECORDS.iter().filter(|record| record.is_of(process)) {
        wait_while(|| !ptr::eq(record, own) && record.freezer().seen() != 0);
    }
}

impl ForkGuard {
    #[inline(always)]
    fn of(record: &'static Record) -> Self {
        Self {
            record,
            stays: PhantomData,
        }
    }
}

impl Drop for ForkGuard {
    #[inline(always)]
    fn drop(&mut self) {
        // (D)
        self.record.leave_freezer();
    }
}

impl Drop for BlockingSection {
    fn drop(&mut self) {
        if let Some((record, levels)) = self.before.take() {
            record.end_blocking_section(levels);
        }
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod tests;
