//! `epoll(7)`: sets of files that are waited for together.
//!
//! # How it works
//!
//! Each member of the set is an [`Item`]: a watcher registered with the file. A change puts the
//! item at the end of the *ready list*, and wakes one waiter. A *collection* takes items from the
//! front, asks each file for its events, and returns those that were requested. The list has
//! candidates only: an item that turns out not to be ready leaves it.
//!
//! - *Level-triggered*: an item that was returned goes to the end of the list, and the next
//!   collection asks it again. Going to the end makes the rotation fair.
//! - *Edge-triggered* (`ET`): it leaves the list. The next change puts it back.
//! - `ONESHOT`: its requested events are cleared until it is modified.
//!
//! # Locks
//!
//! 1. The lock of the *members* serialises collections, changes of the set, and polls of the epoll
//!    itself. Inside it, files are asked for their events; so it comes before the locks of files,
//!    and before the members of a nested epoll. Sets cannot contain each other ([`nesting`]), so
//!    the order is acyclic.
//! 2. The lock of the *ready list* and its waiters comes last. A wake-up takes only this one, so a
//!    file can notify the epoll during a collection. Only the locks of a [`HostSet`] are inside it.
//!
//! A collection marks an item as not listed *before* it asks the file. A change that follows the
//! answer sees the mark and puts the item back, so none is lost. A change between the mark and the
//! answer is reported twice, which edge-triggering allows.
//!
//! # Wake-ups
//!
//! A change wakes one thread in `epoll_wait`. While the list is not empty and threads wait, one of
//! them is on its way: a collection that leaves items in the list passes the wake-up on, and so
//! does a poll of the epoll, which had the first item in hand. So several threads, one after the
//! other, may return a level-triggered item, as on Linux, and one thread an edge-triggered item.
//!
//! # The end of a member or of the epoll
//!
//! An epoll holds no open file. When a member is released, its file notifies the item, which leaves
//! the set. A revoked member is returned once more, with `ERR`, and then leaves.
//!
//! # Timers
//!
//! Timers have no thread: a file whose events change with time reports that when it is asked.
//! Before each collection, and again before it sleeps, a waiter asks such members, and sleeps no
//! longer than to the next expiry.
//!
//! # Files of the host
//!
//! An embedder may add files of the host, which the host's own set watches: see [`host`].

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{IoSlice, IoSliceMut};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use fdtable::{FileRef, RawFd};
use fdtable_shm::Mutex;

use super::{Events, FileId, Limit, Pollee, Restart, Watcher, wait};
use crate::fs::locks::{self, LockSet};
use crate::{Errno, Object, RcuObject, Status, Transfer};
use host::Beside;
use item::Item;
use ready::Ready;

mod flags;
mod host;
mod item;
mod nesting;
mod ready;

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
    /// Second lock.
    ready: Mutex<Ready>,
    /// Sets of which this is a member, for [`nesting`]. Inside this lock, no other is taken.
    parents: Mutex<Vec<Weak<Set>>>,
    /// Members that the host watches.
    host: Beside,
}

#[derive(Default)]
struct Members {
    items: BTreeMap<Key, Arc<Item>>,
    /// Members whose events may change with time.
    timed: Vec<Arc<Item>>,
    /// No more members are added.
    released: bool,
}

/// Key of a member: the descriptor, and the open file that it referred to. One file may be a member
/// under two descriptors, and one descriptor may have referred to two files that are still open.
type Key = (RawFd, FileId);

