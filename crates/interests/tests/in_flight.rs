//! Files in messages: what is counted, and which sockets are garbage.

#![cfg(not(loom))]

use std::sync::{Arc, Mutex, Weak};

use fdtable::{FileRef, WeakFile};
use fdtable_interests::Error;
use fdtable_interests::in_flight::{
    Holder, InFlight, MAX_FILES, Mailbox, SentFiles, THRESHOLD, discard,
};

/// A socket, or with no queue another file.
struct File {
    queue: Option<Mutex<Vec<SentFiles<File>>>>,
    mailbox: Mailbox,
    /// Connections that wait to be accepted.
    backlog: Mutex<Vec<Arc<Pending>>>,
}

struct Pending {
    mailbox: Mailbox,
    queue: Mutex<Vec<SentFiles<File>>>,
}

type Registry = Arc<InFlight<File>>;

impl Holder<File> for File {
    fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    fn take_files(&self, taken: &mut Vec<SentFiles<File>>) {
        taken.append(&mut self.queue().lock().unwrap());
        for pending in &*self.backlog.lock().unwrap() {
            taken.append(&mut pending.queue.lock().unwrap());
        }
    }
}

impl File {
    fn queue(&self) -> &Mutex<Vec<SentFiles<File>>> {
        self.queue.as_ref().expect("a socket")
    }
}

fn registry() -> Registry {
    InFlight::new(|file: &File| file.queue.as_ref().map(|_| file as _))
}

fn file(queue: Option<Mutex<Vec<SentFiles<File>>>>, registry: &Registry) -> FileRef<File> {
    // The registry is in its own files' hooks, and must not keep itself alive.
    let registry: Weak<_> = Arc::downgrade(registry);
    let object = File {
        queue,
        mailbox: Mailbox::new(),
        backlog: Mutex::default(),
    };
    let release = move |file: &File, _| {
        if let Some(queue) = &file.queue {
            let unread = std::mem::take(&mut *queue.lock().unwrap());
            drop(unread);
            if let Some(registry) = registry.upgrade() {
                registry.collect_after_release();
            }
        }
    };
    FileRef::builder(object).on_release(release).build()
}

fn socket(registry: &Registry) -> FileRef<File> {
    file(Some(Mutex::default()), registry)
}

fn send(registry: &Registry, to: &File, files: &[&FileRef<File>]) {
    let files = files.iter().map(|&file| file.clone()).collect();
    let mut sent = registry.launch(files, usize::MAX).unwrap();
    sent.send_to(&to.mailbox);
    to.queue().lock().unwrap().push(sent);
}

fn receive(from: &File) -> Vec<FileRef<File>> {
    let message = from.queue().lock().unwrap().pop();
    message.map_or_else(Vec::new, SentFiles::receive)
}

fn is_open(file: &WeakFile<File>) -> bool {
    file.upgrade().is_some()
}

#[test]
fn files_are_counted_until_they_are_received_or_dropped() {
    let registry = registry();
    let (socket, plain) = (socket(&registry), file(None, &registry));
    send(&registry, &socket, &[&plain, &plain]);
    send(&registry, &socket, &[&plain]);
    assert_eq!(registry.files(), 3);
    discard(receive(&socket));
    assert_eq!(registry.files(), 2);
    drop(socket);
    assert_eq!(registry.files(), 0);
    assert_eq!(FileRef::strong_count(&plain), 1);
}

#[test]
fn too_many_files_are_refused_and_dropped() {
    let registry = registry();
    let plain = file(None, &registry);
    let launch = |count, limit| registry.launch(vec![plain.clone(); count], limit).map(drop);
    assert_eq!(launch(MAX_FILES + 1, usize::MAX), Err(Error::TooManyFiles));
    assert_eq!(launch(11, 10), Err(Error::TooManyInFlight));
    assert_eq!(launch(10, 10), Ok(()));
    assert_eq!(FileRef::strong_count(&plain), 1);
    assert_eq!(
        (Error::TooManyFiles.errno(), Error::TooManyInFlight.errno()),
        (22, 109)
    );
}

#[test]
fn a_socket_in_its_own_queue_is_collected_and_a_received_one_is_not() {
    let registry = registry();
    let (outer, inner) = (socket(&registry), socket(&registry));
    send(&registry, &inner, &[&inner]);
    send(&registry, &outer, &[&inner]);
    let weak = FileRef::downgrade(&inner);
    drop(inner);
    assert_eq!(registry.collect(), 0, "it can be received");
    let received = receive(&outer);
    assert_eq!(registry.collect(), 0, "it was received");
    assert_eq!(received[0].queue().lock().unwrap().len(), 1);
    discard(received);
    assert_eq!((registry.collect(), registry.files()), (1, 0));
    assert!(!is_open(&weak));
}

#[test]
fn a_message_that_is_not_sent_yet_keeps_its_sockets() {
    let registry = registry();
    let socket = socket(&registry);
    send(&registry, &socket, &[&socket]);
    let sent = registry.launch(vec![socket.clone()], 10).unwrap();
    let weak = FileRef::downgrade(&socket);
    drop(socket);
    assert_eq!(registry.collect(), 0);
    drop(sent);
    assert!(is_open(&weak));
    assert_eq!(registry.collect(), 1);
    assert!(!is_open(&weak));
}

