//! Models of the table: small programs of two or three threads. `loom` runs them in every order of
//! their steps, and for every older value that a load may still return.
//!
//! Leaves have 4 descriptors in the models and nodes 2 children, so that a table of 9 descriptors
//! has three leaves and two roots one above the other. A bug shows as a look at an object that is
//! not ordered before the object's end, as an object that ends twice or never, or as a result that
//! no order of the calls explains. The first line of each model names the bug that it looks for.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p fdtable --release --lib loom` runs them, in a minute.

use ::loom::sync::atomic::AtomicUsize;
// The models add no ordering: an order that the table does not establish does not exist.
use ::loom::sync::atomic::Ordering::Relaxed;
use ::loom::thread::JoinHandle;
use std::sync::{Arc, Mutex};
use std::vec::Vec;

use crate::table::{LeafGuard, Mark};
use crate::{Error, Fd, FdFlags, FileRef, Files, RawFd, Rcu, rcu};

const NONE: FdFlags = FdFlags::empty();

/// An object that must not be read after its end, nor concurrently with it.
struct Watched {
    /// The checker fails when a load is not ordered before the exclusive access of the end.
    word: AtomicUsize,
    _ends: Arc<()>,
}

impl Watched {
    fn new(ends: &Arc<()>) -> Self {
        Self {
            word: AtomicUsize::new(1),
            _ends: ends.clone(),
        }
    }

    fn look(&self) {
        assert_eq!(self.word.load(Relaxed), 1, "it has ended");
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // A model that has failed is not checked further.
        if !std::thread::panicking() {
            self.word.with_mut(|word| *word = 0);
        }
    }
}

/// A file with two parts: one ends at the release, one at the drop.
struct Object {
    number: usize,
    /// Not a lock of loom's: it orders nothing.
    held: Mutex<Option<Watched>>,
    found: Watched,
}

impl Object {
    fn look_inside_section(&self) {
        self.found.look();
    }

    /// Reads the object through a reference.
    fn look(&self) {
        self.found.look();
        let held = self.held.lock().expect("no panic");
        held.as_ref().expect("it is not released").look();
    }

    fn release(&self) {
        let held = self.held.lock().expect("no panic").take();
        assert!(held.is_some(), "it is released twice");
    }
}

/// Makes the objects of a model, and checks whether all have ended.
#[derive(Clone, Default)]
struct Fates {
    released: Arc<()>,
    dropped: Arc<()>,
}

impl Fates {
    fn object(&self, number: usize) -> FileRef<Rcu<Object>> {
        let object = Object {
            number,
            held: Mutex::new(Some(Watched::new(&self.released))),
            found: Watched::new(&self.dropped),
        };
        FileRef::builder(object)
            .on_release(|object, _| Object::release(object))
            .rcu()
            .build()
    }

    /// Ends the table, and checks that all objects have ended.
    fn check(self, files: Arc<Files<Rcu<Object>>>) {
        drop(Arc::into_inner(files).expect("the threads have ended"));
        assert_eq!(Arc::strong_count(&self.released), 1, "all are released");
        rcu::barrier().expect("outside of sections");
        assert_eq!(Arc::strong_count(&self.dropped), 1, "all are dropped");
    }
}

/// Runs `model` in every order with at most `preemptions` preemptions, and prints the number of
/// executions. `LOOM_MAX_PREEMPTIONS` overrides the bound.
fn explore(preemptions: usize, model: fn()) {
    let mut builder = ::loom::model::Builder::new();
    builder.max_branches = builder.max_branches.max(50_000);
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    let executions = Arc::new(Mutex::new(0_u64));
    let count = executions.clone();
    builder.check(move || {
        *count.lock().expect("no panic") += 1;
        model();
    });
    let executions = *executions.lock().expect("no panic");
    std::println!("{executions} executions");
}

/// Makes a table in which the files 0, 1, … are open at the given descriptors.
fn table(open: &[RawFd]) -> (Fates, Arc<Files<Rcu<Object>>>) {
    let (fates, files) = (Fates::default(), Files::new());
    for (file, &fd) in open.iter().enumerate() {
        let reservation = files.reserve_from(fd, NONE).expect("there is room");
        assert_eq!(reservation.install(fates.object(file)).raw(), fd);
    }
    (fates, Arc::new(files))
}

fn spawn<A: 'static>(
    files: &Arc<Files<Rcu<Object>>>,
    act: impl FnOnce(&Files<Rcu<Object>>) -> A + 'static,
) -> JoinHandle<A> {
    let files = files.clone();
    ::loom::thread::spawn(move || act(&files))
}

