//! A lost update in close: two threads close two descriptors with bits in one word. Each reads it,
//! clears its bit and writes it, and one of the two descriptors stays taken forever.

/// Each thread has at most its share of the descriptors, so that no open can fail, and no
/// descriptor can belong to two threads.
#[cfg(not(loom))]
#[test]
fn every_number_that_is_closed_can_be_opened_again() {
    use std::sync::Mutex;

    use fastrand::Rng;
    use fdtable::{FileRef, Files};

    use crate::hammer::{THREADS, hammer};
    use crate::{NONE, listed};

    /// All shares are in one leaf of 64, and so in one word.
    const SHARE: usize = 64 / THREADS;
    let files = Files::with_limit(64);
    let file = FileRef::new(());
    let shares = [const { Mutex::new(Vec::new()) }; THREADS];
    hammer(|thread, rng: &mut Rng| {
        let mut mine = shares[thread].lock().expect("no panic");
        while mine.len() < SHARE {
            let fd = files.open(file.clone(), NONE);
            mine.push(fd.expect("the others have no more than their shares"));
        }
        rng.shuffle(&mut mine);
        for fd in mine.drain(rng.usize(..SHARE)..) {
            assert_eq!(files.close(fd).map(drop), Ok(()), "{fd}");
        }
    });
    let open: usize = shares
        .iter()
        .map(|mine| mine.lock().expect("no panic").len())
        .sum();
    assert_eq!(listed(&files).len(), open);
    assert_eq!(FileRef::strong_count(&file), open + 1);
    files.close_range(0, u32::MAX, drop).expect("in order");
    for number in 0..64 {
        let fd = files.open(file.clone(), NONE).expect("all are free");
        assert_eq!(fd.raw(), number);
    }
}

#[cfg(loom)]
mod models {
    use fdtable::RawFd;

    use crate::exploration::{explore, join, references, spawn, table};
    use crate::{NONE, listed};

    #[test]
    fn two_closes_meet_in_one_word() {
        explore(5, || {
            let (files, held) = table(2, &[0, 1]);
            let closer = spawn(&files, |files| files.close(0).map(drop));
            assert_eq!(files.close(1).map(drop), Ok(()));
            assert_eq!(join(closer), Ok(()));
            assert_eq!(listed(&files), []);
            for number in 0..2 {
                let fd = files.open(held[0].clone(), NONE);
                assert_eq!(fd.map(RawFd::from), Ok(number), "both are free");
            }
            assert_eq!(references(&held), [3, 1]);
        });
    }

    #[test]
    fn a_close_meets_an_open_in_one_word() {
        explore(4, || {
            let (files, held) = table(3, &[0, 1]);
            let closer = spawn(&files, |files| files.close(0).map(drop));
            let mine = files.open(held[1].clone(), NONE).expect("2 is free");
            assert_eq!(join(closer), Ok(()));
            assert!(mine.raw() == 0 || mine.raw() == 2, "{mine}");
            let other = files.open(held[1].clone(), NONE).expect("0 or 2 is free");
            assert_eq!(mine.raw() + other.raw(), 2);
            assert_eq!(listed(&files), [0, 1, 2]);
            assert_eq!(references(&held), [1, 4]);
        });
    }
}