impl Epoll {
    /// Makes an empty set. Allocates.
    pub fn new(flags: EpollCreateFlags) -> Self {
        let set = Set {
            members: Mutex::default(),
            ready: Mutex::default(),
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
        let child = set_of(file);
        event.events.check_exclusive(child.is_some())?;
        let item = Item::new(&self.set, (fd, FileId::of(&**file)), pollee, child, event);
        match &item.child {
            Some(child) => nesting::link(&self.set, child, || self.set.insert(&item)),
            None => self.set.insert(&item),
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
        self.set.modify((fd, FileId::of(&**file)), event)
    }

    /// Removes a member.
    ///
    /// # Errors
    /// `EPERM`, `EINVAL` as for [`add`](Self::add); `ENOENT` if it is not a member.
    pub fn delete(&self, fd: RawFd, file: &FileRef<RcuObject>) -> Result<(), Errno> {
        self.pollee_of(file)?;
        let key = (fd, FileId::of(&**file));
        let found = self.set.members.lock().items.get(&key).map(Arc::clone);
        if self.set.remove(&found.ok_or(Errno::ENOENT)?) {
            Ok(())
        } else {
            Err(Errno::ENOENT)
        }
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
        let mut all: Vec<_> = {
            let members = self.set.members.lock();
            let items = members.items.iter();
            items.map(|(&(fd, _), item)| (fd, item.event())).collect()
        };
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
        let woken = self.set.ready.lock().revoke();
        woken.run();
    }
}

impl Set {
    /// Registers an item with its file, and puts it into the set.
    fn insert(&self, item: &Arc<Item>) -> Result<(), Errno> {
        let mut members = self.members.lock();
        if members.released {
            return Err(Errno::EIO);
        }
        // A revoked member under the same key cannot be named any more: replace it.
        let left = members.items.get(&item.key).map(Arc::clone);
        if let Some(left) = &left {
            if !left.pollee.is_revoked() {
                return Err(Errno::EEXIST);
            }
            self.take(&mut members, left);
        }
        members.items.insert(item.key, Arc::clone(item));
        self.host.set_alone(false);
        if item.pollee.is_timed() {
            members.timed.push(Arc::clone(item));
        }
        item.register();
        // It may have been ready before.
        self.check_initially(item);
        drop(members);
        if let Some(left) = left {
            self.detach(&left);
        }
        Ok(())
    }

    fn modify(&self, key: Key, event: EpollEvent) -> Result<(), Errno> {
        let members = self.members.lock();
        let item = members.items.get(&key).ok_or(Errno::ENOENT)?;
        if item.is_shared() {
            return Err(Errno::EINVAL);
        }
        // The request is stored before the check: a change in between sees one or the other.
        item.set_event(event);
        self.check_initially(item);
        Ok(())
    }

    /// Puts an item into the list if it is ready, although it did not change. If it is listed
    /// already, no watcher is notified, as on Linux.
    fn check_initially(&self, item: &Item) {
        if !item.ask().is_empty() && !item.listed.load() {
            self.make_ready(item);
        }
    }

    /// Puts an item into the list. Returns true if that has woken a waiter, which will collect,
    /// even after its deadline. Takes only the second lock.
    fn make_ready(&self, item: &Item) -> bool {
        let (notified, woken) = self.ready.lock().make_ready(item);
        let has_woken = !woken.is_empty();
        notified.and(woken).run();
        has_woken
    }

    /// Removes an item, and returns true if it was a member. The caller holds no lock.
    fn remove(&self, item: &Arc<Item>) -> bool {
        let was_member = self.take(&mut self.members.lock(), item);
        if was_member {
            self.detach(item);
        }
        was_member
    }

    /// Removes an item, if it is a member. No collection returns it any more.
    fn take(&self, members: &mut Members, item: &Arc<Item>) -> bool {
        let was_member = members.take(item);
        if was_member {
            self.host.set_alone(members.items.is_empty());
            self.ready.lock().remove(item);
        }
        was_member
    }

    /// Ends the registration of an item that was removed. The caller holds no lock.
    fn detach(&self, item: &Arc<Item>) {
        item.unregister();
        if let Some(child) = &item.child {
            nesting::unlink(self, child);
        }
    }

    /// Removes all members, permanently.
    fn clear(&self) {
        let items = self.members.lock().end();
        for item in items {
            self.ready.lock().remove(&item);
            self.detach(&item);
        }
    }

    /// Returns the members that are epolls.
    fn children(&self) -> Vec<Arc<Set>> {
        let members = self.members.lock();
        let children = members.timed.iter().filter_map(|item| item.child.clone());
        children.collect()
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
            // This call puts members that expired during the collection into the list, and the
            // sleep then returns at once.
            let next_change = self.next_change();
            self.sleep([deadline, next_change].into_iter().flatten().min())?;
        }
    }

    /// Sleeps until the list is not empty. A chosen sleeper collects, even after its deadline.
    ///
    /// # Errors
    /// `EINTR`.
    fn sleep(&self, until: Option<Instant>) -> Result<(), Errno> {
        let ended = wait(
            &self.ready,
            |ready| ready.waiters(),
            Events::IN,
            Limit::new(until, Restart::Never),
            |ready| (ready.has_work() || self.host.get().is_some()).then_some(Ok(())),
        );
        match ended {
            Err(Errno::EAGAIN) => Ok(()),
            ended => ended,
        }
    }

    /// Takes events from the ready list, as many as fit.
    fn collect_events(&self, events: &mut [EpollEvent]) -> Result<usize, Errno> {
        let mut ended = Vec::new();
        let mut members = self.members.lock();
        members.next_change();
        // Each item once: items added meanwhile are for the next collection.
        let mut left = self.ready.lock().begin_collect()?;
        let mut count = 0;
        while left > 0 && count < events.len() {
            left -= 1;
            let Some(item) = self.ready.lock().take_first() else {
                break;
            };
            let found = item.ask();
            if found.is_empty() {
                continue;
            }
            events[count] = item.found(found);
            count += 1;
            if found.contains(Events::ERR) && item.pollee.is_revoked() {
                self.take(&mut members, &item);
                ended.push(item);
            } else if item.stays_listed() {
                self.ready.lock().put_last(&item);
            }
        }
        drop(members);
        let woken = self.ready.lock().pass_on();
        woken.run();
        ended.iter().for_each(|item| self.detach(item));
        Ok(count)
    }
}

impl Members {
    /// Removes an item, if it is a member.
    fn take(&mut self, item: &Arc<Item>) -> bool {
        let same = |found: &Arc<Item>| Arc::ptr_eq(found, item);
        let is_member = self.items.get(&item.key).is_some_and(same);
        if is_member {
            self.items.remove(&item.key);
            if item.pollee.is_timed() {
                self.timed.retain(|timed| !Arc::ptr_eq(timed, item));
            }
        }
        is_member
    }

