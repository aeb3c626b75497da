//! Models of free hints in a table of three leaves. Each leaf has a single slot, so the index of
//! a leaf is the slot. An error shows as a slot that was taken while a lower one was free, as
//! one that is taken twice, or as a report that is never found.

use super::*;
use ::loom::cell::UnsafeCell;
use fdtable_sync::bitmap::{BITS, Word};
use fdtable_sync::lock::{LockTag, RawLock};
use fdtable_sync::model::Preemptions::{Any, AtMost};
use fdtable_sync::model::{JoinHandle, explore, join, spawn};
use fdtable_sync::platform::{Arc, Mutex};

const LEAVES: usize = 3;
const TAG: LockTag = LockTag::of(0);

/// The one bit of a leaf that changes.
const BIT: usize = BITS - 1;

struct Leaf {
    lock: RawLock,
    open: Word,
    state: UnsafeCell<State>,
}

#[derive(Clone, Copy)]
struct State {
    mark: Mark,
    next: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Open,
    Full,
    FreedSince,
}

/// Which leaves are marked as full or were reported, as the tree has it.
type Marked = [bool; LEAVES];

struct Table {
    hint: FreeHint,
    leaves: [Leaf; LEAVES],
    marked: Mutex<Marked>,
}

// SAFETY: the model checker checks that accesses to the cells do not meet.
unsafe impl Sync for Table {}
// SAFETY: as above.
unsafe impl Send for Table {}

impl Table {
    /// Makes a table in which the slots below `hint` are taken, and marked as full.
    fn new(hint: usize) -> Arc<Self> {
        Self::with_hint(hint, None, |index| index >= hint)
    }

    /// Makes a table with a hint of two leaves; the others are taken, and marked as full.
    fn with_two(first: usize, second: usize, is_free: impl Fn(usize) -> bool) -> Arc<Self> {
        Self::with_hint(first, Some(second), is_free)
    }

    fn with_hint(
        first: usize,
        second: Option<usize>,
        is_free: impl Fn(usize) -> bool,
    ) -> Arc<Self> {
        let last = second.unwrap_or(first);
        let is_full = |index| index < last && index != first;
        let leaf = |index| {
            let open = Word::new();
            (0..BITS)
                .filter(|&bit| bit != BIT || !is_free(index))
                .for_each(|bit| open.set(bit));
            Leaf {
                lock: RawLock::new(TAG),
                open,
                state: UnsafeCell::new(State {
                    mark: if is_full(index) {
                        Mark::Full
                    } else {
                        Mark::Open
                    },
                    next: NONE,
                }),
            }
        };
        let table = Self {
            hint: FreeHint::new(),
            leaves: core::array::from_fn(leaf),
            marked: Mutex::new(core::array::from_fn(is_full)),
        };
        table.hint.prepare().expect("there is memory");
        table.hint.begin_search();
        table.hint.set_hint(first, second);
        Arc::new(table)
    }

    /// Uses a leaf with its lock held.
    fn with<A>(&self, index: usize, act: impl FnOnce(&Word, &mut State) -> A) -> A {
        let leaf = &self.leaves[index];
        leaf.lock.lock(TAG);
        let answer = leaf.state.with_mut(|state| {
            // SAFETY: the checker reports two accesses that meet.
            act(&leaf.open, unsafe { &mut *state })
        });
        // SAFETY: taken above.
        unsafe { leaf.lock.unlock(TAG) };
        answer
    }

    /// Frees a slot, and reports the leaf if a search has marked it as full.
    fn free(&self, index: usize) {
        self.with(index, |open, state| {
            open.clear(BIT);
            if state.mark == Mark::Full {
                state.mark = Mark::FreedSince;
                let reports = self.hint.report(index, |next| state.next = next);
                assert!(matches!(reports, Reports::Few | Reports::Many));
            }
        });
    }