#[test]
fn a_peek_keeps_what_it_has_found() {
    let registry = registry();
    let socket = socket(&registry);
    send(&registry, &socket, &[&socket]);
    let peeked = socket.queue().lock().unwrap()[0].peek();
    drop(socket);
    assert_eq!((registry.collect(), registry.files()), (0, 1));
    discard(peeked);
    assert_eq!((registry.collect(), registry.files()), (1, 0));
}

#[test]
fn a_pending_connection_belongs_to_its_listener_until_it_is_accepted() {
    for accepted in [false, true] {
        let registry = registry();
        let listener = socket(&registry);
        let pending = Arc::new(Pending {
            mailbox: Mailbox::pending(&listener.mailbox),
            queue: Mutex::default(),
        });
        listener.backlog.lock().unwrap().push(Arc::clone(&pending));
        let mut sent = registry.launch(vec![listener.clone()], 10).unwrap();
        sent.send_to(&pending.mailbox);
        pending.queue.lock().unwrap().push(sent);
        if accepted {
            listener.backlog.lock().unwrap().clear();
            pending.mailbox.accept();
        }
        drop(listener);
        assert_eq!(registry.collect(), usize::from(!accepted));
        assert_eq!(registry.files(), usize::from(accepted));
    }
}

#[test]
fn a_release_collects_what_it_has_made_unreachable() {
    let registry = registry();
    let (open, inner) = (socket(&registry), socket(&registry));
    send(&registry, &inner, &[&inner]);
    send(&registry, &open, &[&inner]);
    let weak = FileRef::downgrade(&inner);
    drop(inner);
    assert!(is_open(&weak));
    drop(open);
    assert!(!is_open(&weak));
}

#[test]
fn very_many_files_in_flight_are_collected_by_a_send() {
    let registry = registry();
    let (garbage, open) = (socket(&registry), socket(&registry));
    let message = vec![&garbage; 250];
    for _ in 0..THRESHOLD / 250 {
        send(&registry, &garbage, &message);
    }
    drop(message);
    drop(garbage);
    assert_eq!(registry.files(), THRESHOLD);
    send(&registry, &open, &[&open]);
    assert_eq!(registry.files(), 1);
}

/// Each socket is in the queue of the next: their release must not recurse.
#[test]
fn a_long_chain_is_released_on_a_small_stack() {
    let body = || {
        let registry = registry();
        let mut last = socket(&registry);
        let weak = FileRef::downgrade(&last);
        for _ in 0..10_000 {
            let next = socket(&registry);
            send(&registry, &next, &[&last]);
            last = next;
        }
        discard(vec![last]);
        assert_eq!(registry.files(), 0);
        assert!(!is_open(&weak));
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    thread.spawn(body).unwrap().join().unwrap();
}

/// Random histories of two threads that send, receive, peek and close, beside one that collects.
/// The oracle is the rule itself: a socket that a thread gets has every message that was sent to
/// it, and in the end nothing is left.
#[test]
fn no_socket_that_a_thread_gets_was_collected() {
    const SOCKETS: usize = 4;
    for seed in 0..if cfg!(miri) { 1 } else { 200 } {
        let registry = registry();
        let shared = socket(&registry);
        let weak: Vec<_> = std::thread::scope(|scope| {
            let collects = scope.spawn(|| (0..100).map(|_| registry.collect()).sum::<usize>());
            let threads = [seed, seed + 1000].map(|seed| {
                let (registry, shared) = (&registry, &shared);
                scope.spawn(move || act(registry, shared, seed, SOCKETS))
            });
            let weak = threads.map(|thread| thread.join().unwrap());
            collects.join().unwrap();
            weak.into_iter().flatten().collect()
        });
        drop(shared);
        registry.collect();
        assert_eq!(registry.files(), 0, "seed {seed}");
        assert!(!weak.iter().any(is_open), "seed {seed}");
    }
}

/// Checks that a socket has the message to itself that it was made with.
fn check(socket: &File) {
    let queue = socket.queue().lock().unwrap();
    assert!(!queue.is_empty(), "it was collected");
}

/// Returns the sockets that it has made.
fn act(registry: &Registry, shared: &File, seed: u64, count: usize) -> Vec<WeakFile<File>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut made = Vec::new();
    let mut held: Vec<FileRef<File>> = Vec::new();
    for _ in 0..60 {
        match random.u8(0..5) {
            0 if made.len() < count => {
                let new = socket(registry);
                // It keeps itself alive from here on, and so is in flight at all times.
                send(registry, &new, &[&new]);
                made.push(FileRef::downgrade(&new));
                held.push(new);
            }
            1 if !held.is_empty() => {
                let sent = held.swap_remove(random.usize(0..held.len()));
                send(registry, shared, &[&sent]);
                discard(vec![sent]);
            }
            2 => {
                let received = receive(shared);
                received.iter().for_each(|socket| check(socket));
                held.extend(received);
            }
            3 => {
                let queue = shared.queue().lock().unwrap();
                let peeked = queue.first().map_or_else(Vec::new, SentFiles::peek);
                drop(queue);
                peeked.iter().for_each(|socket| check(socket));
                held.extend(peeked);
            }
            _ if !held.is_empty() => {
                discard(vec![held.swap_remove(random.usize(0..held.len()))]);
            }
            _ => {}
        }
    }
    discard(held);
    made
}
