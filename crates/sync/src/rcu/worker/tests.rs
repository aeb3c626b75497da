//! What breaks if this is wrong: one failed start leaves the process without a worker, or each call
//! pays for another attempt.

use super::*;
use core::cell::Cell;

#[test]
fn a_start_that_fails_is_tried_again_by_a_later_call_but_not_by_each() {
    let worker: &'static Worker = Box::leak(Box::new(Worker::new()));
    let starts = Cell::new(0);
    let call = || {
        worker.start(|_| {
            starts.set(starts.get() + 1);
            None
        });
        worker.state.load(Relaxed)
    };
    assert_eq!(call(), ABSENT);
    assert_eq!(starts.get(), 1);
    for _ in 0..RETRY {
        assert_eq!(call(), ABSENT);
    }
    assert_eq!(starts.get(), 1);
    assert_eq!(call(), ABSENT);
    assert_eq!(starts.get(), 2);
}
