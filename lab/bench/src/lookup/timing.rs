//! The turn of one subject: threads that look up for some milliseconds.

use std::hint::black_box;
use std::os::fd::RawFd;
use std::time::Duration;

pub use super::case::Sequences;
use crate::turn::{self, Worker};

/// Looks up every descriptor of a slice and adds up what it reads: the measured loop.
pub type SumLoop<'a> = dyn Fn(&[RawFd]) -> u64 + Send + Sync + 'a;

/// Lookups between two reads of the clock.
const CHUNK: usize = 4096;

/// Runs `sum` on all sequences at once, one thread each. Returns the nanoseconds per lookup and
/// busy CPU. Each round starts at another position of the sequences. Blocks for about `turn`.
///
/// # Errors
/// If a thread panicked.
pub fn turn(
    sequences: &Sequences,
    turn: Duration,
    round: usize,
    sum: &SumLoop<'_>,
) -> anyhow::Result<f64> {
    let sequences = sequences.of_threads();
    let prepare = |nth: usize| worker(&sequences[nth], round, sum);
    turn::turn(sequences.len(), turn, &prepare)
}

/// Makes a worker that looks up chunk after chunk of one sequence.
fn worker<'a>(sequence: &'a [RawFd], round: usize, sum: &'a SumLoop<'_>) -> Worker<'a> {
    // Creates the table's per-thread state, and warms the code.
    black_box(sum(&sequence[..1]));
    let mut chunks = sequence
        .chunks(CHUNK)
        .cycle()
        .skip(round * 61 % sequence.len().div_ceil(CHUNK));
    Box::new(move || {
        let chunk = chunks.next().unwrap_or_default();
        black_box(sum(black_box(chunk)));
        chunk.len()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

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
}
