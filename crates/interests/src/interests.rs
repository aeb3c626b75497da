//! Interest sets: files that are waited for together, and the list of those that may be ready.
//!
//! A wake-up puts a registration at the end of the *ready list*. A *collection* takes some from the
//! front, asks the caller about each, and reports those that are ready. The list has candidates
//! only: a registration that turns out not to be ready leaves it.
//!
//! # What a collection holds
//!
//! A collection takes the lock once for up to [`BATCH`] registrations, asks without it, and takes
//! it once more to put back what stays. Meanwhile they are *in hand*: another collection does not
//! find them, so one event is never reported by two. A wake-up of one in hand is noted, and puts it
//! back into the list at the end. So none is lost; a change between the take and the answer is
//! reported twice, which edge-triggering allows.
//!
//! An answer counts only if the registration is still the one that was asked, which the second look
//! under the lock decides: what was removed or modified meanwhile is not reported.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::{fmt, mem};

use arrayvec::ArrayVec;
use fdtable::{FdArg, FileRef, RawFd, WeakFile};
use fdtable_sync::platform::Mutex;

use crate::Error;

/// How many registrations a collection has in hand.
const BATCH: usize = 16;

/// The ends of the ready list, and the links towards them.
const FIRST: usize = 0;
const LAST: usize = 1;

/// A set of open files that are waited for together, each with a value of the embedder's: the table
/// part of `epoll`.
///
/// A registration is of a file and a descriptor, as in `epoll_ctl`. It ends with the *file*: it
/// stays while another descriptor refers to that, and a file that gets the descriptor's number next
/// is not registered. The set keeps no file open.
///
/// The embedder's files report changes by [`mark_ready`](Self::mark_ready), and its waits call
/// [`collect`](Self::collect). No call runs the embedder's code under a lock of the set. Waiting is
/// the embedder's: a thread sleeps if [`is_ready`](Self::is_ready) returns false, and `mark_ready`
/// says whether to wake one.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
///
/// use fdtable::{FdFlags, FileRef, Files};
/// use fdtable_interests::{Error, Interests, Mode};
///
/// struct Pipe(AtomicUsize);
///
/// let files = Files::new();
/// let set = Interests::new();
/// let fd = files.open(FileRef::new(Pipe(AtomicUsize::new(0))), FdFlags::empty())?;
/// let pipe = files.get(fd)?;
/// let key = set.add(&pipe, fd, Mode::Level, "user data").unwrap();
/// assert_eq!(set.add(&pipe, fd, Mode::Level, "more"), Err(Error::Exists));
///
/// // Bytes arrive: a callback of the pipe.
/// pipe.0.store(7, Relaxed);
/// assert!(set.mark_ready(key), "wake a waiter");
///
/// let wait = || {
///     let mut found = Vec::new();
///     set.collect(
///         8,
///         |interest| {
///             let bytes = interest.file()?.0.load(Relaxed);
///             (bytes > 0).then_some((*interest.value(), bytes))
///         },
///         |event| found.push(event),
///     );
///     found
/// };
/// assert_eq!(wait(), [("user data", 7)]);
/// assert_eq!(wait(), [("user data", 7)], "a level lasts");
/// drop((pipe, files.close(fd)?));
/// assert_eq!(wait(), [], "it has ended with the file");
/// # Ok::<(), fdtable::Error>(())
/// ```
#[doc(alias = "epoll")]
pub struct Interests<T: ?Sized, V> {
    set: Mutex<Set<T, V>>,
}

/// A registration: a file, the descriptor under which it was registered, and a value.
pub struct Interest<T: ?Sized, V> {
    key: Key,
    file: WeakFile<T>,
    value: V,
}

/// Key of a registration: a file and a descriptor. It is never that of another file. Keys are
/// ordered by their descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    fd: RawFd,
    file: NonZeroU64,
}

/// The place of a registration after it was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Mode {
    /// It goes to the end of the list, so that the next collection asks it again, in turn.
    #[default]
    Level,
    /// It leaves the list until the next wake-up (`EPOLLET`).
    Edge,
    /// It leaves the list, and wake-ups are ignored until it is modified (`EPOLLONESHOT`).
    OneShot,
}

