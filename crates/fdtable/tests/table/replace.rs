//! Files at descriptors that the caller chooses: replace, open there, rename, and close if.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use fdtable::{ClosedFile, Error, FdData, FdFlags, FileRef, Files, RawFd};

use crate::waiting::{patiently, wait_until_free};

const NONE: FdFlags = FdFlags::empty();
const CLOEXEC: FdFlags = FdFlags::CLOEXEC;
const UNKNOWN: FdFlags = FdFlags::from_bits_retain(4);
const OPEN: &str = "it is open";
const ROOM: &str = "there is room";
const MEMORY: &str = "there is memory";

const ALL: FdData = FdData::new(CLOEXEC, u64::MAX);

/// The first descriptors of leaves: the first leaf, another, and one where the tree is higher.
const BASES: &[RawFd] = &[0, 64, 40_000];

/// Returns each open descriptor with its file and its data.
fn seen(files: &Files<u32>) -> Vec<(RawFd, u32, FdData)> {
    let seen = files.iter().map(|(fd, file, data)| (fd.raw(), *file, data));
    seen.collect()
}

fn unlimited() -> Files<u32> {
    Files::with_limit(u32::MAX)
}

/// Opens a file with data at a descriptor.
fn open(files: &Files<u32>, fd: RawFd, name: u32, data: impl Into<FdData>) {
    files.open_at(fd, FileRef::new(name), data).expect(ROOM);
}

/// Returns the file and data that a call has displaced.
fn displaced(closed: Option<(ClosedFile<u32>, FdData)>) -> Option<(u32, FdData)> {
    closed.map(|(closed, data)| (*closed, data))
}

#[test]
fn replace_opens_a_free_descriptor_and_displaces_an_open_one() {
    for &fd in BASES {
        for other in [NONE.into(), ALL, (NONE, 7).into()] {
            let files = unlimited();
            let put = |name, data: FdData| {
                let before = files.replace(fd, FileRef::new(name), data).expect(ROOM);
                assert_eq!(seen(&files), [(fd, name, data)]);
                displaced(before)
            };
            assert_eq!(put(1, CLOEXEC.into()), None);
            assert_eq!(put(2, other), Some((1, CLOEXEC.into())));
            assert_eq!(put(3, ALL), Some((2, other)));
            assert_eq!(put(4, NONE.into()), Some((3, ALL)));
            assert_eq!(put(5, NONE.into()), Some((4, NONE.into())));
        }
    }
}

#[test]
fn what_is_displaced_is_released_when_the_caller_drops_it() {
    for &fd in BASES {
        let files = unlimited();
        let (one, two) = (FileRef::new(1), FileRef::new(2));
        drop(files.replace(fd, one.clone(), NONE).expect(ROOM));
        let closed = files.replace(fd, two.clone(), NONE).expect(ROOM);
        assert_eq!(FileRef::strong_count(&one), 2);
        drop(closed);
        assert_eq!(FileRef::strong_count(&one), 1);
        let closed = files.replace_if(fd, &two, one.clone(), NONE);
        assert!(FileRef::ptr_eq(&closed.expect(OPEN).0.into_file(), &two));
        drop(files.close_if(fd, Some(&one)).expect(OPEN));
        assert_eq!(FileRef::strong_count(&one), 1);
        assert_eq!(FileRef::strong_count(&two), 1);
    }
}

#[test]
fn open_at_opens_a_free_descriptor_alone() {
    for &fd in BASES {
        let files = unlimited();
        open(&files, fd, 1, ALL);
        for data in [NONE.into(), ALL] {
            let refused = files.open_at(fd, FileRef::new(2), data);
            assert_eq!(refused, Err(Error::Exists));
            assert_eq!(seen(&files), [(fd, 1, ALL)]);
        }
    }
}

