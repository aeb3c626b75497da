//! A fork that reads a row twice: once to count it or to see that it is there, once to copy it,
//! and in between it changes. Or it reads one row before a change, and another after. The child
//! has a file too often, or not at all.

use fdtable::{Error, Files, RawFd};

use crate::NONE;

/// Moves a file from each of these descriptors to the next, and from the last to the first: it is
/// open there before it is closed here.
fn go_round<T: Send + Sync>(files: &Files<T>, numbers: &[RawFd]) -> Result<(), Error> {
    let next = numbers.iter().cycle().skip(1);
    numbers
        .iter()
        .zip(next)
        .try_for_each(|(&from, &to)| {
            files.dup3(from, to, NONE)?;
            files.close(from).map(drop)
        })
        .map(drop)
}

/// Returns true if the file is open under these descriptors at some moment: under one of the round,
/// or under one and the next.
fn is_a_moment(open: &[RawFd], numbers: &[RawFd]) -> bool {
    let next = numbers.iter().cycle().skip(1);
    numbers.iter().zip(next).any(|(&one, &next)| {
        let mut both = [one, next];
        both.sort_unstable();
        open == [one] || open == both
    })
}

#[cfg(not(loom))]
#[test]
fn a_file_that_moves_is_in_every_child_and_never_everywhere() {
    use std::sync::Mutex;

    use fdtable::FileRef;

    use crate::hammer::hammer;
    use crate::listed;

    // In the first leaf, in others, and in other nodes; back and forth.
    let numbers = [3, 40_000, 70, 200, 4, 5000, 300, 100_000];
    let files = Files::with_limit(u32::MAX);
    let held = FileRef::new(());
    let first = files.reserve_from(numbers[0], NONE).expect("it is free");
    first.install(held.clone());
    let mover = Mutex::new(());
    hammer(|_, _| {
        if let Ok(_alone) = mover.try_lock() {
            (0..20).for_each(|_| go_round(&files, &numbers).expect("only this thread moves it"));
            return;
        }
        let child = files.fork().expect("there is memory");
        let open = listed(&child);
        assert!(is_a_moment(&open, &numbers), "{open:?}");
        let (found, all) = (open.iter(), FileRef::strong_count(&held));
        assert!(
            found.map(|&fd| child.get(fd)).all(|file| file.is_ok()),
            "{open:?}"
        );
        // A shared part has one reference to each of its files.
        assert!(all >= 2, "{all}: that of the tables and the test's");
    });
    assert_eq!(listed(&files), numbers[..1]);
    assert_eq!(FileRef::strong_count(&held), 2, "no child leaked one");
}

#[cfg(loom)]
mod models {
    use super::{go_round, is_a_moment};
    use crate::exploration::{explore, join, references, spawn, table};
    use crate::listed;

    #[test]
    fn a_fork_meets_a_file_that_moves_through_three_leaves() {
        explore(2, || {
            let (files, held) = table(16, &[0]);
            let mover = spawn(&files, |files| go_round(files, &[0, 4, 8]));
            let child = files.fork().expect("there is memory");
            assert_eq!(join(mover), Ok(()));
            let open = listed(&child);
            assert!(is_a_moment(&open, &[0, 4, 8]), "{open:?}");
            assert_eq!(references(&held), [2 + open.len()]);
            drop(child);
            assert_eq!(listed(&files), [0]);
            assert_eq!(references(&held), [2]);
        });
    }

    #[test]
    fn a_fork_meets_a_file_that_moves_within_a_leaf() {
        explore(2, || {
            let (files, held) = table(16, &[1]);
            let mover = spawn(&files, |files| go_round(files, &[1, 0, 2]));
            let child = files.fork().expect("there is memory");
            assert_eq!(join(mover), Ok(()));
            let open = listed(&child);
            assert!(is_a_moment(&open, &[1, 0, 2]), "{open:?}");
            assert_eq!(references(&held), [2 + open.len()]);
        });
    }
}
