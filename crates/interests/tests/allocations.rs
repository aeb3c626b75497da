//! Calls that promise not to allocate: those of wake-ups and of collections.

#![cfg(not(loom))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use fdtable::FileRef;
use fdtable_interests::in_flight::{Holder, InFlight, Mailbox, SentFiles};
use fdtable_interests::{Interest, Interests, Key, Mode};

/// The system's allocator, which counts.
struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: memory comes from the system's allocator and goes back there, with its own layout.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[track_caller]
fn without_memory<R>(act: impl FnOnce() -> R) -> R {
    let before = COUNT.get();
    let result = act();
    assert_eq!(COUNT.get(), before);
    result
}

#[test]
fn wake_ups_collections_and_removals_do_not_allocate() {
    let set = Interests::new();
    let files: Vec<_> = (0..100).map(FileRef::new).collect();
    for (fd, file) in files.iter().enumerate() {
        set.add(file, fd as i32, Mode::Level, ()).unwrap();
    }
    let keys: Vec<_> = files
        .iter()
        .enumerate()
        .map(|(fd, file)| Key::new(file, fd as i32))
        .collect();
    let ask = |interest: &Interest<i32, ()>| interest.file().map(|file| *file);
    // The first section of a thread allocates.
    assert!(files[0].clone().eq(&0) && ask(&set.get(keys[0]).unwrap()).is_some());
    without_memory(|| keys.iter().for_each(|&key| assert!(set.mark_ready(key))));
    let mut sum = 0;
    without_memory(|| set.collect(1000, ask, |number| sum += number));
    assert_eq!(sum, 99 * 100 / 2);
    assert_eq!(without_memory(|| set.first_ready(ask)), Some(0));
    let removed = without_memory(|| set.remove(keys[50]));
    assert!(removed.is_ok());
}

struct Socket(Mailbox);

impl Holder<Socket> for Socket {
    fn mailbox(&self) -> &Mailbox {
        &self.0
    }

    fn take_files(&self, _taken: &mut Vec<SentFiles<Socket>>) {}
}

#[test]
fn a_receive_does_not_allocate() {
    let registry = InFlight::new(|socket: &Socket| Some(socket));
    let [sent, receiver] = [(); 2].map(|()| FileRef::new(Socket(Mailbox::new())));
    let mut message = registry.launch(vec![sent; 2], 10).unwrap();
    message.send_to(receiver.mailbox());
    assert_eq!(without_memory(|| message.receive()).len(), 2);
}
