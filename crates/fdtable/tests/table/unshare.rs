//! Unshared views, and close_range with flags.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use fdtable::{Error, FdFlags, FileRef, Files};

const NONE: FdFlags = FdFlags::empty();

/// Flags of `close_range(2)`.
pub(crate) const UNSHARE: u32 = 1 << 1;
pub(crate) const CLOEXEC: u32 = 1 << 2;

/// Replaces a table that is shared by a fork.
pub(crate) fn unshare<T: ?Sized + Send + Sync>(files: &mut Arc<Files<T>>) -> Result<(), Error> {
    *files = Arc::new(files.fork()?);
    Ok(())
}

/// Does what `close_range(2)` does with these flags.
pub(crate) fn close_range_with<T: ?Sized + Send + Sync>(
    files: &mut Arc<Files<T>>,
    first: u32,
    last: u32,
    flags: u32,
) -> Result<(), Error> {
    if flags & UNSHARE != 0 {
        unshare(files)?;
    }
    if flags & CLOEXEC != 0 {
        files.set_cloexec_range(first, last)
    } else {
        files.close_range(first, last, drop)
    }
}

/// A view of 200 descriptors of one file.
fn view() -> (Arc<Files<u32>>, Arc<AtomicUsize>) {
    let released = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&released);
    let files = Files::new();
    let file = FileRef::builder(7)
        .on_release(move |_, _| _ = count.fetch_add(1, Relaxed))
        .build();
    for _ in 0..200 {
        files.open(file.clone(), NONE).expect("there is room");
    }
    (Arc::new(files), released)
}

#[test]
fn a_table_that_is_shared_is_forked_by_unshare() {
    let (shared, released) = view();
    let mut own = Arc::clone(&shared);
    unshare(&mut own).expect("there is memory");
    assert!(!Arc::ptr_eq(&shared, &own));
    drop(own.close(3).expect("it is open"));
    assert!(shared.get(3).is_ok());
    drop(shared);
    assert_eq!((own.open_count(), released.load(Relaxed)), (199, 0));
    drop(own);
    assert_eq!(released.load(Relaxed), 1);
}

#[test]
fn close_range_without_flags_works_on_the_shared_view() {
    let (shared, _) = view();
    let mut same = Arc::clone(&shared);
    close_range_with(&mut same, 10, u32::MAX, 0).expect("in order");
    assert!(Arc::ptr_eq(&shared, &same));
    assert_eq!(shared.open_count(), 10);
}

#[test]
fn close_range_unshares_first_if_it_is_told_to() {
    let (shared, released) = view();
    let mut own = Arc::clone(&shared);
    close_range_with(&mut own, 10, 150, UNSHARE).expect("in order");
    assert_eq!((shared.open_count(), own.open_count()), (200, 59));
    drop(own);
    let mut own = Arc::clone(&shared);
    close_range_with(&mut own, 0, u32::MAX, UNSHARE).expect("in order");
    assert_eq!((shared.open_count(), own.open_count()), (200, 0));
    drop(shared);
    assert_eq!(released.load(Relaxed), 1);
}

#[test]
fn close_range_sets_close_on_exec_instead_if_it_is_told_to() {
    for flags in [CLOEXEC, CLOEXEC | UNSHARE] {
        let (shared, _) = view();
        let mut own = Arc::clone(&shared);
        close_range_with(&mut own, 60, 130, flags).expect("in order");
        assert_eq!(own.open_count(), 200);
        for fd in 0..200 {
            let set = (60..=130).contains(&fd);
            let expected = if set { FdFlags::CLOEXEC } else { NONE };
            assert_eq!(own.fd_flags(fd), Ok(expected));
            let shares = flags & UNSHARE == 0;
            let of_shared = if shares { expected } else { NONE };
            assert_eq!(shared.fd_flags(fd), Ok(of_shared));
        }
    }
}
