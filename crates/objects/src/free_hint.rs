//! Free hints of a table: how closes report free slots to searches.
//!
//! Slots are in leaves, and leaves have an index. A *hint* says which leaf to search first: every
//! leaf below it is full, or was reported. A hint may name a *second* leaf above the first, for
//! when the first is full: then every leaf between the two is full or was reported too. A close
//! *reports* a leaf if it frees a slot after a search has passed over the leaf as full: it puts the
//! leaf on the *freed-leaf list* of its own CPU, so closes in different leaves on different CPUs
//! write no common cache line. But the first report after a search *marks* the hint. Later reports
//! see the mark and only read. So an open of the lowest slot reads at most the hint, however many
//! CPUs there are. A search clears the mark, and then takes the lists.
//!
//! Lists are threaded through the leaves: each stores the index of the next, guarded by the leaf's
//! own lock, and is on one list at most. A search holds the tree's lock, and takes whole lists.
//!
//! # Why a slot found in the hinted leaf is the lowest
//!
//! | | open, without the lock | | search, with the lock | | close, with its leaf locked |
//! |---|---|---|---|---|---|
//! | (a) | load the hint: it has no mark | (s) | exchange the hint for one that is stale and unmarked; full fence | (f) | free the slot |
//! | (b) | lock its leaf, see a free slot | (t) | take the lists | (n) | put the leaf on a list |
//! | (c) | load the hint again: it is the same | (u) | search, lock the first leaf of the hint to be | (m) | full fence; mark the hint, unless it is marked |
//! | | | (v) | exchange the hint for one with the next version, release, and keep a mark | | |
//! | | | (w) | start over if there is a mark | | |
//!
//! *A mark is lost only with its report.* Let (m) have seen or set a mark that (s) has overwritten.
//! Then the fence of (m) comes before that of (s), or (m) would see (s). So (t) sees the report.
//! And (v) keeps a mark that comes after (s). Then its report may be gone already, and the next
//! search is unnecessary but harmless.
//!
//! Leaves below the hint are full unless a slot was freed in them, and that causes a report (n)
//! and a mark (m). Suppose that at the time of (b) a leaf below the hint was not full, and the
//! close that freed the slot had left it already. Then (m) came before (b), and (c) comes after.
//! So (c) finds the mark, or a search has overwritten it: then (c) finds a hint that is stale, or
//! of a later version. None of these is the hint of (a), which never comes again. Either way the
//! open does not take the slot. So if it does, the slot was the lowest one at the time of (b).
//! For a search, (w) is what (c) is for an open.
//!
//! A slot that is freed before the mark is set counts as freed when the mark is set: the close has
//! not returned yet, and holds the lock of its leaf, so no other thread sees the slot free.
//!
//! # The same with two leaves
//!
//! A thread may close and open in turn in two leaves that are otherwise full. With a hint of one
//! leaf it would have to search each time, because the hint names the other leaf. A hint of two
//! leaves avoids that. An open that finds the first leaf full goes to the second; a close in either
//! reports nothing.
//!
//! | | open | | open by name in the first leaf, with its lock |
//! |---|---|---|---|
//! | (a) | load the hint, see that its leaf is full | | |
//! | (a2) | load the second leaf, acquire | | |
//! | (b) | lock the second leaf, see a free slot | | |
//! | (e) | see that the first leaf is full, acquire | (o) | set the bit, release |
//! | (c) | as above | | |
//!
//! Now (e) is the point at which all lower slots were taken. The leaf of the slot is locked
//! from (b) on. The first leaf was full at (e). And for the leaves below it and between the two the
//! same holds as above, with (e) in the place of (b): a mark that had been set at (e) is seen in
//! (c). For this (e) acquires. The first leaf may be full *again*, because a slot of it was taken
//! by name after a lower one was freed: then there was no point at which all lower slots were
//! taken, and the open that reads (o) sees the mark.
//!
//! A check before (b) alone would not be enough: a slot of the first leaf may be freed after the
//! check, and one of the second after that.
//!
//! *The second leaf belongs to the hint of (a)*, or the open does not take the slot. A search
//! stores it between the fence of (s) and (v). The load in (a2) does not return an earlier one: (v)
//! releases the store, and (a) acquires it. If the load returns a later one, (c) sees (s), or
//! something later: the fence is before the store, and (a2) acquires. That is not the hint of (a),
//! even where both hints have the same first leaf: their versions differ. The same holds for the
//! places where the tree caches both leaves.
//!
//! *Two opens agree on their order.* The value that (e) reads may be older than values that other
//! threads have read by then, like a mark that (c) does not see yet. So the open is ordered
//! before some *closes*: those that it does not see. Let one open be before a close, and let
//! threads be able to tell that this close comes before another open. Then the other open has a
//! later hint, or the same hint and sees the close: if the close made a report, by (c) as above; if
//! it was in the first leaf, since the search that stored the hint of the one open had locked that
//! leaf after (s). The close did not come before that lock, or the one open would see it. So it
//! came after, and (c) of the other open sees (s), or something later. Hints only grow and the
//! closes of one leaf are in order, so the order of opens and closes is acyclic.
//!
//! # A leaf that became empty
//!
//! A close that empties a leaf lists it too (n), so that its memory is freed. It does not mark the
//! hint: searches have not passed over the leaf, so it is not below the hint, nor between its two
//! leaves, and no open has to go back to it. But a search may pass over it later, when it is full
//! again and still on the list: then what is freed in it reports nothing, because it is listed. So
//! a search that passes over a full leaf that is on a list marks the hint, with the leaf locked
//! (p), and starts over because of (w). It finds the leaf on the list, since the lock of the leaf
//! orders (n) before (p).
//!
//! # When no slot is free
//!
//! A search that finds no free slot leaves the hint at the first leaf that is at or above the
//! limit, if the limit is a multiple of a leaf's slots. An open that finds it there fails, and
//! writes nothing:
//!
//! | | open |
//! |---|---|
//! | (a) | load the hint: it has no mark |
//! | (l) | load the limit, acquire: no slot of the hint's leaf is below it |
//! | (c) | load the hint again: it is the same |
//!
//! From (a) to (c) all leaves below the hint are full, except for closes that the open is ordered
//! before, as above: a close that had marked the hint would be seen. So all slots below the limit
//! are taken at (l). Without (c), the hint may be older than the limit: let a lower slot be freed
//! after (a), and then the limit be lowered to the hint. There is no moment without a free slot. A
//! thread that lowers the limit releases what came before, a mark as well, to (l).

