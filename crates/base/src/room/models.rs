//! Models of the room in a table of three leaves, each with a single number, so that the index of
//! a leaf is the number. Whatever goes wrong shows as a number that was taken while a lower one was
//! free, as one that is taken twice, or as a notice that nobody finds.

use super::*;
use crate::lock::{Name, RawLock};
use crate::model::Preemptions::{Any, AtMost};
use crate::model::{JoinHandle, explore, join, spawn};
use crate::sync::{Arc, Mutex};
use loom::cell::UnsafeCell;

const LEAVES: usize = 3;
const NAME: Name = Name::of(0);

struct Leaf {
    lock: RawLock,
    state: UnsafeCell<State>,
}

#[derive(Clone, Copy)]
struct State {
    is_free: bool,
    is_noticed: bool,
    next: u32,
}

struct Table {
    room: Room,
    leaves: [Leaf; LEAVES],
    structure: Mutex<()>,
}

// SAFETY: that accesses to the cells do not meet is what the checker checks.
unsafe impl Sync for Table {}
// SAFETY: as above.
unsafe impl Send for Table {}

impl Table {
    /// Makes a table in which the numbers below `hint` are taken, and known to be.
    fn new(hint: usize) -> Arc<Self> {
        let leaf = |index| Leaf {
            lock: RawLock::new(NAME),
            state: UnsafeCell::new(State {
                is_free: index >= hint,
                is_noticed: false,
                next: NONE,
            }),
        };
        let table = Self {
            room: Room::new(),
            leaves: core::array::from_fn(leaf),
            structure: Mutex::new(()),
        };
        table.room.prepare().expect("there is memory");
        table.room.set_hint(hint);
        Arc::new(table)
    }

    /// Changes a leaf with its lock held.
    fn with<A>(&self, index: usize, change: impl FnOnce(&mut State) -> A) -> A {
        let leaf = &self.leaves[index];
        leaf.lock.lock(NAME);
        // SAFETY: the checker tells if two accesses meet.
        let answer = leaf.state.with_mut(|state| change(unsafe { &mut *state }));
        leaf.lock.unlock(NAME);
        answer
    }

    /// Frees a number and leaves a notice, if there is none.
    fn free(&self, index: usize) {
        self.with(index, |state| {
            state.is_free = true;
            if !core::mem::replace(&mut state.is_noticed, true) {
                let notices = self.room.leave_notice(index, |next| state.next = next);
                assert!(matches!(notices, Notices::Few | Notices::Many));
            }
        });
    }

    /// Takes the number that is hinted at, if it is the lowest.
    fn take_hinted(&self) -> Option<usize> {
        let hint = self.room.hint()?;
        self.with(hint.leaf(), |state| {
            let may = state.is_free && self.room.is_confirmed(hint);
            state.is_free &= !may;
            may.then_some(hint.leaf())
        })
    }

    /// Takes all notices and returns the hint that follows.
    fn take_notices(&self) -> usize {
        self.room.begin_search();
        let mut hint = self.room.hinted();
        while let Some(list) = self.room.take_notices() {
            let mut next = Some(list);
            while let Some(list) = next {
                next = self.with(list.first(), |state| {
                    assert!(state.is_noticed, "it is in the list");
                    state.is_noticed = false;
                    List::of(state.next)
                });
                hint = hint.min(list.first());
            }
        }
        hint
    }

    /// Takes the notices, for who looks for a number next.
    fn tidy(&self) {
        let _structure = self.structure.lock();
        let hint = self.take_notices();
        self.room.set_hint(hint);
    }

    /// Searches for the lowest number and takes it.
    fn search(&self) -> usize {
        let _structure = self.structure.lock();
        loop {
            let mut index = self.take_notices();
            while self.with(index, |state| !state.is_free) {
                index += 1;
            }
            self.room.set_hint(index);
            let taken = self.with(index, |state| {
                let may = state.is_free && !self.room.has_notices();
                state.is_free &= !may;
                may
            });
            if taken {
                return index;
            }
        }
    }

    fn take(&self) -> usize {
        self.take_hinted().unwrap_or_else(|| self.search())
    }
}

/// Runs `act` on a thread of its own.
fn thread<A: 'static>(
    table: &Arc<Table>,
    act: impl FnOnce(&Table) -> A + 'static,
) -> JoinHandle<A> {
    let table = table.clone();
    spawn(move || act(&table))
}

/// With one thread, the number that is taken is the lowest at every step.
#[test]
fn the_lowest_number_is_taken() {
    explore(Any, || {
        let table = Table::new(1);
        assert_eq!(table.take_hinted(), Some(1));
        table.free(0);
        assert_eq!(table.take_hinted(), None);
        assert_eq!(table.search(), 0);
        table.free(1);
        table.free(0);
        table.tidy();
        assert_eq!(table.take_hinted(), Some(0));
        assert_eq!(table.take_hinted(), None);
        assert_eq!((table.search(), table.search()), (1, 2));
    });
}

/// A higher number that is taken since a search has taken the notice of the lower one, and has not
/// moved the hint yet.
#[test]
fn a_look_meets_a_search() {
    explore(Any, || {
        let table = Table::new(1);
        let searcher = thread(&table, Table::tidy);
        table.free(0);
        let looked = table.take_hinted();
        assert!(matches!(looked, None | Some(0)), "{looked:?}");
        join(searcher);
        assert_eq!(table.take(), usize::from(looked.is_some()));
    });
}

/// The same with one who takes numbers all the way: no order of the three calls explains it.
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

/// One who frees and one who looks, with a search between them.
#[test]
fn a_look_meets_a_freed_number_and_a_search() {
    explore(AtMost(3), || {
        let table = Table::new(1);
        let freer = thread(&table, |table| table.free(0));
        let searcher = thread(&table, Table::tidy);
        // Whether the number was free by then is not known; it is never taken twice.
        let first = table.take();
        join(freer);
        let second = table.take();
        join(searcher);
        assert!(matches!((first, second), (0 | 1, 0 | 1)));
        assert_ne!(first, second);
        assert_eq!(table.take(), 2);
    });
}

/// Notices on one list of which one is lost.
#[test]
fn two_leave_notices_and_a_search_takes_them() {
    explore(AtMost(3), || {
        let table = Table::new(2);
        let freers = [0, 1].map(|index| thread(&table, move |table| table.free(index)));
        table.tidy();
        freers.into_iter().for_each(join);
        assert_eq!([(); 3].map(|()| table.take()), [0, 1, 2]);
    });
}
