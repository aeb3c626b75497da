//! Waiting for host files together with our files.
//!
//! `poll` here sleeps until an object wakes it, and the host wakes no sleeper of ours. So one
//! thread of this library, the reactor, waits in a host epoll for all host files that are watched
//! here, and wakes their watchers. The first watch of a host file starts it. It has all signals
//! blocked, and ends only while credentials are changed ([`without_threads`]). A program that never
//! waits for files of both kinds never has it: a `poll` of host files alone is the host's, and an
//! epoll waits in the host (see `epoll`). An epoll with host files is a host file too, for those
//! that poll it.
//!
//! The epoll reports *edges*: like our own files, it reports a file that stays ready once. A new
//! watcher checks the state of the file itself first.
//!
//! After a host fork, the child does not have the thread, and shares the epoll with its parent. So
//! it creates both again when it first watches a file or waits ([`rewatch`]).

use std::collections::HashMap;
use std::mem;
use std::os::fd::RawFd;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fdtable::{host_fork, rcu};
use fdtable_shm::Mutex;
use fdtable_vfs::Errno;
use fdtable_vfs::event::{Events, FileId, Pollee, WaitQueue, Watcher};

use crate::host::direct::Wait;
use crate::host::fd::HostFd;
use crate::host::{self, OwnedHostFd};

/// Events that are requested from the host: all.
const ALL_EVENTS: i16 = libc::POLLIN
    | libc::POLLOUT
    | libc::POLLPRI
    | libc::POLLRDNORM
    | libc::POLLWRNORM
    | libc::POLLRDHUP;

/// Key of the counter that ends the thread.
const STOP: u64 = u64::MAX;

/// Pollable state of a host file.
#[derive(Debug)]
pub(crate) struct HostWatch {
    myself: Weak<HostWatch>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Host descriptor, until the open file is released.
    host_fd: Option<HostFd>,
    queue: WaitQueue,
}

/// The files that are watched, and the thread that waits for them.
#[derive(Default)]
struct Reactor {
    listener: Option<Listener>,
    /// Fork generation of the process that owns the listener.
    generation: u32,
    watched: HashMap<u64, (HostFd, Weak<HostWatch>)>,
}

/// The epoll and its thread.
struct Listener {
    epoll: OwnedHostFd,
    /// Counter in the epoll that ends the thread.
    stop_fd: OwnedHostFd,
    thread: JoinHandle<()>,
}

static REACTOR: OnceLock<Mutex<Reactor>> = OnceLock::new();

impl HostWatch {
    pub(crate) fn new(host_fd: HostFd) -> Arc<Self> {
        Arc::new_cyclic(|myself| HostWatch {
            myself: Weak::clone(myself),
            state: Mutex::new(State {
                host_fd: Some(host_fd),
                queue: WaitQueue::new(),
            }),
        })
    }

    /// Stops the use of the host descriptor, before it is closed.
    pub(crate) fn close(&self) {
        if let Some(host_fd) = self.state.lock().host_fd.take() {
            self.end_watch(host_fd);
        }
    }

    fn end_watch(&self, host_fd: HostFd) {
        if let Some(reactor) = REACTOR.get() {
            reactor.lock().remove(self, host_fd);
        }
    }

    fn end_watch_if_unused(&self, state: &State) {
        if let (true, Some(host_fd)) = (state.queue.is_empty(), state.host_fd) {
            self.end_watch(host_fd);
        }
    }

    /// Names the file in the epolls of all processes.
    fn key(&self) -> u64 {
        std::ptr::from_ref(self).addr() as u64
    }

    /// Wakes the watchers for events that the host reported.
    fn changed(&self, events: Events) {
        let wakeups = self.state.lock().queue.wake(events);
        wakeups.run();
    }
}

impl Pollee for HostWatch {
    fn events(&self) -> Events {
        match self.state.lock().host_fd {
            Some(host_fd) => {
                host::ready(host_fd.in_use().get(), ALL_EVENTS).map_or(Events::ERR, with_aliases)
            }
            None => Events::empty(),
        }
    }

    fn watch(&self, watcher: &Arc<dyn Watcher>, interest: Events, file: Option<FileId>) {
        let mut state = self.state.lock();
        state.queue.watch(watcher, interest, file);
        if let Some(host_fd) = state.host_fd {
            // If the host refuses, the watcher is never woken, and sees only what it checks itself.
            let _ = reactor().lock().add(self, host_fd);
        }
    }

    fn unwatch(&self, watcher: &Arc<dyn Watcher>) {
        let mut state = self.state.lock();
        state.queue.unwatch(watcher);
        self.end_watch_if_unused(&state);
    }

    fn forget(&self, file: FileId) {
        let mut state = self.state.lock();
        let wakeups = state.queue.forget(file);
        self.end_watch_if_unused(&state);
        drop(state);
        wakeups.run();
    }
}

impl Reactor {
    /// Adds a file, unless it is there.
    fn add(&mut self, watch: &HostWatch, host_fd: HostFd) -> Result<(), Errno> {
        let _private = fdtable_shm::leave();
        self.leave_to_parent();
        let epoll = self.run()?;
        let key = watch.key();
        if self.watched.contains_key(&key) {
            return Ok(());
        }
        host::epoll_add(epoll, host_fd.in_use().get(), key)?;
        let watch = Weak::clone(&watch.myself);
        self.watched.insert(key, (host_fd, watch));
        Ok(())
    }

