//! Owner tags: which callers may close a descriptor.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use fdtable::{Error, Fd, FdFlags, FileRef, Files, RawFd};

const NONE: FdFlags = FdFlags::empty();
const TAG: u64 = 0xdb;

/// The first leaf, others, and where the tree is higher.
const TAGGED: &[RawFd] = &[0, 5, 63, 64, 130, 40_000];

/// All of them are open and tagged, and 1 is open too.
fn tagged() -> Files<u32> {
    let files = Files::with_limit(u32::MAX);
    for _ in 0..2 {
        files.open(FileRef::new(7), NONE).expect("there is room");
    }
    for &fd in TAGGED {
        if fd > 0 {
            files.dup3(1, fd, NONE).expect("there is room");
        }
        files.exchange_tag(fd, 0, TAG).expect("it is open");
    }
    files
}

#[test]
fn a_descriptor_that_nobody_has_tagged_has_the_tag_0_which_is_none() {
    let files = tagged();
    assert_eq!(files.tag(1), Ok(0));
    files.exchange_tag(1, 0, 0).expect("it is none");
    drop(files.close_with_tag(1, 0).expect("it is none"));
    let fd = files.open(FileRef::new(8), NONE).expect("there is room");
    assert_eq!(files.tag(fd), Ok(0));
    files.exchange_tag(fd, 0, TAG).expect("it is open");
    files.exchange_tag(fd, TAG, 0).expect("it is its tag");
    drop(files.close(fd).expect("it has none"));
}

#[test]
fn a_tagged_descriptor_is_closed_with_its_tag_alone() {
    let files = tagged();
    for &fd in TAGGED {
        assert_eq!(files.close(fd).map(drop), Err(Error::NotOwner));
        assert_eq!(files.close(fd).map(drop), Err(Error::NotOwner));
        assert_eq!(files.close_and_wait(fd), Err(Error::NotOwner));
        for wrong in [0, 1, u64::MAX] {
            assert_eq!(
                files.close_with_tag(fd, wrong).map(drop),
                Err(Error::NotOwner)
            );
        }
        assert_eq!(files.get(fd).as_deref(), Ok(&7), "it is open still");
        assert_eq!(files.tag(fd), Ok(TAG));
        assert_eq!(files.close_with_tag(fd, TAG).map(drop), Ok(()));
        assert_eq!(files.close_with_tag(fd, TAG).map(drop), Err(Error::BadFd));
    }
    assert_eq!(files.open_count(), 1);
}

#[test]
fn one_without_a_tag_is_not_closed_with_one() {
    let files = tagged();
    assert_eq!(files.close_with_tag(1, TAG).map(drop), Err(Error::NotOwner));
    assert!(files.get(1).is_ok());
}

#[test]
fn a_tag_is_changed_by_a_caller_that_knows_it() {
    let files = tagged();
    for &fd in TAGGED {
        for wrong in [0, TAG + 1] {
            assert_eq!(files.exchange_tag(fd, wrong, 1), Err(Error::NotOwner));
        }
        assert_eq!(files.tag(fd), Ok(TAG));
        assert_eq!(files.exchange_tag(fd, TAG, u64::MAX), Ok(()));
        assert_eq!(files.tag(fd), Ok(u64::MAX));
        assert_eq!(files.exchange_tag(fd, u64::MAX, TAG), Ok(()));
    }
    assert_eq!(files.exchange_tag(1, TAG, TAG), Err(Error::NotOwner));
}

#[test]
fn a_number_that_is_not_open_has_no_tag() {
    let files = tagged();
    let reservation = files.reserve(NONE).expect("there is room");
    for fd in [-1, RawFd::MIN, 3, 500, RawFd::MAX, reservation.fd().raw()] {
        assert_eq!(files.tag(fd), Err(Error::BadFd));
        assert_eq!(files.exchange_tag(fd, 0, 1), Err(Error::BadFd));
        assert_eq!(files.close_with_tag(fd, 0).map(drop), Err(Error::BadFd));
        assert_eq!(files.close_with_tag(fd, 1).map(drop), Err(Error::BadFd));
    }
}

#[test]
fn dup_to_onto_a_tagged_descriptor_is_refused() {
    let files = tagged();
    for &fd in TAGGED {
        assert_eq!(files.dup3(1, fd, NONE).map(drop), Err(Error::NotOwner));
        assert_eq!(files.dup2(1, fd).map(drop), Err(Error::NotOwner));
        assert_eq!(
            files.dup3_waiting(1, fd, NONE).map(drop),
            Err(Error::NotOwner)
        );
        assert_eq!(files.tag(fd), Ok(TAG));
    }
}

