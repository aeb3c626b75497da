//! A host set of this process stands for the host's: a queue of events.

use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::*;
use crate::event::{EpollCreateFlags, EpollFlags, EventFd, EventFdFlags, FileId, WaitQueue};
use crate::object::file;
use crate::{Object, RcuObject};
use fdtable::FileRef;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Default)]
struct State {
    ready: VecDeque<EpollEvent>,
    /// Wake-ups that no wait has taken.
    woken: usize,
    waiting: usize,
    watchers: WaitQueue,
    is_released: bool,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    fn push(&self, data: u64) {
        let mut state = self.state.lock();
        state.ready.push_back(EpollEvent::new(EpollFlags::IN, data));
        let wakeups = state.watchers.wake(Events::READABLE);
        drop(state);
        self.changed.notify_one();
        wakeups.run();
    }

    /// Waits until as many threads wait in the set.
    fn wait_for_waiters(&self, count: usize) {
        while self.state.lock().waiting != count {
            thread::yield_now();
        }
    }
}

impl HostSet for Queue {
    fn wait(&self, events: &mut [EpollEvent], until: Option<Instant>) -> Result<usize, Errno> {
        let mut state = self.state.lock();
        state.waiting += 1;
        while state.ready.is_empty() && state.woken == 0 {
            let end = until.unwrap_or_else(|| Instant::now() + 100 * SECOND);
            if self.changed.wait_until(&mut state, end).timed_out() {
                break;
            }
        }
        state.waiting -= 1;
        if state.ready.is_empty() {
            state.woken = 0;
        }
        Ok(take(&mut state, events))
    }

    fn collect(&self, events: &mut [EpollEvent]) -> usize {
        take(&mut self.state.lock(), events)
    }

    fn members(&self) -> Vec<(RawFd, EpollEvent)> {
        vec![(77, EpollEvent::new(EpollFlags::IN, 7))]
    }

    fn release(&self) {
        self.state.lock().is_released = true;
    }
}

fn take(state: &mut State, events: &mut [EpollEvent]) -> usize {
    let count = events.len().min(state.ready.len());
    for (place, event) in events.iter_mut().zip(state.ready.drain(..count)) {
        *place = event;
    }
    count
}

impl Watcher for Queue {
    fn wake(&self, _events: Events) {
        self.state.lock().woken += 1;
        self.changed.notify_one();
    }
}

impl Pollee for Queue {
    fn events(&self) -> Events {
        match self.state.lock().ready.is_empty() {
            true => Events::empty(),
            false => Events::READABLE,
        }
    }

    fn watch(&self, watcher: &Arc<dyn Watcher>, interest: Events, file: Option<FileId>) {
        self.state.lock().watchers.watch(watcher, interest, file);
    }

    fn unwatch(&self, watcher: &Arc<dyn Watcher>) {
        self.state.lock().watchers.unwatch(watcher);
    }

    fn forget(&self, file: FileId) {
        let wakeups = self.state.lock().watchers.forget(file);
        wakeups.run();
    }
}

/// Makes an epoll with a host set.
fn both() -> (Epoll, Arc<Queue>) {
    let epoll = Epoll::new(EpollCreateFlags::empty());
    let queue = begin(&epoll);
    (epoll, queue)
}

fn begin(epoll: &Epoll) -> Arc<Queue> {
    let queue = Arc::new(Queue::default());
    let made = Arc::clone(&queue) as Arc<dyn HostSet>;
    epoll.host_set_or_init(|| Ok(made)).unwrap();
    queue
}

fn counter(count: u64) -> FileRef<RcuObject> {
    file(EventFd::new(count, EventFdFlags::empty()).unwrap()).unwrap()
}

fn asked(data: u64) -> EpollEvent {
    EpollEvent::new(EpollFlags::IN, data)
}

/// Waits, and returns the data of the events, in order.
fn found(epoll: &Epoll, room: usize, timeout: Option<Duration>) -> Vec<u64> {
    let mut events = vec![EpollEvent::default(); room];
    let count = epoll.wait(&mut events, timeout).unwrap();
    events[..count].iter().map(|event| event.data).collect()
}

#[test]
fn a_wait_returns_members_of_both_kinds() {
    let (epoll, queue) = both();
    let ours = counter(1);
    epoll.add(3, &ours, asked(30)).unwrap();
    queue.push(1);
    assert_eq!(found(&epoll, 4, None), [30, 1]);
    assert_eq!(found(&epoll, 4, Some(Duration::ZERO)), [30]);
    epoll.delete(3, &ours).unwrap();
    assert_eq!(found(&epoll, 4, Some(Duration::from_millis(1))), [0; 0]);
    queue.push(2);
    assert_eq!(found(&epoll, 4, Some(Duration::ZERO)), [2]);
}

