//! Threads that change the same names.

use std::thread;

use super::*;
use crate::call::{Call, within_time};
use crate::fs::NewKind;

/// Rounds of each thread: a tenth of a second.
const ROUNDS: usize = 3000;

#[test]
fn one_of_many_creators_is_the_first() {
    let fs = MemFs::default();
    let create = |round: usize| {
        let made = fs.open(round.to_string(), OpenFlags::CREAT | OpenFlags::EXCL);
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

/// A creator that looked before the other's creation sees it once it has the lock.
#[test]
fn the_second_of_two_creators_gets_eexist() {
    let fs = tree(&["a"]);
    let new = fs.path_context().new_inode(NewKind::Regular, Mode::NONE);
    let created = fs.root.create(b"a", &new);
    assert_eq!(created.err(), Some(Errno::EEXIST));
}

#[test]
fn a_move_waits_for_another_and_a_rename_in_place_does_not() {
    let fs = Arc::new(tree(&["a/", "a/1", "a/b/", "c/"]));
    let rename = |old, new| {
        let fs = Arc::clone(&fs);
        move || fs.rename(old, new)
    };
    let moves = fs.moves.lock();
    let waiting =
        [("a/1", "c/1"), ("a/b", "a/d")].map(|(old, new)| Call::start_waiting(rename(old, new)));
    create(&fs, "a/2");
    assert_eq!(Call::start(rename("a/2", "a/3")).result(), Ok(()));
    drop(moves);
    assert_eq!(waiting.map(Call::result), [Ok(()); 2]);
}

/// Renames back and forth between directories above, below and beside each other.
///
/// Other threads remove directories between them. There must be no deadlock, and no lost file.
#[test]
fn renames_in_all_directions_end_and_lose_nothing() {
    within_time(|| {
        let fs = tree(&[
            "a/", "a/b/", "a/b/kept", "c/", "a/1", "a/b/2", "c/3", "a/4", "a/x/", "c/y/",
        ]);
        thread::scope(|scope| {
            for pair in PAIRS {
                let fs = &fs;
                scope.spawn(move || (0..ROUNDS).for_each(|_| swing(fs, pair)));
            }
        });
        assert_eq!(count(&fs, "/"), 10);
    });
}

/// Old and new names, one pair for each thread.
const PAIRS: [[&str; 2]; 6] = [
    ["a/1", "a/b/1"],
    ["a/b/2", "c/2"],
    ["c/3", "a/3"],
    ["a/4", "c/4"],
    ["a/x", "c/y/x"],
    ["c/y", "a/x/y"],
];

fn swing(fs: &MemFs, [here, there]: [&str; 2]) {
    for (old, new) in [(here, there), (there, here)] {
        // Only moves of directories get in each other's way.
        if let Err(errno) = fs.rename(old, new) {
            assert!(matches!(errno, Errno::ENOENT | Errno::EINVAL), "{errno}");
        }
    }
}

/// A removal locks a directory and then one inside it. So does a rename, in either direction.
#[test]
fn a_rename_and_a_removal_lock_in_the_same_order() {
    within_time(|| {
        let fs = tree(&["a/", "a/b/", "a/b/kept", "a/1"]);
        thread::scope(|scope| {
            let renames = scope.spawn(|| (0..8 * ROUNDS).for_each(|_| swing(&fs, PAIRS[0])));
            while !renames.is_finished() {
                assert_eq!(fs.rmdir("a/b"), Err(Errno::ENOTEMPTY));
            }
        });
    });
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
fn nothing_is_created_in_a_directory_that_is_being_removed() {
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
