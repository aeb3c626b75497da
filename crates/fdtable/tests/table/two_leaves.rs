//! Alternating opens from two leaves that are full but for closed descriptors, with other calls
//! between.

use fdtable::{FdFlags, FileRef, Files, RawFd};

const NONE: FdFlags = FdFlags::empty();

/// Descriptors of each leaf.
const LEAF: RawFd = 64;

/// Makes a table with that many open descriptors from 0 on.
fn table(open: RawFd) -> Files<RawFd> {
    let files = Files::new();
    (0..open).for_each(|number| assert_eq!(opened(&files), number));
    files
}

fn opened(files: &Files<RawFd>) -> RawFd {
    let fd = files.open(FileRef::new(0), NONE);
    fd.expect("there is room").raw()
}

fn reopen(files: &Files<RawFd>, number: RawFd) {
    assert_eq!(files.close(number).map(drop), Ok(()));
    assert_eq!(opened(files), number);
}

/// Makes a table of four leaves; opens look in the first and the last of them.
fn in_turns() -> Files<RawFd> {
    let files = table(4 * LEAF);
    for _ in 0..3 {
        reopen(&files, 5);
        reopen(&files, 4 * LEAF - 1);
    }
    files
}

#[test]
fn the_lowest_of_both_is_opened() {
    let files = in_turns();
    for number in [4 * LEAF - 1, 7, 3 * LEAF, 6] {
        assert_eq!(files.close(number).map(drop), Ok(()));
    }
    let order = [6, 7, 3 * LEAF, 4 * LEAF - 1, 4 * LEAF];
    assert_eq!(order.map(|_| opened(&files)), order);
}

#[test]
fn what_is_closed_between_them_is_found() {
    let files = in_turns();
    assert_eq!(files.close(4 * LEAF - 1).map(drop), Ok(()));
    assert_eq!(files.close(2 * LEAF).map(drop), Ok(()));
    assert_eq!(opened(&files), 2 * LEAF);
    assert_eq!(opened(&files), 4 * LEAF - 1);
}

#[test]
fn a_whole_leaf_that_is_closed_between_them_is_found() {
    let files = in_turns();
    assert_eq!(files.close(4 * LEAF - 1).map(drop), Ok(()));
    let (first, last) = (LEAF.unsigned_abs(), 2 * LEAF.unsigned_abs() - 1);
    assert_eq!(files.close_range(first, last, drop), Ok(()));
    (LEAF..2 * LEAF).for_each(|number| assert_eq!(opened(&files), number));
    assert_eq!(opened(&files), 4 * LEAF - 1);
}

#[test]
fn either_leaf_can_be_closed_as_a_whole() {
    for leaf in [0, 3] {
        let files = in_turns();
        let first = (leaf * LEAF).unsigned_abs();
        assert_eq!(files.close_range(first, first + 63, drop), Ok(()));
        (leaf * LEAF..(leaf + 1) * LEAF).for_each(|number| assert_eq!(opened(&files), number));
        assert_eq!(opened(&files), 4 * LEAF);
    }
}

#[test]
fn a_leaf_that_becomes_empty_in_turns_is_the_same_again() {
    let files = table(LEAF + 1);
    for _ in 0..3 {
        reopen(&files, LEAF);
        reopen(&files, 5);
    }
    assert_eq!(files.close(LEAF).map(drop), Ok(()));
    assert_eq!(files.close(5).map(drop), Ok(()));
    assert_eq!((opened(&files), opened(&files)), (5, LEAF));
}

#[test]
fn the_turns_go_on_in_both_tables_after_a_fork() {
    let files = in_turns();
    let child = files.fork().expect("there is memory");
    for table in [&files, &child] {
        for _ in 0..2 {
            reopen(table, 5);
            reopen(table, 4 * LEAF - 1);
        }
    }
}

#[test]
fn the_limit_holds_in_the_second_leaf() {
    let files = in_turns();
    files.set_limit(3 * LEAF.unsigned_abs());
    assert_eq!(files.close(4 * LEAF - 1).map(drop), Ok(()));
    let refused = files.open(FileRef::new(0), NONE);
    assert_eq!(refused.err(), Some(fdtable::Error::TooManyFiles));
    assert_eq!(files.close(2 * LEAF).map(drop), Ok(()));
    assert_eq!(opened(&files), 2 * LEAF);
}