fn join<A>(thread: JoinHandle<A>) -> A {
    thread.join().expect("the thread ends")
}

/// Gets a file and reads it; returns which one it is.
fn get(files: &Files<Rcu<Object>>, fd: RawFd) -> Result<usize, Error> {
    let file = files.get(fd)?;
    file.look();
    Ok(file.number)
}

/// Borrows a file and reads it; returns which one it is.
fn borrow(files: &Files<Rcu<Object>>, fd: RawFd) -> Result<usize, Error> {
    let section = rcu::read_lock();
    let file = files.get_rcu(fd, &section)?;
    file.look_inside_section();
    Ok(file.number)
}

fn open(files: &Files<Rcu<Object>>, fates: &Fates, file: usize) -> RawFd {
    let fd = files.open(fates.object(file), NONE);
    fd.expect("there is room").raw()
}

/// Lists the open descriptors in ascending order, each with its file.
fn listed(files: &Files<Rcu<Object>>) -> Vec<(RawFd, usize)> {
    let number = |file: &Object| file.number;
    let open: Vec<_> = files
        .iter()
        .map(|(fd, file, _)| (fd.raw(), number(&file)))
        .collect();
    assert_eq!(files.open_count(), open.len(), "nothing is reserved");
    open
}

/// A file is released while a reference is held, or freed while it is read.
#[test]
fn a_get_meets_a_close() {
    explore(3, || {
        let (fates, files) = table(&[0]);
        let getter = spawn(&files, |files| get(files, 0));
        assert_eq!(files.close(0).map(drop), Ok(()));
        let got = join(getter);
        assert!(got == Ok(0) || got == Err(Error::BadFd));
        fates.check(files);
    });
}

/// A file is dropped inside the section in which it was borrowed.
#[test]
fn a_borrow_meets_a_close() {
    explore(3, || {
        let (fates, files) = table(&[0]);
        let borrower = spawn(&files, |files| borrow(files, 0));
        assert_eq!(files.close(0).map(drop), Ok(()));
        let got = join(borrower);
        assert!(got == Ok(0) || got == Err(Error::BadFd));
        fates.check(files);
    });
}

/// An upgrade of a borrowed file comes too late, and succeeds.
#[test]
fn an_upgrade_meets_a_close() {
    explore(3, || {
        let (fates, files) = table(&[0]);
        let upgrader = spawn(&files, |files| {
            let section = rcu::read_lock();
            let file = files
                .get_rcu(0, &section)
                .ok()
                .and_then(|file| file.upgrade());
            drop(section);
            if let Some(file) = file {
                file.look();
            }
        });
        assert_eq!(files.close(0).map(drop), Ok(()));
        join(upgrader);
        fates.check(files);
    });
}

/// Three threads drop references to one object, of which two may have revived it.
#[test]
fn two_gets_meet_the_last_put() {
    explore(2, || {
        let (fates, files) = table(&[0]);
        let getters = [(); 2].map(|()| spawn(&files, |files| get(files, 0)));
        drop(files.close(0).expect("it is open"));
        for getter in getters {
            let got = join(getter);
            assert!(got == Ok(0) || got == Err(Error::BadFd));
        }
        fates.check(files);
    });
}

/// A file is found before it is complete, or a descriptor before its file.
#[test]
fn a_get_meets_an_install() {
    explore(3, || {
        let (fates, files) = table(&[]);
        let reservation = files.reserve(NONE).expect("there is room");
        let getter = spawn(&files, |files| get(files, 0));
        reservation.install(fates.object(7));
        let got = join(getter);
        assert!(got == Ok(7) || got == Err(Error::BadFd));
        assert_eq!(get(&files, 0), Ok(7));
        fates.check(files);
    });
}

/// A file cannot be found while leaves, nodes and roots are added above and beside it.
#[test]
fn a_get_meets_growth() {
    explore(3, || {
        let (fates, files) = table(&[0]);
        let getter = spawn(&files, |files| [get(files, 0), get(files, 0)]);
        assert_eq!(files.dup3(0, 4, NONE).map(drop), Ok(()));
        assert_eq!(files.dup3(0, 9, NONE).map(drop), Ok(()));
        assert_eq!(join(getter), [Ok(0), Ok(0)]);
        assert_eq!(listed(&files), [(0, 0), (4, 0), (9, 0)]);
        fates.check(files);
    });
}