/// State that the lock guards.
struct Set<T: ?Sized, V> {
    members: BTreeMap<Key, Member<T, V>>,
    /// First and last of the ready list.
    ends: [Option<Key>; 2],
    listed: usize,
    /// Number of members at which those without a file are removed.
    enough: usize,
}

struct Member<T: ?Sized, V> {
    interest: Arc<Interest<T, V>>,
    mode: Mode,
    place: Place,
    /// Neighbours in the ready list.
    links: [Option<Key>; 2],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Idle,
    Listed,
    /// A collection asks it.
    InHand,
    /// It was woken after a collection had taken it.
    Woken,
    /// It was reported, and has to be modified first.
    Disarmed,
}

/// Registrations that a collection has in hand. They are put back when this is dropped.
struct Batch<'s, T: ?Sized, V, E> {
    interests: &'s Interests<T, V>,
    asked: ArrayVec<Asked<T, V, E>, BATCH>,
    /// Ready ones are not reported, and stay in front.
    only_looks: bool,
}

struct Asked<T: ?Sized, V, E> {
    interest: Arc<Interest<T, V>>,
    /// The answer, if the caller has not panicked.
    answer: Option<Option<E>>,
    /// It was still registered when it was put back.
    counts: bool,
}

impl Key {
    /// Returns the key of a file under a descriptor, whether it is registered or not. Allocates if
    /// it is the first for this file, as [`FileRef::id`] does.
    #[must_use]
    pub fn new<T: ?Sized>(file: &FileRef<T>, fd: impl FdArg) -> Self {
        Self {
            fd: fd.to_raw(),
            file: FileRef::id(file),
        }
    }

    /// Returns the descriptor.
    #[must_use]
    pub const fn fd(self) -> RawFd {
        self.fd
    }
}

impl<T: ?Sized, V> Interest<T, V> {
    /// Returns the key of the registration.
    #[must_use]
    pub fn key(&self) -> Key {
        self.key
    }

    /// Returns the file, or nothing after its last reference was dropped, as
    /// [`WeakFile::upgrade`] does. The reference may become the last one: drop it outside of locks
    /// that the file's release takes.
    #[must_use]
    pub fn file(&self) -> Option<FileRef<T>> {
        self.file.upgrade()
    }

    /// Returns the value.
    #[must_use]
    pub fn value(&self) -> &V {
        &self.value
    }
}

impl<T: ?Sized, V> Interests<T, V> {
    /// Makes an empty set. Does not allocate.
    #[must_use]
    pub fn new() -> Self {
        Self {
            set: Mutex::new(Set::new()),
        }
    }

    /// Registers a file under a descriptor. The caller then asks the file, and
    /// [marks](Self::mark_ready) it if it is ready already.
    ///
    /// Now and then removes registrations whose files have ended, so that they take at most as much
    /// memory as the others. Takes a lock briefly. Allocates, and ends the process if there is no
    /// memory. May be called inside a read-side section.
    ///
    /// # Errors
    /// [`Error::Exists`] if it is registered. The value is dropped.
    #[doc(alias = "EPOLL_CTL_ADD")]
    pub fn add(
        &self,
        file: &FileRef<T>,
        fd: impl FdArg,
        mode: Mode,
        value: V,
    ) -> Result<Key, Error> {
        let _ended;
        let key = Key::new(file, fd);
        let file = FileRef::downgrade(file);
        // Declared before the lock, so one that is refused is dropped after its release.
        let member = Member {
            interest: Arc::new(Interest { key, file, value }),
            mode,
            place: Place::Idle,
            links: [None; 2],
        };
        let mut set = self.set.lock();
        if set.members.contains_key(&key) {
            return Err(Error::Exists);
        }
        // Dropped after the lock is released, as well.
        _ended = set.remove_ended_if_many();
        set.members.insert(key, member);
        Ok(key)
    }

