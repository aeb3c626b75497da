//! The hook of a table is called once for every descriptor that leaves it, whatever the call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use fdtable::{Error, Fd, FdData, FdFlags, FileRef, Files, RawFd};

const CLOEXEC: FdFlags = FdFlags::CLOEXEC;
const OPEN: &str = "it is open";
const ROOM: &str = "there is room";
const MEMORY: &str = "there is memory";

/// The calls of the hook, and the releases of files.
type Log = Arc<Mutex<Vec<Line>>>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Line {
    Closed(RawFd, usize, u64),
    Released(usize),
}

use Line::{Closed, Released};

fn write(log: &Log, line: Line) {
    log.lock().expect("no panic").push(line);
}

fn taken(log: &Log) -> Vec<Line> {
    core::mem::take(&mut *log.lock().expect("no panic"))
}

/// A file whose release is logged.
fn file(log: &Log, name: usize) -> FileRef<usize> {
    let log = log.clone();
    FileRef::builder(name)
        .on_release(move |&name, _| write(&log, Released(name)))
        .build()
}

/// A hook that logs.
fn hook(log: &Log) -> Arc<impl Fn(Fd, &FileRef<usize>, FdData) + Send + Sync + use<>> {
    let log = log.clone();
    Arc::new(move |fd: Fd, file: &FileRef<usize>, data: FdData| {
        write(&log, Closed(fd.raw(), **file, data.word));
    })
}

/// The descriptors that are open: in the first leaf, and in others with neighbours and without.
const FDS: [RawFd; 6] = [0, 1, 64, 65, 200, 40_000];

/// A table with a file of its own at each of [`FDS`], named like it, with the word 1000 more.
fn table(log: &Log) -> Files<usize> {
    let mut files = Files::with_limit(100_000);
    files.on_close(hook(log)).expect(MEMORY);
    for fd in FDS {
        let name = fd.unsigned_abs() as usize;
        let data = (CLOEXEC, 1000 + name as u64);
        files.open_at(fd, file(log, name), data).expect(ROOM);
    }
    files
}

/// The lines of a descriptor of a [`table`] whose file is released after that.
fn closed(fd: RawFd) -> [Line; 2] {
    let name = fd.unsigned_abs() as usize;
    [Closed(fd, name, 1000 + name as u64), Released(name)]
}

type Close = fn(&Files<usize>, RawFd) -> Result<(), Error>;

/// The calls that close one descriptor and open none.
#[rustfmt::skip]
const CLOSES: &[(&str, Close)] = &[
    ("close", |files, fd| files.close(fd).map(drop)),
    ("close_if", |files, fd| files.close_if(fd, None).map(drop)),
    ("close_range", |files, fd| files.close_range(fd, fd, drop)),
];

/// The calls that put the file of descriptor 0, or of no other name, at another one.
#[rustfmt::skip]
const REPLACES: &[(&str, Close)] = &[
    ("dup2", |files, fd| files.dup2(0, fd).map(drop)),
    ("dup3", |files, fd| files.dup3(0, fd, (CLOEXEC, 7)).map(drop)),
    ("replace", |files, fd| files.replace(fd, FileRef::new(0), CLOEXEC).map(drop)),
    ("replace_if", |files, fd| {
        let there = files.get(fd)?;
        files.replace_if(fd, &there, FileRef::new(0), (CLOEXEC, 7)).map(drop)
    }),
];

type Enter = fn(&Files<usize>) -> Option<Files<usize>>;

/// How a table is when a descriptor is closed.
#[rustfmt::skip]
const MODES: &[(&str, Enter)] = &[
    ("alone", |_| None),
    ("forked", |files| Some(files.fork().expect(MEMORY))),
    ("quarantine", |files| { files.set_quarantine(3).expect(MEMORY); None }),
];

#[test]
fn a_close_where_opens_look_calls_the_hook() {
    let log = Log::default();
    let mut files = Files::with_limit(1000);
    files.on_close(hook(&log)).expect(MEMORY);
    for name in 0..70 {
        let data = (CLOEXEC, 1000 + name as u64);
        files.open(file(&log, name), data).expect(ROOM);
    }
    for fd in [66, 3] {
        drop(files.close(fd).expect(OPEN));
    }
    let lines = log.lock().expect("no panic").clone();
    assert_eq!(lines, [closed(66), closed(3)].concat());
}

