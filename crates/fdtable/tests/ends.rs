//! How many `Rcu` objects end inside one close.
//!
//! The failure that it detects: a close after a grace period drops a thousand objects of other
//! threads, and takes a thousand times as long as other closes. The test has a process of its own,
//! since objects that other tests close would end in these closes too. Nor has it the thread of
//! the library: where that loses its CPU while it ends some, later closes do its work, all at once.

use std::cell::Cell;
use std::sync::Barrier;
use std::thread;

use fdtable::{Error, FdFlags, FileRef, Files, Rcu, rcu};

thread_local! {
    /// Objects that ended on this thread.
    static ENDED: Cell<usize> = const { Cell::new(0) };
}

struct Object;

impl Drop for Object {
    fn drop(&mut self) {
        ENDED.set(ENDED.get() + 1);
    }
}

/// Opens and closes a new file. Returns how many objects ended meanwhile.
fn ended_in_one_close(files: &Files<Rcu<Object>>) -> Result<usize, Error> {
    let fd = files.open(FileRef::new_rcu(Object), FdFlags::empty())?;
    let before = ENDED.get();
    drop(files.close(fd)?);
    Ok(ENDED.get() - before)
}

#[test]
fn few_objects_end_inside_one_close_also_after_a_grace_period_of_many() -> Result<(), Error> {
    const CLOSES: usize = 20_000;
    rcu::use_ticks();
    let files = Files::new();
    let (known, done) = (Barrier::new(2), Barrier::new(2));
    let most = thread::scope(|scope| {
        // With a reader beside it, even if that one does nothing, grace periods are long.
        scope.spawn(|| {
            drop(rcu::read_lock());
            known.wait();
            done.wait();
        });
        known.wait();
        let most = (0..CLOSES)
            .map(|_| ended_in_one_close(&files))
            .try_fold(0, |most, ended| ended.map(|ended| most.max(ended)));
        done.wait();
        most
    })?;
    assert!(
        (1..=64).contains(&most),
        "{most} objects ended inside one close"
    );
    rcu::barrier().expect("outside of sections and callbacks");
    assert_eq!(ENDED.get(), CLOSES);
    Ok(())
}
