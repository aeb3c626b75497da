//! Code of the caller never runs under a lock of the table: not the drop of an object (after a
//! grace period, on any thread), nor a waker, nor an object's description of itself for a listing.
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

struct Asking(Weak<Files<Asking>>);

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(files) = self.0.upgrade() {
            let _ = files.limits();
        }
    }
}

fn open_many() -> Arc<Files<Asking>> {
    let files = Arc::new(Files::with_limit(u32::MAX));
    for _ in 0..MANY {
        let file = FileRef::new(Asking(Arc::downgrade(&files)));
        files.open(file, NONE).expect("there is room");
    }
    files
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
    ends(|| {
        let files = open_many();
        for _ in 0..3 {
            for fd in 0..MANY {
                let file = files.close(fd).expect("it is open").into_file();
                drop(file);
            }
            for _ in 0..MANY {
                let file = FileRef::new(Asking(Arc::downgrade(&files)));
                files.open(file, NONE).expect("there is room");
            }
        }
    });
}

#[test]
fn objects_are_dropped_outside_of_locks_while_shared_leaves_are_copied() {
    for shift in 0..3 {
        ends(move || {
            let files = open_many();
            drop(files.fork().expect("there is memory"));
            rcu::barrier().expect("outside of sections");
            for _ in 0..shift {
                drop(FileRef::new(Asking(Weak::new())));
            }
            for fd in (0..MANY).step_by(64) {
                drop(files.close(fd).expect("it is open"));
            }
        });
    }
}

#[test]
fn objects_are_dropped_outside_of_locks_while_ranges_are_closed() {
    ends(|| {
        let files = open_many();
        let child = files.fork().expect("there is memory");
        child.close_range(3, u32::MAX, drop).expect("in order");
        files.close_range(3, u32::MAX, drop).expect("in order");
        rcu::barrier().expect("outside of sections");
    });
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
