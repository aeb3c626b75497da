//! The rollback of a socket pair, or of a pipe: it needs two descriptors, gets one, and finds the
//! table full. The one must be freed, and the pair must leave no trace.

use fdtable::{Error, Fd, FileRef, Files};

use crate::NONE;

/// Opens both ends or none, as `socketpair(2)` does: in each of two ways.
type Pair = fn(&Files<()>, &FileRef<()>) -> Result<[Fd; 2], Error>;

/// One after the other.
fn reserved(files: &Files<()>, file: &FileRef<()>) -> Result<[Fd; 2], Error> {
    let one = files.reserve(NONE)?;
    let other = files.reserve(NONE)?;
    Ok([one.install(file.clone()), other.install(file.clone())])
}

/// In one call.
fn opened(files: &Files<()>, file: &FileRef<()>) -> Result<[Fd; 2], Error> {
    let (one, other) = files.open_pair((file.clone(), file.clone()), NONE)?;
    Ok([one, other])
}

/// There is room for fewer pairs than threads, and an odd number at that.
#[cfg(not(loom))]
#[test]
fn a_pair_that_does_not_fit_leaves_nothing_behind() {
    let ways: [Pair; 2] = [reserved, opened];
    ways.into_iter().for_each(pairs_that_do_not_fit);
}

#[cfg(not(loom))]
fn pairs_that_do_not_fit(pair: Pair) {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use crate::hammer::{THREADS, hammer};
    use crate::listed;

    const ROOM: u32 = THREADS as u32 - 1;
    for taken in [0, 62] {
        let files = Files::with_limit(taken + ROOM);
        let held = FileRef::new(());
        for _ in 0..taken {
            files.open(held.clone(), NONE).expect("there is room");
        }
        let outcomes = [const { AtomicUsize::new(0) }; 2];
        hammer(|_, _| {
            let opened = pair(&files, &held);
            outcomes[usize::from(opened.is_ok())].fetch_add(1, Relaxed);
            match opened {
                Ok(both) => {
                    assert!(files.open_count() <= files.limit() as usize);
                    std::thread::yield_now();
                    assert_eq!(both.map(|fd| files.close(fd).map(drop)), [Ok(()), Ok(())]);
                }
                Err(error) => assert_eq!(error, Error::TooManyFiles),
            }
        });
        assert!(
            outcomes.iter().all(|count| count.load(Relaxed) > 0),
            "{outcomes:?}"
        );
        assert_eq!(listed(&files), (0..taken.cast_signed()).collect::<Vec<_>>());
        assert_eq!(FileRef::strong_count(&held), taken as usize + 1);
        for number in taken..taken + ROOM {
            let fd = files.open(held.clone(), NONE).expect("all are free");
            assert_eq!(fd.index(), number as usize);
        }
    }
}

#[cfg(loom)]
mod models {
    use super::{Pair, opened, reserved};
    use crate::exploration::{explore, join, references, spawn, table};
    use crate::{NONE, listed};

    /// Of two pairs in three descriptors, one fits, whichever comes first.
    #[test]
    fn two_pairs_meet_where_one_fits() {
        explore(2, || meet(reserved));
    }

    /// The same where each is opened in one call.
    #[test]
    fn two_pairs_of_one_call_meet_where_one_fits() {
        explore(2, || meet(opened));
    }

    fn meet(pair: Pair) {
        let (files, held) = table(5, &[0, 1]);
        let file = held[1].clone();
        let other = spawn(&files, move |files| pair(files, &file).is_ok());
        let mine = pair(&files, &held[1]).is_ok();
        let theirs = join(other);
        assert!(mine || theirs, "one of them got the third descriptor");
        let opened = 2 * (usize::from(mine) + usize::from(theirs));
        assert_eq!(listed(&files).len(), 2 + opened);
        assert_eq!(references(&held), [2, 2 + opened]);
        // All descriptors that are free now can be opened.
        for _ in opened..3 {
            files.open(held[0].clone(), NONE).expect("it was freed");
        }
        assert_eq!(listed(&files), [0, 1, 2, 3, 4]);
    }
}
