//! If a queue is wrong, a thread sleeps forever, or many wake for one byte.

use fdtable_shm::Mutex;

use super::*;

#[derive(Default)]
struct Recorder {
    notifications: Mutex<Vec<Option<Events>>>,
    dead: bool,
    exclusive: bool,
    has_no_waiter: bool,
}

impl Watcher for Recorder {
    fn wake(&self, events: Events) {
        self.notifications.lock().push(Some(events));
    }

    fn gone(&self) {
        self.notifications.lock().push(None);
    }

    fn is_alive(&self) -> bool {
        !self.dead
    }

    fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    fn offer(&self, events: Events) -> bool {
        self.wake(events);
        !self.has_no_waiter
    }
}

fn watcher() -> (Arc<Recorder>, Arc<dyn Watcher>) {
    let recorder = Arc::new(Recorder::default());
    (Arc::clone(&recorder), recorder)
}

fn count(recorder: &Recorder) -> usize {
    recorder.notifications.lock().len()
}

#[test]
fn a_change_wakes_one_sleeper_and_all_watchers() {
    let mut queue = WaitQueue::new();
    let ((one, first), (other, second), (poll, third)) = (watcher(), watcher(), watcher());
    queue.sleep_on(first, Events::IN);
    queue.sleep_on(second, Events::IN);
    queue.watch(&third, Events::IN, None);
    queue.wake(Events::IN).run();
    assert_eq!((count(&one), count(&other), count(&poll)), (1, 0, 1));
    queue.wake(Events::IN).run();
    assert_eq!((count(&one), count(&other), count(&poll)), (1, 1, 2));
    queue.unwatch(&third);
    assert!(queue.is_empty());
}

#[test]
fn a_change_wakes_only_waiters_with_that_interest() {
    let mut queue = WaitQueue::new();
    let ((reader, first), (writer, second)) = (watcher(), watcher());
    queue.sleep_on(first, Events::IN);
    queue.sleep_on(second, Events::OUT);
    queue.wake(Events::OUT).run();
    assert_eq!((count(&reader), count(&writer)), (0, 1));
    queue.wake_all(Events::HUP | Events::IN).run();
    assert_eq!(count(&reader), 1);
}

#[test]
fn a_wake_up_that_is_passed_on_reaches_no_watcher() {
    let mut queue = WaitQueue::new();
    let ((sleeper, first), (poll, second)) = (watcher(), watcher());
    queue.sleep_on(first, Events::IN);
    queue.watch(&second, Events::IN, None);
    queue.pass_on(Events::IN).run();
    assert_eq!((count(&sleeper), count(&poll)), (1, 0));
}

#[test]
fn a_watcher_that_registers_again_has_both_interests_and_its_place() {
    let mut queue = WaitQueue::new();
    let ((recorder, old), (_, young)) = (watcher(), watcher());
    queue.watch(&old, Events::IN, None);
    queue.watch(&young, Events::IN, None);
    queue.watch(&old, Events::OUT, None);
    let order: Vec<_> = queue.watchers().map(|(watcher, ..)| watcher).collect();
    assert!(Arc::ptr_eq(order[0], &young) && Arc::ptr_eq(order[1], &old) && order.len() == 2);
    queue.wake(Events::IN).run();
    queue.wake(Events::OUT).run();
    assert_eq!(count(&recorder), 2);
}

#[test]
fn an_end_reaches_every_watcher_whatever_its_interest() {
    let mut queue = WaitQueue::new();
    let (poll, watcher) = watcher();
    queue.watch(&watcher, Events::empty(), None);
    queue.wake(Events::HUP).run();
    assert_eq!(*poll.notifications.lock(), [Some(Events::HUP)]);
}