    /// Changes the mode and the value of a registration. An event of the old one that a collection
    /// is about to report is dropped, so the caller asks the file afterwards, and
    /// [marks](Self::mark_ready) it if it is ready. It keeps its place in the ready list.
    ///
    /// Takes a lock briefly. Allocates, and ends the process if there is no memory. May be called
    /// inside a read-side section.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it is not registered. The value is dropped.
    #[doc(alias = "EPOLL_CTL_MOD")]
    pub fn modify(&self, key: Key, mode: Mode, value: V) -> Result<(), Error> {
        let file = self.get(key).ok_or(Error::NotFound)?.file.clone();
        let mut interest = Arc::new(Interest { key, file, value });
        let mut set = self.set.lock();
        let member = set.members.get_mut(&key).ok_or(Error::NotFound)?;
        mem::swap(&mut member.interest, &mut interest);
        member.mode = mode;
        if member.place != Place::Listed {
            member.place = Place::Idle;
        }
        // The old interest is dropped after the lock is released.
        Ok(())
    }

    /// Removes a registration, and returns it. No collection that reports later reports it.
    ///
    /// Takes a lock briefly. Does not allocate. May be called inside a read-side section, and in a
    /// callback or the release hook of a file.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it is not registered.
    #[doc(alias = "EPOLL_CTL_DEL")]
    pub fn remove(&self, key: Key) -> Result<Arc<Interest<T, V>>, Error> {
        self.set.lock().remove(key).ok_or(Error::NotFound)
    }

    /// Removes all registrations, and returns them. Takes a lock briefly; allocates.
    pub fn clear(&self) -> Vec<Arc<Interest<T, V>>> {
        let set = mem::replace(&mut *self.set.lock(), Set::new());
        let members = set.members.into_values();
        members.map(|member| member.interest).collect()
    }

    /// Puts a registration at the end of the ready list, if it is not there. Returns true if a
    /// waiter should be woken: always, unless there is no such registration, or a one-shot was
    /// reported.
    ///
    /// Takes a lock for a few steps. Does not allocate. May be called inside a read-side section,
    /// in a callback of a file, and while a collection asks.
    pub fn mark_ready(&self, key: Key) -> bool {
        let place = self.set.lock().mark(key);
        !matches!(place, None | Some(Place::Disarmed))
    }

    /// Marks a registration whose file was found to be ready, like
    /// [`mark_ready`](Self::mark_ready). Returns true if a waiter should be woken: if it was not
    /// in the list.
    pub fn mark_found(&self, key: Key) -> bool {
        self.set.lock().mark(key) == Some(Place::Idle)
    }

    /// Takes registrations from the ready list, asks each, and reports up to `max` that are ready,
    /// in the order of the list. Returns how many it reported.
    ///
    /// `ask` returns the event to report, or nothing if the file is not ready, or has
    /// [ended](Interest::file). `report` gets the events that count. Each registration is asked at
    /// most once. Both run without a lock, and may use this set. If `ask` panics, what is in hand
    /// goes back to the list.
    ///
    /// Threads may collect at the same time, and never report the same wake-up. While one asks, the
    /// others do not find what it has in hand: if a wait must not return nothing meanwhile, take a
    /// lock of your own around it. After it returns, a waiter that was woken may find more if
    /// [`is_ready`](Self::is_ready) is true; wake the next one then.
    ///
    /// Takes a lock briefly, twice for 16 registrations. Does not allocate.
    ///
    /// # Panics
    /// If `ask` or `report` does.
    #[doc(alias = "epoll_wait")]
    pub fn collect<E>(
        &self,
        max: usize,
        mut ask: impl FnMut(&Interest<T, V>) -> Option<E>,
        mut report: impl FnMut(E),
    ) -> usize {
        let (mut reported, mut left) = (0, None);
        while let Some(events) = self.ask_some(max - reported, &mut left, false, &mut ask) {
            for event in events {
                reported += 1;
                report(event);
            }
        }
        reported
    }