use fdtable_sync::bitmap::BITS;
use fdtable_sync::fallible::{OnceBox, OutOfMemory};
use fdtable_sync::fence;
use fdtable_sync::percpu::{self, PerCpu};
use fdtable_sync::platform::atomic::Ordering::{self, Acquire, Relaxed, Release};
use fdtable_sync::platform::atomic::{AtomicU32, AtomicU64, AtomicUsize};

/// The bits of a hint that are the index of a leaf. Indexes are below 2^26.
const INDEX: u64 = (1 << INDEX_BITS) - 1;
const INDEX_BITS: u32 = 26;

/// Set in a hint while a search is under way.
const STALE: u64 = 1 << INDEX_BITS;

/// Set in a hint since a leaf was reported.
const MARKED: u64 = STALE << 1;

/// One step of the version, in the bits above.
const VERSION: u64 = MARKED << 1;

/// The end of a list, and no leaf claimed.
const NONE: u32 = 0;

/// From so many reports of a CPU on, each one asks its thread to drain the lists.
const DRAIN_AT: u32 = if cfg!(loom) { 2 } else { 16 };

/// Which leaf to search first for the lowest slot, in which version of the hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint(u64);

impl Hint {
    /// Returns the index of the first leaf.
    #[inline]
    #[must_use]
    pub const fn leaf(self) -> usize {
        (self.0 & INDEX) as usize
    }

    /// Returns true if it may be used: no search is under way, and no leaf was reported since.
    #[inline]
    const fn is_good(self) -> bool {
        self.0 & (STALE | MARKED) == 0
    }
}