    fn remove(&mut self, watch: &HostWatch, host_fd: HostFd) {
        self.leave_to_parent();
        let was_there = self.watched.remove(&watch.key()).is_some();
        if let Some(epoll) = self.epoll().filter(|_| was_there) {
            // An unknown file is removed already.
            let host_fd = host_fd.in_use();
            let _ = host::epoll_control(epoll, libc::EPOLL_CTL_DEL, host_fd.get(), None);
        }
    }

    /// Returns the epoll, if it is the one of this process.
    fn epoll(&self) -> Option<RawFd> {
        let is_own = self.generation == host_fork::generation();
        let listener = self.listener.as_ref().filter(|_| is_own);
        listener.map(|listener| listener.epoll.0)
    }

    /// In a child that shares the kernel, leaves the references to the parent, for which they are
    /// counted. Watchers of this process are added again.
    fn leave_to_parent(&mut self) {
        if self.generation != host_fork::generation() && host_fork::shares_memory() {
            mem::forget(mem::take(&mut self.watched));
        }
    }

    /// Creates the epoll and the thread, unless this process has them, and returns the epoll.
    fn run(&mut self) -> Result<RawFd, Errno> {
        if let Some(epoll) = self.epoll() {
            return Ok(epoll);
        }
        if let Some(Listener { thread, .. }) = self.listener.take() {
            // It is the parent's.
            mem::forget(thread);
        }
        let (owner, stop_fd) = (host::epoll_create()?, host::eventfd()?);
        let epoll = owner.0;
        host::epoll_add(epoll, stop_fd.0, STOP)?;
        for (&key, (host_fd, _)) in &self.watched {
            // A file that the host no longer knows is about to be removed.
            let _ = host::epoll_add(epoll, host_fd.in_use().get(), key);
        }
        let start = thread::Builder::new()
            .name("fdtable host".into())
            .stack_size(64 * 1024);
        let started = host::with_signals_blocked(|| start.spawn(move || listen(epoll)));
        self.listener = Some(Listener {
            epoll: owner,
            stop_fd,
            thread: started.map_err(|_| Errno::EAGAIN)?,
        });
        self.generation = host_fork::generation();
        Ok(epoll)
    }

    /// Takes the thread and its epoll out, if this process has them.
    fn stop(&mut self) -> Option<Listener> {
        self.epoll()?;
        self.listener.take()
    }
}

/// Runs `body` while neither this thread nor the worker of callbacks exists. If they existed
/// before, they are started again afterwards, with the credentials of the calling thread.
///
/// Calls that change credentials use it. A call that changes one thread (`capset`) would leave
/// these threads with other credentials, and the C library ends the process if a later `setuid`
/// succeeds in one thread and fails in another. A thread of the program that starts one of them
/// meanwhile decides its credentials.
pub(crate) fn without_threads<R>(body: impl FnOnce() -> R) -> R {
    let stopped = REACTOR.get().and_then(|reactor| reactor.lock().stop());
    let is_stopped = stopped.is_some();
    if let Some(stopped) = stopped {
        // The thread enters the freezer before it ends, and a fork may wait for the caller.
        let _outside = host_fork::blocking_section();
        host::with_signals_blocked(|| stopped.join());
    }
    let result = rcu::without_thread(body);
    if is_stopped {
        rewatch();
    }
    result
}

impl Listener {
    fn join(self) {
        // It cannot fail: the counter is 0.
        let _ = host::write(self.stop_fd.0, Wait::Never, &1_u64.to_ne_bytes());
        // It does not panic.
        let _ = self.thread.join();
    }
}

/// Watches again what the parent watched, after a host fork.
pub(crate) fn rewatch() {
    let _private = fdtable_shm::leave();
    if let Some(reactor) = REACTOR.get() {
        let mut reactor = reactor.lock();
        reactor.leave_to_parent();
        if !reactor.watched.is_empty() {
            // Without a thread, watchers see only what they check themselves.
            let _ = reactor.run();
        }
    }
}

fn reactor() -> &'static Mutex<Reactor> {
    let _private = fdtable_shm::leave();
    REACTOR.get_or_init(Mutex::default)
}

/// Body of the thread.
fn listen(epoll: RawFd) {
    loop {
        let Ok(ready) = host::epoll_wait(epoll, -1) else {
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        let is_stop = |&(key, events): &(u64, i16)| key == STOP && events & libc::POLLIN != 0;
        if ready.iter().any(is_stop) {
            return;
        }
        let _inside = host_fork::enter();
        for &(key, events) in &ready {
            let watch = reactor()
                .lock()
                .watched
                .get(&key)
                .and_then(|(_, watch)| watch.upgrade());
            if let Some(watch) = watch {
                watch.changed(with_aliases(events));
            }
        }
    }
}

/// Adds the second name of each event that has two.
fn with_aliases(events: i16) -> Events {
    let mut events = Events::from_bits_truncate(u32::from(events.cast_unsigned()));
    if events.intersects(Events::READABLE) {
        events |= Events::READABLE;
    }
    if events.intersects(Events::WRITABLE) {
        events |= Events::WRITABLE;
    }
    events
}
