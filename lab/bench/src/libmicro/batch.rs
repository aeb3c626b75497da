//! A batch of calls, with untimed steps before and after them.
//!
//! Some calls need a preparation, or leave something to clean up: a `close` needs an open file.
//! libMicro does that outside of its timing, and so does this. But if more threads run than there
//! are CPUs, the wall time around the calls is not their cost: a thread that is preempted, or waits
//! for a lock, leaves its CPU to others. So the throughput of whole batches is measured, and
//! multiplied by the calls' share of the CPU time.
//!
//! *Why CPU time.* A thread that sleeps for a lock, and then waits until it runs again, loses as
//! much time as thousands of calls take. Most often this happens in the longer part of a batch. So
//! the shares of the wall clock depend on where threads were preempted: in 5 to 28 % of the turns,
//! a `close` on a locked table came out below 0.8 of its uncontended cost. All times are summed up,
//! without medians, since rare events count as well: one close in a thousand frees the memory of a
//! thousand.

use std::sync::Mutex;
use std::time::Duration;

use crate::turn::{self, Worker, busy_cpus};
use crate::usage::thread_time;

/// Step of a batch. Returns none if a call returned a wrong result.
pub(super) type Step<'a> = Box<dyn FnMut() -> Option<()> + 'a>;

/// The repeated work of one thread.
pub(super) struct Batch<'a> {
    /// Calls in a batch.
    pub(super) calls: usize,
    /// The calls.
    pub(super) timed: Step<'a>,
    /// Steps before and after them, if any.
    pub(super) around: Option<(Step<'a>, Step<'a>)>,
}

/// CPU time of batches.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// CPU time of the calls.
    calls: Duration,
    /// CPU time of the steps around them.
    around: Duration,
}

/// Runs batches on `threads` threads, and returns the nanoseconds per call and busy CPU. Blocks for
/// about `length`, if threads do not wait for each other.
///
/// # Errors
/// If a thread panicked.
pub(super) fn turn<'a>(
    threads: usize,
    length: Duration,
    prepare: &(dyn Fn(usize) -> Batch<'a> + Sync),
) -> anyhow::Result<f64> {
    let times = Mutex::new(Times::default());
    // Each thread measures from its own start. If threads run one after another, this is the turn
    // of each.
    let own = length * busy_cpus(threads) as u32 / threads as u32;
    let ns = turn::turn(threads, own, &|nth| worker(prepare(nth), &times))?;
    let times = times.into_inner().unwrap_or_default();
    Ok(ns * times.share())
}

fn worker<'a>(batch: Batch<'a>, all: &'a Mutex<Times>) -> Worker<'a> {
    let Batch {
        calls,
        mut timed,
        around,
    } = batch;
    let done = move |done: Option<()>| done.map_or(0, |()| calls);
    let Some((mut before, mut after)) = around else {
        return Box::new(move || done(timed()));
    };
    let mut own = Own {
        times: Times::default(),
        ended: None,
        all,
    };
    Box::new(move || {
        let mut step = || {
            let began = own.began()?;
            before()?;
            let first = thread_time().ok()?;
            timed()?;
            let last = thread_time().ok()?;
            own.times.calls += last.saturating_sub(first);
            own.times.around += first.saturating_sub(began);
            own.ended = Some(last);
            after()
        };
        done(step())
    })
}

/// Times of one thread, which returns them at the end.
struct Own<'a> {
    times: Times,
    /// End of the calls of the last batch. The time of the steps after them is added to that of the
    /// steps before the next ones: each read of the clock costs as much as some calls.
    ended: Option<Duration>,
    all: &'a Mutex<Times>,
}

impl Own<'_> {
    /// Returns when a batch began.
    fn began(&self) -> Option<Duration> {
        self.ended.or_else(|| thread_time().ok())
    }
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        if let (Some(ended), Ok(now)) = (self.ended, thread_time()) {
            self.times.around += now.saturating_sub(ended);
        }
        if let Ok(mut all) = self.all.lock() {
            all.calls += self.times.calls;
            all.around += self.times.around;
        }
    }
}

impl Times {
    /// Returns the calls' fraction of a batch: 1 without steps around them.
    fn share(self) -> f64 {
        let all = self.calls + self.around;
        if all.is_zero() {
            return 1.0;
        }
        self.calls.as_secs_f64() / all.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECONDS: fn(u64) -> Duration = Duration::from_millis;

    /// Runs batches of a thread with a step around calls that take some time.
    fn share_beside(around: fn() -> Option<()>) -> f64 {
        let times = Mutex::new(Times::default());
        let work = || {
            let until = thread_time().unwrap() + MILLISECONDS(1);
            while thread_time().unwrap() < until {}
            Some(())
        };
        let mut worker = worker(
            Batch {
                calls: 1,
                timed: Box::new(work),
                around: Some((Box::new(around), Box::new(work))),
            },
            &times,
        );
        (0..8).for_each(|_| assert_eq!(worker(), 1));
        drop(worker);
        times.into_inner().unwrap().share()
    }

    #[test]
    fn waits_beside_the_calls_do_not_reduce_their_share() {
        let share = share_beside(|| {
            std::thread::sleep(MILLISECONDS(20));
            Some(())
        });
        // About half; by the wall clock less than a twentieth.
        assert!(share > 0.2, "{share}");
    }

    #[test]
    fn without_anything_around_them_the_calls_are_all() {
        assert_eq!(Times::default().share(), 1.0);
        let times = Times {
            calls: MILLISECONDS(3),
            around: MILLISECONDS(1),
        };
        assert_eq!(times.share(), 0.75);
    }

    #[test]
    fn times_are_taken_only_where_something_is_around_the_calls() {
        let step = || -> Step<'static> { Box::new(|| Some(())) };
        for around in [false, true] {
            let times = Mutex::new(Times::default());
            let mut worker = worker(
                Batch {
                    calls: 7,
                    timed: step(),
                    around: around.then(|| (step(), step())),
                },
                &times,
            );
            assert_eq!((worker(), worker()), (7, 7));
            drop(worker);
            assert_eq!(times.lock().unwrap().calls.is_zero(), !around);
        }
    }

    #[test]
    fn a_call_that_fails_is_not_counted() {
        let ns = turn(1, Duration::from_millis(1), &|_| Batch {
            calls: 1,
            timed: Box::new(|| None),
            around: None,
        });
        assert!(!ns.unwrap().is_finite());
    }
}
