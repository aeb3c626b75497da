//! The half of the [freezer](crate::freezer) that touches the record.

use core::ptr;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::compiler_fence;

use super::{RECORDS, Record, fence_for_claimed, own_record, thread};
use crate::fence;
use crate::freezer::FREEZER;
use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::platform::relax;

/// Set when the thread was let in. Before that, the thread has announced itself and must look.
const ADMITTED: usize = 1;

/// Set while a thread that is ending borrows the record, for the duration of its entry.
const LENT: usize = 2;

/// One level of nesting, in the bits above. A word without any is 0.
const LEVEL: usize = 4;

/// The word of a thread that entered once and was let in: the frequent case.
const ONCE: usize = LEVEL | ADMITTED;

impl Record {
    #[inline(always)]
    fn enter_freezer(&self) {
        // Relaxed: a thread sees its own stores.
        let word = self.own.freezer.load(Relaxed);
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
    fn try_inside(&self, word: usize) -> bool {
        // (A) Relaxed: the fence orders it with (C), and the freezing thread acquires only from
        // stores of "outside".
        self.own.freezer.store(word, Relaxed);
        // (B) pairs with the heavy fence (Q). Where that is not available, (C) takes a full one.
        fence::light();
        let admitted = FREEZER.admits();
        if admitted {
            // Relaxed: for the thread itself, and its signal handlers.
            self.own.freezer.store(word | ADMITTED, Relaxed);
            // A handler that interrupts what follows finds it stored.
            compiler_fence(SeqCst);
        }
        admitted
    }

    /// Waits until the thread is let in.
    #[cold]
    fn wait_inside(&self, word: usize) {
        loop {
            // Release: as in (D), whose store this one hides.
            self.own.freezer.store(0, Release);
            FREEZER.wait();
            if self.try_inside(word) {
                return;
            }
        }
    }

    /// Goes one level deeper.
    #[cold]
    fn nest_in_freezer(&self, word: usize) {
        if word & ADMITTED != 0 {
            // Relaxed: as in (A). It stays inside.
            self.own.freezer.store(word + LEVEL, Relaxed);
        } else if !self.try_inside(word + LEVEL) {
            // In a signal handler that came between (A) and (C).
            self.wait_inside(word + LEVEL);
        }
    }

    /// (D) Leaves the freezer, or goes one level up.
    #[inline(always)]
    pub(crate) fn leave_freezer(&self) {
        // Relaxed: a thread sees its own stores.
        let word = self.own.freezer.load(Relaxed);
        if word != ONCE {
            return self.unnest_in_freezer(word);
        }
        // Release: pairs with the acquire in (R).
        self.own.freezer.store(0, Release);
    }

    #[cold]
    fn unnest_in_freezer(&self, word: usize) {
        match word / LEVEL {
            // Its guards were dropped in a wrong order, so it has left already.
            0 => {}
            1 => {
                // Release: as in (D).
                self.own.freezer.store(0, Release);
                if word & LENT != 0 {
                    self.return_lent();
                }
            }
            // Relaxed: as in (A). It stays inside.
            _ => self.own.freezer.store(word - LEVEL, Relaxed),
        }
    }

    /// Releases the record that a thread borrowed while it was ending. If the thread is still
    /// inside a section, it keeps the record.
    fn return_lent(&self) {
        if !self.is_in_use() {
            thread::forget_own_record();
            self.unclaim();
        }
    }

    /// Steps in again, as deep as it was.
    pub(crate) fn step_in(&self, word: usize) {
        if !self.try_inside(word) {
            self.wait_inside(word);
        }
    }

    /// (R)
    fn is_outside_of_freezer(&self) -> bool {
        // Acquire: pairs with the release in (D), or with that of a later store of 0, which hides
        // it.
        self.own.freezer.load(Acquire) == 0
    }
}

/// Enters the freezer; waits while it is frozen.
#[inline(always)]
pub(crate) fn enter_freezer() -> &'static Record {
    match own_record() {
        Some(record) => {
            record.enter_freezer();
            record
        }
        None => enter_first(),
    }
}

