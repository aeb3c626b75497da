//! Announcements: a word of each thread that the thread stores for nothing, and that others can
//! wait for.
//!
//! A thread announces that it is about to do something, and then looks whether it may. Another
//! thread forbids it, and then waits until no thread does it. This is Dekker's pattern, *store
//! mine, fence, load theirs*, with all of the cost on the side that forbids. The steps, with
//! letters that stand at the same steps in the code:
//!
//! | | the thread that announces | | the thread that forbids |
//! |---|---|---|---|
//! | (A) | store a value that is not 0 in a word of its record, release | (P) | store that it is forbidden |
//! | (B) | light fence | (Q) | heavy fence |
//! | (C) | load whether it is forbidden, acquire | (R) | load the word of every record, acquire, until it is satisfied |
//! | (D) | store 0 in the word, release | | |
//!
//! The fences order (A) with (C) and (P) with (R) (see [`fence`](mod@crate::fence)): *either (C)
//! sees (P), or (R) sees (A) or a later store of the same word*. In the second case only a store
//! that comes after the work satisfies (R): the (D) of it, or the (A) of the next work. All of
//! these are releases and (R) acquires, so all that the thread did comes before what follows (R).
//!
//! Three parts of the library stand on it, each with words of its own:
//!
//! | | (A) | (P) | (R) is satisfied by |
//! |---|---|---|---|
//! | [sections](crate::rcu) | the number of a grace period | an object is unpublished | 0, or a later number |
//! | [big-reader lock](crate::brlock) | the address of the lock | readers are excluded | any other value |
//! | [freezer](crate::host_fork::freezer) | the depth of entries | the freezer is frozen | 0 |
//!
//! # Records
//!
//! A thread keeps its words in a *record*, which it claims at the first use and returns when it
//! ends. Records are never freed; another thread may claim them. (R) goes through the records of
//! all threads, and (Q) needs no heavy fence while no other record is claimed: see [`fence_all`].
//! A claim takes a heavy fence instead, so that a thread finds out with a light one that it
//! [is alone](Record::is_alone).
//!
//! A thread that is ending, and a kernel without a word for each thread, claim a record for one
//! use.

#[cfg(feature = "std")]
mod hosted;
mod thread;

#[cfg(not(loom))]
use alloc::alloc::{Layout, handle_alloc_error};
use alloc::boxed::Box;
use core::ptr;
use core::sync::atomic::AtomicU32 as UnmodelledName;
use core::sync::atomic::AtomicUsize as Unmodelled;

use crossbeam_utils::CachePadded;

use crate::fallible::{OutOfMemory, try_box};
use crate::fence;
use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::platform::atomic::{AtomicBool, AtomicPtr, AtomicU64};
use crate::platform::{const_fn, global, own, shared};

pub(crate) use thread::{
    count_unowned_section, forget_own_record, inside_callback, keep, name, own_or_none,
    replace_inside_callback, unowned_sections, with_made_state,
};

/// A word of a record. Its owner alone writes it.
#[derive(Debug)]
pub(crate) struct Word(AtomicU64);

impl Word {
    /// Returns the value, for its owner.
    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        // Relaxed: a thread sees its own stores.
        self.0.load(Relaxed)
    }

    /// (A), (D) Stores a value. A fence follows that orders an announcement with (C).
    #[inline(always)]
    pub(crate) fn set(&self, value: u64) {
        // Release: pairs with the acquire in (R). A thread that sees it sees all that the owner did
        // before.
        self.0.store(value, Release);
    }

    /// (R) Returns the value, for another thread, after its fence (Q).
    #[inline(always)]
    pub(crate) fn seen(&self) -> u64 {
        // Acquire: pairs with the release in (A) or (D).
        self.0.load(Acquire)
    }
}

/// Value of the [plain](Words::plain) word of a thread that takes full fences. It announces
/// nothing.
pub(crate) const FENCED: u64 = 1 << 16;

/// True if a claim can take a heavy fence: a thread claims its record once, and only one that is
/// ending claims one for each section. A kernel may have no word for each thread, and claims one
/// for each section then.
const CLAIMS_ARE_RARE: bool = cfg!(feature = "std");

/// The words of a thread, on one cache line of its own.
#[derive(Debug)]
pub(crate) struct Words {
    /// The plain section: see [`rcu::reader`](crate::rcu::reader). [`FENCED`] if the thread must
    /// take full fences, so that one load of a reader tells both.
    pub(crate) plain: Word,
    /// All other sections.
    pub(crate) counted: Word,
    /// The [big-reader lock](crate::brlock) whose read side the thread holds.
    pub(crate) brlock: Word,
    /// Further words, which differ with `std` and without.
    pub(crate) further: thread::Further,
}