#[test]
fn replace_if_and_close_if_change_a_descriptor_with_the_expected_file_alone() {
    for &fd in BASES {
        let parent = unlimited();
        let (one, other) = (FileRef::new(1), FileRef::new(1));
        parent.open_at(fd, one.clone(), ALL).expect(ROOM);
        for files in [&parent.fork().expect(MEMORY), &parent] {
            let replace = |expected, name| {
                let before = files.replace_if(fd, expected, FileRef::new(name), (NONE, 3));
                before.map(|(closed, data)| (*closed, data))
            };
            assert_eq!(replace(&other, 2), Err(Error::Stale));
            assert_eq!(
                files.close_if(fd, Some(&other)).map(drop),
                Err(Error::Stale)
            );
            assert_eq!(seen(files), [(fd, 1, ALL)]);
            assert_eq!(replace(&one, 3), Ok((1, ALL)));
            assert_eq!(seen(files), [(fd, 3, (NONE, 3).into())]);
            assert_eq!(replace(&one, 4), Err(Error::Stale));
            let three = files.get(fd).expect(OPEN);
            let (closed, data) = files.close_if(fd, Some(&three)).expect(OPEN);
            assert_eq!((*closed, data), (3, (NONE, 3).into()));
            assert_eq!(replace(&three, 4), Err(Error::BadFd));
            assert_eq!(
                files.close_if(fd, Some(&three)).map(drop),
                Err(Error::BadFd)
            );
            assert_eq!(seen(files), []);
        }
    }
}

/// A call on a table, with a file that it may use.
type Call = fn(&Files<u32>, FileRef<u32>) -> Result<(), Error>;

const LIMIT: RawFd = 300;
const RESERVED: RawFd = 70;
const BESIDE: RawFd = 71;
const ABOVE: RawFd = 400;

/// 0, 1, 65, [`BESIDE`] and [`ABOVE`] are open; [`RESERVED`] is reserved.
fn usual() -> Files<u32> {
    let files = unlimited();
    for (name, fd) in (0..).zip([0, 1, 65, BESIDE, ABOVE]) {
        open(&files, fd, name, (CLOEXEC, 7));
    }
    std::mem::forget(files.reserve_from(RESERVED, NONE).expect(ROOM));
    files.set_limit(LIMIT.unsigned_abs());
    files
}

/// The tables of [`usual`] in each of the states in which calls take another path.
fn usual_on_each_path() -> [Files<u32>; 4] {
    let (parent, quarantine) = (usual(), usual());
    let child = parent.fork().expect(MEMORY);
    // The child has no reservation.
    std::mem::forget(child.reserve_from(RESERVED, NONE).expect(ROOM));
    quarantine.set_quarantine(5).expect("there is memory");
    [usual(), parent, child, quarantine]
}

