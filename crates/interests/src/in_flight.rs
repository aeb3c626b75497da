//! Open files in flight between sockets, and the collection of unreachable ones.
//!
//! A message with files (`SCM_RIGHTS`) holds references to them: [`SentFiles`]. A socket in a
//! message may itself hold messages, so sockets can keep each other alive forever after their last
//! descriptors are closed. The registry, [`InFlight`], knows which socket is in flight to which.
//! [`InFlight::collect`] finds those that nothing else holds, and empties their queues.
//!
//! ```
//! use std::sync::Mutex;
//!
//! use fdtable::{FdFlags, FileRef, Files};
//! use fdtable_interests::in_flight::{Holder, InFlight, Mailbox, SentFiles};
//!
//! #[derive(Default)]
//! struct Socket {
//!     mailbox: Mailbox,
//!     queue: Mutex<Vec<SentFiles<Socket>>>,
//! }
//!
//! impl Holder<Socket> for Socket {
//!     fn mailbox(&self) -> &Mailbox {
//!         &self.mailbox
//!     }
//!
//!     fn take_files(&self, taken: &mut Vec<SentFiles<Socket>>) {
//!         taken.append(&mut self.queue.lock().unwrap());
//!     }
//! }
//!
//! let registry = InFlight::new(|socket: &Socket| Some(socket));
//! let files = Files::new();
//! let fd = files.open(FileRef::new(Socket::default()), FdFlags::empty())?;
//!
//! // The socket is sent to itself, and its only descriptor is closed.
//! let socket = files.get(fd)?;
//! let mut sent = registry.launch(vec![socket.clone()], 100).unwrap();
//! sent.send_to(&socket.mailbox);
//! socket.queue.lock().unwrap().push(sent);
//! let weak = FileRef::downgrade(&socket);
//! drop((socket, files.close(fd)?));
//!
//! assert_eq!((registry.collect(), registry.files()), (1, 0));
//! assert!(weak.upgrade().is_none());
//! # Ok::<(), fdtable::Error>(())
//! ```
//!
//! # Which sockets are garbage
//!
//! 1. A socket in flight is a *candidate* if all its references are in messages.
//! 2. A candidate is reachable if a message with it goes to a socket that is reachable, or is no
//!    candidate.
//! 3. The other candidates are garbage. Only they hold each other.
//!
//! The registry has this graph at any time, as Linux has it since 6.10: a collection looks at no
//! queue, and its lock comes after all others.
//!
//! # Why garbage is not in use
//!
//! The lock of the registry is held while the counts are read one after the other. A thread that
//! gets at a candidate meanwhile without that lock would not be noticed: it could take a reference
//! to one socket whose count was read, and give up that to another whose count was not. To receive
//! from a candidate, the thread holds a reference to it, and keeps it until the files are its own.
//! So it has gained a reference to a candidate by [`SentFiles::receive`] or [`SentFiles::peek`],
//! which take the lock, or before the collection, and then the count shows it. (Linux has had this
//! wrong with `MSG_PEEK` twice.) Lookups in tables go on: a descriptor holds a reference.
//!
//! A thread that has [borrowed](fdtable::BorrowedFile) a socket whose last descriptor is closed, or
//! that upgrades a [`WeakFile`], may get a reference to a socket that was just found to be garbage,
//! and finds its queue empty. If it has looked up a descriptor, it asks afterwards whether the
//! descriptor [still refers](fdtable::Files::refers_to) to the socket: then there was another
//! reference.
//!
//! # When to collect
//!
//! When a socket is released ([`InFlight::collect_after_release`]), and before a send while very
//! many files are in flight ([`InFlight::launch`] does that). Closing the last descriptor of a
//! cycle releases nothing: the cycle stays until the next collection.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::{fmt, mem};

use crossbeam_utils::atomic::AtomicCell;
use fdtable::{FileRef, WeakFile};
use fdtable_sync::platform::Mutex;

use crate::Error;

mod discard;
mod mailbox;

pub use discard::discard;
pub use mailbox::Mailbox;

/// Most files of one message: 253, as on Linux.
#[doc(alias = "SCM_MAX_FD")]
pub const MAX_FILES: usize = 253;

/// Files in flight from which a send with files collects garbage first: 16,000.
#[doc(alias = "UNIX_INFLIGHT_TRIGGER_GC")]
pub const THRESHOLD: usize = 16_000;

/// A socket: a file whose queue may hold files in flight.
pub trait Holder<T: ?Sized> {
    /// Returns the mailbox of the socket, always the same. Called with the registry locked.
    fn mailbox(&self) -> &Mailbox;

    /// Moves the files of all messages in the queue to `taken`, with those of connections that wait
    /// to be accepted. No thread can receive them any more. Called without a lock.
    fn take_files(&self, taken: &mut Vec<SentFiles<T>>);
}

/// Registry of the files in flight between the processes of a kernel.
pub struct InFlight<T: ?Sized> {
    holder: AsHolder<T>,
    graph: Mutex<Graph<T>>,
    /// Number of sockets in flight, read without the lock to skip a useless collection.
    sockets: AtomicCell<usize>,
}