    /// Frees a slot as one that leaves its leaf empty.
    fn empty(&self, index: usize) {
        self.with(index, |open, state| {
            open.clear(BIT);
            let mark = core::mem::replace(&mut state.mark, Mark::FreedSince);
            let set_next = |next| state.next = next;
            let reports = match mark {
                Mark::Open => self.hint.list(index, set_next),
                Mark::Full => self.hint.report(index, set_next),
                Mark::FreedSince => return,
            };
            assert!(matches!(reports, Reports::Few | Reports::Many));
        });
    }

    /// Takes a slot that is free, whether or not it is the lowest.
    fn take_exact(&self, index: usize) {
        self.with(index, |open, _| open.set_release(BIT));
    }

    /// Takes a slot of the hint, if it is the lowest.
    fn take_hinted(&self) -> Option<usize> {
        let hint = self.hint.hint()?;
        let first = &self.leaves[hint.leaf()].open;
        if !first.is_full() {
            return self.take_if(hint.leaf(), || self.hint.is_confirmed(hint));
        }
        let second = self.hint.second()?;
        self.take_if(second, || {
            first.is_full_acquire() && self.hint.is_confirmed(hint)
        })
    }

    /// Takes a slot if it is free, and `may` agrees once its leaf is locked.
    fn take_if(&self, index: usize, may: impl FnOnce() -> bool) -> Option<usize> {
        self.with(index, |open, _| {
            let may = !open.is_full() && may();
            may.then(|| open.set_release(BIT)).map(|()| index)
        })
    }

    /// Drains the lists, and returns the lowest leaf that may have a free slot.
    fn drain(&self, full: &mut Marked) -> usize {
        self.hint.begin_search();
        let mut hint = self.hint.hinted();
        while let Some(list) = self.hint.take_list() {
            let mut next = Some(list);
            while let Some(list) = next {
                next = self.with(list.first(), |_, state| {
                    assert!(state.mark == Mark::FreedSince, "it is in the list");
                    state.mark = Mark::Open;
                    FreedList::of(state.next)
                });
                full[list.first()] = false;
                hint = hint.min(list.first());
            }
        }
        hint
    }

    /// Drains the lists without a search.
    fn drain_and_hint(&self) {
        let mut full = self.marked.lock();
        let hint = self.drain(&mut full);
        let second = second_after(&full, hint);
        self.with(hint, |_, _| ());
        self.hint.set_hint(hint, second);
    }

    /// Searches for the lowest slot, and does not take it.
    fn look(&self) {
        let mut full = self.marked.lock();
        let index = self.find_not_full(&mut full);
        let second = second_after(&full, index);
        self.with(index, |_, _| ());
        self.hint.set_hint(index, second);
    }

    /// Searches for the lowest slot and takes it.
    fn search(&self) -> usize {
        let mut full = self.marked.lock();
        loop {
            let index = self.find_not_full(&mut full);
            let second = second_after(&full, index);
            let taken = self.take_if(index, || {
                self.hint.set_hint(index, second);
                !self.hint.is_marked()
            });
            if taken.is_some() {
                return index;
            }
        }
    }

    /// Drains the lists, marks full leaves, and returns the first leaf that is not full.
    fn find_not_full(&self, full: &mut Marked) -> usize {
        let mut index = self.drain(full);
        while self.mark_if_full(full, index) {
            index += 1;
        }
        index
    }

    /// Marks a leaf if it is full. Returns true if it is.
    fn mark_if_full(&self, full: &mut Marked, index: usize) -> bool {
        self.with(index, |open, state| {
            match state.mark {
                _ if !open.is_full() => return false,
                Mark::Open => {
                    state.mark = Mark::Full;
                    full[index] = true;
                }
                Mark::Full => {}
                Mark::FreedSince => self.hint.mark(),
            }
            true
        })
    }

    fn take(&self) -> usize {
        self.take_hinted().unwrap_or_else(|| self.search())
    }
}

/// Finds the next leaf that is not marked as full.
fn second_after(full: &Marked, first: usize) -> Option<usize> {
    (first + 1..LEAVES).find(|&index| !full[index])
}

