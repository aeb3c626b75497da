//! Interest sets: what ends a registration, what is reported, and in which order.

#![cfg(not(loom))]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use fdtable::{FdFlags, FileRef, Files};
use fdtable_interests::{Error, Interest, Interests, Key, Mode};

/// A file with a number of bytes to read.
type File = AtomicUsize;
type Set = Interests<File, &'static str>;

fn file(bytes: usize) -> FileRef<File> {
    FileRef::new(File::new(bytes))
}

fn ask(interest: &Interest<File, &'static str>) -> Option<&'static str> {
    (interest.file()?.load(SeqCst) > 0).then_some(*interest.value())
}

fn some_ready(set: &Set, max: usize) -> Vec<&'static str> {
    let mut found = Vec::new();
    assert_eq!(set.collect(max, ask, |name| found.push(name)), found.len());
    found
}

fn ready(set: &Set) -> Vec<&'static str> {
    some_ready(set, usize::MAX)
}

#[test]
fn calls_fail_as_epoll_ctl_does() {
    let (set, file) = (Set::new(), file(0));
    let key = Key::new(&file, 3);
    assert_eq!(set.modify(key, Mode::Edge, "a"), Err(Error::NotFound));
    assert_eq!(set.remove(key).map(drop), Err(Error::NotFound));
    assert_eq!(set.add(&file, 3, Mode::Edge, "a"), Ok(key));
    assert_eq!(set.add(&file, 3, Mode::Edge, "b"), Err(Error::Exists));
    assert_eq!(*set.get(key).unwrap().value(), "a");
    // Another descriptor of the same file.
    assert_ne!(set.add(&file, 4, Mode::Edge, "b"), Ok(key));
    assert_eq!(
        set.members()
            .iter()
            .map(|it| it.key().fd())
            .collect::<Vec<_>>(),
        [3, 4]
    );
    assert_eq!(set.modify(key, Mode::Edge, "c"), Ok(()));
    assert_eq!(*set.remove(key).unwrap().value(), "c");
    assert_eq!((set.len(), set.clear().len(), set.is_empty()), (1, 1, true));
    assert_eq!((Error::NotFound.errno(), Error::Exists.errno()), (2, 17));
}

#[test]
fn a_registration_survives_a_close_while_a_duplicate_lives_and_not_the_reuse_of_its_number() {
    let (set, files) = (Set::new(), Files::new());
    let fd = files.open(file(1), FdFlags::empty()).unwrap();
    let key = set
        .add(&files.get(fd).unwrap(), fd, Mode::Level, "old")
        .unwrap();
    let copy = files.dup(fd).unwrap();
    drop(files.close(fd).unwrap());
    set.mark_ready(key);
    assert_eq!(ready(&set), ["old"]);
    drop(files.close(copy).unwrap());

    let again = files.open(file(1), FdFlags::empty()).unwrap();
    assert_eq!(again, fd);
    set.mark_ready(key);
    assert!(ready(&set).is_empty(), "it has ended with its file");
    let new = set
        .add(&files.get(again).unwrap(), again, Mode::Level, "new")
        .unwrap();
    assert_ne!(new, key);
    set.mark_ready(new);
    assert_eq!(ready(&set), ["new"]);
}

#[test]
fn a_set_keeps_no_file_and_few_registrations_of_files_that_have_ended() {
    let set = Set::new();
    let stays = file(1);
    for fd in 0..10_000 {
        let file = file(1);
        let key = set.add(&file, fd, Mode::Level, "ends").unwrap();
        set.mark_ready(key);
        if fd == 0 {
            set.add(&stays, fd, Mode::Level, "stays").unwrap();
        }
        assert_eq!(FileRef::strong_count(&file), 1);
        assert!(set.len() < 40);
    }
    set.mark_ready(Key::new(&stays, 0));
    assert_eq!(ready(&set), ["stays"]);
}

#[test]
fn each_mode_lasts_as_long_as_in_epoll() {
    let (set, file) = (Set::new(), file(1));
    for (fd, mode) in [(0, Mode::Level), (1, Mode::Edge), (2, Mode::OneShot)] {
        let name = ["level", "edge", "one-shot"][fd as usize];
        let key = set.add(&file, fd, mode, name).unwrap();
        assert!(set.mark_found(key), "it was not listed");
        assert!(!set.mark_found(key) && set.mark_ready(key));
    }
    assert_eq!(ready(&set), ["level", "edge", "one-shot"]);
    assert_eq!(ready(&set), ["level"]);
    let woken = (0..3)
        .filter(|&fd| set.mark_ready(Key::new(&file, fd)))
        .count();
    assert_eq!(woken, 2, "the one-shot is disarmed");
    assert_eq!(ready(&set), ["level", "edge"]);
    let one_shot = Key::new(&file, 2);
    assert!(!set.is_armed(one_shot));
    set.modify(one_shot, Mode::OneShot, "again").unwrap();
    assert!(set.is_armed(one_shot) && set.mark_found(one_shot));
    assert_eq!(ready(&set), ["level", "again"]);
    file.store(0, SeqCst);
    assert_eq!((ready(&set).len(), set.is_ready()), (0, false));
}