/// Returns a file as a socket, if it is one.
type AsHolder<T> = fn(&T) -> Option<&dyn Holder<T>>;

/// State that the lock of the registry guards.
struct Graph<T: ?Sized> {
    /// Number of references in flight; a file counts as often as it is in flight.
    files: usize,
    /// Number of files in flight that triggers the next collection.
    enough: usize,
    /// By the numbers of their mailboxes.
    sockets: BTreeMap<u64, Flight<T>>,
}

/// Socket in flight.
struct Flight<T: ?Sized> {
    file: WeakFile<T>,
    /// How often it is in flight to receivers that are known.
    count: usize,
    /// The same for each receiver, by its number.
    receivers: BTreeMap<u64, (Mailbox, usize)>,
}

/// Files in flight, counted while this exists. Dropping it drops them, like [`discard`].
pub struct SentFiles<T: ?Sized + 'static> {
    files: Vec<FileRef<T>>,
    receiver: Option<Mailbox>,
    registry: Arc<InFlight<T>>,
}

impl<T: ?Sized + 'static> InFlight<T> {
    /// Makes a registry of files, of which `holder` returns those that are sockets. Allocates.
    #[must_use]
    pub fn new(holder: fn(&T) -> Option<&dyn Holder<T>>) -> Arc<Self> {
        let graph = Graph {
            files: 0,
            enough: 0,
            sockets: BTreeMap::new(),
        };
        Arc::new(Self {
            holder,
            graph: Mutex::new(graph),
            sockets: AtomicCell::new(0),
        })
    }

    /// Returns how many references to files are in flight. Takes a lock briefly.
    #[must_use]
    pub fn files(&self) -> usize {
        self.graph.lock().files
    }

    /// Puts the files of a message in flight. The caller then records their [receiver], and puts
    /// the result into its queue.
    ///
    /// Collects garbage first if at least [`THRESHOLD`] files are in flight, and twice as many as
    /// the last such collection has left: so its cost for each send is small on average. Then, and
    /// after an error, it runs release hooks: the caller holds no lock of a socket, and is in no
    /// read-side section. Allocates.
    ///
    /// [receiver]: SentFiles::send_to
    ///
    /// # Errors
    /// [`Error::TooManyFiles`] if there are more than [`MAX_FILES`]; [`Error::TooManyInFlight`] if
    /// more than `limit` would be in flight. The files are dropped.
    pub fn launch(
        self: &Arc<Self>,
        files: Vec<FileRef<T>>,
        limit: usize,
    ) -> Result<SentFiles<T>, Error> {
        self.collect_if_many();
        match self.count(files.len(), limit) {
            Ok(()) => Ok(SentFiles {
                files,
                receiver: None,
                registry: Arc::clone(self),
            }),
            Err(error) => {
                discard(files);
                Err(error)
            }
        }
    }

    fn count(&self, files: usize, limit: usize) -> Result<(), Error> {
        if files > MAX_FILES {
            return Err(Error::TooManyFiles);
        }
        let mut graph = self.graph.lock();
        if graph.files + files > limit {
            return Err(Error::TooManyInFlight);
        }
        graph.files += files;
        Ok(())
    }

    fn collect_if_many(&self) {
        let many = {
            let graph = self.graph.lock();
            graph.files >= graph.enough.max(THRESHOLD)
        };
        if many {
            self.collect();
            let mut graph = self.graph.lock();
            graph.enough = graph.files * 2;
        }
    }

    /// Drops the files in the queues of unreachable sockets. Returns how many such sockets there
    /// were.
    ///
    /// Runs release hooks: the caller holds no lock of a socket, and is in no read-side section.
    /// Allocates.
    #[doc(alias = "unix_gc")]
    pub fn collect(&self) -> usize {
        let garbage = self.graph.lock().garbage();
        let count = garbage.len();
        let mut taken = Vec::new();
        for file in &garbage {
            if let Some(socket) = (self.holder)(file) {
                socket.take_files(&mut taken);
            }
        }
        drop(taken);
        discard(garbage);
        count
    }
}

impl<T: ?Sized + Send + Sync + 'static> InFlight<T> {
    /// Collects garbage if a socket is in flight. The release hook of a socket calls this at its
    /// end. With `std`, while the thread [drops](discard) files, the collection runs after the last
    /// of them, once.
    ///
    /// Otherwise like [`collect`](Self::collect); costs a load if no socket is in flight.
    pub fn collect_after_release(self: &Arc<Self>) {
        if self.sockets.load() > 0 {
            discard::collect_later(self);
        }
    }
}