/// The calls with the errnos of each, in the order in which they are checked: if two apply, the
/// first one is the answer.
#[rustfmt::skip]
const CASES: &[(&str, Call, Error)] = &[
    ("replace with an unknown flag, -1", |t, f| t.replace(-1, f, UNKNOWN).map(drop), Error::InvalidArgument),
    ("replace with an unknown flag, reserved", |t, f| t.replace(RESERVED, f, UNKNOWN).map(drop), Error::InvalidArgument),
    ("replace -1", |t, f| t.replace(-1, f, NONE).map(drop), Error::BadFd),
    ("replace MIN", |t, f| t.replace(RawFd::MIN, f, ALL).map(drop), Error::BadFd),
    ("replace the limit", |t, f| t.replace(LIMIT, f, ALL).map(drop), Error::BadFd),
    ("replace what is open above the limit", |t, f| t.replace(ABOVE, f, NONE).map(drop), Error::BadFd),
    ("replace MAX", |t, f| t.replace(RawFd::MAX, f, NONE).map(drop), Error::BadFd),
    ("replace a reserved one", |t, f| t.replace(RESERVED, f, ALL).map(drop), Error::Busy),

    ("open_at with an unknown flag, open", |t, f| t.open_at(0, f, UNKNOWN), Error::InvalidArgument),
    ("open_at -1", |t, f| t.open_at(-1, f, NONE), Error::BadFd),
    ("open_at the limit", |t, f| t.open_at(LIMIT, f, ALL), Error::BadFd),
    ("open_at what is open above the limit", |t, f| t.open_at(ABOVE, f, NONE), Error::BadFd),
    ("open_at a reserved one", |t, f| t.open_at(RESERVED, f, ALL), Error::Busy),
    ("open_at an open one", |t, f| t.open_at(65, f, ALL), Error::Exists),
    ("open_at an open one beside a reserved one", |t, f| t.open_at(BESIDE, f, ALL), Error::Exists),

    ("replace_if with an unknown flag, closed", |t, f| t.replace_if(2, &f, f.clone(), UNKNOWN).map(drop), Error::InvalidArgument),
    ("replace_if -1", |t, f| t.replace_if(-1, &f, f.clone(), NONE).map(drop), Error::BadFd),
    ("replace_if the limit", |t, f| t.replace_if(LIMIT, &f, f.clone(), ALL).map(drop), Error::BadFd),
    ("replace_if what is open above the limit", |t, f| t.replace_if(ABOVE, &t.get(ABOVE)?, f, ALL).map(drop), Error::BadFd),
    ("replace_if a closed one", |t, f| t.replace_if(2, &f, f.clone(), ALL).map(drop), Error::BadFd),
    ("replace_if one in no leaf", |t, f| t.replace_if(200, &f, f.clone(), ALL).map(drop), Error::BadFd),
    ("replace_if a reserved one", |t, f| t.replace_if(RESERVED, &f, f.clone(), ALL).map(drop), Error::BadFd),
    ("replace_if another file", |t, f| t.replace_if(65, &f, f.clone(), ALL).map(drop), Error::Stale),

    ("close_if -1", |t, f| t.close_if(-1, Some(&f)).map(drop), Error::BadFd),
    ("close_if MAX", |t, f| t.close_if(RawFd::MAX, Some(&f)).map(drop), Error::BadFd),
    ("close_if a closed one", |t, f| t.close_if(2, Some(&f)).map(drop), Error::BadFd),
    ("close_if a reserved one", |t, f| t.close_if(RESERVED, Some(&f)).map(drop), Error::BadFd),
    ("close_if another file", |t, f| t.close_if(65, Some(&f)).map(drop), Error::Stale),
    ("close_with_data a reserved one", |t, _| t.close_if(RESERVED, None).map(drop), Error::BadFd),

    ("rename -1", |t, _| t.rename(-1, 0).map(drop), Error::BadFd),
    ("rename -1 to itself", |t, _| t.rename(-1, -1).map(drop), Error::BadFd),
    ("rename a closed one to itself", |t, _| t.rename(2, 2).map(drop), Error::BadFd),
    ("rename a reserved one to itself", |t, _| t.rename(RESERVED, RESERVED).map(drop), Error::BadFd),
    ("rename a closed one", |t, _| t.rename(2, 3).map(drop), Error::BadFd),
    ("rename a closed one to a reserved one", |t, _| t.rename(2, RESERVED).map(drop), Error::BadFd),
    ("rename a closed one to an open one", |t, _| t.rename(66, BESIDE).map(drop), Error::BadFd),
    ("rename one in no leaf", |t, _| t.rename(200, 0).map(drop), Error::BadFd),
    ("rename a reserved one", |t, _| t.rename(RESERVED, 0).map(drop), Error::BadFd),
    ("rename to -1", |t, _| t.rename(0, -1).map(drop), Error::BadFd),
    ("rename to MIN", |t, _| t.rename(0, RawFd::MIN).map(drop), Error::BadFd),
    ("rename to the limit", |t, _| t.rename(0, LIMIT).map(drop), Error::BadFd),
    ("rename to what is open above the limit", |t, _| t.rename(0, ABOVE).map(drop), Error::BadFd),
    ("rename to MAX", |t, _| t.rename(BESIDE, RawFd::MAX).map(drop), Error::BadFd),
    ("rename to a reserved one", |t, _| t.rename(0, RESERVED).map(drop), Error::Busy),
    ("rename to a reserved one of the leaf", |t, _| t.rename(65, RESERVED).map(drop), Error::Busy),
];

#[test]
fn a_refused_call_changes_nothing_and_drops_its_file() {
    for (name, call, error) in CASES {
        for (path, files) in usual_on_each_path().into_iter().enumerate() {
            let before = (seen(&files), files.open_count());
            let file = FileRef::new(100);
            let refused = call(&files, file.clone());
            assert_eq!(refused, Err(*error), "{name}, {path}");
            assert_eq!(FileRef::strong_count(&file), 1, "{name}, {path}");
            let after = (seen(&files), files.open_count());
            assert_eq!(after, before, "{name}, {path}");
        }
    }
}

/// Calls that look bad and are not.
#[rustfmt::skip]
const NO_ERRORS: &[(&str, Call)] = &[
    ("rename to itself", |t, _| t.rename(0, 0).map(drop)),
    ("rename to itself, above the limit", |t, _| t.rename(ABOVE, ABOVE).map(drop)),
    ("rename to itself, beside a reserved one", |t, _| t.rename(BESIDE, BESIDE).map(drop)),
];

#[test]
fn a_rename_of_a_descriptor_to_itself_is_no_change() {
    for (name, call) in NO_ERRORS {
        for files in usual_on_each_path() {
            let before = seen(&files);
            assert_eq!(call(&files, FileRef::new(1)), Ok(()), "{name}");
            assert_eq!(seen(&files), before, "{name}");
        }
    }
}

