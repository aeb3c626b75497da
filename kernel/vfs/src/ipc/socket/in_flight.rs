//! Open files in flight between processes, and the garbage collection of unreachable sockets.
//!
//! A message with files holds references to them ([`Rights`]). A socket in a message may itself
//! hold messages, so a cycle of sockets can keep itself alive forever after its last descriptor is
//! closed. [`InFlight`] counts the files in flight, and how often each socket is in flight, so that
//! [`InFlight::collect`] finds such cycles (Linux `unix_gc`).
//!
//! # Which sockets are garbage
//!
//! 1. A socket in flight is a *candidate* if all its references are in flight.
//! 2. From the count of each candidate, subtract the references in the queues of candidates. If
//!    some are left, a message somewhere else holds the socket, or is just being sent: the socket
//!    is reachable.
//! 3. A socket in a queue of a reachable candidate is reachable.
//! 4. The other candidates are garbage. Their queues are emptied of files, which are dropped. That
//!    breaks the cycles, and the sockets are released like any others.
//!
//! # Why garbage is not in use
//!
//! The lock of the registry is held throughout. A file is counted before it is put into a queue; it
//! is taken out of the queue, and off the count, under that lock. So a count is never less than the
//! references in queues. If step 2 leaves none, all references were in queues of candidates. Only a
//! thread with a reference to a candidate can receive from those, and by the same argument there is
//! none. A thread that has borrowed a descriptor of a socket, without a reference, may still get a
//! reference: it then asks the table whether the descriptor still refers to the socket, and so
//! whether another reference existed outside when it got its own.
//!
//! # When it runs
//!
//! It runs when a socket is released while others are in flight. It also runs before files are sent
//! while at least [`THRESHOLD`] are in flight, and at least twice as many as it found last time, so
//! its cost for each send is small on average. Linux runs it at the same times. Closing the last
//! descriptor of a cycle releases nothing: the cycle stays until the next run, or until
//! [`Namespace::collect`](super::Namespace::collect) is called.
//!
//! # No deep recursion
//!
//! Dropping a file may release a socket, whose queue holds files, and so on. [`discard`] does this
//! in a loop: a drop inside a drop only appends to a list of the thread.
//!
//! Order of locks: the registry's, a socket's, its queue's. Files are dropped under none of them.

use std::any::Any;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ptr;
use std::sync::Arc;

use crossbeam_utils::atomic::AtomicCell;
use fdtable::FileRef;
use fdtable_shm::{Mutex, MutexGuard};

use super::Socket;
use crate::event::FileId;
use crate::{Errno, RcuObject};

/// Most files of one message: 253, as on Linux. In Linux: `SCM_MAX_FD`.
pub const MAX_FILES: usize = 253;

/// Files in flight from which a send with files collects garbage first: 16,000.
/// In Linux: `UNIX_INFLIGHT_TRIGGER_GC`.
pub const THRESHOLD: usize = 16_000;

/// Registry of the files in flight between the processes of a kernel.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    flights: Mutex<Flights>,
    /// Number of sockets in the registry, read without the lock to skip a useless collection.
    sockets: AtomicCell<usize>,
}

/// State that the lock of the registry guards.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    /// Number of references in flight; a file counts as often as it is in flight.
    files: usize,
    /// Number of files in flight that triggers the next collection.
    enough: usize,
    sockets: HashMap<FileId, Flight>,
}

/// Socket in flight.
struct Flight {
    /// The registry's own reference: it keeps the address of the core, and reads the reference
    /// count.
    file: FileRef<RcuObject>,
    holder: Arc<dyn Holder>,
    /// How often it is in flight.
    count: usize,
}

/// Socket whose queues may hold files in flight.
pub(crate) trait Holder: Send + Sync {
    /// Calls `visit` with the files of each message in the queues of the socket.
    fn visit_rights(&self, visit: &mut dyn FnMut(&mut Option<Rights>));
}

/// Files in flight, counted while this exists.
pub(crate) struct Rights {
    files: Vec<FileRef<RcuObject>>,
    registry: Arc<InFlight>,
}

