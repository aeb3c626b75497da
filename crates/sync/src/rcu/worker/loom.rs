//! Models of the worker. A call that it misses shows as a thread that waits forever.

use core::ptr::NonNull;

use ::loom::sync::Notify;

use super::*;
use crate::model::Preemptions::{Any, AtMost};
use crate::model::{Ends, explore, join, spawn};
use crate::platform::Arc;
use crate::rcu::{Effect, Head, call_later};

/// Says that a callback has run.
#[derive(Clone)]
struct Ran {
    notify: Arc<Notify>,
    ends: Ends,
}

impl Ran {
    /// Waits until the callback has run once.
    fn wait(&self) {
        // A model also explores waits that end in vain.
        while self.ends.count() == 0 {
            self.notify.wait();
        }
        assert_eq!(self.ends.count(), 1);
    }
}

#[repr(C)]
struct Timely {
    head: Head,
    ran: Ran,
}

/// (A) The thread itself runs no callback.
fn queue() -> Ran {
    unsafe fn run(head: NonNull<Head>) {
        // SAFETY: `queue` leaked this box, and the callback is invoked once.
        let timely = unsafe { Box::from_raw(head.cast::<Timely>().as_ptr()) };
        timely.ran.ends.add();
        timely.ran.notify.notify();
    }
    let ran = Ran {
        notify: Arc::new(Notify::new()),
        ends: Ends::default(),
    };
    let timely = Box::new(Timely {
        head: Head::new(run),
        ran: ran.clone(),
    });
    let head = NonNull::from(Box::leak(timely)).cast();
    // SAFETY: the box was leaked, and any thread may run its callback.
    unsafe { call_later(Effect::RunsCode, 1, head) };
    ran
}

/// Queues a callback, and waits until it has run.
fn call_and_wait() {
    let ran = queue();
    WORKER.note_call();
    ran.wait();
}

fn end() {
    if let Some(thread) = WORKER.stop(ENDED) {
        thread.join();
    }
}

/// The worker parks, or is about to, when the next call comes.
#[test]
fn a_worker_that_parks_misses_no_call() {
    explore(Any, || {
        call_and_wait();
        call_and_wait();
        end();
    });
}

/// Each of two calls starts, wakes or tells the worker, or leaves that to the other.
#[test]
fn of_two_calls_at_once_none_is_missed() {
    explore(AtMost(3), || {
        let other = spawn(call_and_wait);
        call_and_wait();
        join(other);
        end();
    });
}

/// A reader was in the way of a look: the worker looks again. (A model runs a reader that may leave
/// before it runs a look again, so none meets a reader twice.)
#[test]
fn a_worker_that_met_a_reader_does_not_park() {
    explore(Any, || {
        WORKER.state.store(WATCHING, Relaxed);
        assert_eq!(WORKER.settle(false), Next::Sleep);
        assert_eq!(WORKER.settle(true), Next::Park);
    });
}