/// The data that one CPU writes.
#[derive(Debug)]
struct Local {
    /// The first leaf of its freed-leaf list, counted from 1.
    freed: AtomicU32,
    /// How many reports it has made since its list was taken.
    reports: AtomicU32,
    /// The leaf in which it allocates any slot.
    claimed: AtomicU32,
}

/// Need to drain the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[must_use]
pub enum Reports {
    /// A few: the next search drains the lists.
    Few,
    /// Many have come since the lists were drained.
    Many,
}

/// The hint, the freed-leaf lists, and the leaves that CPUs have claimed.
#[derive(Debug)]
pub struct FreeHint {
    searched: Searched,
    /// Exclusive upper bound of slots.
    limit: AtomicUsize,
    locals: OnceBox<PerCpu<Local>>,
}

/// The hint: read by opens, written by searches and by the first report after one. It has a cache
/// line of its own. Opens by name, and opens of any slot, do not touch it.
#[derive(Debug)]
#[repr(align(64))]
struct Searched {
    hint: AtomicU64,
    /// The second leaf of the hint, counted from 1. Changes while the hint is stale.
    second: AtomicU32,
}

impl FreeHint {
    /// Makes a hint at the first leaf. Does not allocate.
    #[must_use]
    pub fn new() -> Self {
        Self {
            searched: Searched {
                hint: AtomicU64::new(0),
                second: AtomicU32::new(NONE),
            },
            limit: AtomicUsize::new(usize::MAX),
            locals: OnceBox::new(),
        }
    }

    /// Returns the limit: the exclusive upper bound for new slots.
    #[inline]
    pub fn limit(&self) -> usize {
        // (l) Acquire: pairs with the release in `set_limit`, so a (c) after it sees the marks that
        // came before a limit was raised.
        self.limit.load(Acquire)
    }

    /// Sets the limit.
    pub fn set_limit(&self, limit: usize) {
        // Release: pairs with the acquire in (l), so (c) sees the marks that came before.
        self.limit.store(limit, Release);
    }

    /// (a), (l), (c) Returns true if at one moment of this call no slot below the limit was free.
    /// Returns false if that takes a search to find out. Writes nothing.
    pub fn is_exhausted(&self) -> bool {
        // weaken: marked-hint-that-shows-a-full-table
        let Some(hint) = self.hint() else {
            return false;
        };
        let limit = self.limit();
        // weaken: full-table-that-is-not-confirmed
        hint.leaf() * BITS >= limit && self.is_confirmed(hint)
    }

    /// (a) Returns the hint, unless it is stale or marked.
    #[inline]
    pub fn hint(&self) -> Option<Hint> {
        // Acquire: pairs with the release in (v), so the search's view of the leaves, and the
        // second leaf, are visible.
        let hint = Hint(self.searched.hint.load(Acquire));
        // weaken: stale-hint-that-is-used
        hint.is_good().then_some(hint)
    }

    /// (a2) Returns the index of the second leaf of a hint, if it has one. Right if the hint [is
    /// confirmed](Self::is_confirmed) later.
    #[inline]
    pub fn second(&self) -> Option<usize> {
        // Acquire: pairs with the fence in (s), which is before the store; if the second leaf is
        // that of a later hint, (c) sees (s).
        let second = self.searched.second.load(Acquire);
        (second != NONE).then(|| second as usize - 1)
    }

    /// (c) Returns true if all leaves below that of the hint are still full, and those between it
    /// and the second. The caller has locked the leaf in question.
    #[inline]
    pub fn is_confirmed(&self, hint: Hint) -> bool {
        // Relaxed: the lock of the leaf, and (e), acquire what must come before it.
        // weaken: hint-that-is-not-looked-at-again
        self.searched.hint.load(Relaxed) == hint.0
    }

