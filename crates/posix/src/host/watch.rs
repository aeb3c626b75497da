//! Waiting for files of the host together with files of ours.
//!
//! `poll` and `epoll` here sleep until somebody wakes them, and the host wakes nobody here. So one
//! thread of this library waits, in an epoll of the host, for all files of the host that somebody here
//! watches, and passes on what it learns. It is started by the first who watches such a file, has all
//! signals blocked, and stays. A program that never waits for a file of the host never has it.
//!
//! The epoll tells *edges*: a file that stays ready is told once, as our own files do. Who begins to
//! watch looks for itself first.
//!
//! The child of a fork of the host does not have the thread, and shares the epoll with its parent. So it
//! makes both anew, when it first watches a file or waits ([`revive`]).

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use fdtable::{freezer, host_fork};
use fdtable_vfs::Errno;
use fdtable_vfs::event::{Events, FileId, Pollee, WaitQueue, Watcher};
use parking_lot::Mutex;

use crate::host;

/// What is asked of the host: everything.
const ASKED: i16 = libc::POLLIN
    | libc::POLLOUT
    | libc::POLLPRI
    | libc::POLLRDNORM
    | libc::POLLWRNORM
    | libc::POLLRDHUP;

/// What of an open file of the host can be watched.
#[derive(Debug)]
pub(crate) struct HostWatch {
    myself: Weak<HostWatch>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The host's number, until the open file is released.
    number: Option<RawFd>,
    queue: WaitQueue,
    /// The name under which the thread knows the file, if it does.
    key: Option<u64>,
}

/// What the thread waits for.
struct Reactor {
    epoll: RawFd,
    /// The process that the epoll and the thread are of.
    generation: u32,
    next_key: u64,
    watched: HashMap<u64, (RawFd, Weak<HostWatch>)>,
}

static REACTOR: OnceLock<Mutex<Reactor>> = OnceLock::new();

impl HostWatch {
    pub(crate) fn new(number: RawFd) -> Arc<Self> {
        Arc::new_cyclic(|myself| HostWatch {
            myself: Weak::clone(myself),
            state: Mutex::new(State {
                number: Some(number),
                queue: WaitQueue::new(),
                key: None,
            }),
        })
    }

    /// Ends the use of the number, which is about to be closed.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        if let Some(number) = state.number.take() {
            state.end_watch(number);
        }
    }

    /// Passes on what the host has told.
    fn changed(&self, events: Events) {
        let wakeups = self.state.lock().queue.wake(events);
        wakeups.run();
    }
}

impl State {
    fn end_watch(&mut self, number: RawFd) {
        if let (Some(key), Some(reactor)) = (self.key.take(), REACTOR.get()) {
            reactor.lock().remove(key, number);
        }
    }

    fn end_watch_of_nobody(&mut self) {
        if let (true, Some(number)) = (self.queue.is_empty(), self.number) {
            self.end_watch(number);
        }
    }
}

impl Pollee for HostWatch {
    fn events(&self) -> Events {
        match self.state.lock().number {
            Some(number) => host::ready(number, ASKED).map_or(Events::ERR, spelled),
            None => Events::empty(),
        }
    }

    fn watch(&self, watcher: &Arc<dyn Watcher>, interest: Events, file: Option<FileId>) {
        let mut state = self.state.lock();
        state.queue.watch(watcher, interest, file);
        if let (None, Some(number)) = (state.key, state.number) {
            // A host that refuses never wakes the watcher, which finds what it finds by looking.
            state.key = reactor().lock().add(number, &self.myself).ok();
        }
    }

    fn unwatch(&self, watcher: &Arc<dyn Watcher>) {
        let mut state = self.state.lock();
        state.queue.unwatch(watcher);
        state.end_watch_of_nobody();
    }

    fn forget(&self, file: FileId) {
        let mut state = self.state.lock();
        let wakeups = state.queue.forget(file);
        state.end_watch_of_nobody();
        drop(state);
        wakeups.run();
    }
}

impl Reactor {
    /// Makes one whose thread does not run yet.
    fn new() -> Self {
        Reactor {
            epoll: -1,
            generation: 0,
            next_key: 0,
            watched: HashMap::new(),
        }
    }

    fn add(&mut self, number: RawFd, watch: &Weak<HostWatch>) -> Result<u64, Errno> {
        self.run()?;
        let key = self.next_key;
        host::epoll_add(self.epoll, number, key)?;
        self.next_key += 1;
        self.watched.insert(key, (number, Weak::clone(watch)));
        Ok(key)
    }

    fn remove(&mut self, key: u64, number: RawFd) {
        self.watched.remove(&key);
        if self.runs() {
            host::epoll_remove(self.epoll, number);
        }
    }

    fn runs(&self) -> bool {
        self.epoll >= 0 && self.generation == host_fork::generation()
    }

    /// Makes the epoll and the thread, unless this process has them.
    fn run(&mut self) -> Result<(), Errno> {
        if self.runs() {
            return Ok(());
        }
        if self.epoll >= 0 {
            // It is the parent's.
            host::close(self.epoll);
            self.epoll = -1;
        }
        let epoll = host::epoll_create()?;
        for (&key, &(number, _)) in &self.watched {
            // What the host does not know any more is about to be removed.
            let _ = host::epoll_add(epoll, number, key);
        }
        let start = thread::Builder::new()
            .name("fdtable host".into())
            .stack_size(64 * 1024);
        let started = host::with_signals_blocked(|| start.spawn(move || listen(epoll)));
        if started.is_err() {
            host::close(epoll);
            return Err(Errno::EAGAIN);
        }
        self.epoll = epoll;
        self.generation = host_fork::generation();
        Ok(())
    }
}

/// Has what the parent watched be watched here too, after a fork of the host.
pub(crate) fn revive() {
    if let Some(reactor) = REACTOR.get() {
        let mut reactor = reactor.lock();
        if !reactor.watched.is_empty() {
            // Without a thread there is nobody to tell that there is none.
            let _ = reactor.run();
        }
    }
}

fn reactor() -> &'static Mutex<Reactor> {
    REACTOR.get_or_init(|| Mutex::new(Reactor::new()))
}

/// The thread.
fn listen(epoll: RawFd) {
    loop {
        let Ok(told) = host::epoll_wait(epoll) else {
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        let _inside = freezer::enter();
        for &(key, events) in &told {
            let watch = reactor()
                .lock()
                .watched
                .get(&key)
                .and_then(|(_, watch)| watch.upgrade());
            if let Some(watch) = watch {
                watch.changed(spelled(events));
            }
        }
    }
}

/// Says in both spellings what the host said in one.
fn spelled(events: i16) -> Events {
    let mut events = Events::from_bits_truncate(u32::from(events.cast_unsigned()));
    if events.intersects(Events::READABLE) {
        events |= Events::READABLE;
    }
    if events.intersects(Events::WRITABLE) {
        events |= Events::WRITABLE;
    }
    events
}