    /// Removes all members, and accepts no more.
    fn end(&mut self) -> Vec<Arc<Item>> {
        self.released = true;
        self.timed = Vec::new();
        std::mem::take(&mut self.items).into_values().collect()
    }

    /// Lets time-dependent members report what has changed, and returns when they will change
    /// again.
    fn next_change(&self) -> Option<Instant> {
        let timed = self.timed.iter();
        timed.filter_map(|item| item.pollee.next_change()).min()
    }
}

impl Pollee for Set {
    /// Readable if a member is ready. Items in front that are not ready leave the list.
    fn events(&self) -> Events {
        let members = self.members.lock();
        members.next_change();
        if self.ready.lock().is_revoked() {
            return Events::ERR;
        }
        loop {
            let Some(item) = self.ready.lock().take_first() else {
                let host = self.host.get();
                return host.map_or(Events::empty(), |host| host.events() & Events::READABLE);
            };
            if !item.ask().is_empty() {
                let woken = self.ready.lock().put_first(&item);
                drop(members);
                woken.run();
                return Events::READABLE;
            }
        }
    }

    fn watch(&self, watcher: &Arc<dyn Watcher>, interest: Events, file: Option<FileId>) {
        let mut ready = self.ready.lock();
        ready.waiters().watch(watcher, interest, file);
        // Inside the lock: a host set that comes meanwhile is given all watchers.
        if let Some(host) = self.host.get() {
            host.watch(watcher, interest, file);
        }
    }

    fn unwatch(&self, watcher: &Arc<dyn Watcher>) {
        self.ready.lock().waiters().unwatch(watcher);
        if let Some(host) = self.host.get() {
            host.unwatch(watcher);
        }
    }

    fn forget(&self, file: FileId) {
        let wakeups = self.ready.lock().waiters().forget(file);
        wakeups.run();
        if let Some(host) = self.host.get() {
            host.forget(file);
        }
    }

    fn is_revoked(&self) -> bool {
        self.ready.lock().is_revoked()
    }

    /// A timer may become a member at any time.
    fn is_timed(&self) -> bool {
        true
    }

    fn next_change(&self) -> Option<Instant> {
        self.members.lock().next_change()
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
        write!(f, "Epoll({} members)", self.set.members.lock().items.len())
    }
}

#[cfg(test)]
mod tests;
