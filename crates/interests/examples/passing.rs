//! Passes 200 descriptors around in cycles, closes them all, and leaks none.
//!
//! `cargo run -p fdtable-interests --example passing`

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use fdtable::{Error, Fd, FdFlags, FileRef, Files};
use fdtable_interests::in_flight::{Holder, InFlight, Mailbox, SentFiles, discard};

/// Sockets that exist.
static SOCKETS: AtomicUsize = AtomicUsize::new(0);

/// A socket: messages that were sent to it, each of some files.
struct Socket {
    mailbox: Mailbox,
    queue: Mutex<Vec<SentFiles<Socket>>>,
}

impl Socket {
    fn new() -> Self {
        SOCKETS.fetch_add(1, Relaxed);
        Socket {
            mailbox: Mailbox::new(),
            queue: Mutex::default(),
        }
    }

    /// Sends files to this socket, as `sendmsg` does.
    fn send(&self, registry: &Arc<InFlight<Socket>>, files: Vec<FileRef<Socket>>) {
        let mut sent = registry
            .launch(files, 1000)
            .expect("so many may be in flight");
        sent.send_to(&self.mailbox);
        self.queue.lock().unwrap().push(sent);
    }

    /// Receives the files of the last message, as `recvmsg` does.
    fn receive(&self) -> Vec<FileRef<Socket>> {
        let received = self.queue.lock().unwrap().pop();
        received.map_or_else(Vec::new, SentFiles::receive)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        SOCKETS.fetch_sub(1, Relaxed);
    }
}

impl Holder<Socket> for Socket {
    fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    fn take_files(&self, taken: &mut Vec<SentFiles<Socket>>) {
        taken.append(&mut self.queue.lock().unwrap());
    }
}

/// Opens a socket, whose release starts a collection.
fn socket(files: &Files<Socket>, registry: &Arc<InFlight<Socket>>) -> Result<Fd, Error> {
    let registry = Arc::clone(registry);
    let socket = FileRef::builder(Socket::new()).on_release(move |socket, _| {
        let unread = std::mem::take(&mut *socket.queue.lock().unwrap());
        drop(unread);
        registry.collect_after_release();
    });
    files.open(socket.build(), FdFlags::empty())
}

/// Runs the example.
///
/// # Panics
/// If a socket is leaked, or one that can be received is collected.
pub(crate) fn main() {
    run().expect("the table has room");
}

fn run() -> Result<(), Error> {
    let files = Files::new();
    let registry = InFlight::new(|socket: &Socket| Some(socket));
    let fds: Vec<Fd> = (0..200)
        .map(|_| socket(&files, &registry))
        .collect::<Result<_, _>>()?;

    // Each is in the queue of the next one, in cycles of 1, 2, 3 and so on.
    let (mut begin, mut length) = (0, 1);
    while begin < fds.len() {
        let cycle = &fds[begin..fds.len().min(begin + length)];
        for (at, &fd) in cycle.iter().enumerate() {
            let receiver = files.get(cycle[(at + 1) % cycle.len()])?;
            receiver.send(&registry, vec![files.get(fd)?]);
        }
        (begin, length) = (begin + length, length + 1);
    }
    // One cycle is also in a message that can be received.
    let open = socket(&files, &registry)?;
    files.get(open)?.send(&registry, vec![files.get(fds[3])?]);

    files.close_range(0, 199, drop)?;
    assert_eq!(SOCKETS.load(Relaxed), 201, "they hold each other");
    let collected = registry.collect();
    println!(
        "collected {collected} sockets, {} files in flight",
        registry.files()
    );
    assert_eq!((collected, SOCKETS.load(Relaxed)), (197, 4));

    // The last cycle, of three, is received, closed, and found by the release of the last socket.
    let received = files.get(open)?.receive();
    assert_eq!(
        received[0].queue.lock().unwrap().len(),
        1,
        "nothing was lost"
    );
    discard(received);
    drop(files.close(open)?);
    assert_eq!((SOCKETS.load(Relaxed), registry.files()), (0, 0));
    Ok(())
}
