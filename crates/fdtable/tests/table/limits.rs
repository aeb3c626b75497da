//! Limits: new descriptors are below the soft limit, and the soft limit is at most the hard one.

use fdtable::{Error, FdFlags, FileRef, Files, Limits, RawFd};

const NONE: FdFlags = FdFlags::empty();
const MOST: u32 = 1 << 31;

fn open(files: &Files<()>) -> Result<RawFd, Error> {
    files.open(FileRef::new(()), NONE).map(RawFd::from)
}

#[test]
fn a_table_begins_with_its_soft_limit_and_the_highest_hard_one() {
    for (asked, soft) in [
        (0, 0),
        (1, 1),
        (MOST, MOST),
        (MOST + 1, MOST),
        (u32::MAX, MOST),
    ] {
        let files: Files<()> = Files::with_limit(asked);
        assert_eq!(files.limits(), Limits { soft, hard: MOST });
        assert_eq!(files.limit(), soft);
    }
    assert_eq!(Files::<()>::new().limit(), 1024);
}

#[test]
fn the_soft_limit_goes_up_to_the_hard_one() {
    let files: Files<()> = Files::new();
    let limits = Limits { soft: 10, hard: 20 };
    files.set_limits(limits).expect("in order");
    assert_eq!(files.limits(), limits);
    for above in [21, MOST, u32::MAX] {
        assert_eq!(files.set_limit(above), Err(Error::InvalidArgument));
        assert_eq!(files.limits(), limits, "nothing has changed");
    }
    for below in [20, 0, 19] {
        assert_eq!(files.set_limit(below), Ok(()));
        assert_eq!(
            files.limits(),
            Limits {
                soft: below,
                hard: 20
            }
        );
    }
}

#[test]
fn both_limits_are_set_or_none() {
    let files: Files<()> = Files::new();
    let limits = Limits { soft: 10, hard: 20 };
    files.set_limits(limits).expect("in order");
    for bad in [
        Limits { soft: 5, hard: 4 },
        Limits {
            soft: MOST,
            hard: 100,
        },
    ] {
        assert_eq!(files.set_limits(bad), Err(Error::InvalidArgument));
        assert_eq!(files.limits(), limits);
    }
    let raised = Limits {
        soft: 4096,
        hard: 4096,
    };
    files
        .set_limits(raised)
        .expect("the caller decides who may");
    assert_eq!(files.limits(), raised);
}

#[test]
fn more_than_the_most_counts_as_the_most() {
    let files: Files<()> = Files::new();
    let more = Limits {
        soft: u32::MAX,
        hard: MOST + 1,
    };
    files.set_limits(more).expect("both are the most");
    assert_eq!(
        files.limits(),
        Limits {
            soft: MOST,
            hard: MOST
        }
    );
}

#[test]
fn descriptors_past_the_limit_stay_open_and_new_ones_are_below() {
    let files = Files::new();
    (0..200).for_each(|fd| assert_eq!(open(&files), Ok(fd)));
    files.set_limit(70).expect("below the hard limit");
    assert!(files.get(199).is_ok());
    assert_eq!(open(&files), Err(Error::TooManyFiles));
    drop(files.close(150).expect("it is open"));
    assert_eq!(
        open(&files),
        Err(Error::TooManyFiles),
        "150 is past the limit"
    );
    drop(files.close(69).expect("it is open"));
    assert_eq!(open(&files), Ok(69));
    files.set_limit(1024).expect("below the hard limit");
    assert_eq!(open(&files), Ok(150));
    assert_eq!(open(&files), Ok(200));
}

/// A full table refuses every open until a descriptor is free.
#[test]
fn a_full_table_has_room_again_after_each_change_that_makes_some() {
    let files: Files<()> = Files::with_limit(128);
    let any = || {
        let opened = files.open_any(FileRef::new(()), NONE);
        opened.map(RawFd::from)
    };
    let expect_full = || {
        for _ in 0..2 {
            assert_eq!(open(&files), Err(Error::TooManyFiles));
            assert_eq!(any(), Err(Error::TooManyFiles));
            assert_eq!(files.dup(1).map(RawFd::from), Err(Error::TooManyFiles));
        }
    };
    (0..128).for_each(|number| assert_eq!(open(&files), Ok(number)));
    expect_full();
    for number in [70, 3] {
        drop(files.close(number).expect("open"));
        assert_eq!(open(&files), Ok(number));
        expect_full();
        drop(files.close(number).expect("open"));
        assert_eq!(any(), Ok(number));
        expect_full();
    }
    files.set_limit(64).expect("below the hard one");
    expect_full();
    drop(files.close(100).expect("open"));
    expect_full();
    files.set_limit(128).expect("below the hard one");
    assert_eq!(open(&files), Ok(100));
    expect_full();
    files.set_limit(130).expect("below the hard one");
    assert_eq!((open(&files), any()), (Ok(128), Ok(129)));
    expect_full();
    files.set_limit(0).expect("below the hard one");
    expect_full();
}
