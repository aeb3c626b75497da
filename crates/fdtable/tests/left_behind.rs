//! Nothing is left behind: an object without references is dropped when the table is dropped, or
//! when the thread that closed it ends, although neither waits for readers.
//!
//! Readers of one test would delay the objects of another, so the tests run one after the other.

#![cfg(not(loom))]

use std::mem;
use std::panic::resume_unwind;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use fdtable::{FdFlags, FileRef, Files, PrivateFiles, Rcu, rcu};

const NONE: FdFlags = FdFlags::empty();
const OBJECTS: usize = 100;

/// Counts its drop.
struct Object(Arc<AtomicUsize>);

impl Drop for Object {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Makes objects, and counts those that are dropped.
#[derive(Clone, Default)]
struct Objects(Arc<AtomicUsize>);

impl Objects {
    fn make(&self) -> FileRef<Rcu<Object>> {
        FileRef::new_rcu(Object(Arc::clone(&self.0)))
    }

    fn dropped(&self) -> usize {
        self.0.load(SeqCst)
    }

    fn open(&self, files: &Files<Rcu<Object>>, count: usize) {
        for _ in 0..count {
            files.open(self.make(), NONE).expect("there is room");
        }
    }

    fn open_and_close(&self, files: &Files<Rcu<Object>>, count: usize) {
        for _ in 0..count {
            let fd = files.open(self.make(), NONE).expect("there is room");
            drop(files.close(fd).expect("it is open"));
        }
    }
}

/// A thread that has used the library. It stays inside a section, or outside, until it is released.
struct Other {
    thread: JoinHandle<()>,
    go: Sender<()>,
}

impl Other {
    fn start(body: impl FnOnce(Sender<()>, Receiver<()>) + Send + 'static) -> Self {
        let ((arrive, arrived), (go, gone)) = (channel(), channel());
        let thread = thread::spawn(move || body(arrive, gone));
        arrived.recv().expect("the thread arrives");
        Self { thread, go }
    }

    fn idle() -> Self {
        Self::start(|arrive, gone| {
            drop(rcu::read_lock());
            arrive.send(()).expect("the test listens");
            gone.recv().expect("the test lets it go");
        })
    }

    fn reading() -> Self {
        Self::start(|arrive, gone| {
            let _section = rcu::read_lock();
            arrive.send(()).expect("the test listens");
            gone.recv().expect("the test lets it go");
        })
    }

