//! A lost reference increment: a copy of a file is returned and not counted, because two threads
//! count at once, or because the file is found and its last reference is dropped before it is
//! counted. Later the file is released while a thread holds it.

/// Each thread drops all copies that it makes, so that in the end the count is as before.
#[cfg(not(loom))]
#[test]
fn every_copy_is_counted() {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use fdtable::{Error, FileRef, Files, rcu};

    use crate::hammer::hammer;
    use crate::{NONE, listed};

    let files = Files::new();
    let held = FileRef::builder(AtomicUsize::new(0))
        .on_release(|releases, _| {
            releases.fetch_add(1, Relaxed);
        })
        .rcu()
        .build();
    // Enough that lost references do not end the file before the final check.
    let spare = vec![held.clone(); 100_000];
    for _ in 0..3 {
        files.open(held.clone(), NONE).expect("there is room");
    }
    // 0 stays open; any thread closes 1 and 2 and opens them again.
    hammer(|_, rng| match rng.u8(0..8) {
        0 => {
            let copy = files.dup(0).expect("0 is open");
            drop(files.get(0).expect("0 is open"));
            let closed = files.close(copy).map(drop);
            assert!(
                matches!(closed, Ok(()) | Err(Error::BadFd)),
                "another thread closes 1 and 2"
            );
        }
        // Often, since the time between a load of the count and its change is short.
        1 => (0..200).for_each(|_| drop(held.clone())),
        2 => (0..50).for_each(|_| drop(files.get(rng.i32(0..3)).ok())),
        3 => {
            let section = rcu::read_lock();
            let found = files.get_rcu(rng.i32(0..3), &section);
            drop(found.ok().and_then(|file| file.upgrade()));
        }
        4 => {
            let put = files.dup3(0, rng.i32(1..3), NONE).map(drop);
            assert!(
                matches!(put, Ok(()) | Err(Error::Busy)),
                "{put:?}: a dup takes 1 and 2 too"
            );
        }
        5 => _ = files.close(rng.i32(1..3)),
        6 => drop(files.close(rng.i32(1..3)).ok()),
        _ => {
            let child = files.fork().expect("there is memory");
            drop(child.close(0).expect("0 is open"));
        }
    });
    let left = listed(&files).len();
    assert_eq!(FileRef::strong_count(&held), left + spare.len() + 1);
    drop(spare);
    files.close_range(0, u32::MAX, drop).expect("in order");
    assert_eq!(FileRef::strong_count(&held), 1);
    assert_eq!(held.load(Relaxed), 0, "it is not released while it is held");
}

#[cfg(loom)]
mod models {
    use crate::exploration::{explore, join, references, spawn, table};
    use crate::{NONE, listed};

    #[test]
    fn a_dup_and_a_fork_meet() {
        explore(2, || {
            let (files, held) = table(8, &[0]);
            let dup = spawn(&files, |files| files.dup(0).map(drop));
            let child = files.fork().expect("there is memory");
            assert_eq!(join(dup), Ok(()));
            assert_eq!(references(&held), [3 + listed(&child).len()]);
            drop(child);
            assert_eq!(references(&held), [3]);
        });
    }

    #[test]
    fn two_gets_meet_a_dup3() {
        explore(1, || {
            let (files, held) = table(8, &[0, 1]);
            let getter = spawn(&files, |files| files.get(1).ok());
            let other = spawn(&files, |files| drop(files.get(1)));
            files.dup3(0, 1, NONE).expect("0 is open");
            let got = join(getter).expect("1 is open at every moment");
            join(other);
            assert_eq!(references(&held).iter().sum::<usize>(), 3 + 1 + 1);
            drop(got);
            assert_eq!(references(&held), [3, 1]);
        });
    }
}
