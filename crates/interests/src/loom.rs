//! Models of the sets and of the registry. The first line of each names the bug that it looks for.

use std::sync::{Arc, Mutex};
use std::vec;
use std::vec::Vec;

use fdtable::{FileRef, rcu};
use fdtable_sync::model::Preemptions::AtMost;
use fdtable_sync::model::{explore, join, spawn};
use fdtable_sync::platform;

use crate::in_flight::{Holder, InFlight, Mailbox, SentFiles};
use crate::{Interests, Key, Mode};

type Set = Arc<Interests<(), u8>>;

/// Makes a set with one file, which is marked.
fn set(mode: Mode) -> (Set, FileRef<()>, Key) {
    let (set, file) = (Set::default(), FileRef::new(()));
    let key = set.add(&file, 0, mode, 0).expect("it is new");
    assert!(set.mark_ready(key));
    (set, file, key)
}

fn collect(set: &Set) -> usize {
    values(set).len()
}

/// Returns the values of what a collection reports.
fn values(set: &Set) -> Vec<u8> {
    let mut found = Vec::new();
    set.collect(
        2,
        |interest| Some(*interest.value()),
        |value| found.push(value),
    );
    found
}

fn finish(file: FileRef<()>) {
    drop(file);
    rcu::barrier().expect("outside of sections");
}

/// One wake-up is reported by two threads, or by none.
#[test]
fn two_collections_report_a_wake_up_once() {
    explore(AtMost(3), || {
        let (set, file, _) = set(Mode::Edge);
        let other = spawn({
            let set = set.clone();
            move || collect(&set)
        });
        let reported = collect(&set);
        assert_eq!(reported + join(other), 1);
        finish(file);
    });
}

/// A wake-up comes between the answer and the end of a collection, and is lost.
#[test]
fn a_wake_up_beside_a_collection_is_not_lost() {
    explore(AtMost(3), || {
        let (set, file, key) = set(Mode::Edge);
        // Not a lock of loom's: it orders nothing.
        let bytes = Arc::new(Mutex::new(0));
        let writes = spawn({
            let (set, bytes) = (set.clone(), bytes.clone());
            move || {
                *bytes.lock().expect("no panic") += 1;
                assert!(set.mark_ready(key));
            }
        });
        let take = |_: &_| {
            let taken = std::mem::take(&mut *bytes.lock().expect("no panic"));
            (taken > 0).then_some(taken)
        };
        let mut read = 0;
        set.collect(1, take, |bytes| read += bytes);
        join(writes);
        set.collect(1, take, |bytes| read += bytes);
        assert_eq!(read, 1);
        finish(file);
    });
}

/// A collection that reports the old request disarms the new one.
#[test]
fn a_one_shot_that_is_modified_beside_its_report_is_reported_again() {
    explore(AtMost(3), || {
        let (set, file, key) = set(Mode::OneShot);
        let collects = spawn({
            let set = set.clone();
            move || values(&set)
        });
        set.modify(key, Mode::OneShot, 1).expect("it is there");
        set.mark_ready(key);
        let mut reported = join(collects);
        reported.extend(values(&set));
        // The old one may be reported before.
        assert!([&[1][..], &[0, 1]].contains(&&reported[..]));
        finish(file);
    });
}

/// A registration is in the list after it was removed, or in no place after it was put back.
#[test]
fn a_removal_meets_a_collection_and_a_wake_up() {
    explore(AtMost(2), || {
        let (set, file, key) = set(Mode::Level);
        let removes = spawn({
            let set = set.clone();
            move || set.remove(key).is_ok()
        });
        let wakes = spawn({
            let set = set.clone();
            move || set.mark_ready(key)
        });
        collect(&set);
        assert!(join(removes));
        join(wakes);
        assert!(set.is_empty() && !set.is_ready());
        assert_eq!(collect(&set), 0);
        finish(file);
    });
}

/// A file that has ended is asked, or its end is missed.
#[test]
fn the_last_close_meets_a_collection() {
    explore(AtMost(2), || {
        let (set, file, key) = set(Mode::Level);
        let closes = spawn(move || drop(file));
        set.collect(1, |interest| interest.file().map(drop), drop);
        join(closes);
        set.mark_ready(key);
        assert_eq!(
            set.collect(1, |interest| interest.file().map(drop), drop),
            0
        );
        rcu::barrier().expect("outside of sections");
    });
}

struct Socket {
    mailbox: Mailbox,
    queue: platform::Mutex<Vec<SentFiles<Socket>>>,
}

impl Holder<Socket> for Socket {
    fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    fn take_files(&self, taken: &mut Vec<SentFiles<Socket>>) {
        taken.append(&mut self.queue.lock());
    }
}

type Registry = Arc<InFlight<Socket>>;

/// Makes two sockets, of which each is in the queue of the other.
fn two_in_a_cycle() -> (Registry, [FileRef<Socket>; 2]) {
    let registry: Registry = InFlight::new(|socket: &Socket| Some(socket));
    let sockets = [(); 2].map(|()| {
        FileRef::new(Socket {
            mailbox: Mailbox::new(),
            queue: platform::Mutex::default(),
        })
    });
    for [from, to] in [[0, 1], [1, 0]] {
        let mut sent = registry
            .launch(vec![sockets[from].clone()], 10)
            .expect("there are few");
        sent.send_to(&sockets[to].mailbox);
        sockets[to].queue.lock().push(sent);
    }
    (registry, sockets)
}

/// Explores that a thread with one of the sockets gets the other one by `get`, beside a collection.
fn explore_get(get: fn(&Socket) -> Vec<FileRef<Socket>>) {
    // The counts are read in the order of addresses, so both sockets are tried.
    for kept in [0, 1] {
        explore(AtMost(3), move || {
            let (registry, mut sockets) = two_in_a_cycle();
            sockets.rotate_left(kept);
            let [receiver, other] = sockets;
            drop(other);
            let gets = spawn(move || {
                let found = get(&receiver);
                drop(receiver);
                assert_eq!(found[0].queue.lock().len(), 1, "it was collected");
                drop(found);
            });
            registry.collect();
            join(gets);
            registry.collect();
            assert_eq!(registry.files(), 0);
            rcu::barrier().expect("outside of sections");
        });
    }
}

/// A collection misses a socket that a thread receives, and gives up its receiver.
#[test]
fn a_receive_meets_a_collection() {
    explore_get(|socket| {
        let message = socket.queue.lock().pop();
        message.expect("it is not collected").receive()
    });
}

/// A collection misses a socket that a thread peeks at, and gives up its receiver.
#[test]
fn a_peek_meets_a_collection() {
    explore_get(|socket| socket.queue.lock()[0].peek());
}