/// A file in a new leaf, under a new root, is found before either is complete.
#[test]
fn a_get_meets_an_open_in_a_new_leaf() {
    explore(3, || {
        let (fates, files) = table(&[0, 1, 2, 3]);
        let getter = spawn(&files, |files| get(files, 4));
        assert_eq!(open(&files, &fates, 4), 4);
        let got = join(getter);
        assert!(got == Ok(4) || got == Err(Error::BadFd));
        fates.check(files);
    });
}

/// Two opens get the same descriptor, or one that is not the lowest.
#[test]
fn two_opens_get_the_two_lowest() {
    explore(3, || {
        let (fates, files) = table(&[1, 2, 3]);
        let other = {
            let fates = fates.clone();
            spawn(&files, move |files| open(files, &fates, 10))
        };
        let mine = open(&files, &fates, 11);
        let mut both = [mine, join(other)];
        both.sort_unstable();
        assert_eq!(both, [0, 4]);
        assert_eq!(get(&files, mine), Ok(11));
        fates.check(files);
    });
}

/// EMFILE after a close has returned, or though a descriptor was free at every moment.
#[test]
fn an_open_of_a_full_table_meets_a_close() {
    explore(1, || {
        // The first leaf is full all the time.
        let (fates, files) = table(&[0, 1, 2, 3, 4, 5, 6, 7]);
        files.set_limit(8);
        let open = |files: &Files<Rcu<Object>>, fates: &Fates, file| {
            let opened = files.open(fates.object(file), NONE);
            opened.map(Fd::raw)
        };
        let full = Err(Error::TooManyFiles);
        assert_eq!(open(&files, &fates, 8), full, "and the hint shows it");
        let other = {
            let fates = fates.clone();
            spawn(&files, move |files| open(files, &fates, 10))
        };
        files.close(4).map(drop).expect("it is open");
        let mut both = [open(&files, &fates, 11), join(other)];
        both.sort_unstable_by_key(Result::is_err);
        assert_eq!(both, [Ok(4), full]);
        fates.check(files);
    });
}

/// An open at a descriptor that was the lowest at no moment: it is above the old limit, and a lower
/// one was closed before the limit was raised.
#[test]
fn an_open_meets_a_close_below_it_and_a_raised_limit() {
    explore(2, || {
        let (fates, files) = table(&[0, 1, 2, 3, 4, 5]);
        files.set_limit(6);
        let opener = {
            let fates = fates.clone();
            spawn(&files, move |files| {
                let opened = files.open(fates.object(10), NONE);
                opened.map(Fd::raw)
            })
        };
        files.close(1).map(drop).expect("it is open");
        files.set_limit(8);
        let opened = join(opener);
        let is_possible = matches!(opened, Err(Error::TooManyFiles) | Ok(1));
        assert!(is_possible, "{opened:?}");
        fates.check(files);
    });
}

/// A free descriptor is forgotten, by the hint or by the summary of full leaves.
#[test]
fn an_open_meets_a_close_below_it() {
    explore(3, || {
        let (fates, files) = table(&[0, 1, 2, 3, 4]);
        let closer = spawn(&files, |files| files.close(2).map(drop));
        let mine = open(&files, &fates, 10);
        assert_eq!(join(closer), Ok(()));
        assert!(mine == 2 || mine == 5, "{mine}");
        let next = if mine == 2 { 5 } else { 2 };
        assert_eq!(open(&files, &fates, 11), next, "the lowest that is free");
        assert_eq!(open(&files, &fates, 12), 6, "the lowest that is free");
        fates.check(files);
    });
}

/// An open takes a descriptor of the leaf of the hint, though a lower one was closed before it.
#[test]
fn an_open_meets_closes_in_its_leaf_and_below() {
    explore(2, || {
        let (fates, files) = with_a_hint_above_a_full_leaf();
        let opener = {
            let fates = fates.clone();
            spawn(&files, move |files| open(files, &fates, 10))
        };
        assert_eq!(
            (files.close(2).map(drop), files.close(4).map(drop)),
            (Ok(()), Ok(()))
        );
        let fd = join(opener);
        assert!(fd == 2 || fd == 5, "{fd}");
        fates.check(files);
    });
}