impl InFlight {
    /// Locks the registry.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Flights> {
        self.flights.lock()
    }

    /// Returns how many files are in flight.
    pub(crate) fn files(&self) -> usize {
        self.lock().files
    }

    /// Puts files in flight. Collects garbage first if very many are.
    ///
    /// # Errors
    /// `EINVAL` if there are more than [`MAX_FILES`]; `ETOOMANYREFS` if more than `limit` would be
    /// in flight.
    pub(crate) fn launch(
        self: &Arc<Self>,
        files: Vec<FileRef<RcuObject>>,
        limit: usize,
    ) -> Result<Rights, Errno> {
        if files.len() > MAX_FILES {
            discard(files);
            return Err(Errno::EINVAL);
        }
        self.collect_if_many();
        let mut flights = self.lock();
        if flights.files + files.len() > limit {
            drop(flights);
            discard(files);
            return Err(Errno::ETOOMANYREFS);
        }
        flights.files += files.len();
        files.iter().for_each(|file| flights.add(file));
        self.sockets.store(flights.sockets.len());
        drop(flights);
        Ok(Rights {
            files,
            registry: Arc::clone(self),
        })
    }

    fn collect_if_many(&self) {
        let many = {
            let flights = self.lock();
            flights.files >= flights.enough.max(THRESHOLD)
        };
        if many {
            self.collect();
            let mut flights = self.lock();
            flights.enough = flights.files * 2;
        }
    }

    /// Collects garbage after the release of a socket. Inside a [`discard`], this is deferred to
    /// its end, and done once.
    pub(crate) fn collect_later(self: &Arc<Self>) {
        if self.sockets.load() == 0 {
            return;
        }
        let later = with_dropping(|dropping| {
            if dropping.busy {
                let registered = dropping.collect.iter().any(|at| Arc::ptr_eq(at, self));
                dropping
                    .collect
                    .extend((!registered).then(|| Arc::clone(self)));
            }
            dropping.busy
        });
        if later != Some(true) {
            self.collect();
        }
    }

    /// Drops the files in the queues of unreachable sockets. Returns how many such sockets there
    /// were.
    pub(crate) fn collect(&self) -> usize {
        let mut dropped = Vec::new();
        let mut flights = self.lock();
        let garbage = flights.garbage();
        let mut rights = Vec::new();
        for holder in &garbage {
            holder.visit_rights(&mut |held| rights.extend(held.take()));
        }
        let is_own = |rights: &mut Rights| ptr::eq(&*rights.registry, self);
        for rights in rights.extract_if(.., is_own) {
            let files = rights.land(&mut flights, &mut dropped);
            dropped.extend(files);
        }
        drop(flights);
        // The others are counted in their own registries, which they lock.
        drop(rights);
        discard(dropped);
        garbage.len()
    }
}

impl Flights {
    fn add(&mut self, file: &FileRef<RcuObject>) {
        if let Some(socket) = as_socket(file) {
            let flight = self.sockets.entry(key(file)).or_insert_with(|| Flight {
                file: file.clone(),
                holder: socket.core().clone(),
                count: 0,
            });
            flight.count += 1;
        }
    }

    /// Takes a file off the counts. Returns the registry's reference if that is no longer needed,
    /// to be dropped outside the lock.
    fn remove(&mut self, file: &FileRef<RcuObject>) -> Option<FileRef<RcuObject>> {
        self.files -= 1;
        as_socket(file)?;
        let flight = self.sockets.get_mut(&key(file))?;
        flight.count -= 1;
        if flight.count > 0 {
            return None;
        }
        self.sockets.remove(&key(file)).map(|flight| flight.file)
    }

    /// Returns the unreachable sockets, as the head of this file defines them.
    fn garbage(&self) -> Vec<Arc<dyn Holder>> {
        let mut outside = self.candidates();
        for id in outside.keys().copied().collect::<Vec<_>>() {
            self.for_each_socket_in(id, &mut |inner| {
                if let Some(count) = outside.get_mut(&inner) {
                    *count -= 1;
                }
            });
        }
        let reached = self.reach(&outside);
        let unreached = outside.keys().filter(|id| !reached.contains(id));
        unreached
            .map(|id| Arc::clone(&self.sockets[id].holder))
            .collect()
    }

    /// Returns the sockets whose references are all in flight, with their number.
    fn candidates(&self) -> HashMap<FileId, usize> {
        // References that are counted by CPU are not known: then a descriptor is open, or its close
        // has not ended.
        let all_fly =
            |flight: &Flight| FileRef::exact_strong_count(&flight.file) == Some(flight.count + 1);
        let candidates = self.sockets.iter().filter(|(_, flight)| all_fly(flight));
        candidates.map(|(&id, flight)| (id, flight.count)).collect()
    }

