//! Producer and consumer: one thread creates items, another destroys them.
//!
//! Items travel in vectors of 256 through a bounded channel, and the empty vectors come back
//! through another one. At most eight are in flight, so a faster producer waits. No thread sleeps
//! in the kernel: a wakeup costs more than a batch.

use std::hint::spin_loop;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::affinity;

/// Items of a batch.
const BATCH: usize = 256;

/// Batches in flight, at most.
const BATCHES: usize = 8;

/// Checks of an empty channel before the thread yields the CPU.
const SPINS: u32 = 1000;

/// Passes the items that `insert` creates to `remove`, until the turn is over and all were removed.
/// `insert` gets the index in the batch. The producer runs on the first CPU, the consumer on the
/// second. Returns the nanoseconds per item, infinite if there was none. Ends early when `insert`
/// returns none.
///
/// # Errors
/// If a thread panicked.
pub(crate) fn turn<H: Send>(
    insert: impl Fn(u64) -> Option<H> + Send,
    remove: impl Fn(H) + Send,
    turn: Duration,
) -> anyhow::Result<f64> {
    let (full, arriving) = sync_channel(BATCHES);
    let (empty, returning) = sync_channel(BATCHES);
    for _ in 0..BATCHES {
        let sent = empty.try_send(Vec::with_capacity(BATCH));
        sent.ok().context("there is a place for each batch")?;
    }
    let (began, (removed, ended)) = affinity::on_two_cpus(
        move || {
            let began = Instant::now();
            produce(insert, began + turn, &returning, &full);
            began
        },
        move || (consume(remove, &arriving, &empty), Instant::now()),
    )?;
    Ok(ended.duration_since(began).as_nanos() as f64 / removed as f64)
}

/// Fills batch after batch until `end`, or until `insert` returns none.
fn produce<H>(
    insert: impl Fn(u64) -> Option<H>,
    end: Instant,
    returning: &Receiver<Vec<H>>,
    full: &SyncSender<Vec<H>>,
) {
    while Instant::now() < end {
        let Some(mut batch) = wait_for(returning) else {
            return;
        };
        batch.extend((0..BATCH as u64).map_while(&insert));
        let complete = batch.len() == BATCH;
        // There is room: there are no more batches than places.
        if full.try_send(batch).is_err() || !complete {
            return;
        }
    }
}

/// Removes batch after batch until the producer has ended, and returns the number of items.
fn consume<H>(
    remove: impl Fn(H),
    arriving: &Receiver<Vec<H>>,
    empty: &SyncSender<Vec<H>>,
) -> usize {
    let mut removed = 0;
    while let Some(mut batch) = wait_for(arriving) {
        removed += batch.len();
        batch.drain(..).for_each(&remove);
        // The producer may have ended.
        let _ = empty.try_send(batch);
    }
    removed
}

/// Receives the next batch, or returns `None` when the other side has ended.
fn wait_for<B>(channel: &Receiver<B>) -> Option<B> {
    for spins in 1.. {
        match channel.try_recv() {
            Ok(batch) => return Some(batch),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) if spins % SPINS == 0 => thread::yield_now(),
            Err(TryRecvError::Empty) => spin_loop(),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn items_are_removed_by_another_thread() {
        let removed = AtomicU64::new(0);
        let own = || Some(thread::current().id());
        let turned = turn(
            |_| own(),
            |maker| {
                assert_ne!(Some(maker), own());
                removed.fetch_add(1, Ordering::Relaxed);
            },
            Duration::from_millis(1),
        );
        let removed = removed.into_inner();
        assert!(turned.unwrap() > 0.0);
        assert!(
            removed > 0 && removed.is_multiple_of(BATCH as u64),
            "{removed}"
        );
    }

    #[test]
    fn where_nothing_is_made_nothing_takes_infinitely_long() {
        let turned = turn(|_| None::<u8>, drop, Duration::from_millis(1));
        assert_eq!(turned.unwrap(), f64::INFINITY);
    }

    #[test]
    fn a_channel_is_emptied_before_its_end_is_seen() {
        let (sender, receiver) = sync_channel(2);
        sender.send(1).unwrap();
        sender.send(2).unwrap();
        drop(sender);
        let got: Vec<_> = std::iter::from_fn(|| wait_for(&receiver)).collect();
        assert_eq!(got, [1, 2]);
    }
}
