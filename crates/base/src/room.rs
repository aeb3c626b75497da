//! Where there is room in a table: what those who free numbers tell those who look for one.
//!
//! Numbers are in leaves, and leaves have an index. A *hint* says which leaf to look at: every
//! leaf below it is full, or has been noticed. A *notice* is the index of a leaf in which
//! something was freed that a search has passed over as full. Who frees leaves the notice on a
//! list of its own processor, so that two who free in different leaves on different processors
//! write no common cache line. Who looks for the lowest number looks at the lists of all
//! processors, which are empty most often, and then nobody has written them.
//!
//! Lists are threaded through the leaves: each has room for the index of the next, which its own
//! lock guards, and is on one list at most. The owner of the structure (who holds the lock that
//! guards the search) takes whole lists.
//!
//! # Why a number that was found in the hinted leaf is the lowest
//!
//! | | who looks, without the lock | | who searches, with the lock | | who frees, with its leaf locked |
//! |---|---|---|---|---|---|
//! | (a) | load the hint | (s) | mark the hint as stale | (f) | free the number |
//! | (b) | lock its leaf, see a free number | (t) | take the lists | (n) | leave a notice, release |
//! | (c) | see that all lists are empty, acquire | (u) | search | | |
//! | (d) | load the hint again: it is the same | (v) | store a hint with the next version, release | | |
//!
//! Leaves below the hint are full unless a number was freed in them, and that leaves a notice (n),
//! which stays until a search takes it (t). Suppose that at the moment of (b) a leaf below the
//! hint was not full, by somebody who had left it already. Then its notice came before (b), and
//! (c) comes after. So (c) finds it, or a search has taken it: then (c) reads what (t) wrote,
//! or something later, so (d) sees (s) or something later, and that is not the same hint. Either
//! way the looker does not take the number. It follows that, when it does, the number was the
//! lowest one at the moment of (b). It does not matter that the lists are not looked at in one
//! moment: a notice that is there at (b) stays there.
//!
//! A number that is freed while its notice is not there yet counts as freed when it is: who frees
//! has not returned yet, and holds the lock of its leaf, so nobody else sees it free.

use crate::fallible::{OnceBox, OutOfMemory};
use crate::percpu::{self, PerCpu};
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

/// The bits of a hint that are the index of a leaf. Indexes are below 2^26.
const INDEX: u64 = (1 << INDEX_BITS) - 1;
const INDEX_BITS: u32 = 26;

/// Set in a hint while a search is under way.
const STALE: u64 = 1 << INDEX_BITS;

/// One step of the version, in the bits above.
const VERSION: u64 = STALE << 1;

/// The end of a list, and no leaf claimed.
const NONE: u32 = 0;

/// After so many notices of a processor somebody should look at them.
const MANY: u32 = if cfg!(loom) { 2 } else { 16 };

/// Which leaf to look at for the lowest number, and in which version of the hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint(u64);

impl Hint {
    /// Returns the index of the leaf.
    #[inline]
    #[must_use]
    pub const fn leaf(self) -> usize {
        (self.0 & INDEX) as usize
    }

    #[inline]
    const fn is_stale(self) -> bool {
        self.0 & STALE != 0
    }
}

/// What one processor writes.
#[derive(Debug)]
struct Local {
    /// The first leaf of its list of notices, counted from 1.
    notices: AtomicU32,
    /// How many notices it has left.
    left: AtomicU32,
    /// The leaf in which it allocates any number.
    claimed: AtomicU32,
}

/// Tells whether somebody should look at the notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Notices {
    /// A few: the next search will.
    Few,
    /// Many have come since.
    Many,
}

/// Where there is room: the hint, the notices, the leaves that processors have claimed. Who opens
/// reads it, and hardly anybody writes it: a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
pub struct Room {
    hint: AtomicU64,
    /// Numbers are below this one.
    limit: AtomicUsize,
    locals: OnceBox<PerCpu<Local>>,
}

impl Room {
    /// Makes one that hints at the first leaf. Does not allocate.
    #[must_use]
    pub fn new() -> Self {
        Self {
            hint: AtomicU64::new(0),
            limit: AtomicUsize::new(usize::MAX),
            locals: OnceBox::new(),
        }
    }

    /// Returns the limit: numbers that are given out are below it.
    #[inline]
    pub fn limit(&self) -> usize {
        // Relaxed: a number; what else changes with it is the caller's matter.
        self.limit.load(Relaxed)
    }

    /// Sets the limit.
    pub fn set_limit(&self, limit: usize) {
        // Relaxed: as above.
        self.limit.store(limit, Relaxed);
    }

    /// (a) Returns the hint, unless it is stale.
    #[inline]
    pub fn hint(&self) -> Option<Hint> {
        // Acquire: pairs with the release in (v); what the search left in the leaves is seen.
        let hint = Hint(self.hint.load(Acquire));
        (!hint.is_stale()).then_some(hint)
    }

    /// (c), (d) Tells whether all leaves below that of the hint are full still. The caller has
    /// locked the leaf of the hint, or holds the lock of the structure.
    #[inline]
    pub fn is_confirmed(&self, hint: Hint) -> bool {
        // Relaxed: the loads of the notices acquire what must come before it.
        !self.has_notices() && self.hint.load(Relaxed) == hint.0
    }

