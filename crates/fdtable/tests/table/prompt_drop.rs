//! `Drop` of an object runs where its last reference is dropped, as that of an `Arc` does: in the
//! call, on that thread, after the release hook, once, and outside of all locks.
//!
//! An `Rcu` object is dropped later.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use fdtable::{
    Access, Error, FdFlags, FileRef, Files, PrivateFiles, Rcu, ReleaseReason, SuperBlock, rcu,
};

const NONE: FdFlags = FdFlags::empty();

/// Event in the life of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Released(ReleaseReason),
    Dropped,
}

use Event::{Dropped, Released};
use ReleaseReason::Revoked;

const BOTH: [Event; 2] = [Released(ReleaseReason::Released), Dropped];

/// Reports what happens to it, and uses its table then.
struct Caller {
    files: Weak<Files<Caller>>,
    events: Sender<(Event, ThreadId)>,
}

impl Caller {
    fn report(&self, event: Event) {
        if let Some(files) = self.files.upgrade() {
            drop(files.reserve(NONE));
            assert_eq!(files.close(-1).map(drop), Err(Error::BadFd));
            assert_eq!(files.close_range(1000, 2000, drop), Ok(()));
            drop(files.fork().expect("there is memory"));
        }
        let _heard = self.events.send((event, thread::current().id()));
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.report(Dropped);
    }
}

/// Events of an object since the last question, on this thread alone.
struct Events(Receiver<(Event, ThreadId)>);

impl Events {
    fn take(&self) -> Vec<Event> {
        let here = thread::current().id();
        let taken = self.0.try_iter();
        taken
            .inspect(|&(_, thread)| assert_eq!(thread, here))
            .map(|(event, _)| event)
            .collect()
    }
}

fn caller(files: Weak<Files<Caller>>) -> (Caller, Events) {
    let (events, hear) = channel();
    (Caller { files, events }, Events(hear))
}

/// Opens a file with a hook in a table, and runs `test` on a thread of its own.
fn check(test: impl FnOnce(Arc<Files<Caller>>, Events) + Send + 'static) {
    let (done, all_done) = channel();
    let other = thread::spawn(move || {
        let files = Arc::new(Files::with_limit(200));
        let (caller, events) = caller(Arc::downgrade(&files));
        let file = FileRef::builder(caller)
            .on_release(|caller, reason| caller.report(Released(reason)))
            .build();
        files.open(file, FdFlags::CLOEXEC).expect("there is room");
        test(files, events);
        done.send(()).expect("the test waits");
    });
    let outcome = all_done.recv_timeout(Duration::from_secs(10));
    assert!(
        outcome.is_ok() || other.is_finished(),
        "hook or drop wait for a lock"
    );
    other.join().expect("the test has succeeded");
}

/// Another file of the same table.
fn another(files: &Arc<Files<Caller>>) -> FileRef<Caller> {
    FileRef::new(caller(Arc::downgrade(files)).0)
}

#[test]
fn drop_of_a_prompt_file_runs_in_the_close_that_releases_it() {
    check(|files, events| {
        let copy = files.dup(0).expect("there is room");
        drop(files.close(0).expect("open"));
        let held = files.get(copy).expect("open");
        drop(files.close(copy).expect("open"));
        assert_eq!(events.take(), [], "there is a reference");
        drop(held);
        assert_eq!(events.take(), BOTH);
        rcu::barrier().expect("outside of sections");
        assert_eq!(events.take(), [], "once");
    });
}

#[test]
fn it_runs_though_readers_are_inside_sections() {
    check(|files, events| {
        let _section = rcu::read_lock();
        let closed = files.close(0).expect("open");
        assert_eq!(events.take(), []);
        drop(closed);
        assert_eq!(events.take(), BOTH);
    });
}

#[test]
fn it_runs_by_the_last_reference_of_a_file_that_was_revoked() {
    check(|files, events| {
        let file = files.get(0).expect("open");
        assert!(FileRef::revoke(&file));
        assert_eq!(events.take(), [Released(Revoked)]);
        drop(files.close(0).expect("open"));
        assert_eq!(events.take(), []);
        drop(file);
        assert_eq!(events.take(), [Dropped]);
    });
}

#[test]
fn it_runs_in_a_dup_that_replaces_the_file() {
    check(|files, events| {
        let new = files.open(another(&files), NONE).expect("there is room");
        drop(files.dup2(new, 0).expect("both are open"));
        assert_eq!(events.take(), BOTH);
    });
    check(|files, events| {
        let new = files.open(another(&files), NONE).expect("there is room");
        drop(files.dup3(new, 0, NONE).expect("both are open"));
        assert_eq!(events.take(), BOTH);
    });
}

