//! Release hooks run at once, once, on the thread that drops the last reference, and outside of all
//! locks: in every call that drops it, the hook may use the same table.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use fdtable::{Error, FdFlags, FileRef, Files};

const NONE: FdFlags = FdFlags::empty();

/// A file with a hook that uses its table, and then reports its thread.
struct Caller {
    files: Weak<Files<Caller>>,
    released: Sender<ThreadId>,
}

impl Caller {
    fn use_table(&self) {
        if let Some(files) = self.files.upgrade() {
            drop(files.reserve(NONE));
            assert_eq!(files.close(-1).map(drop), Err(Error::BadFd));
            assert_eq!(files.close_range(1000, 2000, drop), Ok(()));
            drop(files.fork().expect("there is memory"));
        }
        let _heard = self.released.send(thread::current().id());
    }
}

/// Opens a file, drops its last reference by `drop_it`, and checks that its hook has run.
fn check(drop_it: impl FnOnce(Arc<Files<Caller>>) + Send + 'static) {
    let (released, hear) = channel();
    let (done, all_done) = channel();
    let other = thread::spawn(move || {
        let files = Arc::new(Files::with_limit(3));
        let caller = Caller {
            files: Arc::downgrade(&files),
            released,
        };
        let file = FileRef::builder(caller)
            .on_release(|object, _| Caller::use_table(object))
            .build();
        files.open(file, FdFlags::CLOEXEC).expect("there is room");
        drop_it(files);
        // The hook has run when the call returns, and not twice.
        let ran: Vec<ThreadId> = hear.try_iter().collect();
        assert_eq!(ran, [thread::current().id()]);
        done.send(()).expect("the test waits");
    });
    let outcome = all_done.recv_timeout(Duration::from_secs(10));
    assert!(
        outcome.is_ok() || other.is_finished(),
        "the hook waits for a lock"
    );
    other.join().expect("the hook has run");
}

/// A file that no check asks about.
fn another(files: &Arc<Files<Caller>>) -> FileRef<Caller> {
    let (released, _) = channel();
    FileRef::new(Caller {
        files: Arc::downgrade(files),
        released,
    })
}

#[test]
fn a_hook_may_use_the_table_from_close() {
    check(|files| drop(files.close(0).expect("it is open")));
}

#[test]
fn a_hook_may_use_the_table_from_the_drop_of_what_was_taken() {
    check(|files| drop(files.close(0).expect("it is open")));
}

#[test]
fn a_hook_may_use_the_table_from_dup_to_and_dup2() {
    check(|files| {
        let new = files.open(another(&files), NONE).expect("there is room");
        files.dup3(new, 0, NONE).expect("both are open");
    });
    check(|files| {
        let new = files.open(another(&files), NONE).expect("there is room");
        files.dup2(new, 0).expect("both are open");
    });
}

#[test]
fn a_hook_may_use_the_table_from_close_range_and_exec() {
    check(|files| files.close_range(0, u32::MAX, drop).expect("in order"));
    check(|files| files.close_on_exec(drop).expect("there is memory"));
}

#[test]
fn a_hook_may_use_the_table_from_an_open_that_fails() {
    check(|files| {
        let file = files.close(0).expect("it is open").into_file();
        files.set_limit(0);
        assert_eq!(files.open(file, NONE), Err(Error::TooManyFiles));
    });
}

#[test]
fn the_last_of_many_references_runs_the_hook() {
    check(|files| {
        let held = files.get(0).expect("it is open");
        files.dup(0).expect("there is room");
        let child = files.fork().expect("there is memory");
        files.close_range(0, u32::MAX, drop).expect("in order");
        drop(child);
        assert_eq!(FileRef::strong_count(&held), 1);
        drop(held);
    });
}

#[test]
fn the_end_of_the_table_runs_the_hooks() {
    check(drop);
}
