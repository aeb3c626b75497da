//! The turn of one subject: threads that look up for some milliseconds.

use std::hint::black_box;
use std::os::fd::RawFd;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;

use super::busy_cpus;
pub use super::case::Sequences;
use crate::affinity;

/// Looks up every descriptor of a slice and adds up what it reads: the measured loop.
pub type SumLoop<'a> = dyn Fn(&[RawFd]) -> u64 + Send + Sync + 'a;

/// Lookups between two looks at the clock, which costs 20 ns.
const CHUNK: usize = 4096;

/// Threads up to this many are bound to a CPU each.
const PINNED: usize = 2;

/// What one thread did.
struct Share {
    lookups: usize,
    began: Instant,
    ended: Instant,
}

/// Runs `sum` on all sequences at once, one thread each, and returns the nanoseconds per lookup
/// and busy CPU. Starts where another round did not. Blocks for about `turn`.
///
/// # Errors
/// If a thread panicked.
pub fn turn(
    sequences: &Sequences,
    turn: Duration,
    round: usize,
    sum: &SumLoop<'_>,
) -> anyhow::Result<f64> {
    let threads = sequences.of_threads().len();
    let start = Barrier::new(threads);
    let shares = thread::scope(|scope| {
        let share = |(nth, sequence)| {
            let start = &start;
            scope.spawn(move || {
                if threads <= PINNED {
                    affinity::pin(nth);
                }
                take_part(sequence, turn, round, start, sum)
            })
        };
        let running: Vec<_> = sequences
            .of_threads()
            .iter()
            .map(Vec::as_slice)
            .enumerate()
            .map(share)
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().ok())
            .collect::<Option<Vec<Share>>>()
    });
    let shares = shares.ok_or_else(|| anyhow!("a measuring thread panicked"))?;
    Ok(nanoseconds_per_lookup(&shares))
}

/// Looks up chunk after chunk of one sequence until the turn is over.
fn take_part(
    sequence: &[RawFd],
    turn: Duration,
    round: usize,
    start: &Barrier,
    sum: &SumLoop<'_>,
) -> Share {
    let mut chunks = sequence
        .chunks(CHUNK)
        .cycle()
        .skip(round * 61 % sequence.len().div_ceil(CHUNK));
    // Makes the thread known to whatever the table keeps for each thread, and warms the code.
    black_box(sum(&sequence[..1]));
    start.wait();
    let began = Instant::now();
    let mut lookups = 0;
    loop {
        let chunk = chunks.next().unwrap_or_default();
        black_box(sum(black_box(chunk)));
        lookups += chunk.len();
        let ended = Instant::now();
        if ended - began >= turn {
            return Share {
                lookups,
                began,
                ended,
            };
        }
    }
}

fn nanoseconds_per_lookup(shares: &[Share]) -> f64 {
    let began = shares.iter().map(|share| share.began).min();
    let ended = shares.iter().map(|share| share.ended).max();
    let window = began
        .zip(ended)
        .map_or(Duration::ZERO, |(began, ended)| ended - began);
    let lookups: usize = shares.iter().map(|share| share.lookups).sum();
    window.as_nanos() as f64 * busy_cpus(shares.len()) as f64 / lookups as f64
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_turn_lasts_as_long_as_asked_and_runs_every_thread() {
        let sequences = Sequences::disjoint(3, 3);
        let chunks = AtomicUsize::new(0);
        let began = Instant::now();
        let ns = turn(&sequences, Duration::from_millis(2), 0, &|fds| {
            chunks.fetch_add(1, Ordering::Relaxed);
            fds.iter().map(|&fd| fd as u64).sum()
        });
        assert!(began.elapsed() >= Duration::from_millis(2));
        // A warming call and at least one chunk for each thread.
        assert!(chunks.into_inner() >= 6);
        assert!(ns.unwrap() > 0.0);
    }

    #[test]
    fn two_busy_cpus_halve_the_work_of_each() {
        let began = Instant::now();
        let share = || Share {
            lookups: 500,
            began,
            ended: began + Duration::from_nanos(1000),
        };
        assert_eq!(nanoseconds_per_lookup(&[share()]), 2.0);
        let both = nanoseconds_per_lookup(&[share(), share()]);
        assert_eq!(both, busy_cpus(2) as f64);
    }

    #[test]
    fn a_panic_in_a_thread_is_an_error() {
        let sequences = Sequences::disjoint(1, 1);
        let turned = turn(&sequences, Duration::from_millis(1), 0, &|_| {
            panic!("as expected")
        });
        assert!(turned.is_err());
    }
}
