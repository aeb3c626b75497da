//! The limit: new descriptors are below it.

use fdtable::{Error, FdFlags, FileRef, Files, RawFd};

const NONE: FdFlags = FdFlags::empty();
const MOST: u32 = 1 << 31;

fn open(files: &Files<()>) -> Result<RawFd, Error> {
    files.open(FileRef::new(()), NONE).map(RawFd::from)
}

#[test]
fn more_than_the_most_counts_as_the_most() {
    let files: Files<()> = Files::new();
    assert_eq!(files.limit(), 1024);
    for (asked, limit) in [
        (0, 0),
        (1, 1),
        (MOST, MOST),
        (MOST + 1, MOST),
        (u32::MAX, MOST),
    ] {
        assert_eq!(Files::<()>::with_limit(asked).limit(), limit);
        files.set_limit(asked);
        assert_eq!(files.limit(), limit);
    }
}

#[test]
fn descriptors_past_the_limit_stay_open_and_new_ones_are_below() {
    let files = Files::new();
    (0..200).for_each(|fd| assert_eq!(open(&files), Ok(fd)));
    files.set_limit(70);
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
    files.set_limit(1024);
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
    files.set_limit(64);
    expect_full();
    drop(files.close(100).expect("open"));
    expect_full();
    files.set_limit(128);
    assert_eq!(open(&files), Ok(100));
    expect_full();
    files.set_limit(130);
    assert_eq!((open(&files), any()), (Ok(128), Ok(129)));
    expect_full();
    files.set_limit(0);
    expect_full();
}