#[test]
fn each_call_that_closes_a_descriptor_calls_the_hook_once_before_the_release() {
    for (mode, enter) in MODES {
        for (name, close) in CLOSES.iter().chain(REPLACES) {
            let log = Log::default();
            let files = table(&log);
            let child = enter(&files);
            for fd in [1, 64, 65, 200, 40_000] {
                close(&files, fd).expect(OPEN);
                let lines = taken(&log);
                let expected = &closed(fd)[..if child.is_some() { 1 } else { 2 }];
                assert_eq!(lines, expected, "{name} of {fd}, {mode}");
            }
            drop(child);
        }
    }
}

#[test]
fn calls_that_close_nothing_do_not_call_the_hook() {
    for (mode, enter) in MODES {
        let log = Log::default();
        let files = table(&log);
        let _child = enter(&files);
        let zero = files.get(0).expect(OPEN);
        assert_eq!(files.close(2).err(), Some(Error::BadFd));
        assert_eq!(files.close_if(1, Some(&zero)).err(), Some(Error::Stale));
        assert_eq!(files.dup2(2, 1).err(), Some(Error::BadFd));
        assert!(files.dup2(1, 1).expect(OPEN).is_none());
        assert!(files.dup2(1, 3).expect(OPEN).is_none());
        assert_eq!(files.open_at(1, zero.clone(), CLOEXEC), Err(Error::Exists));
        assert_eq!(files.rename(2, 1).err(), Some(Error::BadFd));
        assert!(
            files
                .replace(100, zero.clone(), CLOEXEC)
                .expect(ROOM)
                .is_none()
        );
        files.close_range(1000, 30_000, drop).expect(MEMORY);
        drop(files.reserve(CLOEXEC).expect(ROOM));
        FileRef::revoke(&files.get(1).expect(OPEN));
        assert_eq!(taken(&log), [Released(1)], "by the revocation, {mode}");
    }
}

#[test]
fn a_rename_frees_one_descriptor_and_replaces_at_another() {
    for (from, to) in [(1, 0), (65, 64), (1, 40_000), (40_000, 1)] {
        for (mode, enter) in MODES {
            let log = Log::default();
            let files = table(&log);
            let child = enter(&files);
            drop(files.rename(from, to).expect(OPEN));
            let mut expected = vec![closed(from)[0], closed(to)[0], closed(to)[1]];
            expected.truncate(if child.is_some() { 2 } else { 3 });
            assert_eq!(taken(&log), expected, "{from} to {to}, {mode}");
            let free = 1 + RawFd::from(*mode == "quarantine");
            assert!(files.rename(to, free * 1000).expect(OPEN).is_none());
            assert_eq!(taken(&log).len(), 1);
        }
    }
}

#[test]
fn calls_that_close_many_and_the_end_of_the_table_call_it_for_each() {
    type CloseAll = fn(Files<usize>);
    #[rustfmt::skip]
    let all: &[(&str, CloseAll)] = &[
        ("close_range", |files| files.close_range(0, u32::MAX, drop).expect(MEMORY)),
        ("close_on_exec", |files| files.close_on_exec(drop).expect(MEMORY)),
        ("the end", drop),
        ("fork_into", |mut files| Files::new().fork_into(&mut files).expect(MEMORY)),
    ];
    for (mode, enter) in MODES {
        for (name, close) in all {
            let log = Log::default();
            let files = table(&log);
            let child = enter(&files);
            close(files);
            let mut lines = taken(&log);
            let released = lines.extract_if(.., |line| matches!(line, Released(_)));
            let is_released = released.count() == FDS.len();
            assert_eq!(is_released, child.is_none(), "{name}, {mode}");
            assert_eq!(lines, FDS.map(|fd| closed(fd)[0]), "{name}, {mode}");
            drop(child);
            let by_child = taken(&log);
            assert!(
                by_child.iter().all(|line| matches!(line, Released(_))),
                "it has no hook"
            );
        }
    }
}

#[test]
fn a_child_keeps_what_it_keeps_without_the_hook_and_may_have_one() {
    let log = Log::default();
    let files = table(&log);
    let mut child = files.fork_keeping(|fd, _, _| fd.raw() != 1).expect(MEMORY);
    child.on_close(hook(&log)).expect(MEMORY);
    assert_eq!(taken(&log), []);
    drop(child.close(64).expect(OPEN));
    assert_eq!(taken(&log), [closed(64)[0]]);
    drop(files.close(64).expect(OPEN));
    assert_eq!(taken(&log), closed(64));
}