    fn end(self) {
        self.go.send(()).expect("the thread listens");
        self.thread.join().expect("the thread ends");
    }
}

/// Runs a test while no other thread uses the library. An end waits a millisecond for a thread that
/// is invoking callbacks, and for a reader less; on a busy machine either may lose its CPU for
/// longer.
fn alone(test: impl FnOnce() + Send + 'static) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Nor is the library's own thread there.
    rcu::use_ticks();
    // The thread of a test ends when the next one has begun. So it does not use the library.
    if let Err(panic) = thread::spawn(test).join() {
        resume_unwind(panic);
    }
}

fn on_a_thread(body: impl FnOnce() + Send + 'static) {
    thread::spawn(body).join().expect("the thread ends");
}

fn barrier() {
    rcu::barrier().expect("outside of sections");
}

#[test]
fn every_object_is_dropped_when_its_table_is() {
    alone(|| {
        for other in [None, Some(Other::idle())] {
            let (files, objects) = (Files::new(), Objects::default());
            objects.open(&files, OBJECTS / 2);
            objects.open_and_close(&files, OBJECTS / 2);
            drop(files);
            assert_eq!(objects.dropped(), OBJECTS);
            other.into_iter().for_each(Other::end);
        }
    });
}

#[test]
fn every_object_is_dropped_when_its_private_table_is() {
    alone(|| {
        let (files, objects) = (PrivateFiles::new(), Objects::default());
        for place in 0..OBJECTS {
            let fd = files.open(objects.make()).expect("there is room");
            if place % 2 == 0 {
                drop(files.close(fd).expect("it is open"));
            }
        }
        drop(files);
        assert_eq!(objects.dropped(), OBJECTS);
    });
}

#[test]
fn what_threads_have_closed_is_dropped_with_the_table() {
    alone(|| {
        let (files, objects) = (Arc::new(Files::new()), Objects::default());
        let others: Vec<_> = (0..4)
            .map(|_| {
                let (files, objects) = (Arc::clone(&files), objects.clone());
                Other::start(move |arrive, gone| {
                    objects.open_and_close(&files, OBJECTS);
                    drop(files);
                    arrive.send(()).expect("the test listens");
                    gone.recv().expect("the test lets it go");
                })
            })
            .collect();
        drop(files);
        assert_eq!(objects.dropped(), 4 * OBJECTS);
        others.into_iter().for_each(Other::end);
    });
}

#[test]
fn what_a_forked_table_has_released_is_dropped_with_the_one_that_was_made_anew() {
    alone(|| {
        let (files, objects) = (Files::new(), Objects::default());
        objects.open(&files, OBJECTS);
        let child = files.fork().expect("there is memory");
        objects.open_and_close(&child, OBJECTS);
        drop(child);
        drop(files);
        assert_eq!(objects.dropped(), 2 * OBJECTS);
    });
}

#[test]
fn every_object_is_dropped_when_the_thread_that_closed_it_ends() {
    alone(|| {
        let (files, objects) = (Arc::new(Files::new()), Objects::default());
        let thread = (Arc::clone(&files), objects.clone());
        on_a_thread(move || thread.1.open_and_close(&thread.0, OBJECTS));
        assert_eq!(objects.dropped(), OBJECTS);
    });
}

/// Such a thread is not known as a reader.
#[test]
fn every_object_is_dropped_when_the_thread_that_had_the_last_references_ends() {
    alone(|| {
        let objects = Objects::default();
        let files: Vec<_> = (0..OBJECTS).map(|_| objects.make()).collect();
        on_a_thread(move || drop(files));
        assert_eq!(objects.dropped(), OBJECTS);
    });
}

#[test]
fn neither_a_table_nor_a_thread_waits_for_a_reader_at_its_end() {
    alone(|| {
        let (files, objects) = (Files::new(), Objects::default());
        let reader = Other::reading();
        objects.open(&files, OBJECTS);
        drop(files);
        let thread = objects.clone();
        on_a_thread(move || thread.open_and_close(&Files::new(), OBJECTS));
        assert_eq!(objects.dropped(), 0, "the reader is inside its section");
        reader.end();
        drop(Files::<Object>::new());
        assert_eq!(objects.dropped(), 2 * OBJECTS, "any table sees to them");
    });
}

#[test]
fn a_table_that_is_dropped_inside_a_section_leaves_its_objects_to_what_comes_next() {
    alone(|| {
        let (files, objects) = (Files::new(), Objects::default());
        objects.open(&files, OBJECTS);
        let section = rcu::read_lock();
        drop(files);
        assert_eq!(objects.dropped(), 0);
        drop(section);
        barrier();
        assert_eq!(objects.dropped(), OBJECTS);
    });
}

/// An object in a table that is an object itself.
#[test]
fn a_table_that_is_dropped_inside_a_callback_leaves_its_objects_to_what_comes_next() {
    alone(|| {
        let (files, objects) = (Files::new(), Objects::default());
        objects.open(&files, OBJECTS);
        rcu::defer(move || drop(files));
        barrier();
        barrier();
        assert_eq!(objects.dropped(), OBJECTS);
    });
}

/// Holds the only reference to the next one.
struct Link {
    _object: Object,
    _next: Option<FileRef<Rcu<Link>>>,
}

impl Objects {
    fn chain(&self) -> FileRef<Rcu<Link>> {
        let link = |next, _| {
            let _object = Object(Arc::clone(&self.0));
            Some(FileRef::new_rcu(Link {
                _object,
                _next: next,
            }))
        };
        (0..LINKS).fold(None, link).expect("there are links")
    }
}

const LINKS: usize = 5;

#[test]
fn objects_that_hold_references_to_others_are_dropped_when_the_table_is() {
    alone(|| {
        let (files, objects) = (Files::new(), Objects::default());
        files.open(objects.chain(), NONE).expect("there is room");
        drop(files);
        assert_eq!(objects.dropped(), LINKS);
    });
}

#[test]
fn objects_that_hold_references_to_others_are_dropped_when_the_thread_ends() {
    alone(|| {
        let objects = Objects::default();
        let first = objects.chain();
        on_a_thread(move || drop(first));
        assert_eq!(objects.dropped(), LINKS);
    });
}

/// Before each step a new reader begins its section, an object is released, and only then the
/// reader before leaves: so there is always an object that cannot be dropped yet.
#[test]
fn a_barrier_in_steps_ends_although_there_is_always_a_reader_and_more_is_released() {
    const STEPS: usize = 10_000;
    alone(|| {
        let objects = Objects::default();
        let mut reader = Other::reading();
        drop(objects.make());
        let mut barrier = rcu::Barrier::new();
        let ended = (0..STEPS).any(|_| {
            let next = Other::reading();
            drop(objects.make());
            mem::replace(&mut reader, next).end();
            barrier.poll().expect("outside of sections")
        });
        assert!(ended);
        assert!(objects.dropped() > 0);
        reader.end();
        self::barrier();
    });
}