/// A free descriptor is forgotten in a leaf that was listed when it became empty, and that a search
/// has passed over when it was full again.
#[test]
fn an_open_meets_a_leaf_that_becomes_empty_and_full() {
    explore(2, || {
        let (fates, files) = table(&[0, 1, 2, 3]);
        // The hint has neither of these leaves.
        for fd in [4, 8] {
            files.dup3(0, fd, NONE).map(drop).expect("there is room");
        }
        let opener = {
            let fates = fates.clone();
            spawn(&files, move |files| open(files, &fates, 11))
        };
        files.close(4).map(drop).expect("it is open");
        for (old, new) in [(0, 4), (4, 5), (5, 6), (6, 7)] {
            files.dup3(old, new, NONE).map(drop).expect("it is open");
        }
        join(opener);
        files.close(5).map(drop).expect("it is open");
        let taken = listed(&files);
        let lowest = (0..).find(|fd| !taken.iter().any(|(taken, _)| taken == fd));
        assert_eq!(Some(open(&files, &fates, 12)), lowest);
        fates.check(files);
    });
}

/// A pair takes descriptors of a later leaf, though a lower one was closed before it.
#[test]
fn a_pair_meets_closes_in_its_leaf_and_below() {
    explore(2, || {
        let (fates, files) = with_a_hint_above_a_full_leaf();
        let opener = {
            let pair = (fates.object(10), fates.object(11));
            spawn(&files, move |files| files.open_pair(pair, NONE))
        };
        assert_eq!(
            (files.close(2).map(drop), files.close(4).map(drop)),
            (Ok(()), Ok(()))
        );
        let (one, other) = join(opener).expect("there is room");
        let both = [one.raw(), other.raw()];
        assert!(!both.contains(&4) || both == [2, 4], "{both:?}");
        fates.check(files);
    });
}

/// A pair takes descriptors of two leaves, though one below both was closed before the higher one.
#[test]
fn a_pair_over_two_leaves_meets_closes_below_and_in_the_second() {
    explore(2, || {
        let (fates, files) = table(&[0, 1, 2, 3, 4, 5, 6, 8]);
        let opener = {
            let pair = (fates.object(10), fates.object(11));
            spawn(&files, move |files| files.open_pair(pair, NONE))
        };
        assert_eq!(
            (files.close(2).map(drop), files.close(8).map(drop)),
            (Ok(()), Ok(()))
        );
        let (one, other) = join(opener).expect("there is room");
        let both = (one.raw(), other.raw());
        assert!([(2, 7), (7, 9)].contains(&both), "{both:?}");
        fates.check(files);
    });
}

/// A pair over two leaves is taken at one moment: an open comes before it or after it.
#[test]
fn a_pair_over_two_leaves_is_taken_before_or_after_an_open() {
    explore(2, || {
        let (fates, files) = table(&[0, 1, 2, 3, 4, 5, 6, 8]);
        let opener = {
            let pair = (fates.object(10), fates.object(11));
            spawn(&files, move |files| files.open_pair(pair, NONE))
        };
        let single = open(&files, &fates, 12);
        let (one, other) = join(opener).expect("there is room");
        let all = (one.raw(), other.raw(), single);
        assert!([(7, 9, 10), (9, 10, 7)].contains(&all), "{all:?}");
        fates.check(files);
    });
}

/// Makes a table whose first leaf is full. The second one has three descriptors and is in the hint.
fn with_a_hint_above_a_full_leaf() -> (Fates, Arc<Files<Rcu<Object>>>) {
    let (fates, files) = table(&[0, 1, 2, 3]);
    assert_eq!(open(&files, &fates, 4), 4);
    (fates, files)
}

/// An open takes a descriptor of the second leaf of the hint, though one of the first was closed
/// before it.
#[test]
fn an_open_meets_closes_in_both_leaves_where_it_looks() {
    explore(2, || {
        let (fates, files) = table(&[]);
        for fd in 0..12 {
            assert_eq!(open(&files, &fates, 0), fd);
        }
        // The hint is the last two leaves then, which the tree caches.
        assert_eq!(
            (files.close(4).map(drop), files.close(8).map(drop)),
            (Ok(()), Ok(()))
        );
        assert_eq!(open(&files, &fates, 0), 4);
        assert_eq!(open(&files, &fates, 0), 8);
        let opener = {
            let fates = fates.clone();
            spawn(&files, move |files| open(files, &fates, 0))
        };
        assert_eq!(
            (files.close(4).map(drop), files.close(8).map(drop)),
            (Ok(()), Ok(()))
        );
        let fd = join(opener);
        assert!(fd == 4 || fd == 12, "{fd}");
        fates.check(files);
    });
}

