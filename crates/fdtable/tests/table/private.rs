//! Private descriptors, one claim each.

use crate::canary;

use std::collections::HashSet;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier, Weak};
use std::thread::{self, ThreadId};

use canary::{Canary, Flock, look_at_borrowed, look_at_owned};
use fdtable::{Error, FdFlags, FileRef, Files, PrivateFd, PrivateFiles, Rcu, rcu};

#[test]
fn a_closed_descriptor_is_void_for_good() {
    let files = PrivateFiles::with_limit(1);
    let mut void = HashSet::new();
    for round in 0..100 {
        let fd = files.open(FileRef::new_rcu(round)).expect("there is room");
        for &void in &void {
            assert_eq!(files.get(void).err(), Some(Error::BadFd));
            assert_eq!(
                files.get_rcu(void, &rcu::read_lock()).err(),
                Some(Error::BadFd)
            );
            assert_eq!(files.close(void).err(), Some(Error::BadFd));
            assert_eq!(files.close(void).map(drop), Err(Error::BadFd));
        }
        assert_eq!(files.get(fd).map(|file| **file), Ok(round));
        assert_eq!(files.close(fd).map(drop), Ok(()));
        assert!(void.insert(fd), "it was given out before");
    }
}

#[test]
fn any_integer_is_a_descriptor_and_most_are_not_open() {
    let files = PrivateFiles::new();
    let fd = files.open(FileRef::new(())).expect("there is room");
    let near = (0..64).map(|bit| fd.to_bits() ^ (1 << bit));
    for bits in near.chain([0, 1, u64::MAX, u64::MAX >> 1, 1 << 32]) {
        let guessed = PrivateFd::from_bits(bits);
        assert_eq!(guessed.to_bits(), bits);
        if guessed != fd {
            assert_eq!(
                files.close(guessed).map(drop),
                Err(Error::BadFd),
                "{guessed}"
            );
            assert_eq!(files.get(guessed).err(), Some(Error::BadFd), "{guessed}");
        }
    }
    assert_eq!(
        files.close(PrivateFd::from_bits(fd.to_bits())).map(drop),
        Ok(())
    );
}

#[test]
fn nothing_that_happens_to_files_is_seen_here() {
    let (files, private) = (Files::new(), PrivateFiles::new());
    let file = FileRef::new("library");
    let inside = private.open(file.clone()).expect("there is room");
    let outside = files.open(file, FdFlags::CLOEXEC).expect("there is room");
    assert_eq!(outside.raw(), 0, "the lowest number is still free");
    drop(files.fork().expect("there is memory"));
    files.close_range(0, u32::MAX, drop).expect("in order");
    files.close_on_exec(drop).expect("there is memory");
    drop(files);
    assert_eq!(private.get(inside).as_deref(), Ok(&"library"));
}

#[test]
fn a_full_table_answers_emfile_and_drops_the_file() {
    let files = PrivateFiles::with_limit(40);
    let (released, hear) = channel();
    let open = |number| {
        let released = released.clone();
        let release = move |number: &i32| _ = released.send(*number);
        files.open(
            FileRef::builder(number)
                .on_release(move |object, _| release(object))
                .build(),
        )
    };
    let fds: Vec<PrivateFd> = (0..40)
        .map(|number| open(number).expect("there is room"))
        .collect();
    assert_eq!(open(40), Err(Error::TooManyFiles));
    assert!(hear.try_iter().eq([40]));
    drop(files.close(fds[17]).expect("it is open"));
    assert!(hear.try_iter().eq([17]));
    open(41).expect("there is room again");
    assert_eq!(open(42), Err(Error::TooManyFiles));
    assert_eq!(files.open_count(), 40);
    let none = PrivateFiles::with_limit(0);
    assert_eq!(none.open(FileRef::new(())), Err(Error::TooManyFiles));
}

#[test]
fn every_file_is_released_and_dropped_once() {
    let flock = Arc::new(Flock::default());
    let files: PrivateFiles<Rcu<Canary>> = PrivateFiles::new();
    let fds: Vec<PrivateFd> = (0..200)
        .map(|_| files.open(flock.hatch()).expect("there is room"))
        .collect();
    let held = files.get(fds[3]).expect("it is open");
    let taken = files.close(fds[4]).expect("it is open").into_file();
    drop(files.close(fds[3]).expect("it is open"));
    {
        let section = rcu::read_lock();
        let borrowed = files.get_rcu(fds[5], &section).expect("it is open");
        drop(files.close(fds[5]).expect("it is open"));
        look_at_borrowed(borrowed);
    }
    drop(files);
    look_at_owned(&held);
    look_at_owned(&taken);
    drop((held, taken));
    rcu::barrier().expect("outside of sections");
    flock.check_gone();
}

#[test]
fn one_of_two_closers_succeeds() {
    let files = PrivateFiles::new();
    let start = Barrier::new(2);
    for _ in 0..500 {
        let fd = files.open(FileRef::new(())).expect("there is room");
        let close = || {
            start.wait();
            usize::from(files.close(fd).is_ok())
        };
        let closed = thread::scope(|scope| {
            let other = scope.spawn(close);
            close() + other.join().expect("no panic")
        });
        assert_eq!(closed, 1);
    }
    assert_eq!(files.open_count(), 0);
}

/// A file with a hook that uses its table, and then reports its thread.
struct Caller {
    files: Weak<PrivateFiles<Caller>>,
    released: Option<Sender<ThreadId>>,
}

#[test]
fn a_hook_runs_inside_close_and_may_use_the_table() {
    let (released, hear) = channel();
    let files = Arc::new(PrivateFiles::with_limit(1));
    let caller = |released| Caller {
        files: Arc::downgrade(&files),
        released,
    };
    let file = FileRef::builder(caller(Some(released)))
        .on_release(|caller, _| {
            let files = caller.files.upgrade().expect("it is there");
            assert_eq!(files.open_count(), 0, "the place is free already");
            let another = Caller {
                files: caller.files.clone(),
                released: None,
            };
            let fd = files.open(FileRef::new(another)).expect("there is room");
            drop(files.close(fd).expect("it is open"));
            let heard = caller.released.as_ref().expect("told to tell");
            heard.send(thread::current().id()).expect("the test hears");
        })
        .build();
    let fd = files.open(file).expect("there is room");
    drop(files.close(fd).expect("it is open"));
    assert!(hear.try_iter().eq([thread::current().id()]));
}

#[test]
fn a_table_of_trait_objects_shows_what_it_has() {
    let files: PrivateFiles<dyn std::fmt::Debug + Send + Sync> = PrivateFiles::default();
    let fd = files
        .open(FileRef::new_dyn("file", |file| file))
        .expect("there is room");
    assert_eq!(format!("{files:?}"), format!("{{{fd:?}: \"file\"}}"));
    assert!(files.iter().map(|(fd, _)| fd).eq([fd]));
}