#[test]
fn a_watcher_of_a_released_file_is_notified_and_removed() {
    let mut queue = WaitQueue::new();
    let ((gone, first), (stays, second)) = (watcher(), watcher());
    let (file, other) = (FileId::of(&gone), FileId::of(&stays));
    queue.watch(&first, Events::IN, Some(file));
    queue.watch(&second, Events::IN, Some(other));
    queue.forget(file).run();
    queue.wake(Events::IN).run();
    assert_eq!(*gone.notifications.lock(), [None]);
    assert_eq!(*stays.notifications.lock(), [Some(Events::IN)]);
}

#[test]
fn a_sleeper_that_no_longer_exists_takes_no_wake_up() {
    let mut queue = WaitQueue::new();
    let dead: Arc<dyn Watcher> = Arc::new(Recorder {
        dead: true,
        ..Recorder::default()
    });
    let (recorder, alive) = watcher();
    queue.sleep_on(dead, Events::IN);
    queue.sleep_on(alive, Events::IN);
    queue.wake(Events::IN).run();
    assert_eq!(count(&recorder), 1);
}

#[test]
fn a_ticket_is_held_until_the_sleeper_is_chosen_or_leaves() {
    let mut queue = WaitQueue::new();
    let ((_, first), (recorder, second), (last, third)) = (watcher(), watcher(), watcher());
    let tickets = [first, second, third].map(|sleeper| queue.sleep_on(sleeper, Events::IN));
    queue.leave(tickets[0]);
    queue.wake(Events::IN).run();
    assert_eq!((count(&recorder), count(&last)), (1, 0));
    assert_eq!(
        tickets.map(|ticket| queue.holds(ticket)),
        [false, false, true]
    );
    queue.leave(tickets[1]);
    queue.leave(tickets[2]);
    assert!(queue.is_empty());
}

fn exclusive(has_no_waiter: bool) -> (Arc<Recorder>, Arc<dyn Watcher>) {
    let recorder = Arc::new(Recorder {
        exclusive: true,
        has_no_waiter,
        ..Recorder::default()
    });
    (Arc::clone(&recorder), recorder)
}

#[test]
fn a_change_is_offered_up_to_the_first_that_wakes_a_thread() {
    let mut queue = WaitQueue::new();
    let ((idle, first), (busy, second)) = (exclusive(true), exclusive(false));
    let ((spared, third), (poll, fourth)) = (exclusive(false), watcher());
    for watcher in [&first, &second, &third, &fourth] {
        queue.watch(watcher, Events::IN, None);
    }
    queue.wake(Events::IN).run();
    let counts = [&idle, &busy, &spared, &poll].map(|recorder| count(recorder));
    assert_eq!(counts, [1, 1, 0, 1]);
    // Each change is offered separately, even if two are delivered together.
    let two = queue.wake(Events::IN).and(queue.wake(Events::IN));
    two.run();
    let counts = [&idle, &busy, &spared, &poll].map(|recorder| count(recorder));
    assert_eq!(counts, [3, 3, 0, 3]);
    queue.wake_all(Events::IN).run();
    assert_eq!(count(&spared), 1);
}

#[test]
fn an_exclusive_watcher_does_not_share_with_sleepers() {
    let mut queue = WaitQueue::new();
    let ((recorder, first), (reader, second)) = (exclusive(false), watcher());
    queue.watch(&first, Events::IN, None);
    queue.sleep_on(second, Events::IN);
    queue.wake(Events::IN).run();
    assert_eq!((count(&recorder), count(&reader)), (1, 1));
    queue.pass_on(Events::IN).run();
    assert_eq!((count(&recorder), count(&reader)), (1, 1));
}

#[test]
fn a_notification_of_watchers_wakes_no_sleeper() {
    let mut queue = WaitQueue::new();
    let ((reader, first), (poll, second)) = (watcher(), watcher());
    queue.sleep_on(first, Events::IN);
    queue.watch(&second, Events::IN, None);
    queue.notify_watchers(Events::IN).run();
    assert_eq!((count(&reader), count(&poll)), (0, 1));
}
