//! Members of an epoll that are files of the host.
//!
//! The host watches its own files, in a set of its own: the [`HostSet`] that an embedder gives to
//! an epoll ([`Epoll::host_set_or_init`]). Once there is one, *every* thread that waits for the
//! epoll waits in the host's set, so a file of the host wakes it without a thread between. The
//! other members wake it too: an item that becomes ready while threads wait there
//! [wakes](Watcher::wake) the set, which then lets one of them return without an event. That thread
//! collects from the ready list.
//!
//! Threads in the host's set are interchangeable, as sleepers are. One wake-up is on its way at a
//! time (`is_woken`), unless processes share the kernel: it may be for one that is killed. A thread
//! that leaves the set clears that before it looks at the ready list, under the same lock. So an
//! item that is listed after that look finds it cleared, and wakes the next thread. A thread that
//! leaves with events of the host, and does not look, passes the wake-up on.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_utils::atomic::AtomicCell;
use fdtable::{RawFd, host_fork};
use fdtable_shm::OnceCell;

use super::{Epoll, EpollEvent, Set};
use crate::Errno;
use crate::event::{Events, Pollee, Wakeups, Watcher};

/// Set of the host's files that are members of an [`Epoll`].
///
/// As a [`Pollee`], it is readable while a file of the set is ready. As a [`Watcher`], a wake-up of
/// it makes one [`wait`](Self::wait) return early, now or soon; if no thread waits, the next wait
/// may return early instead.
pub trait HostSet: Pollee + Watcher + Any {
    /// Waits until a file of the set is ready, until it is woken, or until `until` (`None`:
    /// forever). Writes the events into `events`, which is not empty, and returns how many it
    /// wrote. Returns 0 after a wake-up. Blocks; the caller holds no lock and is not in a read-side
    /// section.
    ///
    /// # Errors
    /// Errors of the host, such as `EINTR`.
    fn wait(&self, events: &mut [EpollEvent], until: Option<Instant>) -> Result<usize, Errno>;

    /// Takes events like [`wait`](Self::wait), without blocking. Returns how many it took. The
    /// caller is not one of the threads that wait: a wake-up stays for them.
    fn collect(&self, events: &mut [EpollEvent]) -> usize;

    /// Returns the files of the set: descriptor, requested events, user data. Allocates.
    fn members(&self) -> Vec<(RawFd, EpollEvent)>;

    /// Ends the use of the set, when the epoll is released. No thread waits in it.
    fn release(&self);
}

/// Thread that waits in the host's set of an epoll, from [`Epoll::wait_in_host`] until it is
/// dropped.
#[must_use = "the thread waits until this is dropped"]
pub struct HostWait<'a> {
    set: &'a Set,
    host: &'a Arc<dyn HostSet>,
    /// The thread looks at the ready list when it has left.
    collects: bool,
}

/// The host's set, beside the members of ours.
#[derive(Default)]
pub(super) struct Beside {
    set: OnceCell<Arc<dyn HostSet>>,
    /// Members of ours filled all the room of the last wait, so the host comes first now.
    comes_first: AtomicCell<bool>,
}

/// Threads that wait in the host's set.
#[derive(Default)]
pub(super) struct HostWaiters {
    waker: Option<Arc<dyn Watcher>>,
    waiting: usize,
    /// Fork generation of the process of these threads: they do not exist in a child, unless it
    /// shares the kernel.
    generation: u32,
    /// A wake-up is on its way.
    is_woken: bool,
}

impl Epoll {
    /// Returns the host's set of this epoll, if it has one.
    pub fn host_set(&self) -> Option<&Arc<dyn HostSet>> {
        self.set.host.get()
    }

    /// Returns the host's set of this epoll, which `make` makes at first. Allocates.
    ///
    /// # Errors
    /// `EIO` if this epoll was revoked; those of `make`.
    pub fn host_set_or_init(
        &self,
        make: impl FnOnce() -> Result<Arc<dyn HostSet>, Errno>,
    ) -> Result<&Arc<dyn HostSet>, Errno> {
        match self.set.host.get() {
            Some(host) => Ok(host),
            None => self.set.begin_host(make),
        }
    }

    /// Wakes a thread that waits in the host's set, if there is one.
    pub fn wake_in_host(&self) {
        let woken = self.set.waiters.lock().in_host().wake_one();
        woken.run();
    }

    /// Begins a wait in the host's set. Returns nothing if there is no such set, if a member of
    /// ours may be ready, or if the epoll was revoked: then [`wait`](Self::wait) finds out.
    ///
    /// The caller waits in the set itself, instead of [`HostSet::wait`]. After a wake-up, it begins
    /// again.
    #[inline]
    pub fn wait_in_host(&self) -> Option<HostWait<'_>> {
        self.set.enter_host(self.set.host.get()?)
    }
}