/// From a descriptor, and to another one: in one leaf, in two in both orders, and far.
const MOVES: &[(RawFd, RawFd)] = &[
    (0, 5),
    (5, 0),
    (70, 75),
    (3, 70),
    (70, 3),
    (130, 70),
    (70, 130),
    (40_000, 1),
    (1, 40_000),
    (70, RawFd::MAX),
];

#[test]
fn rename_moves_the_file_with_its_data_and_displaces_what_is_there() {
    for &(from, to) in MOVES {
        for data in [NONE.into(), ALL, CLOEXEC.into()] {
            for (path, there) in [None, Some(NONE.into()), Some(ALL)].into_iter().enumerate() {
                let files = unlimited();
                open(&files, from, 1, data);
                if let Some(there) = there {
                    open(&files, to, 2, there);
                }
                // A child on whose parts the parent works, and the other way round.
                let child = files.fork().expect(MEMORY);
                let before = seen(&files);
                for files in [&files, &child] {
                    let moved = files.rename(from, to).expect(OPEN);
                    assert_eq!(displaced(moved), there.map(|data| (2, data)), "{path}");
                    assert_eq!(seen(files), [(to, 1, data)]);
                    assert_eq!(files.get(from).map(drop), Err(Error::BadFd));
                    assert_eq!(files.open_count(), 1);
                }
                assert_ne!(before, seen(&files));
                drop(files);
                assert_eq!(seen(&child), [(to, 1, data)]);
            }
        }
    }
}

#[test]
fn a_rename_in_a_parent_leaves_the_child_as_it_was() {
    for &(from, to) in MOVES {
        let parent = unlimited();
        open(&parent, from, 1, ALL);
        open(&parent, to, 2, (NONE, 7));
        let (child, before) = (parent.fork().expect(MEMORY), seen(&parent));
        drop(parent.rename(from, to).expect(OPEN));
        assert_eq!(seen(&child), before);
        drop(parent.rename(to, from).expect(OPEN));
        assert_eq!(seen(&child), before);
    }
}

#[test]
fn a_rename_takes_no_reference_and_drops_none() {
    for &(from, to) in MOVES {
        let files = unlimited();
        let (one, two) = (FileRef::new(1), FileRef::new(2));
        files.open_at(from, one.clone(), ALL).expect(ROOM);
        files.open_at(to, two.clone(), NONE).expect(ROOM);
        let displaced = files.rename(from, to).expect(OPEN);
        assert_eq!(FileRef::strong_count(&one), 2);
        assert_eq!(FileRef::strong_count(&two), 2);
        drop(displaced);
        assert_eq!(FileRef::strong_count(&two), 1);
        drop(files.close(to).expect(OPEN));
        assert_eq!(FileRef::strong_count(&one), 1);
    }
}

#[test]
fn a_rename_from_above_the_limit_is_allowed() {
    let files = usual();
    drop(files.rename(ABOVE, 2).expect(OPEN));
    assert_eq!(files.get(2).as_deref(), Ok(&4));
}

#[test]
fn the_old_descriptor_of_a_rename_is_the_next_that_an_open_gets() {
    for full in [64, 65, 200_u32] {
        let parent = Files::with_limit(1000);
        for name in 0..full {
            parent.open(FileRef::new(name), NONE).expect(ROOM);
        }
        for files in [parent.fork().expect(MEMORY), parent] {
            for from in [0, 1, 63, full.cast_signed() - 1] {
                drop(files.rename(from, 500).expect(OPEN));
                let opened = files.open(FileRef::new(0), NONE).expect(ROOM);
                assert_eq!(opened.raw(), from);
                drop(files.close(500).expect(OPEN));
            }
        }
    }
}

/// Every leaf but the last becomes empty, and is left to be freed.
#[test]
fn a_file_that_is_moved_through_many_leaves_is_found() {
    let files = unlimited();
    open(&files, 0, 1, ALL);
    for leaf in 1..200 {
        drop(files.rename((leaf - 1) * 64, leaf * 64).expect(OPEN));
        assert_eq!(seen(&files), [(leaf * 64, 1, ALL)]);
        let lowest = files.open(FileRef::new(2), NONE).expect(ROOM);
        assert_eq!(lowest.raw(), 0);
        drop(files.close(0).expect(OPEN));
    }
}