    /// Returns the first answer of `ask`, and leaves that registration in front of the list. Those
    /// before it leave the list: they are not ready. For a set that is polled itself.
    ///
    /// Takes a lock briefly, twice for each that is asked. Does not allocate.
    ///
    /// # Panics
    /// If `ask` does.
    pub fn first_ready<E>(&self, mut ask: impl FnMut(&Interest<T, V>) -> Option<E>) -> Option<E> {
        let mut left = None;
        while let Some(mut events) = self.ask_some(1, &mut left, true, &mut ask) {
            let event = events.next();
            if event.is_some() {
                return event;
            }
        }
        None
    }

    /// Asks up to `max` and [`BATCH`] registrations, and returns the events that count; nothing if
    /// there are no more to ask. `left` is how many there are to ask in all: those that are listed
    /// meanwhile are for the next collection.
    fn ask_some<E>(
        &self,
        max: usize,
        left: &mut Option<usize>,
        only_looks: bool,
        ask: &mut impl FnMut(&Interest<T, V>) -> Option<E>,
    ) -> Option<impl Iterator<Item = E>> {
        let mut batch = Batch {
            interests: self,
            asked: self.set.lock().take(max, left),
            only_looks,
        };
        if batch.asked.is_empty() {
            return None;
        }
        for asked in &mut batch.asked {
            asked.answer = Some(ask(&asked.interest));
        }
        batch.put_back();
        let asked = mem::take(&mut batch.asked).into_iter();
        Some(asked.filter_map(|asked| asked.answer.flatten().filter(|_| asked.counts)))
    }

