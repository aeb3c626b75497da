//! Threads that change the same names.

use std::thread;

use super::*;

/// Rounds of each thread: a tenth of a second.
const ROUNDS: usize = 3000;

#[test]
fn one_of_many_creators_is_the_first() {
    let fs = MemFs::default();
    let create = |round: usize| {
        let made = fs.open(&round.to_string(), OpenFlags::CREAT | OpenFlags::EXCL);
        assert!(made.is_ok() || made.as_ref().is_err_and(|&errno| errno == Errno::EEXIST));
        made.is_ok()
    };
    let create_all = || (0..ROUNDS).filter(|&round| create(round)).count();
    let made = thread::scope(|scope| {
        let creators = [(); 3].map(|()| scope.spawn(create_all));
        creators.map(|creator| creator.join().unwrap())
    });
    assert_eq!(made.iter().sum::<usize>(), ROUNDS);
    assert_eq!(fs.stat("/").unwrap().size, ROUNDS as u64);
}

/// Renames there and back between directories above, below and beside each other, with removals
/// of what is between: no lock is waited for in a circle, and nothing is lost.
#[test]
fn renames_in_all_directions_end_and_lose_nothing() {
    let fs = tree(&["a/", "a/b/", "c/", "a/1", "a/b/2", "c/3", "a/x/", "c/y/"]);
    let pairs = [
        [("a/1", "a/b/1"), ("a/b/1", "a/1")],
        [("a/b/2", "c/2"), ("c/2", "a/b/2")],
        [("c/3", "a/3"), ("a/3", "c/3")],
        [("a/x", "c/y/x"), ("c/y/x", "a/x")],
        [("c/y", "a/x/y"), ("a/x/y", "c/y")],
    ];
    let swing = |pair: [(&str, &str); 2]| {
        for _ in 0..ROUNDS {
            for (old, new) in pair {
                // Only where directories move is anybody in anybody's way.
                if let Err(errno) = fs.rename(old, new) {
                    assert!(matches!(errno, Errno::ENOENT | Errno::EINVAL), "{errno}");
                }
            }
        }
    };
    let come_and_go = || {
        for _ in 0..ROUNDS {
            fs.mkdir("a/b/d").unwrap();
            fs.rmdir("a/b/d").unwrap();
        }
    };
    thread::scope(|scope| {
        for pair in pairs {
            scope.spawn(move || swing(pair));
        }
        scope.spawn(come_and_go);
    });
    assert_eq!(count(&fs, "/"), 8);
}

/// Counts all names below a directory.
fn count(fs: &MemFs, path: &str) -> usize {
    let below = |name: String| {
        let path = format!("{path}/{name}");
        match fs.open(&path, OpenFlags::DIRECTORY) {
            Ok(_) => 1 + count(fs, &path),
            Err(_) => 1,
        }
    };
    list(fs, path).into_iter().map(below).sum()
}

/// A name that is replaced again and again is never missing.
#[test]
fn a_replaced_name_is_there_all_the_time() {
    let fs = tree(&["d/", "d/a"]);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..ROUNDS {
                create(&fs, "d/new");
                fs.rename("d/new", "d/a").unwrap();
            }
        });
        while !writer.is_finished() {
            fs.stat("d/a").unwrap();
        }
    });
}

/// A directory is removed, or something is created in it: never both.
#[test]
fn nothing_is_created_in_a_directory_that_goes() {
    let fs = MemFs::default();
    thread::scope(|scope| {
        let creator = scope.spawn(|| {
            for _ in 0..ROUNDS {
                let _ = fs.mkdir("d");
                if fs.open("d/a", OpenFlags::CREAT | OpenFlags::EXCL).is_ok() {
                    fs.unlink("d/a").unwrap();
                }
            }
        });
        while !creator.is_finished() {
            if let Err(errno) = fs.rmdir("d") {
                assert!(matches!(errno, Errno::ENOENT | Errno::ENOTEMPTY));
            }
        }
    });
}
