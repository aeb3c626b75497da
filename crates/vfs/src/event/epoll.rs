//! Sets of files that are waited for together: `epoll(7)`.
//!
//! # How it works
//!
//! Each member of the set is an [`Item`]: a watcher that is registered with the file. A change puts
//! the item at the end of the *ready list*, and wakes one of those who wait. A *harvest* takes items
//! from the front, asks each file what it is ready for now, and returns what was asked for. So the
//! list is a set of suspects, and only the file itself knows: an item that is not ready after all
//! leaves the list.
//!
//! - *Level*: an item that was returned goes to the end of the list again, and is asked again by the
//!   next harvest. Going to the end is what makes the rotation fair.
//! - *Edge* (`ET`): it does not. The next change puts it there.
//! - `ONESHOT`: what it asks for is emptied, until it is modified.
//!
//! # Locks
//!
//! 1. The lock of the *members* orders harvests, changes of the set, and looks from outside. Under
//!    it, files are asked; so it comes before the locks of files, and before the members of an epoll
//!    that is a member. Sets do not contain each other ([`nesting`]), so there is an order.
//! 2. The lock of the *ready list*, and of those who wait for it, comes last. A wake-up takes only
//!    this, so a file can tell the epoll while somebody harvests.
//!
//! An item that a harvest takes is marked as not in the list *before* the file is asked. A change
//! that comes after the answer finds the mark, and puts it back: none is lost. One between the mark
//! and the answer is found twice, which an edge may be.
//!
//! # Who is woken
//!
//! A change wakes one of those who wait in `epoll_wait`. While the list is not empty and somebody
//! waits, one of them is on its way: a harvest that leaves the list not empty passes the wake-up on,
//! and so does a look from outside, which had the first item in hand.
//! So an item in level mode may be found by several threads, one after the other, as on Linux, and
//! one in edge mode by one.
//!
//! # Ends
//!
//! An epoll holds no open file. When a member is released, its file tells the item, and it leaves the
//! set. A member that is revoked is returned once more, with `ERR`, and then leaves.
//!
//! # Time
//!
//! Timers have no thread: a file that changes by time alone tells so when it is asked. Before each
//! harvest, and again before it sleeps, a waiter asks those of its members, and sleeps no longer than
//! to the next moment.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use fdtable::{FileRef, RawFd};
use parking_lot::Mutex;

use super::{Events, FileId, Pollee, Watcher, wait};
use crate::{Errno, Object, OpenFlags, Status};
use item::Item;
use ready::Ready;

mod flags;
mod item;
mod nesting;
mod ready;

pub use flags::{EpollCreateFlags, EpollCtl, EpollEvent, EpollFlags};

/// Open epoll: a set of files that are waited for together.
pub struct Epoll {
    set: Arc<Set>,
    status: Status,
}

/// The set itself, which its items know, and which may be watched as a file is.
pub(crate) struct Set {
    /// First lock, see above.
    members: Mutex<Members>,
    /// Second lock.
    ready: Mutex<Ready>,
    /// Sets of which this is a member, for [`nesting`]. Nothing is locked under this.
    parents: Mutex<Vec<Weak<Set>>>,
}

#[derive(Default)]
struct Members {
    items: BTreeMap<Key, Arc<Item>>,
    /// Those that may change by time alone.
    timed: Vec<Arc<Item>>,
    /// Nothing is added any more.
    released: bool,
}

/// What a member is known by: the number and the open file that it named. One file may be a member
/// under two numbers, and one number may have named two files that are open still.
type Key = (RawFd, FileId);

impl Epoll {
    /// Makes an empty set. Allocates.
    pub fn new(flags: EpollCreateFlags) -> Self {
        let set = Set {
            members: Mutex::default(),
            ready: Mutex::default(),
            parents: Mutex::default(),
        };
        Epoll {
            set: Arc::new(set),
            status: Status::new(flags.open_flags()),
        }
    }

    /// Adds the open file that `fd` names, and returns it at once if it is ready. Allocates.
    ///
    /// # Errors
    /// `EPERM` if it is always ready; `EINVAL` if it is this epoll itself, or `EXCLUSIVE` is asked of
    /// an epoll or with other events than those allowed; `ELOOP` if it is an epoll that watches this
    /// one, or more than four would watch each other in a row; `EINVAL` if a change of one would be
    /// told on more than a thousand ways; `EEXIST` if it is a member; `EIO` if
    /// this one was revoked.
    pub fn add(
        &self,
        fd: RawFd,
        file: &FileRef<dyn Object>,
        event: EpollEvent,
    ) -> Result<(), Errno> {
        let pollee = self.pollee_of(file)?;
        let child = set_of(file);
        event.events.check_exclusive(child.is_some())?;
        let item = Item::new(&self.set, (fd, FileId::of(&**file)), pollee, child, event);
        match item.child() {
            Some(child) => nesting::link(&self.set, child, || self.set.insert(&item)),
            None => self.set.insert(&item),
        }
    }

