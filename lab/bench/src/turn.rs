//! The turn of one subject: threads that repeat the same operation for some milliseconds.
//!
//! *Nanoseconds per operation* are those of one CPU: duration × busy CPUs ÷ operations of all
//! threads.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;

use crate::affinity;

/// One thread's work: does a chunk of operations and returns how many. A chunk takes some
/// microseconds, so that a read of the clock, which costs 20 ns, is negligible.
pub type Worker<'a> = Box<dyn FnMut() -> usize + 'a>;

/// Up to this many threads are each pinned to a CPU.
const PINNED: usize = 2;

/// The result of one thread.
struct Share {
    operations: usize,
    began: Instant,
    ended: Instant,
}

/// Runs `threads` threads, at least 1, and returns the nanoseconds per operation and busy CPU.
/// Before the start each calls `prepare` with its index, counted from 0; then it calls the returned
/// worker until the turn is over. Blocks for about `turn`.
///
/// # Errors
/// If a thread panicked.
pub fn turn<'a>(
    threads: usize,
    turn: Duration,
    prepare: &(dyn Fn(usize) -> Worker<'a> + Sync),
) -> anyhow::Result<f64> {
    let start = Barrier::new(threads);
    let shares = thread::scope(|scope| {
        let share = |nth| {
            let start = &start;
            scope.spawn(move || {
                if threads <= PINNED {
                    affinity::pin(nth);
                }
                take_part(prepare(nth), turn, start)
            })
        };
        let running: Vec<_> = (0..threads).map(share).collect();
        running
            .into_iter()
            .map(|thread| thread.join().ok())
            .collect::<Option<Vec<Share>>>()
    });
    let shares = shares.ok_or_else(|| anyhow!("a measuring thread panicked"))?;
    Ok(nanoseconds_per_operation(&shares))
}

/// Does chunk after chunk until the turn is over.
fn take_part(mut worker: Worker<'_>, turn: Duration, start: &Barrier) -> Share {
    start.wait();
    let began = Instant::now();
    let mut operations = 0;
    loop {
        operations += worker();
        let ended = Instant::now();
        if ended - began >= turn {
            return Share {
                operations,
                began,
                ended,
            };
        }
    }
}

fn nanoseconds_per_operation(shares: &[Share]) -> f64 {
    let began = shares.iter().map(|share| share.began).min();
    let ended = shares.iter().map(|share| share.ended).max();
    let window = began
        .zip(ended)
        .map_or(Duration::ZERO, |(began, ended)| ended - began);
    let operations: usize = shares.iter().map(|share| share.operations).sum();
    window.as_nanos() as f64 * busy_cpus(shares.len()) as f64 / operations as f64
}

/// Returns how many CPUs `threads` threads keep busy.
pub fn busy_cpus(threads: usize) -> usize {
    threads.min(affinity::cpus())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_busy_cpus_halve_the_work_of_each() {
        let began = Instant::now();
        let share = || Share {
            operations: 500,
            began,
            ended: began + Duration::from_nanos(1000),
        };
        assert_eq!(nanoseconds_per_operation(&[share()]), 2.0);
        let both = nanoseconds_per_operation(&[share(), share()]);
        assert_eq!(both, busy_cpus(2) as f64);
    }

    #[test]
    fn a_panic_after_the_start_is_an_error() {
        let turned = turn(1, Duration::from_millis(1), &|_| {
            Box::new(|| panic!("as expected"))
        });
        assert!(turned.is_err());
    }
}