#[test]
fn a_copy_of_a_tagged_descriptor_has_no_tag() {
    let files = tagged();
    let copies = [
        files.dup(64),
        files.dup_min(64, 65, NONE),
        files.dup3(64, 129, NONE).and_then(|_| Fd::new(129)),
        files.dup2(64, 1).and_then(|_| Fd::new(1)),
    ];
    for copy in copies {
        let copy = copy.expect("there is room");
        assert_eq!(files.tag(copy), Ok(0));
        drop(files.close(copy).expect("it has no tag"));
    }
}

/// Opens every tagged descriptor anew, and finds no tag.
fn check_cleared(files: &Files<u32>) {
    files.open(FileRef::new(8), NONE).expect("there is room");
    for &fd in TAGGED {
        if files.get(fd).is_err() {
            files.dup3(0, fd, NONE).expect("it is free");
        }
        assert_eq!(files.tag(fd), Ok(0), "{fd}");
        drop(files.close(fd).expect("it has no tag"));
        files.dup_min(1, fd, NONE).expect("it is free");
        assert_eq!(files.tag(fd), Ok(0), "{fd}");
    }
}

#[test]
fn tags_end_with_the_descriptor_however_it_is_closed() {
    let ends: [fn(&Files<u32>); 5] = [
        |files| {
            for &fd in TAGGED {
                drop(files.close_with_tag(fd, TAG).expect("it is its tag"));
            }
        },
        |files| {
            files.close_range(0, 0, drop).expect("in order");
            files.close_range(2, u32::MAX, drop).expect("in order");
        },
        |files| {
            for &fd in TAGGED {
                files
                    .set_fd_flags(fd, FdFlags::CLOEXEC)
                    .expect("it is open");
            }
            files.close_on_exec(drop).expect("there is memory");
        },
        // Another descriptor is left in each leaf.
        |files| {
            for &fd in TAGGED {
                files.dup_min(1, fd & !63, NONE).expect("there is room");
                let number = fd.unsigned_abs();
                files.close_range(number, number, drop).expect("in order");
            }
        },
        |files| {
            files.set_quarantine(3);
            files.close_range(0, 0, drop).expect("in order");
            files.close_range(2, u32::MAX, drop).expect("in order");
            files.set_quarantine(0);
        },
    ];
    for end in ends {
        let files = tagged();
        end(&files);
        check_cleared(&files);
        // And after a fork, where the leaves are shared.
        let parent = tagged();
        let child = parent.fork().expect("there is memory");
        end(&child);
        check_cleared(&child);
        for &fd in TAGGED {
            assert_eq!(parent.tag(fd), Ok(TAG), "the parent's stay");
        }
    }
}

#[test]
fn children_inherit_tags_and_change_their_own() {
    let parent = tagged();
    let child = parent.fork().expect("there is memory");
    let grandchild = child.fork_keeping(|_, _, _| true).expect("there is memory");
    for files in [&child, &grandchild] {
        for &fd in TAGGED {
            assert_eq!(files.tag(fd), Ok(TAG));
            assert_eq!(files.close(fd).map(drop), Err(Error::NotOwner));
            files.exchange_tag(fd, TAG, 1).expect("it is its tag");
        }
    }
    for &fd in TAGGED {
        assert_eq!(parent.tag(fd), Ok(TAG));
        drop(child.close_with_tag(fd, 1).expect("it is its tag"));
        assert_eq!(grandchild.tag(fd), Ok(1));
    }
    drop(parent);
    for &fd in TAGGED {
        drop(grandchild.close_with_tag(fd, 1).expect("it is its tag"));
    }
}

#[test]
fn a_refused_close_releases_nothing_and_the_right_one_at_once() {
    let released = Arc::new(AtomicUsize::new(0));
    let files = Files::new();
    let count = Arc::clone(&released);
    let file = FileRef::builder(())
        .on_release(move |(), _| _ = count.fetch_add(1, Relaxed))
        .build();
    let fd = files.open(file, NONE).expect("there is room");
    files.exchange_tag(fd, 0, TAG).expect("it is open");
    assert_eq!(files.close(fd).map(drop), Err(Error::NotOwner));
    assert_eq!(released.load(Relaxed), 0);
    drop(files.close_with_tag(fd, TAG).expect("it is its tag"));
    assert_eq!(released.load(Relaxed), 1);
}

#[test]
fn the_errno_of_another_owner_is_eperm() {
    assert_eq!(
        (Error::NotOwner.errno(), Error::NotOwner.name()),
        (1, "EPERM")
    );
}