    /// Changes what is asked of a member, and asks it at once.
    ///
    /// # Errors
    /// `EPERM`, `EINVAL` as [`add`](Self::add); `EINVAL` if `EXCLUSIVE` is in question, before or
    /// after; `ENOENT` if it is no member.
    pub fn modify(
        &self,
        fd: RawFd,
        file: &FileRef<dyn Object>,
        event: EpollEvent,
    ) -> Result<(), Errno> {
        self.pollee_of(file)?;
        if event.events.contains(EpollFlags::EXCLUSIVE) {
            return Err(Errno::EINVAL);
        }
        self.set.modify((fd, FileId::of(&**file)), event)
    }

    /// Takes a member out.
    ///
    /// # Errors
    /// `EPERM`, `EINVAL` as [`add`](Self::add); `ENOENT` if it is no member.
    pub fn delete(&self, fd: RawFd, file: &FileRef<dyn Object>) -> Result<(), Errno> {
        self.pollee_of(file)?;
        let key = (fd, FileId::of(&**file));
        let found = self.set.members.lock().items.get(&key).map(Arc::clone);
        if self.set.remove(&found.ok_or(Errno::ENOENT)?) {
            Ok(())
        } else {
            Err(Errno::ENOENT)
        }
    }

    /// Waits until a member is ready, or until `timeout` has passed (`None`: forever), writes what
    /// is ready into `events`, and returns how many it wrote. Blocks; the caller is in no read-side
    /// section.
    ///
    /// # Errors
    /// `EINVAL` if there is no room for an event; `EIO` if this epoll was revoked.
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
            // Too far ahead is forever.
            Some(timeout) => Instant::now().checked_add(timeout),
        };
        self.set.wait(events, deadline)
    }

    /// Returns the members: number, what is asked of it, data. Allocates.
    pub fn members(&self) -> Vec<(RawFd, EpollEvent)> {
        let members = self.set.members.lock();
        let all = members.items.iter();
        all.map(|(&(fd, _), item)| (fd, item.event())).collect()
    }

    /// Returns what can be watched of a file that may be a member.
    fn pollee_of(&self, file: &FileRef<dyn Object>) -> Result<Arc<dyn Pollee>, Errno> {
        let pollee = file.pollee().ok_or(Errno::EPERM)?;
        if FileId::of(&**file) == FileId::of(self) {
            return Err(Errno::EINVAL);
        }
        Ok(pollee)
    }
}

/// Sees a file as an epoll, if it is one.
pub(crate) fn as_epoll(object: &dyn Object) -> Option<&Epoll> {
    (object as &dyn std::any::Any).downcast_ref()
}

fn set_of(file: &FileRef<dyn Object>) -> Option<Arc<Set>> {
    as_epoll(&**file).map(|epoll| Arc::clone(&epoll.set))
}

impl Object for Epoll {
    fn status(&self) -> OpenFlags {
        self.status.get()
    }

    fn set_status(&self, flags: OpenFlags) -> Result<(), Errno> {
        self.status.set(flags);
        Ok(())
    }

    fn pollee(&self) -> Option<Arc<dyn Pollee>> {
        Some(Arc::clone(&self.set) as Arc<dyn Pollee>)
    }

    fn events(&self) -> Events {
        self.set.events()
    }

    fn try_read(&self, _buf: &mut [u8]) -> Result<usize, Errno> {
        Err(Errno::EINVAL)
    }

    fn try_write(&self, _bytes: &[u8]) -> Result<usize, Errno> {
        Err(Errno::EINVAL)
    }

    fn label(&self) -> String {
        "anon_inode:[eventpoll]".to_string()
    }