/// The announcements of one thread.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) words: CachePadded<Words>,
    claimed: AtomicBool,
    /// The process that claimed it, where processes [share](shared) their records, or 0. It is not
    /// part of what is modelled.
    process: UnmodelledName,
    /// The [name](name) of the thread that claimed it, or 0. Only a child of a fork reads it. It is
    /// not part of what is modelled.
    owner: Unmodelled,
    /// The record that was published before this one. Set before this one is published.
    next: AtomicPtr<Record>,
}

/// All records of the process, newest first.
pub(crate) struct Records {
    newest: AtomicPtr<Record>,
}

global! {
    /// The records of this process.
    pub(crate) static RECORDS: Records = Records {
        newest: AtomicPtr::new(ptr::null_mut()),
    };
}

own! {
    /// The record of a thread that has none. It cannot announce a plain section: so the test for
    /// that also finds that the thread has no record. No other thread knows it, and no thread
    /// writes it.
    pub(super) static NO_RECORD: Record = Record::new_claimed(FENCED);
}

fn no_record() -> &'static Record {
    &NO_RECORD
}

/// Returns the record that the calling thread keeps, if it keeps one.
#[inline(always)]
pub(crate) fn own_record() -> Option<&'static Record> {
    let record = own_or_none();
    (!ptr::eq(record, no_record())).then_some(record)
}

/// (Q) Runs the heavy fence, or only a full one when there is no other record to order with.
///
/// A thread needs no fence to see its own stores. Another thread that claims a record passes a full
/// fence before it stores anything there ([`Records::claim`]): if the search below does not find
/// its claim, that fence comes after this one, and it sees what the caller stored before.
///
/// Orders with the threads whose records have a part in it.
pub(crate) fn fence_all(has_part: impl Fn(&Record) -> bool) {
    fence::full();
    if !RECORDS.only_own_claimed(has_part) {
        fence::heavy();
    }
}

impl Record {
    const_fn! {
        fn new_claimed(plain: u64) -> Self {
            Self {
                words: CachePadded::new(Words {
                    plain: Word(AtomicU64::new(plain)),
                    counted: Word(AtomicU64::new(0)),
                    brlock: Word(AtomicU64::new(0)),
                    further: thread::Further::new(),
                }),
                claimed: AtomicBool::new(true),
                process: UnmodelledName::new(0),
                owner: Unmodelled::new(0),
                next: AtomicPtr::new(ptr::null_mut()),
            }
        }
    }

    /// Claims this record if it is free.
    fn try_claim(&self) -> bool {
        // Acquire: pairs with the release in `unclaim`, so that the former owner's last word is the
        // one that this owner goes on from.
        // Relaxed on failure: nothing of the record is used then. The plain load first keeps the
        // line shared while others search.
        !self.claimed.load(Relaxed)
            && self
                .claimed
                .compare_exchange(false, true, Acquire, Relaxed)
                .is_ok()
    }

    /// Returns true if no other record is claimed: then a thread that claims one sees what the
    /// caller stored before. For the owner, whose record takes no full fences. Looks at a few
    /// records, and returns false if there are more, and always where claims are frequent.
    #[inline(always)]
    pub(crate) fn is_alone(&self) -> bool {
        const LOOKS: usize = 4;
        // Pairs with the heavy fence in `claim`.
        fence::light();
        let mut records = RECORDS.iter();
        // Acquire: as in `only_own_claimed`.
        let is_free = |record: &Self| ptr::eq(record, self) || !record.claimed.load(Acquire);
        CLAIMS_ARE_RARE && records.by_ref().take(LOOKS).all(is_free) && records.next().is_none()
    }

    /// Gives the record to other threads.
    pub(crate) fn unclaim(&self) {
        // It is not that of a process until another thread has claimed it. Release: pairs with the
        // acquire in `is_of`.
        self.process.store(0, Release);
        // Relaxed: as in `claim`.
        self.owner.store(0, Relaxed);
        // Release: pairs with the acquire in `try_claim`.
        self.claimed.store(false, Release);
    }
}

/// Makes a claimed record. Where there is no memory, returns one of a few reserved records: a
/// lookup cannot fail for it.
fn new_record() -> &'static Record {
    match try_box(Record::new_claimed(0)) {
        Ok(record) => Box::leak(record),
        Err(OutOfMemory) => kept_record(),
    }
}

