//! If `wait` is wrong, a thread sleeps forever, or keeps an unneeded entry in the queue.

#[cfg(target_os = "linux")]
use std::cell::Cell;
use std::thread;
use std::time::Duration;

#[cfg(target_os = "linux")]
use fdtable_parker as parker;

use super::*;
use crate::call::{Call, within_time};
use crate::event::Wakeups;

/// A count of items to take, and the waiters for one.
#[derive(Default)]
struct Stock {
    items: usize,
    closed: bool,
    queue: WaitQueue,
}

impl Stock {
    fn put(&mut self) -> Wakeups {
        self.items += 1;
        self.queue.wake(Events::IN)
    }

    /// Takes an item, and passes the wake-up on if there are more.
    fn take(&mut self) -> Option<Result<(bool, Wakeups), Errno>> {
        if self.items > 0 {
            self.items -= 1;
            let left = self.items > 0;
            let next = left.then(|| self.queue.pass_on(Events::IN));
            return Some(Ok((true, next.unwrap_or_default())));
        }
        self.closed.then(|| Ok((false, Wakeups::default())))
    }
}

fn take(stock: &Mutex<Stock>, deadline: Option<Instant>) -> Option<bool> {
    wait(
        stock,
        |stock| &mut stock.queue,
        Events::IN,
        Limit::new(deadline, Restart::Allowed),
        Stock::take,
    )
    .ok()
    .map(|(taken, _)| taken)
}

fn put(stock: &Mutex<Stock>) {
    let woken = stock.lock().put();
    woken.run();
}

fn close(stock: &Mutex<Stock>) {
    let woken = {
        let mut stock = stock.lock();
        stock.closed = true;
        stock.queue.wake_all(Events::IN)
    };
    woken.run();
}

#[test]
fn a_deadline_ends_the_wait_and_leaves_no_entry() {
    let stock = Mutex::new(Stock::default());
    let soon = Instant::now() + Duration::from_millis(20);
    assert_eq!(take(&stock, Some(soon)), None);
    assert!(Instant::now() >= soon);
    assert!(stock.lock().queue.is_empty());
}

#[test]
fn a_deadline_that_has_passed_does_not_hide_what_is_there() {
    let stock = Mutex::new(Stock::default());
    put(&stock);
    let past = Instant::now();
    assert_eq!(take(&stock, Some(past)), Some(true));
    assert_eq!(take(&stock, Some(past)), None);
}

/// A thread may have been unparked for another reason, and `wait` has to handle it.
#[test]
fn a_spurious_wake_up_keeps_its_entry() {
    let stock = Arc::new(Mutex::new(Stock::default()));
    let waiting = {
        let stock = Arc::clone(&stock);
        Call::start_waiting(move || {
            // The first sleep returns at once.
            Sleeper::current().wake(Events::IN);
            take(&stock, None)
        })
    };
    assert_eq!(stock.lock().queue.next_ticket(), 1);
    put(&stock);
    assert_eq!(waiting.result(), Some(true));
}

/// Its deadline passes while it is still in the queue, because the lock is held: so it is chosen.
/// If it left without another look, the next sleeper would sleep although there is an item.
#[test]
fn a_sleeper_chosen_after_its_deadline_looks_again() {
    let stock = Arc::new(Mutex::new(Stock::default()));
    // Long enough for both to fall asleep.
    let deadline = Instant::now() + Duration::from_millis(300);
    let hasty = {
        let stock = Arc::clone(&stock);
        Call::start(move || take(&stock, Some(deadline)))
    };
    while stock.lock().queue.next_ticket() < 1 {
        thread::yield_now();
    }
    let patient = {
        let stock = Arc::clone(&stock);
        Call::start(move || take(&stock, None))
    };
    while stock.lock().queue.next_ticket() < 2 {
        thread::yield_now();
    }
    let woken = {
        let mut locked = stock.lock();
        let left = deadline.saturating_duration_since(Instant::now());
        thread::sleep(left + Duration::from_millis(50));
        locked.put()
    };
    woken.run();
    assert_eq!(hasty.result(), Some(true));
    patient.assert_waiting();
    put(&stock);
    assert_eq!(patient.result(), Some(true));
}

#[cfg(target_os = "linux")]
thread_local! {
    /// Action of the thread before its next sleep.
    static BEFORE_SLEEP: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
}

/// Interrupts the next sleep of the calling thread, after `before`.
#[cfg(target_os = "linux")]
fn interrupt_next(before: impl FnOnce() + 'static) {
    run_before_sleeps(|| {
        if let Some(before) = BEFORE_SLEEP.take() {
            before();
            parker::interrupt(false);
        }
    });
    BEFORE_SLEEP.set(Some(Box::new(before)));
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_wait_leaves_no_entry() {
    let stock = Mutex::new(Stock::default());
    interrupt_next(|| ());
    let ended = wait(
        &stock,
        |stock| &mut stock.queue,
        Events::IN,
        Limit::FOREVER,
        Stock::take,
    );
    assert_eq!(ended.err(), Some(Errno::EINTR));
    assert!(stock.lock().queue.is_empty());
    put(&stock);
    assert_eq!(take(&stock, None), Some(true));
}

/// If it did not pass the wake-up on, the other taker would sleep although there is an item.
#[cfg(target_os = "linux")]
#[test]
fn a_chosen_taker_that_is_interrupted_wakes_the_next() {
    let stock = Arc::new(Mutex::new(Stock::default()));
    let interrupted = {
        let stock = Arc::clone(&stock);
        Call::start(move || {
            let shared = Arc::clone(&stock);
            interrupt_next(move || {
                while shared.lock().queue.next_ticket() < 2 {
                    thread::yield_now();
                }
                put(&shared);
            });
            take(&stock, None)
        })
    };
    while stock.lock().queue.next_ticket() < 1 {
        thread::yield_now();
    }
    let next = {
        let stock = Arc::clone(&stock);
        Call::start(move || take(&stock, None))
    };
    assert_eq!(interrupted.result(), None);
    assert_eq!(next.result(), Some(true));
}

/// Takers with and without a deadline share the queue. If a chosen one left without another look,
/// an item would be left while a taker sleeps.
#[test]
fn no_taker_sleeps_while_there_is_an_item() {
    const ITEMS: usize = 4_000;
    let body = || {
        let stock = &Mutex::new(Stock::default());
        let taken = thread::scope(|scope| {
            let patient = || {
                (0..)
                    .take_while(|_| take(stock, None) == Some(true))
                    .count()
            };
            let hasty = || {
                let mut count = 0;
                loop {
                    let deadline = Instant::now() + Duration::from_micros(30);
                    match take(stock, Some(deadline)) {
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
            for round in 0..ITEMS {
                put(stock);
                if round % 16 == 0 {
                    // Until all are taken: an item for which no taker is woken stays, and this
                    // hangs.
                    while stock.lock().items > 0 {
                        thread::yield_now();
                    }
                }
            }
            while stock.lock().items > 0 {
                thread::yield_now();
            }
            close(stock);
            takers.map(|taker| taker.join().unwrap())
        });
        assert_eq!(taken.iter().sum::<usize>(), ITEMS);
        assert!(stock.lock().queue.is_empty());
    };
    within_time(body);
}
