//! Open files on their way between processes, and sockets that nobody can reach any more.
//!
//! A message with files holds references to them ([`Rights`]). A socket that lies in a message may
//! itself hold messages, and so a circle of sockets can keep itself alive forever when nobody
//! has a descriptor any more. [`InFlight`] counts the files on their way, and for each socket how
//! often it is on its way, so that [`InFlight::collect`] finds such circles (Linux `unix_gc`).
//!
//! # Which sockets are garbage
//!
//! 1. A socket on its way is a *candidate* if all its references are on their way.
//! 2. From each candidate's count, those are taken off that lie in the queues of candidates. If
//!    something is left, there is a message that holds the socket somewhere else, or is just being
//!    sent: it can be reached.
//! 3. What lies in the queues of a candidate that can be reached can be reached.
//! 4. The other candidates are garbage. The files are taken out of their queues, and dropped. That
//!    breaks the circles, and the sockets are released as any others.
//!
//! # Why nobody still uses them
//!
//! The registry's lock is held throughout. A file is counted before it is put into a queue, and
//! under the lock it is taken out of the queue and off the count. So a count is never less than
//! what lies in queues; if step 2 leaves nothing of it, all its references were in queues of
//! candidates, which can be received from only by who has a reference to one of those, and nobody
//! has, by the same argument. A thread that has borrowed a descriptor of a socket (without a
//! reference) may get a reference yet: it then asks the table whether the descriptor still names
//! the socket, and so whether its reference began while there was another outside.
//!
//! # When it runs
//!
//! When a socket is released while others are on their way, and when files are sent while
//! [`THRESHOLD`] are on their way, or twice as many as the last time that this found: so the
//! search costs a send little on average. The times are those of Linux. The close of the last descriptor of a circle
//! releases nothing; the circle stays until the next such time, or until somebody calls
//! [`Namespace::collect`](super::Namespace::collect).
//!
//! # No deep recursion
//!
//! Dropping a file may release a socket, whose queue holds files, and so on. [`discard`] does this
//! in a loop: what is dropped inside of a drop is only put on the thread's list.
//!
//! Order of locks: the registry's, a socket's, its queue's. Files are dropped under none of them.

use std::any::Any;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ptr;
use std::sync::Arc;

use crossbeam_utils::atomic::AtomicCell;
use fdtable::FileRef;
use parking_lot::{Mutex, MutexGuard};

use super::Socket;
use super::core::Core;
use crate::event::FileId;
use crate::{Errno, Object};

/// Most files of one message: 253, as Linux.
#[doc(alias = "SCM_MAX_FD")]
pub const MAX_FILES: usize = 253;

/// Files on their way from which on a message with files looks for garbage first: 16,000.
#[doc(alias = "UNIX_INFLIGHT_TRIGGER_GC")]
pub const THRESHOLD: usize = 16_000;

/// Registry of the files that are on their way between the processes of a kernel.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    flights: Mutex<Flights>,
    /// How many sockets the registry has, for those who would find none.
    sockets: AtomicCell<usize>,
}

/// What the registry's lock guards.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    /// All files on their way, each as often as it is.
    files: usize,
    /// So many files are the next occasion to look for garbage.
    enough: usize,
    sockets: HashMap<FileId, Flight>,
}

/// Socket on its way.
struct Flight {
    /// The registry's own reference, which keeps the core's place and shows the count of all.
    file: FileRef<dyn Object>,
    core: Arc<Core>,
    /// How often it is on its way.
    count: usize,
}

/// Files that are on their way, and counted as long as this exists.
pub(crate) struct Rights {
    files: Vec<FileRef<dyn Object>>,
    registry: Arc<InFlight>,
}