impl HostWait<'_> {
    /// Returns the host's set.
    #[inline]
    pub fn host(&self) -> &dyn HostSet {
        &**self.host
    }
}

impl Drop for HostWait<'_> {
    #[inline]
    fn drop(&mut self) {
        let mut waiters = self.set.waiters.lock();
        waiters.in_host().leave();
        if !self.collects {
            self.set.pass_on(waiters);
        }
    }
}

impl Beside {
    #[inline]
    pub(super) fn get(&self) -> Option<&Arc<dyn HostSet>> {
        self.set.get()
    }
}

impl HostWaiters {
    /// Collects one thread, unless a wake-up is on its way.
    pub(super) fn wake_one(&mut self) -> Wakeups {
        let is_in_vain = match host_fork::shares_memory() {
            // One on its way may be for a thread whose process was killed.
            true => false,
            false => self.is_woken || self.generation != host_fork::generation(),
        };
        if self.waiting == 0 || is_in_vain {
            return Wakeups::default();
        }
        let Some(waker) = &self.waker else {
            return Wakeups::default();
        };
        self.is_woken = true;
        Wakeups::of(Arc::clone(waker), Events::READABLE)
    }

    fn enter(&mut self) {
        let generation = host_fork::generation();
        if self.generation != generation && !host_fork::shares_memory() {
            self.generation = generation;
            self.waiting = 0;
            // That one was the parent's.
            self.is_woken = false;
        }
        self.waiting += 1;
    }

    fn leave(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
        self.is_woken = false;
    }
}

impl Set {
    #[cold]
    fn begin_host(
        &self,
        make: impl FnOnce() -> Result<Arc<dyn HostSet>, Errno>,
    ) -> Result<&Arc<dyn HostSet>, Errno> {
        let members = self.members.lock();
        if members.released {
            return Err(Errno::EIO);
        }
        // Another thread may have made one before this one had the lock.
        if let Some(host) = self.host.get() {
            return Ok(host);
        }
        let made = make()?;
        let mut waiters = self.waiters.lock();
        waiters.in_host().waker = Some(Arc::clone(&made) as _);
        for (watcher, interest, file) in waiters.queue().watchers() {
            made.watch(watcher, interest, file);
        }
        let host = self.host.set.get_or_init(|| made);
        // From here on all threads wait in the host.
        let mut woken = Wakeups::default();
        loop {
            let next = waiters.queue().pass_on(Events::READABLE);
            if next.is_empty() {
                break;
            }
            woken.append(next);
        }
        drop(waiters);
        drop(members);
        woken.run();
        Ok(host)
    }

    /// Begins a wait in the host's set, unless the ready list has work.
    #[inline]
    fn enter_host<'a>(&'a self, host: &'a Arc<dyn HostSet>) -> Option<HostWait<'a>> {
        let mut waiters = self.waiters.lock();
        if self.has_work(&waiters) {
            return None;
        }
        waiters.in_host().enter();
        Some(HostWait {
            set: self,
            host,
            collects: false,
        })
    }

    /// Waits for members of both kinds until the deadline.
    pub(super) fn wait_beside_host(
        &self,
        host: &Arc<dyn HostSet>,
        events: &mut [EpollEvent],
        deadline: Option<Instant>,
    ) -> Result<usize, Errno> {
        loop {
            // A thread that was woken may not have looked at the whole list.
            let collected = self.collect_both(&**host, events);
            self.pass_on(self.waiters.lock());
            let count = collected?;
            if count > 0 {
                return Ok(count);
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(host.collect(events));
            }
            let Some(mut waiting) = self.enter_host(host) else {
                continue;
            };
            let count = host.wait(events, deadline)?;
            if count > 0 {
                return Ok(count);
            }
            waiting.collects = true;
        }
    }

    /// Takes events from the ready list. If there are any, takes those of the host too, as far as
    /// there is room.
    fn collect_both(&self, host: &dyn HostSet, events: &mut [EpollEvent]) -> Result<usize, Errno> {
        let mut count = 0;
        if self.host.comes_first.swap(false) {
            count = host.collect(events);
        }
        let room = &mut events[count..];
        if room.is_empty() {
            return Ok(count);
        }
        let ours = self.collect_events(room)?;
        if ours == room.len() {
            self.host.comes_first.store(count == 0);
        } else if ours > 0 && count == 0 {
            count = host.collect(&mut room[ours..]);
        }
        Ok(count + ours)
    }
}

#[cfg(test)]
mod tests;