    /// A line for each member. Position, inode and device are of files that it does not hold: 0.
    fn show_fdinfo(&self, text: &mut String) {
        for (fd, event) in self.members() {
            // A string takes all that is written.
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
        // A place that a revoked file left, which nobody can name any more, is free.
        let left = members.items.get(&item.key()).map(Arc::clone);
        if let Some(left) = &left {
            if !left.is_revoked() {
                return Err(Errno::EEXIST);
            }
            self.take(&mut members, left);
        }
        members.items.insert(item.key(), Arc::clone(item));
        if item.is_timed() {
            members.timed.push(Arc::clone(item));
        }
        item.register();
        // What it was ready for before.
        self.ask_first(item);
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
        // First the wish, then the question: a change in between finds one or the other.
        item.set_event(event);
        self.ask_first(item);
        Ok(())
    }

    /// Puts an item that is ready into the list, though it did not change.
    fn ask_first(&self, item: &Item) {
        if !item.ask().is_empty() {
            self.suspect(item);
        }
    }

    /// Puts an item into the list, and returns whether that has woken somebody who waits: he
    /// harvests, also if his time is up. Takes only the second lock.
    fn suspect(&self, item: &Item) -> bool {
        let (told, woken) = self.ready.lock().suspect(item);
        let somebody = !woken.is_empty();
        told.and(woken).run();
        somebody
    }

    /// Takes an item out, and tells whether it was in. The caller holds no lock.
    fn remove(&self, item: &Arc<Item>) -> bool {
        let was_member = self.take(&mut self.members.lock(), item);
        if was_member {
            self.detach(item);
        }
        was_member
    }

    /// Takes an item out, if it is in, and no harvest returns it any more.
    fn take(&self, members: &mut Members, item: &Arc<Item>) -> bool {
        let was_member = members.take(item);
        if was_member {
            self.ready.lock().remove(item);
        }
        was_member
    }

    /// Ends the registration of an item that was taken out. The caller holds no lock.
    fn detach(&self, item: &Arc<Item>) {
        item.unregister();
        if let Some(child) = item.child() {
            nesting::unlink(self, child);
        }
    }

    /// Takes everything out, for good.
    fn clear(&self) {
        let items = self.members.lock().end();
        for item in items {
            self.ready.lock().remove(&item);
            self.detach(&item);
        }
    }

    /// Returns those members that are epolls.
    fn children(&self) -> Vec<Arc<Set>> {
        let members = self.members.lock();
        let children = members.timed.iter().filter_map(|item| item.child());
        children.map(Arc::clone).collect()
    }

    /// Returns those of which this is a member.
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
            let count = self.harvest(events)?;
            if count > 0 || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(count);
            }
            // What time changed during the harvest is in the list now, and there is no sleep.
            let next_change = self.next_change();
            self.sleep([deadline, next_change].into_iter().flatten().min());
        }
    }

    /// Sleeps until there is something in the list. One who was chosen harvests, also if its time
    /// is up.
    fn sleep(&self, until: Option<Instant>) {
        wait(
            &self.ready,
            |ready| ready.waiters(),
            Events::IN,
            until,
            |ready| ready.is_worth_a_look().then_some(()),
        );
    }

    /// Takes what is ready from the list, as much as there is room for.
    fn harvest(&self, events: &mut [EpollEvent]) -> Result<usize, Errno> {
        let mut ended = Vec::new();
        let mut members = self.members.lock();
        members.next_change();
        // Each item once: those that come meanwhile are for the next harvest.
        let mut left = self.ready.lock().begin_harvest()?;
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
            if found.contains(Events::ERR) && item.is_revoked() {
                self.take(&mut members, &item);
                ended.push(item);
            } else if item.returns_to_the_list() {
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
    /// Takes an item out, if it is in.
    fn take(&mut self, item: &Arc<Item>) -> bool {
        let same = |found: &Arc<Item>| Arc::ptr_eq(found, item);
        let is_member = self.items.get(&item.key()).is_some_and(same);
        if is_member {
            self.items.remove(&item.key());
            if item.is_timed() {
                self.timed.retain(|timed| !Arc::ptr_eq(timed, item));
            }
        }
        is_member
    }

    /// Takes all out, and lets nothing in any more.
    fn end(&mut self) -> Vec<Arc<Item>> {
        self.released = true;
        self.timed = Vec::new();
        std::mem::take(&mut self.items).into_values().collect()
    }

    /// Has those that change by time tell what it has changed, and returns when it will again.
    fn next_change(&self) -> Option<Instant> {
        let timed = self.timed.iter();
        timed.filter_map(|item| item.next_change()).min()
    }
}

impl Pollee for Set {
    /// Ready for reading if a member is ready. Those in front that are not leave the list.
    fn events(&self) -> Events {
        let members = self.members.lock();
        members.next_change();
        if self.ready.lock().is_revoked() {
            return Events::ERR;
        }
        loop {
            let Some(item) = self.ready.lock().take_first() else {
                return Events::empty();
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
    }

    fn unwatch(&self, watcher: &Arc<dyn Watcher>) {
        self.ready.lock().waiters().unwatch(watcher);
    }

    fn forget(&self, file: FileId) {
        let told = self.ready.lock().waiters().forget(file);
        told.run();
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

/// Where it was not released: the items know the set, and the set the items.
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
