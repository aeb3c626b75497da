//! A check, then an act, in dup2: two threads see that the target is open, both replace its file,
//! and both release the file that they saw there. Or one replaces it and another closes it.

/// Each thread puts files of its own behind one descriptor, and closes it now and then. It keeps a
/// reference to each: when all descriptors are closed, it is the only one.
#[cfg(not(loom))]
#[test]
fn what_is_replaced_is_released_once() {
    use std::sync::Mutex;

    use fdtable::{Error, FileRef, Files};

    use crate::hammer::{THREADS, hammer};
    use crate::{NONE, listed};

    /// In a leaf that the table has from the beginning, and in one that it allocates.
    const TARGETS: [i32; 2] = [50, 70];
    let files = Files::new();
    let kept = [const { Mutex::new(Vec::new()) }; THREADS];
    hammer(|thread, rng| {
        let target = TARGETS[rng.usize(..2)];
        if rng.bool() {
            let closed = files.close(target).map(drop);
            assert!(matches!(closed, Ok(()) | Err(Error::BadFd)), "{closed:?}");
            return;
        }
        let file = FileRef::new(());
        let source = files.open(file.clone(), NONE).expect("there is room");
        if rng.bool() {
            files.dup2(source, target).expect("both are allowed");
        } else {
            files.dup3(source, target, NONE).expect("both are allowed");
        }
        drop(files.close(source).expect("it is this thread's own"));
        assert!(
            FileRef::strong_count(&file) <= 2,
            "the target's and this one"
        );
        kept[thread].lock().expect("no panic").push(file);
    });
    let open = listed(&files);
    assert!(
        open.iter().all(|number| TARGETS.contains(number)),
        "{open:?}"
    );
    files.close_range(0, u32::MAX, drop).expect("in order");
    for file in kept
        .iter()
        .flat_map(|kept| kept.lock().expect("no panic").split_off(0))
    {
        assert_eq!(FileRef::strong_count(&file), 1);
    }
}

#[cfg(loom)]
mod models {
    use fdtable::Error;

    use crate::exploration::{explore, join, references, spawn, table};
    use crate::{NONE, listed};

    #[test]
    fn two_dup_to_meet_at_one_target() {
        explore(4, || {
            let (files, held) = table(8, &[0, 1, 2]);
            let other = spawn(&files, |files| files.dup3(0, 2, NONE).map(drop));
            assert_eq!(files.dup2(1, 2).map(drop), Ok(()));
            assert_eq!(join(other), Ok(()));
            assert_eq!(listed(&files), [0, 1, 2]);
            let counts = references(&held);
            assert!(counts == [3, 2, 1] || counts == [2, 3, 1], "{counts:?}");
        });
    }

    #[test]
    fn two_dup3_and_a_close_meet_at_one_target() {
        explore(2, || {
            let (files, held) = table(8, &[0, 1, 4]);
            let other = spawn(&files, |files| files.dup3(0, 4, NONE).map(drop));
            let closer = spawn(&files, |files| files.close(4).map(drop));
            assert_eq!(files.dup3(1, 4, NONE).map(drop), Ok(()));
            assert_eq!(join(other), Ok(()));
            let closed = join(closer);
            let (open, counts) = (listed(&files), references(&held));
            match closed {
                Ok(()) if open == [0, 1] => assert_eq!(counts, [2, 2, 1]),
                Ok(()) => assert!(counts == [3, 2, 1] || counts == [2, 3, 1], "{counts:?}"),
                Err(error) => panic!("{error}: it is open at every moment, and {}", Error::BadFd),
            }
        });
    }
}
