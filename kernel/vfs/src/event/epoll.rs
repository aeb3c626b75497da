//! `epoll(7)`: sets of files that are waited for together.
//!
//! # How it works
//!
//! The set and its ready list are the library's [`Interests`]. The value of each registration is an
//! [`Item`]: a watcher registered with the file. A change marks the registration as ready, and
//! wakes one waiter; a collection asks each file for its events, and returns those that were
//! requested.
//!
//! # Locks
//!
//! 1. The lock of the *members* serialises collections, changes of the set, and polls of the epoll
//!    itself, so that no wait returns nothing while another thread has the only ready member in
//!    hand. Inside it, files are asked for their events; so it comes before the locks of files, and
//!    before the members of a nested epoll. Sets cannot contain each other ([`nesting`]), so the
//!    order is acyclic.
//! 2. The lock of the *waiters*. Only the locks of a [`HostSet`] and of the registrations are
//!    inside it. A wake-up takes these alone, so a file can notify the epoll during a collection.
//!    It marks the registration before it takes the lock, and a sleeper looks for marks inside it.
//!
//! # Wake-ups
//!
//! A change wakes one thread in `epoll_wait`. While the list is not empty and threads wait, one of
//! them is on its way: a collection that leaves members in the list passes the wake-up on, and so
//! does a poll of the epoll, which had the first one in hand. So several threads, one after the
//! other, may return a level-triggered item, as on Linux, and one thread an edge-triggered item.
//!
//! # The end of a member or of the epoll
//!
//! An epoll holds no open file. When a member is released, its file notifies the item, which leaves
//! the set. A revoked member is returned once more, with `ERR`, and then leaves.
//!
//! # Files of the host
//!
//! An embedder may add files of the host, which the host's own set watches: see [`host`].

use std::fmt::Write;
use std::io::{IoSlice, IoSliceMut};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use fdtable::{FileRef, RawFd};
use fdtable_interests::{Interest, Interests, Key};
use fdtable_shm::{Mutex, MutexGuard};

use super::{Events, FileId, Limit, Pollee, Restart, Wakeups, Watcher, wait};
use crate::fs::locks::{self, LockSet};
use crate::{Errno, Object, RcuObject, Status, Transfer};
use host::Beside;
use item::Item;
use waiters::Waiters;

mod flags;
mod host;
mod item;
mod nesting;
mod waiters;

pub use flags::{EpollCreateFlags, EpollCtl, EpollEvent, EpollFlags};
pub use host::{HostSet, HostWait};

/// Open epoll: a set of files that are waited for together.
pub struct Epoll {
    set: Arc<Set>,
    status: Status,
}

/// The set itself. Its items refer to it, and it can be polled like a file.
pub(crate) struct Set {
    /// First lock: see the head of this file.
    members: Mutex<Members>,
    interests: Interests<RcuObject, Member>,
    /// Second lock.
    waiters: Mutex<Waiters>,
    /// Sets of which this is a member, for [`nesting`]. Inside this lock, no other is taken.
    parents: Mutex<Vec<Weak<Set>>>,
    /// Members that the host watches.
    host: Beside,
}

#[derive(Default)]
struct Members {
    /// No more members are added.
    released: bool,
}

/// Value of a registration.
struct Member {
    item: Arc<Item>,
    /// Requested events and modes, and user data.
    event: EpollEvent,
}

impl Epoll {
    /// Makes an empty set. Allocates.
    pub fn new(flags: EpollCreateFlags) -> Self {
        let set = Set {
            members: Mutex::default(),
            interests: Interests::new(),
            waiters: Mutex::default(),
            parents: Mutex::default(),
            host: Beside::default(),
        };
        Epoll {
            set: Arc::new(set),
            status: Status::new(flags.open_flags()),
        }
    }

    /// Adds the open file of `fd`; if it is ready, the next [`wait`](Self::wait) returns it.
    /// Allocates.
    ///
    /// # Errors
    /// - `EPERM` if the file is always ready.
    /// - `EINVAL` if it is this epoll itself; if `EXCLUSIVE` is requested of an epoll, or with
    ///   other than the allowed events; or if a change of one epoll would be propagated along more
    ///   than a thousand paths.
    /// - `ELOOP` if it is an epoll that watches this one, or if more than five epolls would form a
    ///   chain.
    /// - `EEXIST` if it is a member.
    /// - `EIO` if this epoll was revoked.
    pub fn add(
        &self,
        fd: RawFd,
        file: &FileRef<RcuObject>,
        event: EpollEvent,
    ) -> Result<(), Errno> {
        let pollee = self.pollee_of(file)?;
        event.events.check_exclusive(as_epoll(&***file).is_some())?;
        let event = event.with_always();
        let item = Item::new(&self.set, Key::new(file, fd), file, pollee, event.events);
        let insert = || self.set.insert(file, &item, event);
        match &item.child {
            Some(child) => nesting::link(&self.set, child, insert),
            None => insert(),
        }
    }