    /// Returns the reachable candidates: those with references left, and what is in their queues.
    fn reach(&self, outside: &HashMap<FileId, usize>) -> HashSet<FileId> {
        let roots = outside.iter().filter(|&(_, &count)| count > 0);
        let mut reached: HashSet<FileId> = roots.map(|(&id, _)| id).collect();
        let mut next: Vec<FileId> = reached.iter().copied().collect();
        while let Some(id) = next.pop() {
            self.for_each_socket_in(id, &mut |inner| {
                if outside.contains_key(&inner) && reached.insert(inner) {
                    next.push(inner);
                }
            });
        }
        reached
    }

    /// Visits each socket in the queues of a socket in flight.
    fn for_each_socket_in(&self, id: FileId, see: &mut dyn FnMut(FileId)) {
        self.sockets[&id].holder.visit_rights(&mut |held| {
            let files = held.iter().flat_map(|rights| &rights.files);
            files.for_each(|file| see(key(file)));
        });
    }
}

impl Rights {
    /// Returns the files.
    pub(crate) fn files(&self) -> &[FileRef<RcuObject>] {
        &self.files
    }

    /// Returns the registry in which they are counted.
    pub(crate) fn registry(&self) -> Arc<InFlight> {
        Arc::clone(&self.registry)
    }

    /// Ends the flight: the files are the caller's. `flights` is the registry that counts them. The
    /// references that are put into `registered` must be dropped after the lock is released.
    pub(crate) fn land(
        mut self,
        flights: &mut Flights,
        registered: &mut Vec<FileRef<RcuObject>>,
    ) -> Vec<FileRef<RcuObject>> {
        let files = std::mem::take(&mut self.files);
        registered.extend(files.iter().filter_map(|file| flights.remove(file)));
        self.registry.sockets.store(flights.sockets.len());
        files
    }
}

/// Files that will not be received. The caller holds no lock.
impl Drop for Rights {
    fn drop(&mut self) {
        if self.files.is_empty() {
            return;
        }
        let mut files = std::mem::take(&mut self.files);
        let mut flights = self.registry.lock();
        let registered: Vec<_> = files
            .iter()
            .filter_map(|file| flights.remove(file))
            .collect();
        self.registry.sockets.store(flights.sockets.len());
        drop(flights);
        files.extend(registered);
        discard(files);
    }
}

impl std::fmt::Debug for Rights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rights({} files)", self.files.len())
    }
}

impl std::fmt::Debug for Flight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Flight({})", self.count)
    }
}

/// Drops in progress on a thread.
#[derive(Default)]
struct Dropping {
    busy: bool,
    files: Vec<FileRef<RcuObject>>,
    /// Registries in which a socket was released.
    collect: Vec<Arc<InFlight>>,
}

thread_local! {
    static DROPPING: RefCell<Dropping> = RefCell::default();
}

/// Returns nothing after the thread-local variables are destroyed.
fn with_dropping<R>(act: impl FnOnce(&mut Dropping) -> R) -> Option<R> {
    DROPPING
        .try_with(|dropping| act(&mut dropping.borrow_mut()))
        .ok()
}

/// Drops files, however deeply sockets are nested in each other's queues. The caller holds no lock
/// of the registry or of a socket.
pub(crate) fn discard(files: Vec<FileRef<RcuObject>>) {
    if files.is_empty() {
        return;
    }
    let mut files = Some(files);
    let begins = with_dropping(|dropping| {
        dropping.files.extend(files.take().into_iter().flatten());
        !std::mem::replace(&mut dropping.busy, true)
    });
    // A thread that exits drops them recursively.
    drop(files);
    if begins == Some(true) {
        while drop_next() {}
    }
}

/// Drops one file, or collects garbage once if there is none. Returns true if there may be more.
fn drop_next() -> bool {
    let next = with_dropping(|dropping| (dropping.files.pop(), dropping.collect.len()));
    match next {
        Some((Some(file), _)) => drop(file),
        Some((None, 1..)) => {
            let registry = with_dropping(|dropping| dropping.collect.pop()).flatten();
            registry.iter().for_each(|registry| {
                registry.collect();
            });
        }
        Some((None, 0)) => {
            // Without the memory of the lists too, which a fork would give to the child as well.
            with_dropping(|dropping| *dropping = Dropping::default());
            return false;
        }
        None => return false,
    }
    true
}

pub(super) fn as_socket(file: &FileRef<RcuObject>) -> Option<&Socket> {
    (&***file as &dyn Any).downcast_ref()
}

fn key(file: &FileRef<RcuObject>) -> FileId {
    FileId::of(&**file)
}