/// Enters the freezer. Returns `None` where it would have to wait.
#[cfg(any(test, not(loom)))]
#[cold]
pub(crate) fn try_enter_freezer() -> Option<&'static Record> {
    let (record, lent) = own_or_lent_record();
    // Relaxed: a thread sees its own stores.
    let before = record.own.freezer.load(Relaxed);
    if before & ADMITTED != 0 {
        record.nest_in_freezer(before);
        return Some(record);
    }
    // In a signal handler between (A) and (C) the thread has levels already, which it keeps.
    if record.try_inside((before + LEVEL) | lent) {
        return Some(record);
    }
    // Release: as in (D), whose store this one hides.
    record.own.freezer.store(before, Release);
    if lent != 0 {
        record.return_lent();
    }
    None
}

#[cold]
fn enter_first() -> &'static Record {
    let (record, lent) = own_or_lent_record();
    record.step_in(LEVEL | lent);
    record
}

/// Returns the thread's own record, claimed now if it had none; and [`LENT`] if it is borrowed.
fn own_or_lent_record() -> (&'static Record, usize) {
    if let Some(record) = own_record() {
        return (record, 0);
    }
    let record = RECORDS.claim();
    let lent = if thread::keep(record) {
        0
    } else {
        thread::lend(record);
        LENT
    };
    (record, lent)
}

/// Leaves the freezer, or goes one level up, without a guard.
pub(crate) fn leave_freezer() {
    if let Some(record) = own_record() {
        record.leave_freezer();
    }
}

/// Leaves all levels of the freezer. Returns the record and the levels, if there are any.
pub(crate) fn step_out_of_freezer() -> Option<(&'static Record, usize)> {
    let record = own_record()?;
    // Relaxed: a thread sees its own stores.
    let word = record.own.freezer.load(Relaxed);
    if word == 0 {
        return None;
    }
    // Release: as in (D).
    record.own.freezer.store(0, Release);
    Some((record, word & !ADMITTED))
}

/// The thread that has set "frozen".
pub(crate) struct Turn(&'static Record);

/// Waits outside of the freezer while `take_turn` takes the right to freeze. Then goes inside, one
/// level deeper than before.
pub(crate) fn await_turn_outside(take_turn: impl FnOnce()) -> Turn {
    let (record, lent) = own_or_lent_record();
    let before = step_out_of_freezer().map_or(lent, |(_, word)| word);
    take_turn();
    // Relaxed: only this thread looks at other records, and it skips its own.
    let word = (before + LEVEL) | ADMITTED;
    record.own.freezer.store(word, Relaxed);
    Turn(record)
}

impl Turn {
    /// Waits until all other threads are outside.
    pub(crate) fn wait_for_others(self) {
        // (Q) pairs with (B).
        fence_for_claimed();
        // (R)
        for record in RECORDS.iter() {
            let mut attempts = 0;
            while !ptr::eq(record, self.0) && !record.is_outside_of_freezer() {
                relax(attempts);
                attempts = attempts.saturating_add(1);
            }
        }
    }
}

/// Enters the freezer and runs `work` inside. Runs `handler` where a signal handler could come:
/// after the thread has announced that it is inside, and before it looks.
#[cfg(all(test, loom))]
pub(crate) fn interrupt_entry(handler: impl FnOnce(), work: impl FnOnce()) {
    let (record, _) = own_or_lent_record();
    // As the first half of `try_inside`.
    record.own.freezer.store(LEVEL, Relaxed);
    handler();
    record.step_in(LEVEL);
    work();
    record.leave_freezer();
}

/// Enters the freezer as a thread that is ending does, with a borrowed record, and runs `work`
/// inside.
#[cfg(all(test, loom))]
pub(crate) fn enter_freezer_lent(work: impl FnOnce()) {
    let record = RECORDS.claim();
    thread::lend(record);
    record.step_in(LEVEL | LENT);
    work();
    record.leave_freezer();
}
