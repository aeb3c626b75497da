//! Host files in an epoll of ours: members of a host epoll beside it.
//!
//! An epoll of ours gets a host epoll when its first host file is added, and the host watches the
//! file, with the caller's events and data as they are. A thread that waits for the epoll waits in
//! the host, for all members: a file of ours that becomes ready wakes it through an eventfd that is
//! a member too. How the two kinds go together is in `fdtable_vfs::event::HostSet`.
//!
//! # Members
//!
//! The host's key of a member is a pair of host descriptor and open file, and ours is a pair of our
//! descriptor and open file. Of one open file, our descriptors share a host descriptor. So the
//! first one that is used with any epoll stands for the host descriptor itself, and each other one
//! gets a duplicate of it ([`Names`](super::names::Names)). All of them are closed when the open
//! file is released, and then the host removes the members. Every answer of `epoll_ctl` is the
//! host's.
//!
//! # After a host fork
//!
//! Parent and child share the host epoll, as they would without this library. Where each process
//! has its own kernel, the eventfd belongs to one process, so the child makes its own when it first
//! needs it. A wake-up for the other process looks like one that a second thread has taken: the
//! wait goes on.
//!
//! Where they share the kernel, they share the eventfd. A process that does not have it, and makes
//! a file of ours ready, has the supervisor wake those that wait, if it could pin the eventfd.

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_utils::atomic::AtomicCell;
use fdtable::host_fork;
use fdtable_shm::Mutex;
use fdtable_vfs::Errno;
use fdtable_vfs::event::{Epoll, EpollEvent, EpollFlags, Events, FileId, HostSet, Pollee, Watcher};
use libc::epoll_event;

use crate::host;
use crate::host::fd::{self, HostFd};
use crate::host::watch::HostWatch;
use crate::process::supervisor;

/// Host epoll beside an epoll of ours.
pub(crate) struct HostEpoll {
    host_fd: HostFd,
    /// Data of the eventfd. It is random: a caller's data is the same only by chance, one in 2^64.
    key: u64,
    /// Fork generation of the process that created it.
    generation: u32,
    wake: Mutex<Wake>,
    /// The supervisor's descriptor of the eventfd, where processes share the kernel; else 0.
    pinned: AtomicCell<c_int>,
    /// Returns the descriptors of this process that were used with epolls, each with the host
    /// descriptor for it.
    names: fn() -> Vec<(RawFd, RawFd)>,
    /// For those that wait for the epoll as for a file.
    watch: Arc<HostWatch>,
}

/// Eventfd that wakes a thread that waits.
struct Wake {
    eventfd: HostFd,
    /// Fork generation of the process that it belongs to.
    generation: u32,
    is_released: bool,
}

/// Events that a wait for both kinds of members takes from the host without allocating.
const AT_ONCE: usize = 64;

impl HostEpoll {
    fn create(names: fn() -> Vec<(RawFd, RawFd)>) -> Result<Arc<dyn HostSet>, Errno> {
        let (fd, eventfd) = (host::epoll_create()?, host::eventfd()?.into_raw());
        let host_fd = HostFd::new(fd.into_raw());
        let mut key = 0_u64;
        // SAFETY: there is room for eight bytes.
        unsafe { libc::getrandom((&raw mut key).cast(), 8, libc::GRND_NONBLOCK) };
        let made = Arc::new(HostEpoll {
            pinned: AtomicCell::new(0),
            host_fd,
            key,
            generation: fd::generation(),
            wake: Mutex::new(Wake {
                eventfd: HostFd::new(eventfd),
                generation: fd::generation(),
                is_released: false,
            }),
            names,
            watch: HostWatch::new(host_fd),
        });
        made.add_eventfd(eventfd)?;
        Ok(made)
    }