impl<T: ?Sized> Graph<T> {
    /// Returns the unreachable sockets, as the head of this file defines them.
    fn garbage(&self) -> Vec<FileRef<T>> {
        // References that are counted by CPU are not known: then a descriptor is open, or its close
        // has not ended. Dropping this reference under the lock is never the last drop.
        let candidate = |flight: &Flight<T>| {
            let file = flight.file.upgrade()?;
            (FileRef::exact_strong_count(&file) == Some(flight.count + 1)).then_some(file)
        };
        let sockets = self.sockets.iter();
        let mut unreached: BTreeMap<u64, FileRef<T>> = sockets
            .filter_map(|(&socket, flight)| Some((socket, candidate(flight)?)))
            .collect();
        // After the counts: a thread that accepts a connection holds the listener until it has.
        let mut queues: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (&socket, flight) in &self.sockets {
            for (receiver, _) in flight.receivers.values() {
                queues.entry(receiver.through()).or_default().push(socket);
            }
        }
        let receivers = queues.keys().copied();
        let mut reached: Vec<u64> = receivers
            .filter(|receiver| !unreached.contains_key(receiver))
            .collect();
        while let Some(socket) = reached.pop() {
            let inside = queues.get(&socket).into_iter().flatten().copied();
            reached.extend(inside.filter(|inner| unreached.remove(inner).is_some()));
        }
        unreached.into_values().collect()
    }

    /// Adds a message to a receiver's queue. Returns the number of sockets in flight.
    fn add(&mut self, files: &[FileRef<T>], receiver: &Mailbox, holder: AsHolder<T>) -> usize {
        for file in files {
            let Some(socket) = holder(file) else { continue };
            let flight = self.sockets.entry(socket.mailbox().number());
            let flight = flight.or_insert_with(|| Flight {
                file: FileRef::downgrade(file),
                count: 0,
                receivers: BTreeMap::new(),
            });
            flight.count += 1;
            let receivers = flight.receivers.entry(receiver.number());
            receivers.or_insert_with(|| (receiver.clone(), 0)).1 += 1;
        }
        self.sockets.len()
    }

    /// Undoes [`add`](Self::add).
    fn remove(&mut self, files: &[FileRef<T>], receiver: &Mailbox, holder: AsHolder<T>) -> usize {
        let receiver = receiver.number();
        for socket in files.iter().filter_map(|file| holder(file)) {
            let number = socket.mailbox().number();
            let Some(flight) = self.sockets.get_mut(&number) else {
                continue;
            };
            flight.count -= 1;
            if flight.count == 0 {
                self.sockets.remove(&number);
            } else if let Some((_, count)) = flight.receivers.get_mut(&receiver) {
                *count -= 1;
                if *count == 0 {
                    flight.receivers.remove(&receiver);
                }
            }
        }
        self.sockets.len()
    }
}

impl<T: ?Sized + 'static> SentFiles<T> {
    /// Records whose queue the message goes to. Call this once, before the message is in that
    /// queue. Until then the files are reachable, and from then on only as far as their receiver
    /// is.
    ///
    /// Takes a lock briefly, which comes after all locks of sockets. Allocates, and ends the
    /// process if there is no memory. May be called inside a read-side section.
    pub fn send_to(&mut self, receiver: &Mailbox) {
        self.forget_receiver(0);
        let registry = &self.registry;
        let mut graph = registry.graph.lock();
        let sockets = graph.add(&self.files, receiver, registry.holder);
        registry.sockets.store(sockets);
        self.receiver = Some(receiver.clone());
    }

    /// Ends the flight: the files are the caller's. It holds a reference to the receiver, and keeps
    /// that until this returns. To drop them, call [`discard`].
    ///
    /// Takes a lock briefly, which comes after all locks of sockets. Does not allocate. May be
    /// called inside a read-side section.
    #[must_use]
    pub fn receive(mut self) -> Vec<FileRef<T>> {
        self.forget_receiver(self.files.len());
        mem::take(&mut self.files)
    }

    /// Returns references of the caller's own, for a look at a message that stays in the queue
    /// (`MSG_PEEK`). The caller holds a reference to the receiver, and keeps that until this
    /// returns.
    ///
    /// Takes a lock briefly, like [`receive`](Self::receive), and allocates.
    #[must_use]
    pub fn peek(&self) -> Vec<FileRef<T>> {
        // A collection has the counts from before, or from after.
        // weaken: peek-without-the-registry
        let _graph = self.registry.graph.lock();
        self.files.clone()
    }

    /// Takes the sockets off their counts, and so many files off theirs.
    fn forget_receiver(&mut self, landed: usize) {
        let registry = &self.registry;
        let mut graph = registry.graph.lock();
        graph.files -= landed;
        if let Some(receiver) = self.receiver.take() {
            let sockets = graph.remove(&self.files, &receiver, registry.holder);
            registry.sockets.store(sockets);
        }
    }
}

impl<T: ?Sized + 'static> Drop for SentFiles<T> {
    fn drop(&mut self) {
        if !self.files.is_empty() {
            self.forget_receiver(self.files.len());
            discard(mem::take(&mut self.files));
        }
    }
}

impl<T: ?Sized> fmt::Debug for InFlight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InFlight({} sockets)", self.sockets.load())
    }
}

impl<T: ?Sized + 'static> fmt::Debug for SentFiles<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SentFiles({})", self.files.len())
    }
}
