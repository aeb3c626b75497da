//! Close-on-fork: where a call sets the flag, and which tables get the descriptor.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::thread;

use fdtable::{Error, Fd, FdData, FdFlags, FileRef, Files, RawFd};

const NONE: FdFlags = FdFlags::empty();
const CLOEXEC: FdFlags = FdFlags::CLOEXEC;
const CLOFORK: FdFlags = FdFlags::CLOFORK;
const BOTH: FdFlags = FdFlags::all();
const KINDS: [FdFlags; 4] = [NONE, CLOEXEC, CLOFORK, BOTH];

const ROOM: &str = "there is room";
const OPEN: &str = "it is open";
const MEMORY: &str = "there is memory";

/// Descriptors in the first leaf, in others with neighbours and without, and far up.
const FDS: [RawFd; 7] = [0, 1, 63, 64, 65, 200, 40_000];

/// Returns the data of each open descriptor.
fn all(files: &Files<RawFd>) -> BTreeMap<RawFd, FdData> {
    let of = |(fd, _, data): (Fd, _, _)| (fd.raw(), data);
    files.iter().map(of).collect()
}

/// Makes a table with a file at each of [`FDS`], with the flags that `flags_of` returns.
fn table(flags_of: impl Fn(RawFd) -> FdFlags) -> Files<RawFd> {
    let files = Files::with_limit(100_000);
    for fd in FDS {
        files
            .open_at(fd, FileRef::new(fd), flags_of(fd))
            .expect(ROOM);
    }
    files
}

#[test]
fn every_call_that_takes_flags_sets_it() {
    type Call = fn(&Files<RawFd>, FdFlags) -> Result<Vec<Fd>, Error>;
    let calls: &[(&str, Call)] = &[
        ("open", |t, flags| Ok(vec![t.open(FileRef::new(7), flags)?])),
        ("open_any", |t, flags| {
            Ok(vec![t.open_any(FileRef::new(7), flags)?])
        }),
        ("open_pair", |t, flags| {
            let pair = t.open_pair((FileRef::new(7), FileRef::new(8)), flags)?;
            assert_eq!((*t.get(pair.0)?, *t.get(pair.1)?), (7, 8));
            Ok(vec![pair.0, pair.1])
        }),
        ("reserve", |t, flags| {
            Ok(vec![t.reserve(flags)?.install(FileRef::new(7))])
        }),
        ("reserve_any", |t, flags| {
            Ok(vec![t.reserve_any(flags)?.install(FileRef::new(7))])
        }),
        ("reserve_from", |t, flags| {
            Ok(vec![t.reserve_from(70, flags)?.install(FileRef::new(7))])
        }),
        ("reserve_many", |t, flags| {
            let many = t.reserve_many(100, flags)?;
            Ok(many.map(|fd| fd.install(FileRef::new(7))).collect())
        }),
        ("install_with", |t, flags| {
            Ok(vec![t.reserve(NONE)?.install_with(FileRef::new(7), flags)?])
        }),
        ("dup_min", |t, flags| Ok(vec![t.dup_min(0, 0, flags)?])),
        ("dup_min, further", |t, flags| {
            Ok(vec![t.dup_min(0, 100, flags)?])
        }),
        ("dup_with", |t, flags| {
            Ok(vec![t.dup_with(0, 0, |_| flags.into())?])
        }),
        ("dup3", |t, flags| {
            t.dup3(0, 70, flags).and(Ok(vec![Fd::new(70)?]))
        }),
        ("replace", |t, flags| {
            t.replace(64, FileRef::new(7), flags)
                .and(Ok(vec![Fd::new(64)?]))
        }),
        ("set_fd_flags", |t, flags| {
            t.set_fd_flags(65, flags).and(Ok(vec![Fd::new(65)?]))
        }),
    ];
    for (name, call) in calls {
        for before in [NONE, BOTH] {
            for flags in KINDS {
                let files = table(|_| before);
                for fd in call(&files, flags).expect(ROOM) {
                    assert_eq!(files.fd_flags(fd), Ok(flags), "{name}");
                    assert_eq!(
                        files.get_with_data(fd).expect(OPEN).1.flags,
                        flags,
                        "{name}"
                    );
                    let child = files.fork().expect(MEMORY);
                    assert_eq!(child.get(fd).is_ok(), !flags.contains(CLOFORK), "{name}");
                }
            }
        }
    }
}

#[test]
fn a_duplicate_has_it_only_if_the_call_says_so_and_a_rename_keeps_it() {
    let files = table(|_| BOTH);
    assert_eq!(files.fd_flags(files.dup(0).expect(ROOM)), Ok(NONE));
    drop(files.dup2(0, 64).expect(ROOM));
    assert_eq!(files.fd_flags(64), Ok(NONE));
    drop(files.rename(1, 500).expect(ROOM));
    assert_eq!(files.fd_flags(500), Ok(BOTH));
    files.set_fd_flags(500, CLOFORK).expect(OPEN);
    files.set_cloexec_range(0, u32::MAX).expect(MEMORY);
    assert_eq!(files.fd_flags(500), Ok(BOTH), "the other flag stays");
}