    /// Returns the host epoll of an epoll. If there is none, it is created with this list of names.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    pub(crate) fn beside(
        epoll: &Epoll,
        names: fn() -> Vec<(RawFd, RawFd)>,
    ) -> Result<&Arc<dyn HostSet>, Errno> {
        let set = epoll.host_set_or_init(|| Self::create(names))?;
        if let Some(made) = Self::of(&**set)
            && host_fork::shares_memory()
            && made.pinned.load() == 0
            && made.pin()
        {
            // A thread may wait already that another process did not wake.
            epoll.wake_in_host();
        }
        Ok(set)
    }

    /// Has the supervisor pin the eventfd, for other processes. Returns true if it was not pinned.
    /// The caller has no lock for which the supervisor may wait.
    #[cold]
    fn pin(&self) -> bool {
        let eventfd = self.wake.lock().eventfd;
        // It may have no descriptor left: then other processes wake nothing here.
        let Ok(pinned) = supervisor::pin(eventfd.in_use().get()) else {
            return false;
        };
        let is_first = self.pinned.compare_exchange(0, pinned).is_ok();
        if !is_first {
            supervisor::unpin(pinned);
        }
        is_first
    }

    /// Returns the host epoll behind a set of an epoll.
    pub(crate) fn of(set: &dyn HostSet) -> Option<&HostEpoll> {
        (set as &dyn std::any::Any).downcast_ref()
    }

    /// Adds, changes or removes a host descriptor.
    ///
    /// # Errors
    /// The host's.
    pub(crate) fn control(
        &self,
        operation: i32,
        host_fd: RawFd,
        event: Option<epoll_event>,
    ) -> Result<(), Errno> {
        host::epoll_control(self.host_fd.get(), operation, host_fd, event)
    }

    /// Waits in the host for host files alone, and writes their events to an array. Returns 0 after
    /// a wake-up too, and resets the eventfd if `takes_wake_up`: see
    /// [`without_wake_up`](Self::without_wake_up). A signal mask applies while it waits. Blocks.
    ///
    /// # Errors
    /// The host's.
    ///
    /// # Safety
    /// If `events` can be an address, there is room for `most` events, and nothing else accesses
    /// them during the call.
    #[inline]
    pub(crate) unsafe fn wait_in_host(
        &self,
        events: *mut epoll_event,
        most: usize,
        timeout: Option<Duration>,
        mask: Option<&libc::sigset_t>,
        takes_wake_up: bool,
    ) -> Result<usize, Errno> {
        let wait = |timeout, mask| {
            // SAFETY: as the caller promises.
            let count =
                unsafe { host::epoll_wait_in(self.host_fd.get(), events, most, timeout, mask) }?;
            // SAFETY: the host has written as many.
            let left = unsafe { self.without_wake_up(events, count, takes_wake_up) };
            Ok((count, left))
        };
        match wait(timeout, mask)? {
            // The wake-up filled all the room. The host returns the other members first now.
            (count, 0) if count == most => wait(Some(Duration::ZERO), None).map(|(_, left)| left),
            (_, left) => Ok(left),
        }
    }

    /// Removes the event of the eventfd, and returns how many are left. Resets the eventfd too if
    /// `takes_wake_up`: the thread waits in the set, and looks at the ready list when it leaves.
    ///
    /// # Safety
    /// `count` events are at `events`, which may be unaligned.
    #[inline]
    unsafe fn without_wake_up(
        &self,
        events: *mut epoll_event,
        count: usize,
        takes_wake_up: bool,
    ) -> usize {
        for at in 0..count {
            // SAFETY: as the caller promises.
            let event = unsafe { events.add(at) };
            // SAFETY: as above.
            if unsafe { event.read_unaligned() }.u64 == self.key {
                if takes_wake_up {
                    self.take_wake_up();
                }
                // In bytes: they may be unaligned.
                let behind = (count - at - 1) * size_of::<epoll_event>();
                // SAFETY: those behind it are there too.
                unsafe { std::ptr::copy(event.add(1).cast::<u8>(), event.cast(), behind) };
                return count - 1;
            }
        }
        count
    }

    /// Resets the eventfd, unless it is another process's.
    #[cold]
    fn take_wake_up(&self) {
        let wake = self.wake.lock();
        let is_own = host_fork::shares_memory() || wake.generation == fd::generation();
        if !wake.is_released && is_own {
            host::eventfd_reset(wake.eventfd.get());
        }
    }

    /// Removes a file that is released here, and may stay open in the host. A parent's set keeps
    /// it, as long as the parent has it open.
    pub(super) fn forget_file(&self, host_fd: RawFd) {
        if self.generation == fd::generation() {
            // It may not be a member.
            let _ = self.control(libc::EPOLL_CTL_DEL, host_fd, None);
        }
    }

    fn add_eventfd(&self, eventfd: RawFd) -> Result<(), Errno> {
        let event = epoll_event {
            events: libc::EPOLLIN.cast_unsigned(),
            u64: self.key,
        };
        self.control(libc::EPOLL_CTL_ADD, eventfd, Some(event))
    }

    /// Makes an eventfd for this process, the child of the one that it belongs to. Without one, the
    /// two share the parent's.
    #[cold]
    fn renew(&self, wake: &mut Wake) {
        let Ok(eventfd) = host::eventfd() else {
            return;
        };
        if self.add_eventfd(eventfd.0).is_err() {
            return;
        }
        wake.eventfd.close();
        wake.eventfd = HostFd::new(eventfd.into_raw());
        wake.generation = fd::generation();
    }

    /// Takes events, and waits for them if there are none.
    /// Without `takes_wake_up`, leaves a wake-up for the threads that wait.
    fn take(
        &self,
        events: &mut [EpollEvent],
        timeout: Option<Duration>,
        takes_wake_up: bool,
    ) -> Result<usize, Errno> {
        const NOTHING: epoll_event = epoll_event { events: 0, u64: 0 };
        // All at once: a second call would return the same members again.
        let (mut few, mut many) = ([NOTHING; AT_ONCE], Vec::new());
        let found = match few.get_mut(..events.len()) {
            Some(found) => found,
            None => {
                many.resize(events.len(), NOTHING);
                &mut many[..]
            }
        };
        let (place, room) = (found.as_mut_ptr(), found.len());
        // SAFETY: there is room.
        let count = unsafe { self.wait_in_host(place, room, timeout, None, takes_wake_up) }?;
        for (place, event) in events.iter_mut().zip(&found[..count]) {
            let flags = EpollFlags::from_bits_retain(event.events);
            *place = EpollEvent::new(flags, event.u64);
        }
        Ok(count)
    }
}