    /// Returns true if the ready list is not empty: a collection may find something. Takes a lock
    /// for a few steps.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.set.lock().listed > 0
    }

    /// Returns a registration. Takes a lock briefly.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<Arc<Interest<T, V>>> {
        let set = self.set.lock();
        set.members
            .get(&key)
            .map(|member| Arc::clone(&member.interest))
    }

    /// Returns true if wake-ups of a registration count: it is there, and no one-shot that was
    /// reported. Takes a lock briefly.
    #[must_use]
    pub fn is_armed(&self, key: Key) -> bool {
        let set = self.set.lock();
        let member = set.members.get(&key);
        member.is_some_and(|member| member.place != Place::Disarmed)
    }

    /// Returns all registrations, by descriptor, with some whose files have ended. Takes a lock
    /// meanwhile; allocates.
    #[must_use]
    pub fn members(&self) -> Vec<Arc<Interest<T, V>>> {
        let set = self.set.lock();
        let members = set.members.values();
        members.map(|member| Arc::clone(&member.interest)).collect()
    }

    /// Returns the number of registrations, with some whose files have ended. Takes a lock for a
    /// few steps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.set.lock().members.len()
    }

    /// Returns true if there are no registrations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: ?Sized, V> Set<T, V> {
    const fn new() -> Self {
        Self {
            members: BTreeMap::new(),
            ends: [None; 2],
            listed: 0,
            enough: 2 * BATCH,
        }
    }

    /// Removes the members whose files have ended, if there are twice as many members as this has
    /// left the last time.
    fn remove_ended_if_many(&mut self) -> Vec<Arc<Interest<T, V>>> {
        if self.members.len() < self.enough {
            return Vec::new();
        }
        let has_ended = |member: &&Member<T, V>| member.interest.file.is_released();
        let ended = self.members.values().filter(has_ended);
        let keys: Vec<Key> = ended.map(|member| member.interest.key).collect();
        let removed = keys
            .into_iter()
            .filter_map(|key| self.remove(key))
            .collect();
        self.enough = 2 * self.members.len().max(BATCH);
        removed
    }

    fn remove(&mut self, key: Key) -> Option<Arc<Interest<T, V>>> {
        if self.members.get(&key)?.place == Place::Listed {
            self.unlist(key);
        }
        self.members.remove(&key).map(|member| member.interest)
    }

    /// Puts a member that is not listed at an end of the list.
    fn list(&mut self, key: Key, end: usize) {
        let neighbour = self.ends[end].replace(key);
        match neighbour.and_then(|neighbour| self.members.get_mut(&neighbour)) {
            Some(neighbour) => neighbour.links[end] = Some(key),
            None => self.ends[1 - end] = Some(key),
        }
        if let Some(member) = self.members.get_mut(&key) {
            member.place = Place::Listed;
            member.links[end] = None;
            member.links[1 - end] = neighbour;
        }
        self.listed += 1;
    }

    /// Takes a member out of the list.
    fn unlist(&mut self, key: Key) {
        let Some(member) = self.members.get_mut(&key) else {
            return;
        };
        member.place = Place::Idle;
        let links = member.links;
        for end in [FIRST, LAST] {
            match links[end].and_then(|neighbour| self.members.get_mut(&neighbour)) {
                Some(neighbour) => neighbour.links[1 - end] = links[1 - end],
                None => self.ends[end] = links[1 - end],
            }
        }
        self.listed -= 1;
    }

    /// Marks a member as ready, and returns its place before.
    fn mark(&mut self, key: Key) -> Option<Place> {
        let member = self.members.get_mut(&key)?;
        let place = member.place;
        match place {
            Place::Idle => self.list(key, LAST),
            // weaken: wake-up-in-hand-that-is-not-noted
            Place::InHand => member.place = Place::Woken,
            Place::Listed | Place::Woken | Place::Disarmed => {}
        }
        Some(place)
    }

    /// Takes members from the front of the list, into the hand of the caller.
    fn take<E>(&mut self, max: usize, left: &mut Option<usize>) -> ArrayVec<Asked<T, V, E>, BATCH> {
        let left = left.get_or_insert(self.listed);
        let max = max.min(BATCH).min(*left);
        let taken = core::iter::from_fn(|| self.take_first()).take(max);
        let asked = taken.map(|interest| Asked {
            interest,
            answer: None,
            counts: false,
        });
        let asked: ArrayVec<_, BATCH> = asked.collect();
        *left -= asked.len();
        asked
    }

    fn take_first(&mut self) -> Option<Arc<Interest<T, V>>> {
        let key = self.ends[FIRST]?;
        self.unlist(key);
        let member = self.members.get_mut(&key)?;
        member.place = Place::InHand;
        Some(Arc::clone(&member.interest))
    }

    /// Puts a registration back from the hand of the caller. Returns true if its answer counts.
    fn put_back<E>(&mut self, asked: &Asked<T, V, E>, only_looks: bool) -> bool {
        let key = asked.interest.key;
        let member = self.members.get_mut(&key);
        let is_it = |member: &&mut Member<T, V>| Arc::ptr_eq(&member.interest, &asked.interest);
        // weaken: answer-of-a-registration-that-was-modified
        let Some(member) = member.filter(is_it) else {
            return false;
        };
        let was_woken = mem::replace(&mut member.place, Place::Idle) == Place::Woken;
        match (&asked.answer, member.mode) {
            (Some(Some(_)), _) if only_looks => self.list(key, FIRST),
            (Some(Some(_)), Mode::OneShot) => member.place = Place::Disarmed,
            (None, _) | (Some(Some(_)), Mode::Level) => self.list(key, LAST),
            _ if was_woken => self.list(key, LAST),
            _ => {}
        }
        true
    }
}

impl<T: ?Sized, V, E> Batch<'_, T, V, E> {
    fn put_back(&mut self) {
        let mut set = self.interests.set.lock();
        for asked in &mut self.asked {
            asked.counts = set.put_back(asked, self.only_looks);
        }
    }
}

impl<T: ?Sized, V, E> Drop for Batch<'_, T, V, E> {
    fn drop(&mut self) {
        if !self.asked.is_empty() {
            self.put_back();
        }
    }
}

impl<T: ?Sized, V> Default for Interests<T, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: ?Sized, V> fmt::Debug for Interests<T, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Interests({} members)", self.len())
    }
}

impl<T: ?Sized, V: fmt::Debug> fmt::Debug for Interest<T, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interest")
            .field("fd", &self.key.fd)
            .field("value", &self.value)
            .finish()
    }
}