/// A leaf of the hint becomes empty while the hint moves, and is never removed: the close takes it
/// for one of the hint, and the search looked at it before.
#[test]
fn a_search_meets_a_close_in_a_leaf_that_was_hinted() {
    explore(2, || {
        let (fates, files) = table(&[]);
        for fd in 0..9 {
            assert_eq!(open(&files, &fates, 0), fd);
        }
        for fd in [4, 5] {
            files.close(fd).map(drop).expect("it is open");
        }
        assert_eq!(open(&files, &fates, 10), 4);
        // Now the hint is the last two leaves. It moves to the first two: a reservation searches.
        files.close(2).map(drop).expect("it is open");
        let closer = spawn(&files, |files| files.close(8).map(drop));
        let reserved = files.reserve(NONE).expect("there is room");
        assert_eq!(reserved.fd().raw(), 2);
        reserved.install(fates.object(11));
        assert_eq!(join(closer), Ok(()));
        let writer = files.tree.write();
        let is_listed = |leaf: LeafGuard<'_, _>| leaf.state().mark == Mark::FreedSince;
        let is_known = writer.idle.has(2) || writer.lock_leaf(2).is_none_or(is_listed);
        assert!(is_known, "the leaf is removed, idle or on a list");
        drop(writer);
        fates.check(files);
    });
}

/// A pair does not get the two lowest descriptors, in one leaf or in two.
#[test]
fn a_pair_meets_a_close_below_it() {
    explore(3, || {
        let (fates, files) = table(&[0, 1, 2, 3, 4]);
        let closer = spawn(&files, |files| files.close(2).map(drop));
        let pair = (fates.object(10), fates.object(11));
        let (one, other) = files.open_pair(pair, NONE).expect("there is room");
        assert_eq!(join(closer), Ok(()));
        let both = (one.raw(), other.raw());
        assert!([(2, 5), (5, 6)].contains(&both), "{both:?}");
        assert_eq!(get(&files, one.raw()), Ok(10));
        assert_eq!(get(&files, other.raw()), Ok(11));
        fates.check(files);
    });
}

/// One of the two descriptors of a pair is given out twice.
#[test]
fn a_pair_meets_an_open() {
    explore(3, || {
        let (fates, files) = table(&[0]);
        let other = {
            let fates = fates.clone();
            spawn(&files, move |files| open(files, &fates, 12))
        };
        let pair = (fates.object(10), fates.object(11));
        let (one, two) = files.open_pair(pair, NONE).expect("there is room");
        let single = join(other);
        let both = (one.raw(), two.raw());
        let fits = |(a, b), c| both == (a, b) && single == c;
        assert!(fits((1, 2), 3) || fits((2, 3), 1), "{both:?} {single}");
        assert_eq!(listed(&files).len(), 4);
        fates.check(files);
    });
}

/// A file is freed while it is read, found through a leaf that was removed since.
#[test]
fn a_look_into_a_block_meets_its_close() {
    explore(3, || {
        let (fates, files) = table(&[4, 5]);
        let closer = spawn(&files, |files| files.close_range(4, 7, drop));
        {
            let section = rcu::read_lock();
            let block = files.block(4, &section);
            for fd in [4, 5] {
                if let Ok(file) = block.get_rcu(fd) {
                    file.look_inside_section();
                }
            }
        }
        assert_eq!(join(closer), Ok(()));
        fates.check(files);
    });
}

/// A close finds a descriptor that is taken and has no file yet.
#[test]
fn a_close_meets_the_open_of_its_number() {
    explore(3, || {
        let (fates, files) = table(&[]);
        let closer = spawn(&files, |files| files.close(0).map(drop));
        assert_eq!(open(&files, &fates, 10), 0);
        match join(closer) {
            Ok(()) => assert_eq!(listed(&files), []),
            Err(error) => {
                assert_eq!(error, Error::BadFd);
                assert_eq!(listed(&files), [(0, 10)]);
            }
        }
        fates.check(files);
    });
}

/// Two closes get the same file.
#[test]
fn one_of_two_closes_closes() {
    explore(3, || {
        let (fates, files) = table(&[0]);
        let other = spawn(&files, |files| files.close(0).map(drop));
        let both = [files.close(0).map(drop), join(other)];
        assert!(both.contains(&Ok(())) && both.contains(&Err(Error::BadFd)));
        fates.check(files);
    });
}