#[test]
fn a_rename_wakes_those_who_wait_for_a_free_descriptor() {
    let files = Files::with_limit(200);
    for name in 0..200 {
        files.open(FileRef::new(name), NONE).expect(ROOM);
    }
    thread::scope(|scope| {
        let waiter = scope.spawn(|| wait_until_free(&files));
        thread::sleep(Duration::from_millis(20));
        assert!(!waiter.is_finished());
        drop(files.rename(100, 7).expect(OPEN));
        waiter.join().expect("no panic").expect(MEMORY);
    });
    assert_eq!(
        files.open(FileRef::new(0), NONE).map(|fd| fd.raw()),
        Ok(100)
    );
}

#[test]
fn the_old_descriptor_of_a_rename_goes_into_quarantine() {
    for (from, to) in [(0, 5), (70, 3), (3, 70)] {
        let files = unlimited();
        files.set_quarantine(2).expect("there is memory");
        open(&files, from, 1, ALL);
        drop(files.rename(from, to).expect(OPEN));
        assert_eq!(seen(&files), [(to, 1, ALL)]);
        assert_eq!(files.open_count(), 2, "one waits");
        let next = || files.dup_min(to, from, NONE).expect(ROOM).raw();
        let others = [next(), next()];
        assert!(!others.contains(&from), "{others:?}");
        assert_eq!(next(), from);
    }
}

type Put = fn(&Files<u32>, RawFd);

/// A call that opens a given descriptor may open one in quarantine.
#[test]
fn a_descriptor_in_quarantine_is_a_target() {
    let put: [(&str, Put); 3] = [
        ("replace", |files, fd| {
            let before = files.replace(fd, FileRef::new(5), ALL).expect(ROOM);
            assert!(before.is_none());
        }),
        ("open_at", |files, fd| open(files, fd, 5, ALL)),
        ("rename", |files, fd| {
            open(files, 9, 5, ALL);
            assert!(files.rename(9, fd).expect(ROOM).is_none());
        }),
    ];
    for (name, put) in put {
        for fd in [0, 64] {
            let files = unlimited();
            files.set_quarantine(3).expect("there is memory");
            open(&files, fd, 1, CLOEXEC);
            drop(files.close(fd).expect(OPEN));
            put(&files, fd);
            assert_eq!(seen(&files), [(fd, 5, ALL)], "{name}");
            files.set_quarantine(0).expect("there is memory");
            assert_eq!(files.open_count(), 1, "{name}");
        }
    }
}

#[test]
fn a_refused_rename_leaves_its_target_in_quarantine() {
    for (from, to) in [(0, 5), (70, 3), (3, 70)] {
        let files = unlimited();
        files.set_quarantine(1000).expect("there is memory");
        open(&files, from, 1, NONE);
        open(&files, to, 2, NONE);
        drop(files.close(to).expect(OPEN));
        assert_eq!(files.rename(from ^ 1, to).map(drop), Err(Error::BadFd));
        assert_eq!(files.open_count(), 2, "it still waits");
        let next = files.dup_min(from, to, NONE).expect(ROOM);
        assert_ne!(next.raw(), to);
    }
}

/// A call that waits while 64 is reserved, and then puts a file there.
type Waiting = fn(&Files<u32>) -> Result<Option<u32>, Error>;

#[rustfmt::skip]
const WAITING: &[(&str, Waiting)] = &[
    ("replace", |files| patiently(|| files.replace(64, FileRef::new(1), (NONE, 3))).map(name)),
    ("rename", |files| patiently(|| files.rename(0, 64)).map(name)),
    ("rename in the leaf", |files| patiently(|| files.rename(66, 64)).map(name)),
    ("dup3", |files| {
        let before = patiently(|| files.dup3(0, 64, (NONE, 3)))?;
        Ok(before.map(|closed| *closed))
    }),
];

fn name(closed: Option<(ClosedFile<u32>, FdData)>) -> Option<u32> {
    closed.map(|(closed, _)| *closed)
}

/// 0 and 66 are open, both with the word 3.
fn to_be_renamed() -> Files<u32> {
    let files = unlimited();
    open(&files, 0, 1, (NONE, 3));
    open(&files, 66, 1, (NONE, 3));
    files
}

/// Waits for a call that nothing keeps from ending any more.
fn join<R>(call: ScopedJoinHandle<'_, R>, what: &str) -> R {
    for _ in 0..2000 {
        if call.is_finished() {
            return call.join().expect("no panic");
        }
        thread::sleep(Duration::from_millis(5));
    }
    // The scope would wait for the thread forever.
    eprintln!("{what}: it still waits");
    std::process::abort()
}