    /// Changes the events requested of a member, and checks them at once.
    ///
    /// # Errors
    /// `EPERM`, `EINVAL` as for [`add`](Self::add); `EINVAL` also if `EXCLUSIVE` is set before or
    /// after; `ENOENT` if it is not a member.
    pub fn modify(
        &self,
        fd: RawFd,
        file: &FileRef<RcuObject>,
        event: EpollEvent,
    ) -> Result<(), Errno> {
        self.pollee_of(file)?;
        if event.events.contains(EpollFlags::EXCLUSIVE) {
            return Err(Errno::EINVAL);
        }
        self.set.modify(Key::new(file, fd), event.with_always())
    }

    /// Removes a member.
    ///
    /// # Errors
    /// `EPERM`, `EINVAL` as for [`add`](Self::add); `ENOENT` if it is not a member.
    pub fn delete(&self, fd: RawFd, file: &FileRef<RcuObject>) -> Result<(), Errno> {
        self.pollee_of(file)?;
        self.set.remove(Key::new(file, fd))
    }

    /// Waits until a member is ready, or until `timeout` has passed (`None`: forever). Writes the
    /// events into `events`, and returns how many it wrote. Blocks; the caller is not in a
    /// read-side section.
    ///
    /// # Errors
    /// `EINVAL` if `events` is empty; `EINTR` if a signal handler runs first; `EIO` if this epoll
    /// was revoked.
    pub fn wait(
        &self,
        events: &mut [EpollEvent],
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        if events.is_empty() {
            return Err(Errno::EINVAL);
        }
        let deadline = match timeout {
            None => None,
            // A deadline too far ahead is none.
            Some(timeout) => Instant::now().checked_add(timeout),
        };
        self.set.wait(events, deadline)
    }

    /// Returns the members: descriptor, requested events, user data. Allocates.
    pub fn members(&self) -> Vec<(RawFd, EpollEvent)> {
        let members = self.set.interests.members();
        let request = |interest: &Arc<Interest<RcuObject, Member>>| {
            let (key, mut event) = (interest.key(), interest.value().event);
            if !self.set.interests.is_armed(key) {
                event.events &= EpollFlags::MODES;
            }
            (key.fd(), event)
        };
        let mut all: Vec<_> = members.iter().map(request).collect();
        if let Some(host) = self.set.host.get() {
            all.extend(host.members());
        }
        all
    }

    /// Returns the pollee of a file that may be a member.
    fn pollee_of(&self, file: &FileRef<RcuObject>) -> Result<Arc<dyn Pollee>, Errno> {
        let pollee = file.pollee().ok_or(Errno::EPERM)?;
        if FileId::of(&**file) == FileId::of(self) {
            return Err(Errno::EINVAL);
        }
        Ok(pollee)
    }
}

/// Downcasts an object to an epoll.
pub(crate) fn as_epoll(object: &dyn Object) -> Option<&Epoll> {
    (object as &dyn std::any::Any).downcast_ref()
}

fn set_of(file: &FileRef<RcuObject>) -> Option<Arc<Set>> {
    as_epoll(&***file).map(|epoll| Arc::clone(&epoll.set))
}

impl Object for Epoll {
    fn status_cell(&self) -> Option<&Status> {
        Some(&self.status)
    }

    fn locks(&self) -> Option<&LockSet> {
        Some(&locks::ANONYMOUS)
    }

    fn pollee(&self) -> Option<Arc<dyn Pollee>> {
        Some(Arc::clone(&self.set) as Arc<dyn Pollee>)
    }

    fn events(&self) -> Events {
        self.set.events()
    }