/// The replaced file is released twice or never.
#[test]
fn a_dup3_meets_a_close_of_its_target() {
    explore(3, || {
        let (fates, files) = table(&[0, 1]);
        let closer = spawn(&files, |files| files.close(1).map(drop));
        assert_eq!(files.dup3(0, 1, NONE).map(drop), Ok(()));
        assert_eq!(join(closer), Ok(()));
        let left = listed(&files);
        assert!(left == [(0, 0), (1, 0)] || left == [(0, 0)], "{left:?}");
        fates.check(files);
    });
}

/// A target is closed, though there is no file to replace it.
#[test]
fn a_dup3_meets_a_close_of_its_source() {
    explore(3, || {
        let (fates, files) = table(&[0, 1]);
        let closer = spawn(&files, |files| files.close(0).map(drop));
        let outcome = files.dup3(0, 1, NONE).map(drop);
        assert_eq!(join(closer), Ok(()));
        match outcome {
            Ok(_) => assert_eq!(listed(&files), [(1, 0)]),
            Err(error) => {
                assert_eq!(error, Error::BadFd);
                assert_eq!(listed(&files), [(1, 1)]);
            }
        }
        fates.check(files);
    });
}

/// A descriptor is briefly not open while its file is replaced.
#[test]
fn a_get_meets_a_dup3() {
    explore(3, || {
        let (fates, files) = table(&[0, 1]);
        let getter = spawn(&files, |files| get(files, 1));
        assert_eq!(files.dup3(0, 1, NONE).map(drop), Ok(()));
        let got = join(getter);
        assert!(got == Ok(0) || got == Ok(1), "{got:?}");
        fates.check(files);
    });
}

/// A reserved descriptor is taken over, and the reservation is then installed over the other file.
#[test]
fn a_dup3_meets_an_install() {
    explore(3, || {
        let (fates, files) = table(&[0]);
        let reservation = files.reserve(NONE).expect("there is room");
        let other = spawn(&files, |files| files.dup3(0, 1, NONE).map(drop));
        reservation.install(fates.object(7));
        match join(other) {
            Ok(_) => assert_eq!(listed(&files), [(0, 0), (1, 0)]),
            Err(error) => {
                assert_eq!(error, Error::Busy);
                assert_eq!(listed(&files), [(0, 0), (1, 7)]);
            }
        }
        fates.check(files);
    });
}

/// A descriptor is lost, or given out while it is still reserved.
#[test]
fn an_open_meets_the_drop_of_a_reservation() {
    explore(3, || {
        let (fates, files) = table(&[]);
        let reservation = files.reserve(NONE).expect("there is room");
        let other = {
            let fates = fates.clone();
            spawn(&files, move |files| open(files, &fates, 10))
        };
        drop(reservation);
        let theirs = join(other);
        assert!(theirs == 0 || theirs == 1, "{theirs}");
        assert_eq!(
            open(&files, &fates, 11),
            1 - theirs,
            "the lowest that is free"
        );
        fates.check(files);
    });
}

/// A child's file is released, or the child has a reference too many.
#[test]
fn a_fork_meets_a_close() {
    explore(3, || {
        let (fates, files) = table(&[0]);
        let closer = spawn(&files, |files| files.close(0).map(drop));
        let child = files.fork().expect("there is memory");
        assert_eq!(join(closer), Ok(()));
        let has = listed(&child);
        assert!(has == [(0, 0)] || has == [], "{has:?}");
        drop(child);
        fates.check(files);
    });
}

/// A copy is not atomic: it has the second close, and not the first.
#[test]
fn a_fork_meets_two_closes_in_two_leaves() {
    explore(3, || {
        let (fates, files) = table(&[0, 4]);
        let closer = spawn(&files, |files| {
            [files.close(0).map(drop), files.close(4).map(drop)]
        });
        let child = files.fork().expect("there is memory");
        assert_eq!(join(closer), [Ok(()), Ok(())]);
        let has = listed(&child);
        let moments: [&[_]; 3] = [&[(0, 0), (4, 1)], &[(4, 1)], &[]];
        assert!(moments.contains(&&has[..]), "{has:?}");
        drop(child);
        fates.check(files);
    });
}

/// A child has the descriptor of a reservation without its file.
#[test]
fn a_fork_meets_an_install() {
    explore(3, || {
        let (fates, files) = table(&[]);
        let reservation = files.reserve(NONE).expect("there is room");
        let forker = spawn(&files, |files| {
            let child = files.fork().expect("there is memory");
            listed(&child)
        });
        reservation.install(fates.object(7));
        let had = join(forker);
        assert!(had == [(0, 7)] || had == [], "{had:?}");
        fates.check(files);
    });
}