/// Runs `act` on a thread of its own.
fn thread<A: 'static>(
    table: &Arc<Table>,
    act: impl FnOnce(&Table) -> A + 'static,
) -> JoinHandle<A> {
    let table = table.clone();
    spawn(move || act(&table))
}

/// With one thread, the slot that is taken is the lowest at every step.
#[test]
fn the_lowest_slot_is_taken() {
    explore(Any, || {
        let table = Table::new(1);
        assert_eq!(table.take_hinted(), Some(1));
        table.free(0);
        assert_eq!(table.take_hinted(), None);
        assert_eq!(table.search(), 0);
        table.free(1);
        table.free(0);
        table.drain_and_hint();
        assert_eq!(table.take_hinted(), Some(0));
        assert_eq!(table.take_hinted(), Some(1));
        assert_eq!(table.take_hinted(), None);
        assert_eq!(table.search(), 2);
    });
}

/// A higher slot that is taken after a search has taken the list with the lower one, and before
/// it moves the hint.
#[test]
fn a_look_meets_a_search() {
    explore(Any, || {
        let table = Table::new(1);
        let searcher = thread(&table, Table::drain_and_hint);
        table.free(0);
        let looked = table.take_hinted();
        assert!(matches!(looked, None | Some(0)), "{looked:?}");
        join(searcher);
        assert_eq!(table.take(), usize::from(looked.is_some()));
    });
}

/// The same with one thread that takes slots by all paths: no order of the three calls explains
/// it.
#[test]
fn a_take_meets_another() {
    explore(AtMost(4), || {
        let table = Table::new(1);
        let other = thread(&table, Table::take);
        table.free(0);
        let own = table.take();
        let taken = (own, join(other));
        assert!(matches!(taken, (0, 1) | (1, 0)), "{taken:?}");
    });
}

/// A close and an open, with a search between them.
#[test]
fn a_look_meets_a_freed_slot_and_a_search() {
    explore(AtMost(3), || {
        let table = Table::new(1);
        let freer = thread(&table, |table| table.free(0));
        let searcher = thread(&table, Table::drain_and_hint);
        // It is not known whether the slot was free by then; it is never taken twice.
        let first = table.take();
        join(freer);
        let second = table.take();
        join(searcher);
        assert!(matches!((first, second), (0 | 1, 0 | 1)));
        assert_ne!(first, second);
        assert_eq!(table.take(), 2);
    });
}

/// Reports on one list, of which one is lost.
#[test]
fn two_report_leaves_and_a_search_drains_the_lists() {
    explore(AtMost(3), || {
        let table = Table::new(2);
        let freers = [0, 1].map(|index| thread(&table, move |table| table.free(index)));
        table.drain_and_hint();
        freers.into_iter().for_each(join);
        assert_eq!([(); 3].map(|()| table.take()), [0, 1, 2]);
    });
}

/// A leaf that is listed when it becomes empty, full when a search passes over it, and then has a
/// free slot that no report announces.
#[test]
fn a_search_meets_a_leaf_that_becomes_empty_and_full() {
    explore(AtMost(3), || {
        let table = Table::with_hint(0, None, |index| index == 2);
        let searcher = thread(&table, Table::look);
        table.empty(1);
        table.take_exact(1);
        table.free(1);
        join(searcher);
        assert_eq!(table.take(), 1, "the lowest");
    });
}

/// The two leaves of a hint, each freed and then taken in turn.
#[test]
fn the_lowest_of_two_leaves_is_taken() {
    explore(Any, || {
        let table = Table::with_two(0, 2, |_| false);
        assert_eq!(table.take_hinted(), None);
        for index in [0, 2, 0] {
            table.free(index);
            assert_eq!(table.take_hinted(), Some(index));
        }
        table.free(2);
        table.free(0);
        assert_eq!(table.take_hinted(), Some(0));
        table.free(1);
        assert_eq!(table.take_hinted(), None);
        assert_eq!((table.take(), table.take()), (1, 2));
    });
}

