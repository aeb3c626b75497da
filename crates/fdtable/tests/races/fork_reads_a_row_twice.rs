//! A fork that reads a row twice: once to count it or to see that it is there, once to copy it,
//! and in between it changes. Or it reads one row before a change, and another after. The child
//! has a file too often, or not at all.

use fdtable::{Error, Files, RawFd};

use crate::NONE;

/// Moves the file from each of these numbers to the next: it is there before it is gone here.
fn go_round<T: Send + Sync>(files: &Files<T>, numbers: [RawFd; 3]) -> Result<(), Error> {
    let [first, second, third] = numbers;
    for (from, to) in [(first, second), (second, third), (third, first)] {
        files.dup_to(from, to, NONE)?;
        files.close(from)?;
    }
    Ok(())
}

/// Tells whether there is a moment at which the file is open under these numbers: under one of
/// the three, or under two of them.
fn is_a_moment(open: &[RawFd]) -> bool {
    (1..=2).contains(&open.len())
}

#[cfg(not(loom))]
#[test]
fn a_file_that_moves_is_in_every_child_and_never_everywhere() {
    use std::sync::Mutex;

    use fdtable::FileRef;

    use crate::hammer::hammer;
    use crate::listed;

    // In the first leaf, in another one, and in another node.
    let numbers = [3, 70, 40_000];
    let files = Files::with_limit(u32::MAX);
    let held = FileRef::new(());
    let first = files.reserve_from(numbers[0], NONE).expect("it is free");
    first.install(held.clone());
    let mover = Mutex::new(());
    hammer(|_, _| {
        if let Ok(_alone) = mover.try_lock() {
            go_round(&files, numbers).expect("nobody else moves it");
            return;
        }
        let child = files.fork().expect("there is memory");
        let open = listed(&child);
        assert!(is_a_moment(&open), "{open:?}");
        let (found, all) = (open.iter(), FileRef::references(&held));
        assert!(
            found.map(|&fd| child.get(fd)).all(|file| file.is_ok()),
            "{open:?}"
        );
        assert!(
            all > open.len() + 1,
            "{all}: the child's, the parent's and the test's"
        );
    });
    assert_eq!(listed(&files), numbers[..1]);
    assert_eq!(FileRef::references(&held), 2, "no child left one behind");
}

#[cfg(loom)]
mod models {
    use super::{go_round, is_a_moment};
    use crate::exploration::{explore, join, references, spawn, table};
    use crate::listed;

    #[test]
    fn a_fork_meets_a_file_that_moves_through_three_leaves() {
        explore(3, || {
            let (files, held) = table(16, &[0]);
            let mover = spawn(&files, |files| go_round(files, [0, 4, 8]));
            let child = files.fork().expect("there is memory");
            assert_eq!(join(mover), Ok(()));
            let open = listed(&child);
            assert!(is_a_moment(&open), "{open:?}");
            assert_eq!(references(&held), [2 + open.len()]);
            drop(child);
            assert_eq!(listed(&files), [0]);
            assert_eq!(references(&held), [2]);
        });
    }

    #[test]
    fn a_fork_meets_a_file_that_moves_within_a_leaf() {
        explore(3, || {
            let (files, held) = table(16, &[1]);
            let mover = spawn(&files, |files| go_round(files, [1, 0, 2]));
            let child = files.fork().expect("there is memory");
            assert_eq!(join(mover), Ok(()));
            let open = listed(&child);
            assert!(is_a_moment(&open), "{open:?}");
            assert_eq!(references(&held), [2 + open.len()]);
        });
    }
}
