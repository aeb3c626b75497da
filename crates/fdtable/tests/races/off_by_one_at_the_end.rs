//! An off-by-one at the table's end: no open gets the last descriptor below the limit, or one gets
//! the limit itself; the last descriptor of a leaf is passed over, or one past the leaf is taken.

/// Several threads at once take all descriptors, and close them.
#[cfg(not(loom))]
#[test]
fn threads_get_all_numbers_below_the_limit_and_no_other() {
    use std::thread;

    use fdtable::{Error, FileRef, Files, RawFd};

    use crate::hammer::THREADS;
    use crate::{NONE, listed};

    for limit in [0, 1, 2, 63, 64, 65, 127, 128, 129, 4095, 4096, 4097] {
        let files = Files::with_limit(limit);
        let file = FileRef::new(());
        let open_all = || -> Vec<RawFd> {
            let open = || files.open(file.clone(), NONE);
            let opened = std::iter::repeat_with(open).map_while(|fd| {
                fd.map_err(|error| assert_eq!(error, Error::TooManyFiles))
                    .ok()
            });
            opened.map(RawFd::from).collect()
        };
        let mut all: Vec<RawFd> = thread::scope(|scope| {
            let threads = [(); THREADS].map(|()| scope.spawn(open_all));
            threads
                .into_iter()
                .flat_map(|thread| thread.join().expect("no panic"))
                .collect()
        });
        all.sort_unstable();
        let expected: Vec<RawFd> = (0..limit.cast_signed()).collect();
        assert_eq!(all, expected, "each number below {limit} once");
        assert_eq!(listed(&files), expected);
        let Some(&last) = all.last() else {
            continue;
        };
        assert_eq!(files.close(last + 1).map(drop), Err(Error::BadFd));
        assert_eq!(files.dup3(0, last + 1, NONE).map(drop), Err(Error::BadFd));
        drop(files.close(last).expect("it is open"));
        assert_eq!(files.open(file.clone(), NONE).map(RawFd::from), Ok(last));
    }
}

/// The same where descriptors end: there is none after 2^31 - 1.
#[cfg(not(loom))]
#[test]
fn threads_take_and_free_the_highest_numbers_that_there_are() {
    use fdtable::{Error, FileRef, Files, RawFd};

    use crate::hammer::hammer;
    use crate::{NONE, listed};

    const LAST: RawFd = RawFd::MAX;
    let files = Files::with_limit(u32::MAX);
    let file = FileRef::new(());
    files.open(file.clone(), NONE).expect("there is room");
    hammer(|_, rng| match rng.u8(0..5) {
        0..2 => match files.dup_min(0, LAST - 1, NONE) {
            Ok(fd) => assert!(fd.raw() >= LAST - 1, "{fd}"),
            Err(error) => assert_eq!(error, Error::TooManyFiles),
        },
        2 => {
            let closed = files.close(LAST - rng.i32(0..2)).map(drop);
            assert!(matches!(closed, Ok(()) | Err(Error::BadFd)), "{closed:?}");
        }
        3 => {
            let above = files.iter_from(LAST - 1).next().map(|(fd, ..)| fd);
            assert!(above.is_none_or(|fd| fd.raw() >= LAST - 1), "{above:?}");
        }
        _ => files
            .close_range(LAST.unsigned_abs(), u32::MAX, drop)
            .expect("in order"),
    });
    files.close_range(1, u32::MAX, drop).expect("in order");
    assert_eq!(
        files.dup_min(0, LAST - 1, NONE).map(RawFd::from),
        Ok(LAST - 1)
    );
    assert_eq!(files.dup_min(0, LAST - 1, NONE).map(RawFd::from), Ok(LAST));
    assert_eq!(files.dup_min(0, LAST - 1, NONE), Err(Error::TooManyFiles));
    assert_eq!(listed(&files), [0, LAST - 1, LAST]);
    assert_eq!(FileRef::strong_count(&file), 4);
}

#[cfg(loom)]
mod models {
    use fdtable::{Error, RawFd};

    use crate::exploration::{explore, join, references, spawn, table};
    use crate::{NONE, listed};

    /// The limit is where a leaf ends.
    #[test]
    fn two_opens_meet_at_the_last_number_of_a_leaf() {
        explore(4, || {
            let (files, held) = table(4, &[0, 1, 2]);
            let file = held[0].clone();
            let opener = spawn(&files, move |files| files.open(file, NONE));
            let mine = files.open(held[0].clone(), NONE);
            let mut both = [mine, join(opener)].map(|fd| fd.map(RawFd::from));
            both.sort_unstable_by_key(|fd| fd.is_err());
            assert_eq!(both, [Ok(3), Err(Error::TooManyFiles)]);
            assert_eq!(listed(&files), [0, 1, 2, 3]);
            assert_eq!(references(&held), [3, 2, 2]);
        });
    }

    /// The limit is one past the end of a leaf.
    #[test]
    fn two_opens_meet_at_the_first_number_of_a_leaf() {
        explore(2, || {
            let (files, held) = table(5, &[0, 1, 2, 3]);
            let opener = spawn(&files, |files| files.dup(0));
            let mine = files.dup_min(0, 4, NONE);
            let mut both = [mine, join(opener)].map(|fd| fd.map(RawFd::from));
            both.sort_unstable_by_key(|fd| fd.is_err());
            assert_eq!(both, [Ok(4), Err(Error::TooManyFiles)]);
            assert_eq!(listed(&files), [0, 1, 2, 3, 4]);
            assert_eq!(references(&held), [3, 2, 2, 2]);
        });
    }
}