/// A slot of the second leaf that is taken although one of the first was freed before it.
#[test]
fn a_look_meets_closes_in_both_leaves() {
    explore(Any, || {
        let table = Table::with_two(1, 2, |_| false);
        let looker = thread(&table, Table::take_hinted);
        table.free(1);
        table.free(2);
        let looked = join(looker);
        assert!(matches!(looked, None | Some(1)), "{looked:?}");
        assert_eq!(table.take(), if looked.is_some() { 2 } else { 1 });
    });
}

/// A slot of the second leaf that is taken when the first is full again: but only since a lower
/// one is free.
#[test]
fn a_look_meets_a_first_leaf_that_is_full_again() {
    explore(Any, || {
        let table = Table::with_two(1, 2, |index| index > 0);
        let looker = thread(&table, Table::take_hinted);
        table.free(0);
        table.take_exact(1);
        let looked = join(looker);
        assert!(matches!(looked, None | Some(1)), "{looked:?}");
    });
}

/// The same with the leaf between the two.
#[test]
fn a_look_meets_a_close_between_the_two_leaves() {
    explore(Any, || {
        let table = Table::with_two(0, 2, |index| index != 1);
        let looker = thread(&table, Table::take_hinted);
        table.free(1);
        table.take_exact(0);
        let looked = join(looker);
        assert!(matches!(looked, None | Some(0)), "{looked:?}");
    });
}

/// The first leaf of a hint with the second of a later one, above a slot that is free.
#[test]
fn a_look_meets_a_search_that_moves_both_leaves() {
    explore(Any, || {
        let table = Table::with_two(0, 1, |index| index > 0);
        let looker = thread(&table, Table::take_hinted);
        table.look();
        let looked = join(looker);
        assert!(matches!(looked, None | Some(1)), "{looked:?}");
        assert_eq!(table.take(), looked.map_or(1, |_| 2));
    });
}

/// A failure after a close has returned: a mark that was missed.
#[test]
fn an_open_of_a_full_table_meets_a_close() {
    explore(Any, || {
        let table = Table::new(2);
        table.hint.set_limit(2 * BITS);
        assert!(table.hint.is_exhausted());
        let opener = thread(&table, |table| {
            let is_full = table.hint.is_exhausted();
            (!is_full).then(|| table.take())
        });
        table.free(0);
        assert!(!table.hint.is_exhausted(), "the slot is free, or was found");
        let taken = join(opener);
        assert!(matches!(taken, None | Some(0)), "{taken:?}");
        assert_eq!(table.take(), if taken.is_some() { 2 } else { 0 });
    });
}

/// A limit that is lowered to an old hint: a slot below was freed before, so there is one at each
/// moment.
#[test]
fn an_open_meets_a_limit_that_is_lowered_after_a_close() {
    explore(Any, || {
        let table = Table::new(1);
        table.hint.set_limit(2 * BITS);
        let opener = thread(&table, |table| table.hint.is_exhausted());
        table.free(0);
        table.hint.set_limit(BITS);
        assert!(!join(opener), "a slot is free");
    });
}

/// A new hint with the second leaf of the previous one: the leaf between the two is free since.
#[test]
fn a_look_meets_a_search_that_moves_the_second_leaf() {
    explore(Any, || {
        let table = Table::with_two(0, 2, |index| index == 2);
        let searcher = thread(&table, Table::drain_and_hint);
        table.free(1);
        let looked = table.take_hinted();
        assert!(matches!(looked, None | Some(1)), "{looked:?}");
        join(searcher);
        assert_eq!(table.take(), looked.map_or(1, |_| 2));
    });
}

/// The second leaf of a hint, mistaken for that of a later one with the same first leaf.
#[test]
fn a_look_meets_the_return_of_a_first_leaf() {
    explore(Any, || {
        let table = Table::with_two(0, 2, |_| false);
        let looker = thread(&table, Table::take_hinted);
        table.free(1);
        table.drain_and_hint();
        table.free(2);
        let looked = join(looker);
        assert!(matches!(looked, None | Some(1)), "{looked:?}");
        assert_eq!(table.take(), looked.map_or(1, |_| 2));
    });
}