impl InFlight {
    /// Takes the lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Flights> {
        self.flights.lock()
    }

    /// Returns how many files are on their way.
    pub(crate) fn files(&self) -> usize {
        self.lock().files
    }

    /// Sends files on their way. First looks for garbage if very many are.
    ///
    /// # Errors
    /// `EINVAL` if they are more than [`MAX_FILES`]; `ETOOMANYREFS` if more than `limit` would be on
    /// their way.
    pub(crate) fn launch(
        self: &Arc<Self>,
        files: Vec<FileRef<dyn Object>>,
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

    /// Drops the files that lie in sockets which nobody can reach, as a socket was released. If this
    /// happens inside of a [`discard`], that does it in the end, once for all.
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

    /// Drops the files that lie in sockets which nobody can reach. Returns how many sockets that
    /// were.
    pub(crate) fn collect(&self) -> usize {
        let mut dropped = Vec::new();
        let mut flights = self.lock();
        let garbage = flights.garbage();
        let mut rights = Vec::new();
        for core in &garbage {
            core.take_rights(&mut rights);
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
    fn add(&mut self, file: &FileRef<dyn Object>) {
        if let Some(socket) = as_socket(file) {
            let flight = self.sockets.entry(key(file)).or_insert_with(|| Flight {
                file: file.clone(),
                core: Arc::clone(socket.core()),
                count: 0,
            });
            flight.count += 1;
        }
    }

    /// Counts a file that has come, or is given up. Returns the registry's reference to it if that
    /// is not needed any more, to be dropped without the lock.
    fn remove(&mut self, file: &FileRef<dyn Object>) -> Option<FileRef<dyn Object>> {
        self.files -= 1;
        as_socket(file)?;
        let flight = self.sockets.get_mut(&key(file))?;
        flight.count -= 1;
        if flight.count > 0 {
            return None;
        }
        self.sockets.remove(&key(file)).map(|flight| flight.file)
    }

    /// Returns the sockets that nobody can reach, as the head of this file says.
    fn garbage(&self) -> Vec<Arc<Core>> {
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
            .map(|id| Arc::clone(&self.sockets[id].core))
            .collect()
    }

    /// Returns the sockets of which all references are on their way, and how many those are.
    fn candidates(&self) -> HashMap<FileId, usize> {
        let all_fly = |flight: &Flight| FileRef::references(&flight.file) == flight.count + 1;
        let candidates = self.sockets.iter().filter(|(_, flight)| all_fly(flight));
        candidates.map(|(&id, flight)| (id, flight.count)).collect()
    }

    /// Returns the candidates that can be reached: those with a count, and what lies in them.
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

    /// Shows each socket that lies in the queues of one on its way.
    fn for_each_socket_in(&self, id: FileId, see: &mut dyn FnMut(FileId)) {
        self.sockets[&id].core.for_each_right(&mut |rights| {
            rights.files.iter().for_each(|file| see(key(file)));
        });
    }
}

impl Rights {
    /// Returns the files.
    pub(crate) fn files(&self) -> &[FileRef<dyn Object>] {
        &self.files
    }

    /// Returns where they are counted.
    pub(crate) fn registry(&self) -> Arc<InFlight> {
        Arc::clone(&self.registry)
    }

    /// Ends their way: they are the caller's. `flights` is the registry where they are counted.
    /// `registered` gets references that the caller drops
    /// when it has let go of the lock.
    pub(crate) fn land(
        mut self,
        flights: &mut Flights,
        registered: &mut Vec<FileRef<dyn Object>>,
    ) -> Vec<FileRef<dyn Object>> {
        let files = std::mem::take(&mut self.files);
        registered.extend(files.iter().filter_map(|file| flights.remove(file)));
        self.registry.sockets.store(flights.sockets.len());
        files
    }
}

/// They are given up: nobody will receive them. The caller holds no lock.
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

/// What a thread is dropping.
#[derive(Default)]
struct Dropping {
    busy: bool,
    files: Vec<FileRef<dyn Object>>,
    /// Registries in which a socket was released.
    collect: Vec<Arc<InFlight>>,
}

thread_local! {
    static DROPPING: RefCell<Dropping> = RefCell::default();
}

/// Returns nothing where the thread's variables are gone already.
fn with_dropping<R>(act: impl FnOnce(&mut Dropping) -> R) -> Option<R> {
    DROPPING
        .try_with(|dropping| act(&mut dropping.borrow_mut()))
        .ok()
}

/// Drops files, however many sockets lie in each other's queues. The caller holds no lock of the
/// registry or of a socket.
pub(crate) fn discard(files: Vec<FileRef<dyn Object>>) {
    if files.is_empty() {
        return;
    }
    let mut files = Some(files);
    let begins = with_dropping(|dropping| {
        dropping.files.extend(files.take().into_iter().flatten());
        !std::mem::replace(&mut dropping.busy, true)
    });
    // A thread that ends drops them one inside the other.
    drop(files);
    if begins == Some(true) {
        while drop_next() {}
    }
}

/// Drops one file, or if there is none looks for garbage once. Returns whether there may be more.
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
            with_dropping(|dropping| dropping.busy = false);
            return false;
        }
        None => return false,
    }
    true
}

pub(super) fn as_socket(file: &FileRef<dyn Object>) -> Option<&Socket> {
    (&**file as &dyn Any).downcast_ref()
}

fn key(file: &FileRef<dyn Object>) -> FileId {
    FileId::of(&**file)
}