/// The descriptor is free in the child, with its leaf, and unchanged in the parent, also where the
/// two shared it before.
#[test]
fn a_child_has_every_descriptor_but_those() {
    for mask in 0..1_u32 << FDS.len() {
        let place = |fd| FDS.iter().position(|&it| it == fd).expect("one of them");
        let is_meant = |fd: RawFd| mask >> place(fd) & 1 != 0;
        let parent = table(|fd| if is_meant(fd) { CLOFORK } else { CLOEXEC });
        parent.set_word(FDS[mask as usize % 7], 9).expect(OPEN);
        let before = all(&parent);
        let mut expected = before.clone();
        expected.retain(|&fd, _| !is_meant(fd));
        for _ in 0..2 {
            let child = parent.fork().expect(MEMORY);
            assert_eq!(all(&child), expected);
            assert_eq!(child.open_count(), expected.len());
            let of_child = child.fork().expect(MEMORY);
            assert_eq!(all(&of_child), expected);
            let lowest = (0..).find(|fd| !expected.contains_key(fd));
            let opened = child.open(FileRef::new(-1), NONE).expect(ROOM);
            assert_eq!(Some(opened.raw()), lowest);
            assert_eq!(
                child.fd_flags(opened),
                Ok(NONE),
                "nothing of its flags is left"
            );
            assert_eq!(all(&parent), before);
        }
        let mut again = Files::new();
        parent.fork_into(&mut again).expect(MEMORY);
        assert_eq!(all(&again), expected);
        let kept = parent.fork_keeping(|_, _, _| true).expect(MEMORY);
        assert_eq!(all(&kept), before, "as an unshare needs it");
        assert_eq!(all(&kept.fork().expect(MEMORY)), expected);
    }
}

#[test]
fn a_reserved_descriptor_beside_it_stays_out_too() {
    let parent: Files<RawFd> = table(|_| CLOFORK);
    let reserved = parent.reserve_from(66, CLOFORK).expect(ROOM);
    let child = parent.fork().expect(MEMORY);
    assert_eq!(child.open_count(), 0);
    let fd = reserved.install(FileRef::new(7));
    assert_eq!(parent.fd_flags(fd), Ok(CLOFORK));
    assert_eq!(parent.open_count(), FDS.len() + 1);
}

#[test]
fn a_fork_leaves_no_reference_behind_and_calls_no_hook() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let write = |what: &'static str| {
        let log = log.clone();
        move || log.lock().expect("no panic").push(what)
    };
    let mut parent = Files::with_limit(1000);
    let (closed, released) = (write("closed"), write("released"));
    parent
        .on_close(Arc::new(move |_, _: &_, _| closed()))
        .expect(MEMORY);
    let file = FileRef::builder(0)
        .on_release(move |_, _| released())
        .build();
    parent.open_at(100, file, CLOFORK).expect(ROOM);
    let child = parent.fork().expect(MEMORY);
    assert!(log.lock().expect("no panic").is_empty());
    drop(parent.close(100).expect(OPEN));
    assert_eq!(*log.lock().expect("no panic"), ["closed", "released"]);
    drop(child);
}

#[test]
fn exec_clears_it_and_keeps_the_descriptor() {
    for shared in [false, true] {
        let files = table(|fd| KINDS[fd.unsigned_abs() as usize % 4]);
        files.set_word(200, 3).expect(OPEN);
        let files = match shared {
            true => files.fork_keeping(|_, _, _| true).expect(MEMORY),
            false => files,
        };
        let mut expected = all(&files);
        expected.retain(|_, data| !data.flags.contains(CLOEXEC));
        expected.values_mut().for_each(|data| data.flags = NONE);
        let mut closed = Vec::new();
        let close = |fds: fdtable::ClosedFiles<RawFd>| {
            closed.extend(
                fds.descriptors()
                    .map(|(fd, _, data)| (fd.raw(), data.flags)),
            );
        };
        files.close_on_exec(close).expect(MEMORY);
        assert_eq!(all(&files), expected);
        let flags_of = |fd: RawFd| (fd, KINDS[fd.unsigned_abs() as usize % 4]);
        let with_it = |&(_, flags): &(_, FdFlags)| flags.contains(CLOEXEC);
        let of_table: Vec<_> = FDS.map(flags_of).into_iter().filter(with_it).collect();
        assert_eq!(closed, of_table, "the data is that before the call");
    }
}

/// Sets a flag when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// One descriptor in each leaf has the flag all the time, one never, and one now and then: then
/// together with close-on-exec. No fork and no look finds a half of a change.
#[test]
fn forks_and_looks_beside_changes_see_each_change_at_once() {
    const LEAVES: [RawFd; 3] = [0, 64, 40_000];
    let files: Files<RawFd> = Files::with_limit(100_000);
    for base in LEAVES {
        for (fd, flags) in [(base, CLOFORK), (base + 1, NONE), (base + 2, NONE)] {
            files.open_at(fd, FileRef::new(fd), flags).expect(ROOM);
        }
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        // Also if an assertion fails, or the threads go on.
        let _ends = Ends(&done);
        for base in LEAVES {
            let (files, done) = (&files, &done);
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    files.set_fd_flags(base + 2, BOTH).expect(OPEN);
                    files.set_fd_flags(base + 2, NONE).expect(OPEN);
                    // Its file is another one, with the flag from the beginning.
                    let file = FileRef::new(base);
                    drop(files.replace(base, file, CLOFORK).expect(ROOM));
                }
            });
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    let flags = files.fd_flags(base + 2).expect(OPEN);
                    assert!(flags == NONE || flags == BOTH, "{flags:?}");
                }
            });
        }
        for _ in 0..300 {
            let child = files.fork().expect(MEMORY);
            for base in LEAVES {
                assert_eq!(child.get(base).map(|it| *it), Err(Error::BadFd));
                assert_eq!(child.fd_flags(base + 1), Ok(NONE));
                // It is there only without the flag, and then without the other one.
                assert!([Ok(NONE), Err(Error::BadFd)].contains(&child.fd_flags(base + 2)));
            }
        }
    });
    assert_eq!(files.open_count(), 9);
}
