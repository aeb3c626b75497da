//! A batch of calls, of which only the calls count.
//!
//! Some calls need something before them, or leave something behind: a `close` needs an open
//! file. libMicro does that outside of its timing, and so does this. But the wall clock around the
//! calls is not what they cost where more threads run than there are CPUs: a thread that is put
//! aside, or waits for a lock, leaves its CPU to others. So the throughput of whole batches is
//! measured, and multiplied with the share of their CPU time that the calls have.
//!
//! *Why CPU time.* A thread that sleeps for a lock, and then waits until it runs again, loses as much as
//! thousands of calls take. Most often it does so in the longer part of a batch. So the shares of the
//! wall clock tell where threads were put aside: in 5 to 28 % of the turns, a `close` on a locked table
//! came out below 0.8 of what it takes with nobody else there. And all is summed up, without medians,
//! since what is seldom counts as well: one close in a thousand frees what a thousand left.

use std::sync::Mutex;
use std::time::Duration;

use crate::turn::{self, Worker, busy_cpus};
use crate::usage::thread_time;

/// Step of a batch. Nothing if a call did not answer what it must.
pub(super) type Step<'a> = Box<dyn FnMut() -> Option<()> + 'a>;

/// What one thread does again and again.
pub(super) struct Batch<'a> {
    /// Calls in a batch.
    pub(super) calls: usize,
    /// The calls.
    pub(super) timed: Step<'a>,
    /// What comes before and after them, if anything does.
    pub(super) around: Option<(Step<'a>, Step<'a>)>,
}

/// CPU time of batches.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// Of their calls.
    calls: Duration,
    /// Of what is around them.
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
    // Each thread counts from its own start. Where they run one after another, this is their turn.
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

/// Times of one thread, which hands them over in the end.
struct Own<'a> {
    times: Times,
    /// When the calls of the last batch had ended. What comes after them is counted with what comes
    /// before the next ones: each look at the clock costs what some calls cost.
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
    /// Returns what part of a batch the calls are: all, if nothing is around them.
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

    /// Runs batches of a thread that does something around calls that take some time.
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
    fn who_waits_beside_the_calls_has_no_smaller_share_for_that() {
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