type End = fn(fdtable::Reservation<'_, u32>);

#[test]
fn a_waiting_call_waits_for_the_end_of_a_reservation() {
    let ends: [(&str, End, Option<u32>); 2] = [
        (
            "install",
            |reserved| _ = reserved.install(FileRef::new(9)),
            Some(9),
        ),
        ("drop", |reserved| drop(reserved), None),
    ];
    for (what, call) in WAITING {
        for (how, end, expected) in ends {
            let files = to_be_renamed();
            let reserved = files.reserve_from(64, CLOEXEC).expect(ROOM);
            thread::scope(|scope| {
                let waiting = scope.spawn(|| call(&files));
                thread::sleep(Duration::from_millis(20));
                assert!(!waiting.is_finished(), "{what}, {how}");
                end(reserved);
                assert_eq!(join(waiting, what), Ok(expected), "{what}, {how}");
            });
            let (file, data) = files.get_with_data(64).expect(OPEN);
            assert_eq!((*file, data), (1, (NONE, 3).into()), "{what}, {how}");
        }
    }
}

#[test]
fn a_waiting_call_tells_what_has_changed_meanwhile() {
    let files = to_be_renamed();
    let reserved = files.reserve_from(64, NONE).expect(ROOM);
    thread::scope(|scope| {
        let moved = scope.spawn(|| patiently(|| files.rename(0, 64)).map(name));
        let put = scope.spawn(|| {
            let file = FileRef::new(1);
            let refused = patiently(|| files.replace(64, file.clone(), NONE)).map(name);
            (refused, FileRef::strong_count(&file))
        });
        thread::sleep(Duration::from_millis(20));
        drop(files.close(0).expect(OPEN));
        files.set_limit(10);
        drop(reserved);
        assert_eq!(join(moved, "rename"), Err(Error::BadFd));
        assert_eq!(join(put, "replace"), (Err(Error::BadFd), 1));
    });
}

/// A descriptor in quarantine is taken and has no file, as a reserved one, but it is a target.
#[test]
fn a_waiting_call_does_not_wait_for_the_end_of_a_quarantine() {
    for (what, call) in WAITING {
        let files = to_be_renamed();
        open(&files, 64, 2, NONE);
        files.set_quarantine(1000).expect("there is memory");
        drop(files.close(64).expect(OPEN));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| call(&files));
            assert_eq!(join(waiting, what), Ok(None), "{what}");
        });
    }
}

/// A release hook runs when nothing is locked: it may use the table.
#[test]
fn the_hooks_of_displaced_files_may_use_the_table() {
    let files = Arc::new(Files::with_limit(u32::MAX));
    let runs = Arc::new(AtomicUsize::new(0));
    let hooked = || {
        let (files, runs) = (Arc::downgrade(&files), runs.clone());
        FileRef::builder(0_u32)
            .on_release(move |_, _| {
                let files: Arc<Files<u32>> = files.upgrade().expect("the test has it");
                for fd in [0, 1, 64, 65] {
                    let _any = files.get_with_data(fd);
                    let _any = files.set_word(fd, 1);
                }
                let reserved = files.reserve_from(128, NONE).expect(ROOM);
                let opened = reserved.install_with(FileRef::new(5), (NONE, 1));
                opened.expect(MEMORY);
                runs.fetch_add(1, Relaxed);
            })
            .build()
    };
    for (from, to) in [(0, 1), (64, 1), (0, 65)] {
        files.open_at(from, hooked(), ALL).expect(ROOM);
        files.open_at(to, hooked(), NONE).expect(ROOM);
        drop(files.rename(from, to).expect(OPEN));
        drop(files.replace(to, hooked(), NONE).expect(OPEN));
        let there = files.get(to).expect(OPEN);
        drop(files.replace_if(to, &there, hooked(), ALL).expect(OPEN));
        drop(there);
        assert_eq!(files.open_at(to, hooked(), ALL), Err(Error::Exists));
        let refused = files.replace(-1, hooked(), ALL).map(drop);
        assert_eq!(refused, Err(Error::BadFd));
        let reserved = files.reserve(NONE).expect(ROOM);
        let refused = reserved.install_with(hooked(), UNKNOWN);
        assert_eq!(refused, Err(Error::InvalidArgument));
        files.close_range(0, u32::MAX, drop).expect(MEMORY);
    }
    assert_eq!(runs.load(Relaxed), 3 * 7);
}