/// A close and a close of a range both get the same file.
#[test]
fn a_close_range_meets_a_close() {
    explore(2, || {
        let (fates, files) = table(&[0, 1, 4]);
        let closer = spawn(&files, |files| files.close(4).map(drop));
        assert_eq!(files.close_range(1, u32::MAX, drop), Ok(()));
        assert_eq!(
            files.get(4).err(),
            Some(Error::BadFd),
            "one of the two has closed it"
        );
        let closed = join(closer);
        assert!(closed == Ok(()) || closed == Err(Error::BadFd));
        assert_eq!(listed(&files), [(0, 0)]);
        assert_eq!(open(&files, &fates, 5), 1, "the lowest that is free");
        fates.check(files);
    });
}

/// A copy has flags that are not those of the file that it got.
#[test]
fn a_fork_meets_a_change_of_flags() {
    explore(3, || {
        let (fates, files) = table(&[0]);
        let other = spawn(&files, |files| files.set_cloexec_range(0, 4));
        files.set_fd_flags(0, FdFlags::CLOEXEC).expect("it is open");
        let child = files.fork().expect("there is memory");
        assert_eq!(child.fd_flags(0), Ok(FdFlags::CLOEXEC));
        assert_eq!(join(other), Ok(()));
        drop(child);
        fates.check(files);
    });
}

/// Each opens a descriptor in a leaf of its own and closes the other's: one of them was first, so a
/// close finds it open.
#[test]
fn two_that_open_meet_in_their_closes() {
    explore(3, || {
        let (fates, files) = table(&[0, 4]);
        let other = spawn(&files, |files| {
            files.dup3(4, 5, NONE).map(drop).expect("it is open");
            files.close(1).map(drop)
        });
        files.dup3(0, 1, NONE).map(drop).expect("it is open");
        let closed = [files.close(5).map(drop), join(other)];
        assert_ne!(closed, [Err(Error::BadFd), Err(Error::BadFd)]);
        fates.check(files);
    });
}

/// The same where one of the leaves, and all above it, are made by its open.
#[test]
fn two_that_open_meet_in_their_closes_while_the_tree_grows() {
    explore(2, || {
        let (fates, files) = table(&[0]);
        let file = fates.object(1);
        let other = spawn(&files, |files| {
            files.open_at(4, file, NONE).expect("it is free");
            files.close(1).map(drop)
        });
        files.dup3(0, 1, NONE).map(drop).expect("it is open");
        let closed = [files.close(4).map(drop), join(other)];
        assert_ne!(closed, [Err(Error::BadFd), Err(Error::BadFd)]);
        fates.check(files);
    });
}

/// The same where one of the leaves is shared with a child, and one thread is inside of two
/// sections, so that its close goes the slow way.
#[test]
fn two_that_open_meet_in_their_closes_inside_of_sections() {
    explore(3, || {
        // The first counted section finds that readers need no fences.
        drop([rcu::read_lock(), rcu::read_lock()]);
        let (fates, files) = table(&[0, 4]);
        let child = files.fork().expect("there is memory");
        let other = spawn(&files, |files| {
            files.dup3(4, 6, NONE).map(drop).expect("it is open");
            files.dup3(4, 5, NONE).map(drop).expect("it is open");
            files.close(1).map(drop)
        });
        let sections = [rcu::read_lock(), rcu::read_lock()];
        files.dup3(0, 1, NONE).map(drop).expect("it is open");
        let own = files.close(5).map(drop);
        drop(sections);
        assert_ne!([own, join(other)], [Err(Error::BadFd), Err(Error::BadFd)]);
        drop(child);
        fates.check(files);
    });
}

/// The same where a close copies the shared leaf between the look of another and its lock.
#[test]
fn two_that_open_meet_in_their_closes_in_a_shared_leaf() {
    explore(3, || {
        let (fates, files) = table(&[0, 4, 5]);
        let child = files.fork().expect("there is memory");
        let other = spawn(&files, |files| {
            // Maybe the other has closed it already.
            let _ = files.close(5).map(drop);
            files.dup3(4, 5, NONE).map(drop).expect("it is open");
            files.close(1).map(drop)
        });
        files.dup3(0, 1, NONE).map(drop).expect("it is open");
        let closed = [files.close(5).map(drop), join(other)];
        assert_ne!(closed, [Err(Error::BadFd), Err(Error::BadFd)]);
        drop(child);
        fates.check(files);
    });
}