    /// (n), (m) Reports the leaf with `index`: [lists](Self::list) it, and marks the hint. The
    /// caller holds the leaf's lock. Without the lock, lists are wrong: reports are lost, or the
    /// search that follows them does not end. Neither blocks nor allocates.
    ///
    /// # Panics
    /// Without [`prepare`](Self::prepare).
    pub fn report(&self, index: usize, set_next: impl FnMut(u32)) -> Reports {
        let reports = self.list(index, set_next);
        // weaken: report-without-a-mark
        self.mark();
        reports
    }

    /// (n) Puts the leaf with `index` on the list of this CPU. `set_next` stores the next leaf of
    /// the list with the leaf. Alone, without a mark, it is for a leaf that became empty. Otherwise
    /// as [`report`](Self::report).
    ///
    /// # Panics
    /// Without [`prepare`](Self::prepare).
    pub fn list(&self, index: usize, mut set_next: impl FnMut(u32)) -> Reports {
        let locals = self.locals.get().expect("it is prepared");
        let local = locals.of(percpu::current());
        // Relaxed: the index is not followed before (t) acquires it.
        let mut first = local.freed.load(Relaxed);
        loop {
            set_next(first);
            // Release: pairs with the acquire in (t). Relaxed on failure: as above.
            match local
                .freed
                .compare_exchange_weak(first, index as u32 + 1, Release, Relaxed)
            {
                Ok(_) => break,
                // weaken: report-that-hides-another
                Err(now) => first = now,
            }
        }
        // Relaxed: a count; nothing depends on it.
        if local.reports.fetch_add(1, Relaxed) >= DRAIN_AT - 1 {
            Reports::Many
        } else {
            Reports::Few
        }
    }

    /// (m), (p) Marks the hint, so that all threads see that there is a report. If it is marked
    /// already, the line is only read. A search marks it for a leaf that it passes over, with the
    /// leaf's lock.
    pub fn mark(&self) {
        // Pairs with the fence in (s).
        fence::full();
        // Relaxed, both: the fence orders them with the report.
        if self.searched.hint.load(Relaxed) & MARKED == 0 {
            self.searched.hint.fetch_or(MARKED, Relaxed);
        }
    }

    /// Allocates the memory for lists and claims, at the first call.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn prepare(&self) -> Result<(), OutOfMemory> {
        self.locals.get_or_try_init(|| {
            PerCpu::try_new(|_| Local {
                freed: AtomicU32::new(NONE),
                reports: AtomicU32::new(0),
                claimed: AtomicU32::new(NONE),
            })
        })?;
        Ok(())
    }

    /// Returns true if there is memory for lists and claims.
    #[must_use]
    pub fn is_prepared(&self) -> bool {
        self.locals.get().is_some()
    }

    /// Returns the leaf that this CPU has claimed, if any, and the index of the CPU. A thread may
    /// first have to ask the system for that index, and then finds nothing.
    #[inline]
    pub fn claimed(&self) -> Option<(usize, u32)> {
        let locals = self.locals.get()?;
        let cpu = locals.clamp(percpu::try_current()?);
        // Relaxed: the leaf's own lock guards its owner; this is only a hint.
        let claimed = locals.of(cpu).claimed.load(Relaxed);
        (claimed != NONE).then_some((claimed as usize, cpu as u32))
    }

    /// Returns the index of this CPU, below the number of copies.
    pub fn cpu(&self) -> u32 {
        self.locals
            .get()
            .map_or(0, |locals| locals.clamp(percpu::current()) as u32)
    }
}

/// The steps of a search. The caller holds the tree's lock. Without it, hints are wrong and
/// reports are lost, so an open may not get the lowest slot; memory safety does not depend on
/// it.
impl FreeHint {
    /// Returns the first index of the hint. A guess without the lock.
    #[inline]
    pub fn hinted(&self) -> usize {
        // Relaxed: only the holder of the lock writes it; for other threads it is a guess.
        Hint(self.searched.hint.load(Relaxed)).leaf()
    }

    /// Returns true if the hint names an index. A guess without the lock.
    #[inline]
    pub fn is_hinted(&self, index: usize) -> bool {
        index == self.hinted() || Some(index) == self.second()
    }

