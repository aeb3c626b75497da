//! A batch of calls, of which only the calls count.
//!
//! Some calls need something before them, or leave something behind: a `close` needs an open
//! file. libMicro does that outside of its timing, and so does this. But the wall clock around a
//! batch is not what a batch costs where more threads run than there are CPUs: a thread that
//! is put aside, or waits for a lock, leaves its CPU to others. So the throughput of whole batches
//! is measured, and multiplied with the share of a batch that the calls have, which is one median
//! over another.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::stats::median;
use crate::turn::{self, Worker, busy_cpus};

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

/// Nanoseconds of the calls of a batch, and of what is around them.
type Times = Vec<(f64, f64)>;

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
    let times = Mutex::new(Times::new());
    // Each thread counts from its own start. Where they run one after another, this is their turn.
    let own = length * busy_cpus(threads) as u32 / threads as u32;
    let ns = turn::turn(threads, own, &|nth| worker(prepare(nth), &times))?;
    let times = times.into_inner().unwrap_or_default();
    Ok(ns * share(&times))
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
        times: Times::new(),
        all,
    };
    Box::new(move || {
        let mut step = || {
            let began = Instant::now();
            before()?;
            let first = Instant::now();
            timed()?;
            let last = Instant::now();
            after()?;
            let ended = Instant::now();
            own.note(last - first, (first - began) + (ended - last));
            Some(())
        };
        done(step())
    })
}

/// Times of one thread, which hands them over in the end.
struct Own<'a> {
    times: Times,
    all: &'a Mutex<Times>,
}

impl Own<'_> {
    fn note(&mut self, timed: Duration, around: Duration) {
        let nanoseconds = |time: Duration| time.as_nanos() as f64;
        self.times.push((nanoseconds(timed), nanoseconds(around)));
    }
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        if let Ok(mut all) = self.all.lock() {
            all.append(&mut self.times);
        }
    }
}

/// Returns what part of a batch the calls are: all, if nothing is around them.
fn share(times: &Times) -> f64 {
    if times.is_empty() {
        return 1.0;
    }
    let (timed, around): (Vec<f64>, Vec<f64>) = times.iter().copied().unzip();
    let (timed, around) = (median(&timed), median(&around));
    timed / (timed + around)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_was_put_aside_does_not_change_the_share() {
        let mut times = vec![(30.0, 10.0); 9];
        times.push((30.0, 1_000_000.0));
        times.push((1_000_000.0, 10.0));
        assert_eq!(share(&times), 0.75);
        assert_eq!(share(&Times::new()), 1.0);
    }

    #[test]
    fn times_are_taken_only_where_something_is_around_the_calls() {
        let step = || -> Step<'static> { Box::new(|| Some(())) };
        for around in [false, true] {
            let times = Mutex::new(Times::new());
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
            assert_eq!(times.lock().unwrap().len(), if around { 2 } else { 0 });
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