/// An exec closes a file although a `dup3` has put it there without the flag.
#[test]
fn an_exec_meets_a_dup3() {
    explore(3, || {
        let (fates, files) = table(&[0, 1]);
        files.set_fd_flags(1, FdFlags::CLOEXEC).expect("it is open");
        let other = spawn(&files, |files| files.dup3(0, 1, NONE).map(drop));
        files.close_on_exec(drop).expect("there is memory");
        assert_eq!(join(other), Ok(()));
        assert_eq!(listed(&files), [(0, 0), (1, 0)]);
        fates.check(files);
    });
}

/// A descriptor is found open without the flags of its open.
#[test]
fn flags_meet_an_open() {
    explore(3, || {
        let (fates, files) = table(&[]);
        let reader = spawn(&files, |files| files.fd_flags(0));
        let fd = files.open(fates.object(0), FdFlags::CLOEXEC);
        assert_eq!(fd.map(RawFd::from), Ok(0));
        let had = join(reader);
        assert!(
            had == Ok(FdFlags::CLOEXEC) || had == Err(Error::BadFd),
            "{had:?}"
        );
        fates.check(files);
    });
}

/// A range removes a whole leaf before opens know that there is room.
#[test]
fn an_open_after_ebadf_from_a_range_takes_no_higher_descriptor() {
    explore(2, || {
        let (fates, files) = table(&[0]);
        let file = files.get(0).expect("it is open");
        let open = || files.open(file.clone(), NONE).map(Fd::raw);
        // Opens look at the third leaf then.
        assert!((1..9).all(|fd| open() == Ok(fd)));
        let closer = spawn(&files, |files| files.close_range(4, 7, drop));
        if files.close(4).map(drop) == Err(Error::BadFd) {
            assert_eq!(open(), Ok(4));
        }
        assert_eq!(join(closer), Ok(()));
        drop(file);
        fates.check(files);
    });
}

/// An exec leaves a descriptor open that had the flag before the exec: a close found another
/// descriptor free, and so came before an open that the exec followed.
#[test]
fn an_exec_meets_the_first_flag_of_a_table() {
    explore(2, || {
        let (fates, files) = table(&[0, 4]);
        let other = spawn(&files, |files| {
            let flagged = files.dup3(4, 5, FdFlags::CLOEXEC).map(drop);
            assert_eq!(flagged, Ok(()));
            files.close(1).map(drop)
        });
        assert_eq!(files.dup3(0, 1, NONE).map(drop), Ok(()));
        assert_eq!(files.close_on_exec(drop), Ok(()));
        if join(other) == Err(Error::BadFd) {
            assert_eq!(get(&files, 5), Err(Error::BadFd));
        }
        fates.check(files);
    });
}

/// A look finds one of two flags that were set at once, before the table had either.
#[test]
fn a_look_meets_a_call_that_sets_both_flags() {
    explore(2, || {
        let (fates, files) = table(&[0]);
        assert_eq!(files.set_word(0, 7), Ok(0));
        assert_eq!(files.fd_flags(0), Ok(NONE));
        let setter = spawn(&files, |files| {
            // The first section of a thread takes a fence.
            drop(rcu::read_lock());
            files.set_fd_flags(0, FdFlags::all())
        });
        let flags = files.fd_flags(0);
        assert!([Ok(NONE), Ok(FdFlags::all())].contains(&flags), "{flags:?}");
        assert_eq!(join(setter), Ok(()));
        fates.check(files);
    });
}

/// A lookup finds a word, and not the flags that were set before it.
#[test]
fn a_lookup_meets_calls_that_set_flags_and_then_a_word() {
    explore(2, || {
        let (fates, files) = table(&[0]);
        assert_eq!(files.set_word(0, 6), Ok(0));
        let setter = spawn(&files, |files| {
            assert_eq!(files.set_fd_flags(0, FdFlags::all()), Ok(()));
            assert_eq!(files.set_word(0, 7), Ok(6));
        });
        let (file, data) = files.get_with_data(0).expect("it is open");
        let known = [(NONE, 6), (FdFlags::all(), 6), (FdFlags::all(), 7)];
        assert!(known.contains(&(data.flags, data.word)), "{data:?}");
        drop(file);
        join(setter);
        fates.check(files);
    });
}