#[test]
fn members_that_stay_ready_do_not_starve_the_host() {
    let (epoll, queue) = both();
    let ours = counter(1);
    epoll.add(3, &ours, asked(30)).unwrap();
    queue.push(1);
    let mut all: Vec<_> = (0..2).flat_map(|_| found(&epoll, 1, None)).collect();
    all.sort_unstable();
    assert_eq!(all, [1, 30]);
}

#[test]
fn a_member_of_ours_wakes_a_thread_in_the_host() {
    let (epoll, queue) = both();
    let ours = counter(0);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| found(&epoll, 4, None));
        queue.wait_for_waiters(1);
        epoll.add(3, &ours, asked(30)).unwrap();
        ours.write(&1_u64.to_ne_bytes()).unwrap();
        assert_eq!(waiter.join().unwrap(), [30]);
    });
}

#[test]
fn a_thread_that_leaves_with_an_event_of_the_host_wakes_the_next() {
    let (epoll, queue) = both();
    let first = epoll.wait_in_host().unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| found(&epoll, 4, None));
        queue.wait_for_waiters(1);
        let ours = counter(1);
        epoll.add(3, &ours, asked(30)).unwrap();
        // The wake-up was for any thread. If the first one has taken it, it must pass it on.
        queue.state.lock().woken = 0;
        drop(first);
        assert_eq!(waiter.join().unwrap(), [30]);
    });
}

#[test]
fn a_thread_that_slept_before_there_was_a_host_set_waits_in_it() {
    let epoll = Epoll::new(EpollCreateFlags::empty());
    thread::scope(|scope| {
        let waiter = scope.spawn(|| found(&epoll, 4, None));
        thread::sleep(Duration::from_millis(20));
        let queue = begin(&epoll);
        queue.wait_for_waiters(1);
        queue.push(5);
        assert_eq!(waiter.join().unwrap(), [5]);
    });
}

#[test]
fn a_wait_begins_in_the_host_unless_a_member_of_ours_may_be_ready() {
    let epoll = Epoll::new(EpollCreateFlags::empty());
    assert!(epoll.wait_in_host().is_none());
    let _queue = begin(&epoll);
    assert!(epoll.wait_in_host().is_some());
    let ours = counter(0);
    epoll.add(3, &ours, asked(30)).unwrap();
    assert!(epoll.wait_in_host().is_some());
    ours.write(&1_u64.to_ne_bytes()).unwrap();
    assert!(epoll.wait_in_host().is_none());
    epoll.delete(3, &ours).unwrap();
    assert!(epoll.wait_in_host().is_some());
    epoll.revoke();
    assert!(epoll.wait_in_host().is_none());
}

#[test]
fn an_epoll_in_an_epoll_is_ready_for_its_files_of_the_host() {
    let outer = Epoll::new(EpollCreateFlags::empty());
    let inner = file(Epoll::new(EpollCreateFlags::empty())).unwrap();
    outer.add(4, &inner, asked(40)).unwrap();
    // The set of the inner one comes later than its watcher.
    let queue = begin(super::super::as_epoll(&**inner).unwrap());
    assert_eq!(found(&outer, 4, Some(Duration::ZERO)), [0; 0]);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| found(&outer, 4, None));
        queue.push(1);
        assert_eq!(waiter.join().unwrap(), [40]);
    });
    outer.delete(4, &inner).unwrap();
    assert!(queue.state.lock().watchers.is_empty());
}

#[test]
fn a_released_epoll_releases_its_host_set() {
    let (epoll, queue) = both();
    let open = file(epoll).unwrap();
    assert!(!queue.state.lock().is_released);
    drop(open);
    assert!(queue.state.lock().is_released);
}

#[test]
fn the_members_include_those_of_the_host() {
    let (epoll, _queue) = both();
    assert_eq!(epoll.members(), [(77, asked(7))]);
}

#[test]
fn a_revoked_epoll_wakes_the_threads_in_the_host() {
    let (epoll, queue) = both();
    thread::scope(|scope| {
        let waiters = [(); 3].map(|()| {
            scope.spawn(|| {
                let mut events = [EpollEvent::default(); 4];
                epoll.wait(&mut events, Some(5 * SECOND))
            })
        });
        queue.wait_for_waiters(3);
        let begun = Instant::now();
        epoll.revoke();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Err(Errno::EIO));
        }
        assert!(begun.elapsed() < 4 * SECOND);
    });
}
