//! Code of the caller never runs under a lock of the table: not the drop of an object (at once, or
//! if it is an `Rcu` after a grace period, on any thread), nor a waker, nor an object's description
//! of itself for a listing.
//!
//! The objects here call the table when they are dropped, or listed. Under its lock they would wait
//! forever.

use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use fdtable::{Access, FdFlags, FileRef, Files, PrivateFiles, SuperBlock, rcu};
use fdtable_listing::{Describe, Description, List};

const NONE: FdFlags = FdFlags::empty();

/// Many leaves, so that nodes are freed at every position among the callbacks.
const MANY: i32 = 64 * 200;

/// A table that takes its lock.
trait Locking: Send + Sync {
    fn take_lock(&self);
}

impl<T: Send + Sync> Locking for Files<T> {
    fn take_lock(&self) {
        let _ = self.set_quarantine(0);
    }
}

struct Asking(Weak<dyn Locking>);

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(files) = self.0.upgrade() {
            files.take_lock();
        }
    }
}

/// Files of one kind: what [`FileRef::new`] makes, or [`FileRef::new_rcu`].
type Make<T> = fn(Asking) -> FileRef<T>;

fn open_many<T: Send + Sync + 'static>(make: Make<T>) -> Arc<Files<T>> {
    let files: Arc<Files<T>> = Arc::new(Files::with_limit(u32::MAX));
    open_in(&files, make);
    files
}

fn open_in<T: Send + Sync + 'static>(files: &Arc<Files<T>>, make: Make<T>) {
    for _ in 0..MANY {
        let this: Weak<Files<T>> = Arc::downgrade(files);
        files.open(make(Asking(this)), NONE).expect("there is room");
    }
}

/// Runs `act`, which must not wait forever.
fn ends(act: impl FnOnce() + Send + 'static) {
    let (tell, hear) = channel();
    let thread = thread::spawn(move || {
        act();
        tell.send(()).expect("the receiver exists");
    });
    hear.recv_timeout(Duration::from_secs(60))
        .expect("it does not wait for a lock that it has");
    thread.join().expect("no panic");
    // Nothing is left to wait for readers: the leak sanitizer does not look into slabs.
    rcu::barrier().expect("outside of sections");
}

#[test]
fn objects_are_dropped_outside_of_locks_while_leaves_are_removed() {
    fn check<T: Send + Sync + 'static>(make: Make<T>) {
        ends(move || {
            let files = open_many(make);
            for _ in 0..3 {
                for fd in 0..MANY {
                    let file = files.close(fd).expect("it is open").into_file();
                    drop(file);
                }
                open_in(&files, make);
            }
        });
    }
    check(FileRef::new);
    check(FileRef::new_rcu);
}

#[test]
fn objects_are_dropped_outside_of_locks_while_shared_leaves_are_copied() {
    fn check<T: Send + Sync + 'static>(make: Make<T>) {
        for shift in 0..3 {
            ends(move || {
                let files = open_many(make);
                drop(files.fork().expect("there is memory"));
                rcu::barrier().expect("outside of sections");
                for _ in 0..shift {
                    drop(make(Asking(Weak::<Files<T>>::new())));
                }
                for fd in (0..MANY).step_by(64) {
                    drop(files.close(fd).expect("it is open"));
                }
            });
        }
    }
    check(FileRef::new);
    check(FileRef::new_rcu);
}

#[test]
fn objects_are_dropped_outside_of_locks_while_ranges_are_closed() {
    fn check<T: Send + Sync + 'static>(make: Make<T>) {
        ends(move || {
            let files = open_many(make);
            let child = files.fork().expect("there is memory");
            child.close_range(3, u32::MAX, drop).expect("in order");
            files.close_range(3, u32::MAX, drop).expect("in order");
            rcu::barrier().expect("outside of sections");
        });
    }
    check(FileRef::new);
    check(FileRef::new_rcu);
}

/// The tables of an object that takes all their locks when it is listed.
struct Places {
    files: Files<Listed>,
    private: PrivateFiles<Listed>,
    superblock: SuperBlock<Listed>,
}

struct Listed(Weak<Places>);

impl Describe for Listed {
    fn describe(&self) -> Description {
        let places = self.0.upgrade().expect("they are being listed");
        let fd = places.files.reserve(NONE).expect("there is room").fd();
        let private = places.private.iter().count() + places.private.open_count();
        let mounted = places.superblock.unmount().is_err();
        Description::new("REG", format!("{fd} {private} {mounted}"))
    }
}

#[test]
fn objects_are_listed_outside_of_locks() {
    ends(|| {
        let places = Arc::new(Places {
            files: Files::new(),
            private: PrivateFiles::new(),
            superblock: SuperBlock::new().expect("there is memory"),
        });
        let object = Listed(Arc::downgrade(&places));
        let file = FileRef::builder(object)
            .on(&places.superblock, Access::Read)
            .try_build();
        let file = file.expect("there is memory");
        places
            .files
            .open(file.clone(), NONE)
            .expect("there is room");
        places.private.open(file).expect("there is room");
        let listings = [
            places.files.list(),
            places.private.list(),
            places.superblock.list(),
        ];
        for listing in listings {
            let listing = listing.expect("there is memory");
            assert_eq!(listing.rows()[0].description.name, "1 2 true");
        }
    });
}