    fn read_to(&self, _bufs: &mut [IoSliceMut<'_>], how: Transfer<'_>) -> Result<usize, Errno> {
        how.waits_in_stream().and(Err(Errno::EINVAL))
    }

    fn write_from(&self, _bufs: &[IoSlice<'_>], how: Transfer<'_>) -> Result<usize, Errno> {
        how.waits_in_stream().and(Err(Errno::EINVAL))
    }

    fn label(&self) -> String {
        "anon_inode:[eventpoll]".to_string()
    }

    /// One line for each member. Position, inode and device are 0, because the epoll does not hold
    /// the file.
    fn show_fdinfo(&self, text: &mut String) {
        for (fd, event) in self.members() {
            // Writing to a `String` cannot fail.
            let _ = writeln!(
                text,
                "tfd: {fd:8} events: {:8x} data: {:16x}  pos:0 ino:0 sdev:0",
                event.events.bits(),
                event.data
            );
        }
    }

    fn release(&self) {
        self.set.clear();
        if let Some(host) = self.set.host.get() {
            host.release();
        }
    }

    fn revoke(&self) {
        self.set.clear();
        let woken = self.set.waiters.lock().revoke();
        woken.run();
    }
}

impl Set {
    /// Puts an item into the set, and registers it with its file.
    fn insert(
        &self,
        file: &FileRef<RcuObject>,
        item: &Arc<Item>,
        event: EpollEvent,
    ) -> Result<(), Errno> {
        let members = self.members.lock();
        if members.released {
            return Err(Errno::EIO);
        }
        let member = Member {
            item: Arc::clone(item),
            event,
        };
        self.interests
            .add(file, item.key.fd(), event.events.mode(), member)?;
        item.register();
        // It may have been ready before.
        self.check_initially(item);
        Ok(())
    }

    fn modify(&self, key: Key, event: EpollEvent) -> Result<(), Errno> {
        let _members = self.members.lock();
        let interest = self.interests.get(key).ok_or(Errno::ENOENT)?;
        let Member { item, event: old } = interest.value();
        if old.events.contains(EpollFlags::EXCLUSIVE) {
            return Err(Errno::EINVAL);
        }
        // The request is stored before the check: a change in between sees one or the other.
        item.set_asked(event.events);
        let member = Member {
            item: Arc::clone(item),
            event,
        };
        self.interests.modify(key, event.events.mode(), member)?;
        self.check_initially(item);
        Ok(())
    }

    /// Marks an item as ready if it is, although it did not change. If it is listed already, no
    /// watcher is notified, as on Linux.
    fn check_initially(&self, item: &Item) {
        if !item.ask().is_empty() && self.interests.mark_found(item.key) {
            self.wake();
        }
    }

    /// Marks a member as ready. Returns true if that has woken a waiter. Edge-triggering needs the
    /// wake-up even if it was marked.
    fn make_ready(&self, key: Key) -> bool {
        self.interests.mark_ready(key) && self.wake()
    }

    /// Wakes the watchers and one waiter. Returns true if there was a waiter, which will collect,
    /// even after its deadline. Takes only the second lock.
    fn wake(&self) -> bool {
        let (notified, woken) = self.waiters.lock().wake();
        let has_woken = !woken.is_empty();
        notified.and(woken).run();
        has_woken
    }

    /// Wakes one more waiter, if members are left in the list.
    fn pass_on(&self, mut waiters: MutexGuard<'_, Waiters>) {
        let woken = match self.has_work(&waiters) {
            true => waiters.wake_one(),
            false => Wakeups::default(),
        };
        drop(waiters);
        woken.run();
    }

    /// Returns true if a waiter has something to do.
    fn has_work(&self, waiters: &Waiters) -> bool {
        waiters.is_revoked() || self.interests.is_ready()
    }

    /// Removes a member. No collection returns it any more. The caller holds no lock.
    fn remove(&self, key: Key) -> Result<(), Errno> {
        let members = self.members.lock();
        let interest = self.interests.remove(key)?;
        drop(members);
        self.detach(&interest.value().item);
        Ok(())
    }

    /// Ends the registration of an item that was removed. The caller holds no lock.
    fn detach(&self, item: &Arc<Item>) {
        item.unregister();
        self.unlink(item);
    }

    fn unlink(&self, item: &Item) {
        if let Some(child) = &item.child {
            nesting::unlink(self, child);
        }
    }

    /// Removes an item whose file is released.
    fn forget_item(&self, item: &Item) {
        let members = self.members.lock();
        // The item is dropped later: the caller has it.
        let _ = self.interests.remove(item.key);
        drop(members);
        self.unlink(item);
    }

    /// Removes all members, permanently.
    fn clear(&self) {
        let removed = {
            let mut members = self.members.lock();
            members.released = true;
            self.interests.clear()
        };
        for interest in removed {
            self.detach(&interest.value().item);
        }
    }

    /// Returns the members that are epolls.
    fn children(&self) -> Vec<Arc<Set>> {
        let members = self.interests.members();
        let children = members.iter().map(|member| &member.value().item.child);
        children.flatten().cloned().collect()
    }

    /// Returns the sets of which this is a member.
    fn parents(&self) -> Vec<Arc<Set>> {
        self.parents
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// Waits for events until the deadline.
    fn wait(&self, events: &mut [EpollEvent], deadline: Option<Instant>) -> Result<usize, Errno> {
        loop {
            if let Some(host) = self.host.get() {
                return self.wait_beside_host(host, events, deadline);
            }
            let count = self.collect_events(events)?;
            if count > 0 || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(count);
            }
            self.sleep(deadline)?;
        }
    }

    /// Sleeps until the list is not empty. A chosen sleeper collects, even after its deadline.
    ///
    /// # Errors
    /// `EINTR`.
    fn sleep(&self, until: Option<Instant>) -> Result<(), Errno> {
        let ended = wait(
            &self.waiters,
            |waiters| waiters.queue(),
            Events::IN,
            Limit::new(until, Restart::Never),
            |waiters| (self.has_work(waiters) || self.host.get().is_some()).then_some(Ok(())),
        );
        match ended {
            Err(Errno::EAGAIN) => Ok(()),
            ended => ended,
        }
    }

    /// Takes events from the ready list, as many as fit.
    fn collect_events(&self, events: &mut [EpollEvent]) -> Result<usize, Errno> {
        let mut ended = Vec::new();
        let members = self.members.lock();
        if self.waiters.lock().is_revoked() {
            return Err(Errno::EIO);
        }
        let max = events.len();
        let mut room = events.iter_mut();
        let ask = |interest: &Interest<RcuObject, Member>| {
            let Member { item, event } = interest.value();
            let found = item.pollee.events() & event.events.events();
            let revoked = found.contains(Events::ERR) && item.pollee.is_revoked();
            ended.extend(revoked.then(|| Arc::clone(item)));
            let found = EpollEvent::new(found.into(), event.data);
            (!found.events.is_empty()).then_some(found)
        };
        let count = self.interests.collect(max, ask, |found| {
            if let Some(event) = room.next() {
                *event = found;
            }
        });
        for item in &ended {
            let _ = self.interests.remove(item.key);
        }
        drop(members);
        self.pass_on(self.waiters.lock());
        ended.iter().for_each(|item| self.detach(item));
        Ok(count)
    }
}

impl Pollee for Set {
    /// Readable if a member is ready. Items in front that are not ready leave the list.
    fn events(&self) -> Events {
        let members = self.members.lock();
        if self.waiters.lock().is_revoked() {
            return Events::ERR;
        }
        let is_ready = |interest: &Interest<RcuObject, Member>| {
            (!interest.value().item.ask().is_empty()).then_some(())
        };
        if self.interests.first_ready(is_ready).is_some() {
            drop(members);
            // A waiter that was woken meanwhile may have found the list empty.
            self.pass_on(self.waiters.lock());
            return Events::READABLE;
        }
        let host = self.host.get();
        host.map_or(Events::empty(), |host| host.events() & Events::READABLE)
    }

    fn watch(&self, watcher: &Arc<dyn Watcher>, interest: Events, file: Option<FileId>) {
        let mut waiters = self.waiters.lock();
        waiters.queue().watch(watcher, interest, file);
        // Inside the lock: a host set that comes meanwhile is given all watchers.
        if let Some(host) = self.host.get() {
            host.watch(watcher, interest, file);
        }
    }

    fn unwatch(&self, watcher: &Arc<dyn Watcher>) {
        self.waiters.lock().queue().unwatch(watcher);
        if let Some(host) = self.host.get() {
            host.unwatch(watcher);
        }
    }

    fn forget(&self, file: FileId) {
        let wakeups = self.waiters.lock().queue().forget(file);
        wakeups.run();
        if let Some(host) = self.host.get() {
            host.forget(file);
        }
    }

    fn is_revoked(&self) -> bool {
        self.waiters.lock().is_revoked()
    }
}

/// For an epoll that was never released: items and set refer to each other.
impl Drop for Epoll {
    fn drop(&mut self) {
        self.set.clear();
    }
}

impl std::fmt::Debug for Epoll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Epoll({:?})", self.set.interests)
    }
}

#[cfg(test)]
mod tests;