/// Returns a record that was made with the program. Ends the process when all are used.
#[cfg(not(loom))]
#[cold]
fn kept_record() -> &'static Record {
    use core::sync::atomic::AtomicUsize;
    /// How many threads may need their first record while there is no memory.
    const KEPT: usize = 64;
    global! {
        pub(super) static KEPT_RECORDS: [Record; KEPT] = [const { Record::new_claimed(0) }; KEPT];
    }
    global! {
        pub(super) static USED: AtomicUsize = AtomicUsize::new(0);
    }
    // Relaxed: each index is drawn once, and nothing else depends on it.
    let drawn = USED.fetch_add(1, Relaxed);
    KEPT_RECORDS
        .get(drawn)
        .unwrap_or_else(|| handle_alloc_error(Layout::new::<Record>()))
}

#[cfg(loom)]
fn kept_record() -> &'static Record {
    unreachable!("models have memory")
}

impl Records {
    /// Iterates over every record that was published before the call.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static Record> {
        // Acquire: pairs with the release in `publish`, so that the record is seen whole.
        let mut place = self.newest.load(Acquire);
        core::iter::from_fn(move || {
            // SAFETY: `place` is null or came from `publish`, which leaks a box; records are
            // never freed and only ever shared.
            let record = unsafe { place.as_ref::<'static>() }?;
            // Relaxed: set before the record was published, never changed after.
            place = record.next.load(Relaxed);
            Some(record)
        })
    }

    /// Claims a record that no other thread uses. Allocates when all are claimed.
    pub(crate) fn claim(&self) -> &'static Record {
        let plain = if fence::prepare() {
            0
        } else {
            // weaken: plain-section-of-a-reader-that-fences
            FENCED
        };
        let record = match self.iter().find(|record| record.try_claim()) {
            Some(free) => free,
            None => self.publish(new_record()),
        };
        // Skipped if an earlier claim stored the same answer.
        if record.words.plain.get() != plain {
            record.words.plain.set(plain);
        }
        // Relaxed: read by a child of a fork, which has one thread and a copy of its memory.
        record.owner.store(name(), Relaxed);
        // Relaxed: the fence below is before each entry to the freezer, whose holder reads it.
        record.process.store(shared::process(), Relaxed);
        // Pairs with the fence before the search for other records, which is a full one in
        // `fence_all` and a light one in `Record::is_alone`: either the search finds this claim, or
        // this thread's (C) sees what was stored before the search.
        if CLAIMS_ARE_RARE {
            fence::heavy();
        } else {
            fence::full();
        }
        record
    }

    fn publish(&self, record: &'static Record) -> &'static Record {
        let new = ptr::from_ref(record).cast_mut();
        let mut newest = self.newest.load(Relaxed);
        loop {
            // Relaxed: the release below publishes it.
            record.next.store(newest, Relaxed);
            // Release: pairs with the acquire in `iter`. Relaxed on failure, and in the load
            // above: the pointer is only stored again, never followed here.
            match self
                .newest
                .compare_exchange_weak(newest, new, Release, Relaxed)
            {
                Ok(_) => return record,
                Err(now) => newest = now,
            }
        }
    }

    /// Returns true if no record that has a part is claimed except, maybe, the calling thread's
    /// own. Only after a full fence; see `claim`.
    pub(crate) fn only_own_claimed(&self, has_part: impl Fn(&Record) -> bool) -> bool {
        let own = own_record();
        // The fences on both sides order this with a claim. Acquire: pairs with the release in
        // `unclaim`, so that the work of a thread that released its record comes before whatever
        // the caller does next.
        self.iter()
            .filter(|record| record.claimed.load(Acquire) && has_part(record))
            .all(|claimed| own.is_some_and(|own| ptr::eq(own, claimed)))
    }
}

/// Frees the records of the model's execution before this one: the threads of this one may still
/// release theirs.
#[cfg(loom)]
impl Drop for Records {
    fn drop(&mut self) {
        use core::cell::Cell;
        std::thread_local! {
            #[expect(clippy::vec_box, reason = "records stay where they are")]
            static BEFORE: Cell<Vec<Box<Record>>> = const { Cell::new(Vec::new()) };
        }
        if !std::thread::panicking() {
            let records = self.iter().map(|record| {
                // SAFETY: `claim` leaked a box; when this one is dropped, after the next execution,
                // no thread uses the record any more.
                unsafe { Box::from_raw(ptr::from_ref(record).cast_mut()) }
            });
            BEFORE.set(records.collect());
        }
    }
}

#[cfg(all(test, loom))]
mod loom;