#[test]
fn it_runs_in_close_range_and_exec() {
    check(|files, events| {
        files.close_range(0, u32::MAX, drop).expect("in order");
        assert_eq!(events.take(), BOTH);
    });
    check(|files, events| {
        files.close_on_exec(drop).expect("there is memory");
        assert_eq!(events.take(), BOTH);
    });
    // Of a leaf that is removed as a whole.
    check(|files, events| {
        files.dup3(0, 130, NONE).expect("there is room");
        drop(files.close(0).expect("open"));
        files.close_range(128, 191, drop).expect("in order");
        assert_eq!(events.take(), BOTH);
    });
}

#[test]
fn it_runs_in_an_open_that_fails() {
    check(|files, events| {
        let file = files.close(0).expect("it is open").into_file();
        files.set_limit(0);
        assert_eq!(files.open(file, NONE), Err(Error::TooManyFiles));
        assert_eq!(events.take(), BOTH);
    });
}

#[test]
fn it_runs_in_the_last_of_parent_and_child_to_close_or_to_end() {
    check(|files, events| {
        let child = files.fork().expect("there is memory");
        drop(files.close(0).expect("open"));
        assert_eq!(events.take(), [], "the child has it");
        drop(child.close(0).expect("open"));
        assert_eq!(events.take(), BOTH);
    });
    check(|files, events| {
        files.dup3(0, 130, NONE).expect("there is room");
        let child = files.fork().expect("there is memory");
        files.close_range(0, u32::MAX, drop).expect("in order");
        assert_eq!(events.take(), [], "the child has it");
        drop(child);
        assert_eq!(events.take(), BOTH);
    });
    check(|files, events| {
        files.dup3(0, 130, NONE).expect("there is room");
        let child = files.fork().expect("there is memory");
        drop(files);
        assert_eq!(events.take(), [], "the child has it");
        drop(child);
        assert_eq!(events.take(), BOTH);
    });
}

#[test]
fn it_runs_in_a_fork_that_does_not_keep_the_file() {
    check(|files, events| {
        let child = files.fork_keeping(|_, _, _| false);
        assert_eq!(child.expect("there is memory").open_count(), 0);
        assert_eq!(events.take(), [], "the parent has it");
        drop(files);
        assert_eq!(events.take(), BOTH);
    });
}

#[test]
fn it_runs_in_the_drop_of_the_table() {
    check(|files, events| {
        drop(files);
        assert_eq!(events.take(), BOTH);
    });
}

#[test]
fn it_runs_in_a_close_of_a_private_descriptor_and_in_the_end_of_their_table() {
    let files = PrivateFiles::new();
    let open = || {
        let (caller, events) = caller(Weak::new());
        (files.open(FileRef::new(caller)).expect("room"), events)
    };
    let (closed, left) = (open(), open());
    drop(files.close(closed.0).expect("open"));
    assert_eq!(closed.1.take(), [Dropped]);
    assert_eq!(left.1.take(), []);
    drop(files);
    assert_eq!(left.1.take(), [Dropped]);
}

#[test]
fn it_runs_without_a_hook_for_a_dyn_trait_and_on_a_superblock() {
    let superblock: SuperBlock<dyn Send + Sync> = SuperBlock::new().expect("there is memory");
    let files: Files<dyn Send + Sync> = Files::new();
    let (plain, on_superblock) = (caller(Weak::new()), caller(Weak::new()));
    let file = FileRef::builder(on_superblock.0)
        .on(&superblock, Access::Read)
        .try_build_dyn(|it| it);
    files.open(file.expect("memory"), NONE).expect("room");
    let opened = files.open(FileRef::new_dyn(plain.0, |it| it), NONE);
    opened.expect("room");
    assert_eq!(superblock.revoke(), Ok(1));
    for (fd, events) in [on_superblock.1, plain.1].into_iter().enumerate() {
        assert_eq!(events.take(), []);
        drop(files.close(fd as u32).expect("open"));
        assert_eq!(events.take(), [Dropped]);
    }
}

#[test]
fn drop_of_an_rcu_file_waits_for_readers() {
    let files: Files<Rcu<Caller>> = Files::new();
    let (caller, events) = caller(Weak::new());
    files.open(FileRef::new_rcu(caller), NONE).expect("room");
    let section = rcu::read_lock();
    let borrowed = files.get_rcu(0, &section).expect("open");
    drop(files.close(0).expect("open"));
    assert_eq!(events.take(), []);
    assert!(borrowed.files.upgrade().is_none(), "still usable");
    drop(section);
    rcu::barrier().expect("outside of sections");
    // By any thread that runs callbacks.
    let dropped: Vec<_> = events.0.try_iter().map(|(event, _)| event).collect();
    assert_eq!(dropped, [Dropped]);
}