    /// (s) Marks the hint as stale, until [`set_hint`](Self::set_hint), and clears its mark.
    pub fn begin_search(&self) {
        // Relaxed: the fence orders it with (t).
        // weaken: hint-that-is-not-stale
        self.change(Relaxed, |hint| (hint | STALE) & !MARKED);
        // Pairs with the fence in (m).
        fence::full();
    }

    /// (w) Returns true if a leaf was reported since [`begin_search`](Self::begin_search).
    #[inline]
    pub fn is_marked(&self) -> bool {
        // Relaxed: the lock of the leaf in question acquires the closes that must come before it.
        self.searched.hint.load(Relaxed) & MARKED != 0
    }

    /// (t) Takes the list of one CPU. Returns its first leaf, or nothing if all lists are empty:
    /// repeated calls drain the lists of all CPUs. After [`begin_search`](Self::begin_search).
    pub fn take_list(&self) -> Option<FreedList> {
        self.locals.get()?.iter().find_map(|local| {
            // Relaxed: only a check, so that empty lists are not written. The fence in (s) comes
            // before.
            if local.freed.load(Relaxed) == NONE {
                return None;
            }
            // Relaxed: as in (n).
            local.reports.store(0, Relaxed);
            // Acquire: pairs with the release in (n).
            FreedList::of(local.freed.swap(NONE, Acquire))
        })
    }

    /// (v) Sets the hint, with the next version, and keeps a mark. Also sets its second leaf, if
    /// there is one, above the first. After [`begin_search`](Self::begin_search); the caller has
    /// locked the first one since.
    pub fn set_hint(&self, leaf: usize, second: Option<usize>) {
        debug_assert!(self.is_searched(), "after `begin_search`");
        let second = second.map_or(NONE, |second| second as u32 + 1);
        // Relaxed: the fence in (s) releases (s) to the acquire in (a2).
        self.searched.second.store(second, Relaxed);
        // Release: pairs with the acquire in (a), so the second leaf is visible there.
        self.change(Release, |hint| {
            // weaken: hint-without-a-version
            // weaken: mark-that-a-search-takes-away
            (hint & !(INDEX | STALE)).wrapping_add(VERSION) | leaf as u64
        });
    }

    /// Returns true between (s) and (v).
    fn is_searched(&self) -> bool {
        // Relaxed: only the holder of the lock changes it.
        self.searched.hint.load(Relaxed) & STALE != 0
    }

    /// Changes the hint. Only the holder of the lock does, except for (m), which is not lost.
    #[inline(always)]
    #[cfg_attr(loom, track_caller)]
    fn change(&self, order: Ordering, next: impl Fn(u64) -> u64) {
        // Relaxed: nothing is read through it.
        let mut now = self.searched.hint.load(Relaxed);
        while let Err(marked) =
            self.searched
                .hint
                .compare_exchange_weak(now, next(now), order, Relaxed)
        {
            now = marked;
        }
    }

    /// Returns the leaf that a CPU has claimed.
    pub fn claimed_by(&self, cpu: u32) -> Option<usize> {
        // Relaxed: as in `claimed`.
        let claimed = self.locals.get()?.of(cpu as usize).claimed.load(Relaxed);
        (claimed != NONE).then_some(claimed as usize)
    }

    /// Sets the leaf that a CPU has claimed; 0 for none.
    pub fn set_claimed(&self, cpu: u32, leaf: usize) {
        if let Some(locals) = self.locals.get() {
            // Relaxed: as in `claimed`.
            locals.of(cpu as usize).claimed.store(leaf as u32, Relaxed);
        }
    }
}

/// A freed-leaf list: the index of the first leaf. The leaf itself has the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreedList(u32);

impl FreedList {
    /// Decodes the next of a list from its stored form in a leaf.
    #[must_use]
    pub fn of(next: u32) -> Option<Self> {
        (next != NONE).then_some(Self(next))
    }

    /// Returns the index of the first leaf.
    #[must_use]
    pub fn first(self) -> usize {
        self.0 as usize - 1
    }
}

impl Default for FreeHint {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, loom))]
mod loom;