/// The hook is called outside of locks, when the descriptor is free.
#[test]
fn the_hook_may_use_the_table() {
    let place: Arc<OnceLock<Weak<Files<usize>>>> = Arc::default();
    let mut files = Files::new();
    let hook = {
        let place = place.clone();
        move |fd, file: &FileRef<usize>, data: FdData| {
            if let Some(files) = place.get().and_then(Weak::upgrade)
                && **file < 100
            {
                let opened = files.open_at(fd, FileRef::new(**file + 100), data);
                assert!(opened.is_ok() || !files.refers_to(fd, file));
                drop(files.dup2(fd, 20).expect(OPEN));
            }
        }
    };
    files.on_close(Arc::new(hook)).expect(MEMORY);
    let files = Arc::new(files);
    place.set(Arc::downgrade(&files)).expect("it is set once");
    for name in 0..5 {
        files.open(FileRef::new(name), CLOEXEC).expect(ROOM);
    }
    let at = |fd: RawFd| files.get(fd).map(|file| *file);
    drop(files.close(0).expect(OPEN));
    assert_eq!((at(0), at(20)), (Ok(100), Ok(100)));
    drop(files.dup2(2, 1).expect(OPEN));
    assert_eq!((at(1), at(20)), (Ok(2), Ok(2)));
    files.close_range(2, 3, drop).expect(MEMORY);
    assert_eq!((at(2), at(3), at(20)), (Ok(102), Ok(103), Ok(103)));
    files.close_range(0, u32::MAX, drop).expect(MEMORY);
    // The hook has opened these two again.
    assert_eq!(
        (at(0), at(4), at(20)),
        (Err(Error::BadFd), Ok(104), Ok(104))
    );
}

#[test]
fn a_panic_of_the_hook_keeps_no_file_and_ends_no_call_early() {
    let log = Log::default();
    let make = |fds: &'static [RawFd]| {
        let mut files = table(&log);
        let panics = |fd: Fd, _: &FileRef<usize>, _| assert!(!fds.contains(&fd.raw()));
        files.on_close(Arc::new(panics)).expect(MEMORY);
        files
    };
    let files = make(&[1, 64]);
    let close = || files.close(1).map(drop);
    catch_unwind(AssertUnwindSafe(close)).expect_err("the hook's panic");
    assert_eq!(
        (taken(&log), files.get(1).err()),
        (vec![Released(1)], Some(Error::BadFd))
    );
    let mut seen = 0;
    let close = || files.close_range(0, u32::MAX, |closed| seen += closed.files().count());
    catch_unwind(AssertUnwindSafe(close)).expect_err("the hook's panic");
    assert_eq!((taken(&log).len(), files.open_count(), seen), (5, 0, 5));
    // Without `std` a second panic ends the process.
    let files = make(if cfg!(hooks) { &[1] } else { &[1, 64] });
    catch_unwind(AssertUnwindSafe(|| drop(files))).expect_err("the hook's panic");
    assert_eq!(taken(&log).len(), FDS.len());
}

/// Closes and replacements by several threads: each file that was opened leaves once.
#[test]
fn the_hook_is_called_once_for_each_file_that_threads_open() {
    let log = Log::default();
    let files = table(&log);
    let opened = 4 * 500;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (files, log) = (&files, &log);
            scope.spawn(move || {
                for round in 0..500 {
                    let name = 100_000 + thread * 500 + round;
                    let fd = files.open(file(log, name), CLOEXEC).expect(ROOM);
                    match round % 4 {
                        0 => drop(files.close(fd)),
                        1 => drop(files.replace(70 + thread as RawFd, file(log, 0), CLOEXEC)),
                        2 => drop(files.dup2(fd, 100 + thread as RawFd)),
                        _ => drop(files.close_range(fd, fd, drop)),
                    }
                }
            });
        }
    });
    drop(files);
    let lines = taken(&log);
    for name in 100_000..100_000 + opened {
        let of_it = |line: &&Line| matches!(line, Closed(_, it, _) if *it == name);
        let closed = lines.iter().filter(of_it).count();
        // A duplicate is another descriptor.
        assert_eq!(closed, 1 + usize::from((name - 100_000) % 4 == 2), "{name}");
    }
}