impl HostSet for HostEpoll {
    fn wait(&self, events: &mut [EpollEvent], until: Option<Instant>) -> Result<usize, Errno> {
        let timeout = until.map(|until| until.saturating_duration_since(Instant::now()));
        self.take(events, timeout, true)
    }

    fn collect(&self, events: &mut [EpollEvent]) -> usize {
        self.take(events, Some(Duration::ZERO), false).unwrap_or(0)
    }

    /// From the host's `/proc`. A member whose descriptor is not known has that of the host.
    fn members(&self) -> Vec<(RawFd, EpollEvent)> {
        let path = format!("/proc/self/fdinfo/{}", self.host_fd.get());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let names = (self.names)();
        let member = |line: &str| {
            let mut words = line.strip_prefix("tfd:")?.split_whitespace();
            let host_fd = words.next()?.parse().ok()?;
            let events = u32::from_str_radix(words.nth(1)?, 16).ok()?;
            let data = u64::from_str_radix(words.nth(1)?, 16).ok()?;
            let known = names.iter().find(|&&(_, named)| named == host_fd);
            let event = EpollEvent::new(EpollFlags::from_bits_retain(events), data);
            (data != self.key).then_some((known.map_or(host_fd, |&(fd, _)| fd), event))
        };
        text.lines().filter_map(member).collect()
    }

    fn release(&self) {
        let mut wake = self.wake.lock();
        if !wake.is_released {
            wake.is_released = true;
            self.watch.close();
            self.host_fd.close();
            wake.eventfd.close();
        }
    }
}

impl Drop for HostEpoll {
    fn drop(&mut self) {
        self.release();
        // Not before: whoever wakes it has a reference.
        match self.pinned.load() {
            0 => {}
            pinned => supervisor::unpin(pinned),
        }
    }
}

impl Watcher for HostEpoll {
    fn wake(&self, _events: Events) {
        let mut wake = self.wake.lock();
        if wake.is_released {
            return;
        }
        if host_fork::shares_memory() {
            let used = wake.eventfd.in_use();
            drop(wake);
            match (used.get(), self.pinned.load()) {
                // Without the supervisor, other processes wake nothing here.
                (-1, 0) => {}
                (-1, pinned) => supervisor::wake_pinned(pinned),
                (fd, _) => {
                    // It is open.
                    let _ = host::eventfd_set(fd);
                }
            }
            return;
        }
        if wake.generation != fd::generation() {
            self.renew(&mut wake);
        }
        host::eventfd_set(wake.eventfd.get());
    }
}

impl Pollee for HostEpoll {
    fn events(&self) -> Events {
        self.watch.events()
    }

    fn watch(&self, watcher: &Arc<dyn Watcher>, interest: Events, file: Option<FileId>) {
        self.watch.watch(watcher, interest, file);
    }

    fn unwatch(&self, watcher: &Arc<dyn Watcher>) {
        self.watch.unwatch(watcher);
    }

    fn forget(&self, file: FileId) {
        self.watch.forget(file);
    }
}