#[test]
fn levels_take_turns() {
    let set = Set::new();
    let files = [file(1), file(1), file(1)];
    for (fd, file) in files.iter().enumerate() {
        let name = ["a", "b", "c"][fd];
        set.mark_ready(set.add(file, fd as i32, Mode::Level, name).unwrap());
    }
    assert_eq!(some_ready(&set, 2), ["a", "b"]);
    assert_eq!(some_ready(&set, 2), ["c", "a"]);
    assert_eq!(set.first_ready(ask), Some("b"), "and stays in front");
    assert_eq!(some_ready(&set, 2), ["b", "c"]);
    drop(set.remove(Key::new(&files[0], 0)).unwrap());
    assert_eq!(ready(&set), ["b", "c"]);
}

#[test]
fn each_is_asked_once_in_a_collection_of_many() {
    let set = Set::new();
    let files: Vec<_> = (0..100).map(|_| file(0)).collect();
    for (fd, file) in files.iter().enumerate() {
        set.mark_ready(set.add(file, fd as i32, Mode::Level, "").unwrap());
    }
    let mut asked = 0;
    let odd_is_ready = |interest: &Interest<File, _>| {
        asked += 1;
        // A wake-up meanwhile is for the next collection.
        set.mark_ready(interest.key());
        (interest.key().fd() % 2 == 1).then_some(())
    };
    assert_eq!(set.collect(usize::MAX, odd_is_ready, drop), 50);
    assert_eq!(asked, 100);
    assert!(set.is_ready());
    assert_eq!(set.collect(0, |_| Some(()), drop), 0);
    assert_eq!(set.collect(30, |_| Some(()), drop), 30);
}

#[test]
fn a_wake_up_of_a_registration_in_hand_is_not_lost() {
    let (set, file) = (Set::new(), file(0));
    let key = set.add(&file, 0, Mode::Edge, "").unwrap();
    set.mark_ready(key);
    // It becomes ready after the answer.
    let asked = set.collect(
        1,
        |_| {
            set.mark_ready(key);
            None::<()>
        },
        drop,
    );
    assert_eq!((asked, set.is_ready()), (0, true));
}

#[test]
fn what_is_removed_or_modified_in_hand_is_not_reported() {
    let (set, file) = (Set::new(), file(1));
    let key = set.add(&file, 0, Mode::OneShot, "old").unwrap();
    set.mark_ready(key);
    let modified = set.collect(1, |_| set.modify(key, Mode::OneShot, "new").ok(), drop);
    assert_eq!((modified, set.is_armed(key)), (0, true));
    set.mark_ready(key);
    let removed = set.collect(1, |_| set.remove(key).ok(), drop);
    assert_eq!((removed, set.is_ready()), (0, false));
}

#[test]
fn a_panic_loses_no_registration() {
    let set = Set::new();
    let files = [file(1), file(1)];
    for (fd, file) in files.iter().enumerate() {
        set.mark_ready(
            set.add(file, fd as i32, Mode::Edge, ["a", "b"][fd])
                .unwrap(),
        );
    }
    let panics = || set.collect(2, |_| -> Option<()> { panic!("asked") }, drop);
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!(ready(&set), ["a", "b"]);
}

/// Threads write to files while others collect them by edges. Each byte is found, and no two
/// threads ever have one registration in hand.
#[test]
fn every_edge_is_collected_by_one_thread() {
    const WRITES: usize = 5_000;
    struct Pipe {
        bytes: AtomicUsize,
        in_hand: AtomicBool,
    }
    let set: Interests<Pipe, ()> = Interests::new();
    let files: Vec<_> = (0..3)
        .map(|fd| {
            let file = FileRef::new(Pipe {
                bytes: AtomicUsize::new(0),
                in_hand: AtomicBool::new(false),
            });
            let key = set.add(&file, fd, Mode::Edge, ()).unwrap();
            (file, key)
        })
        .collect();
    let found = AtomicUsize::new(0);
    let collect = || {
        let take = |interest: &Interest<Pipe, ()>| {
            let pipe = interest.file()?;
            assert!(!pipe.in_hand.swap(true, SeqCst), "another thread has it");
            let bytes = pipe.bytes.swap(0, SeqCst);
            pipe.in_hand.store(false, SeqCst);
            (bytes > 0).then_some(bytes)
        };
        set.collect(2, take, |bytes| {
            found.fetch_add(bytes, SeqCst);
        })
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for write in 0..WRITES {
                    let (file, key) = &files[write % files.len()];
                    file.bytes.fetch_add(1, SeqCst);
                    assert!(set.mark_ready(*key));
                }
            });
            scope.spawn(|| {
                while found.load(SeqCst) < 2 * WRITES {
                    if collect() == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    assert_eq!(found.load(SeqCst), 2 * WRITES);
}
