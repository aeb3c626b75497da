//! Files that several CPUs use, whose references are counted by CPU: the last reference is found in
//! the call that drops it, whichever call empties the descriptor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering::SeqCst};

use fdtable::{FdFlags, FileRef, Files, RawFd};

const NONE: FdFlags = FdFlags::empty();

type Released = Arc<AtomicBool>;

/// Opens a file in the second leaf, counts it by CPU, and returns it with its descriptor and
/// whether it was released.
fn hot_file(files: &Files<u32>) -> (RawFd, Released) {
    let released = Released::default();
    let file = FileRef::builder(7)
        .on_release({
            let released = released.clone();
            move |_, _| assert!(!released.swap(true, SeqCst), "released twice")
        })
        .build();
    let fd = files.open_at(70, file, FdFlags::CLOEXEC).map(|_| 70);
    let fd = fd.expect("it is free");
    files.count_by_cpu(fd).expect("it is open");
    (fd, released)
}

/// Empties the descriptor by `end`, and checks that the hook runs in it; and, where another
/// reference is held, in the drop of that one.
fn check(end: impl Fn(Files<u32>, RawFd)) {
    for is_held in [false, true] {
        let files = Files::new();
        let (fd, released) = hot_file(&files);
        let held = is_held.then(|| files.get(fd).expect("open"));
        // One that was dropped before.
        drop(files.get(fd));
        end(files, fd);
        assert_eq!(released.load(SeqCst), !is_held);
        drop(held);
        assert!(released.load(SeqCst), "never released");
    }
}

#[test]
fn a_close_releases_a_hot_file() {
    check(|files, fd| drop(files.close(fd)));
    check(|files, fd| drop(files.close_if(fd, None)));
    check(|files, fd| drop(files.close(fd).map(|closed| closed.into_file())));
    check(|files, fd| {
        let file = files.get(fd).expect("open");
        drop(files.close_if(fd, Some(&file)));
    });
}

#[test]
fn another_file_at_its_descriptor_releases_a_hot_file() {
    check(|files, fd| {
        let other = files.open(FileRef::new(1), NONE).expect("free");
        drop(files.dup2(other, fd));
    });
    check(|files, fd| drop(files.replace(fd, FileRef::new(1), NONE)));
    check(|files, fd| {
        let other = files.open(FileRef::new(1), NONE).expect("free");
        drop(files.rename(other, fd));
    });
    check(|files, fd| {
        // It stays hot at its new descriptor.
        drop(files.rename(fd, 3));
        files.count_by_cpu(3).expect("moved");
        drop(files.close(3));
    });
}

#[test]
fn the_close_of_a_range_releases_a_hot_file() {
    check(|files, _| files.close_range(0, 1000, drop).expect("there is memory"));
    check(|files, fd| files.close_range(fd, fd, drop).expect("there is memory"));
    check(|files, _| files.close_on_exec(drop).expect("there is memory"));
}

#[test]
fn the_end_of_tables_releases_a_hot_file() {
    check(|files, _| drop(files));
    check(|files, _| {
        let child = files.fork().expect("there is memory");
        drop(files);
        drop(child);
    });
    check(|files, _| {
        let kept_none = files
            .fork_keeping(|_, _, _| false)
            .expect("there is memory");
        drop(files);
        drop(kept_none);
    });
    check(|files, _| {
        let mut files = Arc::new(files);
        let shared = files.clone();
        crate::unshare::unshare(&mut files).expect("there is memory");
        drop(shared);
    });
    check(|files, fd| {
        let child = files.fork().expect("there is memory");
        // The leaf is copied here, with a reference of its own.
        drop(files.close(fd));
        child.count_by_cpu(fd).expect("open");
        drop(files);
        drop(child.close(fd));
    });
}

#[test]
fn references_of_a_hot_file_are_counted() {
    let files = Files::new();
    let (fd, released) = hot_file(&files);
    let held: Vec<_> = (0..5).map(|_| files.get(fd).expect("open")).collect();
    assert_eq!(FileRef::strong_count(&held[0]), 6);
    // Other tests may have all numbers of spread counts.
    let exact = FileRef::exact_strong_count(&held[0]);
    assert!(exact.is_none_or(|exact| exact == 6), "{exact:?}");
    let copy = files.dup(fd).expect("free");
    assert_eq!(FileRef::strong_count(&held[0]), 7);
    drop(files.close(copy));
    assert_eq!(FileRef::strong_count(&held[0]), 6);
    assert_eq!(FileRef::exact_strong_count(&held[0]), Some(6));
    let weak = FileRef::downgrade(&held[0]);
    assert!(weak.upgrade().is_some());
    assert!(FileRef::revoke(&held[0]));
    assert!(files.get(fd).is_err());
    drop(held);
    drop(files.close(fd));
    assert!(weak.upgrade().is_none());
    assert!(released.load(SeqCst));
}

/// What breaks if this is wrong: a file is released while a thread holds it, twice, or never.
#[test]
fn files_that_threads_want_at_once_are_released_once_and_after_their_holders() {
    const ROUNDS: usize = 30_000;
    const THREADS: usize = 3;
    struct Wanted {
        holders: AtomicIsize,
        ended: Arc<AtomicUsize>,
    }
    let files: Files<Wanted> = Files::new();
    let (ended, is_over) = (Arc::new(AtomicUsize::new(0)), AtomicBool::new(false));
    let fds = [5, 70];
    let make = || {
        let wanted = Wanted {
            holders: AtomicIsize::new(0),
            ended: ended.clone(),
        };
        let on_release = |wanted: &Wanted, _| {
            assert_eq!(wanted.holders.load(SeqCst), 0, "released beside a holder");
            wanted.ended.fetch_add(1, SeqCst);
        };
        FileRef::builder(wanted).on_release(on_release).build()
    };
    let want = || {
        while !is_over.load(SeqCst) {
            for file in fds.iter().filter_map(|&fd| files.get(fd).ok()) {
                file.holders.fetch_add(1, SeqCst);
                let copy = FileRef::clone(&file);
                copy.holders.fetch_sub(1, SeqCst);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(want);
        }
        for round in 0..ROUNDS {
            let fd = fds[round % 2];
            drop(files.replace(fd, make(), NONE));
            files.count_by_cpu(fd).expect("open");
            if round % 3 == 0 {
                // Gathered, and spread again.
                drop(files.dup(fd).and_then(|copy| files.close(copy)));
                files.count_by_cpu(fd).expect("open");
            }
            if round % 5 == 0 {
                drop(files.close(fd));
            }
        }
        is_over.store(true, SeqCst);
    });
    drop(files);
    assert_eq!(ended.load(SeqCst), ROUNDS);
}
