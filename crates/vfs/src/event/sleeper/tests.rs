//! What breaks if `wait` is wrong: a thread sleeps forever, or holds a place that it does not need.

use std::thread;
use std::time::Duration;

use super::*;
use crate::call::{Call, within_time};
use crate::event::Wakeups;

/// Things that can be taken, and who waits for one.
#[derive(Default)]
struct Shop {
    things: usize,
    closed: bool,
    queue: WaitQueue,
}

impl Shop {
    fn put(&mut self) -> Wakeups {
        self.things += 1;
        self.queue.wake(Events::IN)
    }

    /// Takes one, and passes the wake-up on if there are more.
    fn take(&mut self) -> Option<(bool, Wakeups)> {
        if self.things > 0 {
            self.things -= 1;
            let left = self.things > 0;
            let next = left.then(|| self.queue.pass_on(Events::IN));
            return Some((true, next.unwrap_or_default()));
        }
        self.closed.then(|| (false, Wakeups::default()))
    }
}

fn take(shop: &Mutex<Shop>, deadline: Option<Instant>) -> Option<bool> {
    wait(
        shop,
        |shop| &mut shop.queue,
        Events::IN,
        deadline,
        Shop::take,
    )
    .map(|(taken, _)| taken)
}

fn put(shop: &Mutex<Shop>) {
    let woken = shop.lock().put();
    woken.run();
}

fn close(shop: &Mutex<Shop>) {
    let woken = {
        let mut shop = shop.lock();
        shop.closed = true;
        shop.queue.wake_all(Events::IN)
    };
    woken.run();
}

#[test]
fn a_deadline_ends_the_wait_and_leaves_no_place() {
    let shop = Mutex::new(Shop::default());
    let soon = Instant::now() + Duration::from_millis(20);
    assert_eq!(take(&shop, Some(soon)), None);
    assert!(Instant::now() >= soon);
    assert!(shop.lock().queue.is_empty());
}

#[test]
fn a_deadline_that_has_passed_does_not_hide_what_is_there() {
    let shop = Mutex::new(Shop::default());
    put(&shop);
    let past = Instant::now();
    assert_eq!(take(&shop, Some(past)), Some(true));
    assert_eq!(take(&shop, Some(past)), None);
}

/// A thread may have been woken for something else, and learns of it only here.
#[test]
fn who_returns_for_nothing_keeps_its_place() {
    let shop = Arc::new(Mutex::new(Shop::default()));
    let waiting = {
        let shop = Arc::clone(&shop);
        Call::start_waiting(move || {
            // The first sleep returns at once.
            thread::current().unpark();
            take(&shop, None)
        })
    };
    assert_eq!(shop.lock().queue.next_ticket(), 1);
    put(&shop);
    assert_eq!(waiting.result(), Some(true));
}

/// Its time is up, and it is in the queue still, for it cannot get the lock: so it is chosen. If it
/// went without a look, the next one would sleep beside what there is to take.
#[test]
fn who_is_chosen_after_its_time_looks_nevertheless() {
    let shop = Arc::new(Mutex::new(Shop::default()));
    // Enough to get both to sleep.
    let deadline = Instant::now() + Duration::from_millis(300);
    let hasty = {
        let shop = Arc::clone(&shop);
        Call::start(move || take(&shop, Some(deadline)))
    };
    while shop.lock().queue.next_ticket() < 1 {
        thread::yield_now();
    }
    let patient = {
        let shop = Arc::clone(&shop);
        Call::start(move || take(&shop, None))
    };
    while shop.lock().queue.next_ticket() < 2 {
        thread::yield_now();
    }
    let woken = {
        let mut locked = shop.lock();
        let left = deadline.saturating_duration_since(Instant::now());
        thread::sleep(left + Duration::from_millis(50));
        locked.put()
    };
    woken.run();
    assert_eq!(hasty.result(), Some(true));
    patient.assert_waiting();
    put(&shop);
    assert_eq!(patient.result(), Some(true));
}

/// Those who give up share the queue with those who do not. If one who was chosen went away without
/// a look, a thing would lie there while somebody sleeps.
#[test]
fn nobody_sleeps_while_there_is_something_to_take() {
    const THINGS: usize = 4_000;
    let body = || {
        let shop = &Mutex::new(Shop::default());
        let taken = thread::scope(|scope| {
            let patient = || (0..).take_while(|_| take(shop, None) == Some(true)).count();
            let hasty = || {
                let mut count = 0;
                loop {
                    let deadline = Instant::now() + Duration::from_micros(30);
                    match take(shop, Some(deadline)) {
                        Some(true) => count += 1,
                        Some(false) => return count,
                        None => {}
                    }
                }
            };
            let takers = [
                scope.spawn(patient),
                scope.spawn(hasty),
                scope.spawn(patient),
            ];
            for round in 0..THINGS {
                put(shop);
                if round % 16 == 0 {
                    // Until all is taken: a thing that nobody is woken for stays, and this hangs.
                    while shop.lock().things > 0 {
                        thread::yield_now();
                    }
                }
            }
            while shop.lock().things > 0 {
                thread::yield_now();
            }
            close(shop);
            takers.map(|taker| taker.join().unwrap())
        });
        assert_eq!(taken.iter().sum::<usize>(), THINGS);
        assert!(shop.lock().queue.is_empty());
    };
    within_time(body);
}