    /// (c) Tells whether there is a notice.
    #[inline]
    pub fn has_notices(&self) -> bool {
        let Some(locals) = self.locals.get() else {
            return false;
        };
        // Acquire: pairs with the exchanges in (n) and (t).
        locals
            .iter()
            .any(|local| local.notices.load(Acquire) != NONE)
    }

    /// (n) Leaves a notice of the leaf with `index`, whose lock the caller holds. `set_next` keeps
    /// the next of the list with the leaf.
    ///
    /// # Panics
    /// Without [`prepare`](Self::prepare).
    pub fn leave_notice(&self, index: usize, mut set_next: impl FnMut(u32)) -> Notices {
        let locals = self.locals.get().expect("it is prepared");
        let local = locals.of(percpu::current());
        // Relaxed: the index is not followed before (t) acquires it.
        let mut first = local.notices.load(Relaxed);
        loop {
            set_next(first);
            // Release: pairs with the acquire in (c) and (t). Relaxed on failure: as above.
            match local
                .notices
                .compare_exchange_weak(first, index as u32 + 1, Release, Relaxed)
            {
                Ok(_) => break,
                Err(now) => first = now,
            }
        }
        // Relaxed: a count, that nothing hangs on.
        let left = local.left.fetch_add(1, Relaxed);
        if left % MANY == MANY - 1 {
            Notices::Many
        } else {
            Notices::Few
        }
    }

    /// Makes what notices and claims need. Allocates at the first call.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn prepare(&self) -> Result<(), OutOfMemory> {
        self.locals.get_or_try_init(|| {
            PerCpu::try_new(|_| Local {
                notices: AtomicU32::new(NONE),
                left: AtomicU32::new(0),
                claimed: AtomicU32::new(NONE),
            })
        })?;
        Ok(())
    }

    /// Returns the leaf that this processor has claimed, if any, and the processor's number. A
    /// thread may have to ask the system for that first, and finds nothing then.
    #[inline]
    pub fn claimed(&self) -> Option<(usize, u32)> {
        let locals = self.locals.get()?;
        let cpu = locals.clamp(percpu::try_current()?);
        // Relaxed: the leaf's own lock guards whose it is; this only says where to look.
        let claimed = locals.of(cpu).claimed.load(Relaxed);
        (claimed != NONE).then_some((claimed as usize, cpu as u32))
    }

    /// Returns the number of this processor, below that of the copies.
    pub fn processor(&self) -> u32 {
        self.locals
            .get()
            .map_or(0, |locals| locals.clamp(percpu::current()) as u32)
    }
}

/// What a search does. The caller holds the lock of the structure.
impl Room {
    /// Returns the index that is hinted at. A guess without the lock.
    #[inline]
    pub fn hinted(&self) -> usize {
        // Relaxed: only who holds the lock writes it, and others know that it is a guess.
        Hint(self.hint.load(Relaxed)).leaf()
    }

    /// (s) Marks the hint as stale, until [`set_hint`](Self::set_hint).
    pub fn begin_search(&self) {
        // Relaxed: (t) releases it.
        let hint = self.hint.load(Relaxed);
        self.hint.store(hint | STALE, Relaxed);
    }

    /// (t) Takes the list of one processor after the other, and gives the first of each, or
    /// nothing when none has any. After [`begin_search`](Self::begin_search).
    pub fn take_notices(&self) -> Option<List> {
        self.locals.get()?.iter().find_map(|local| {
            // Relaxed: a look, so that empty lists are not written.
            if local.notices.load(Relaxed) == NONE {
                return None;
            }
            // Acquire: pairs with the release in (n). Release: pairs with (c), which must see (s).
            List::of(local.notices.swap(NONE, AcqRel))
        })
    }

    /// (v) Sets the hint, with the next version.
    pub fn set_hint(&self, leaf: usize) {
        // Relaxed: only who holds the lock writes it.
        let version = (self.hint.load(Relaxed) & !(INDEX | STALE)).wrapping_add(VERSION);
        // Release: pairs with the acquire in (a).
        self.hint.store(version | leaf as u64, Release);
    }

    /// Returns the leaf that a processor has claimed.
    pub fn claimed_by(&self, cpu: u32) -> Option<usize> {
        // Relaxed: as in `claimed`.
        let claimed = self.locals.get()?.of(cpu as usize).claimed.load(Relaxed);
        (claimed != NONE).then_some(claimed as usize)
    }

    /// Notes which leaf a processor has claimed; 0 for none.
    pub fn set_claimed(&self, cpu: u32, leaf: usize) {
        if let Some(locals) = self.locals.get() {
            // Relaxed: as in `claimed`.
            locals.of(cpu as usize).claimed.store(leaf as u32, Relaxed);
        }
    }
}

/// A list of leaves with notices: the index of the first. The leaf itself has the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List(u32);

impl List {
    /// Reads the next of a list as a leaf keeps it.
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

impl Default for Room {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, loom))]
mod models;
