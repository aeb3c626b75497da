//! One thread allocates, another frees.
//!
//! Objects travel in vectors of 256 through a bounded channel, and the vectors come back through
//! another one. At most eight are on their way, so a producer that is faster waits. Nobody sleeps
//! in the kernel: waking somebody costs more than a batch.

use std::hint::spin_loop;
use std::sync::Barrier;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};

use super::objects::Objects;
use crate::affinity;

/// Objects that travel together.
const BATCH: usize = 256;

/// Batches on their way, at most.
const BATCHES: usize = 8;

/// Looks at an empty channel before another thread may have the CPU.
const SPINS: u32 = 1000;

/// A vector of objects, or an empty one on its way back.
type Batch<'a, T, O> = Vec<<O as Objects<T>>::Held<'a>>;

/// Hands over objects until the turn is over and all were freed. Returns the nanoseconds that
/// pass per object: infinite if there was none.
///
/// # Errors
/// If a thread panicked.
pub(super) fn turn<T, O: Objects<T>>(
    objects: &O,
    make: impl Fn(u64) -> T + Send,
    turn: Duration,
) -> anyhow::Result<f64> {
    let (full, arriving) = sync_channel(BATCHES);
    let (empty, returning) = sync_channel(BATCHES);
    for _ in 0..BATCHES {
        let sent = empty.try_send(Vec::with_capacity(BATCH));
        sent.ok().context("there is a place for each batch")?;
    }
    let start = &Barrier::new(2);
    let ends = thread::scope(|scope| {
        let producer = scope.spawn(move || {
            affinity::pin(0);
            start.wait();
            let began = Instant::now();
            produce(objects, make, began + turn, &returning, &full);
            began
        });
        let consumer = scope.spawn(move || {
            affinity::pin(1);
            start.wait();
            let freed = consume(objects, &arriving, &empty);
            (freed, Instant::now())
        });
        producer.join().ok().zip(consumer.join().ok())
    });
    let (began, (freed, ended)) = ends.context(anyhow!("a measuring thread panicked"))?;
    Ok(ended.duration_since(began).as_nanos() as f64 / freed as f64)
}

/// Fills batch after batch until `end`, or until there is no memory.
fn produce<'a, T, O: Objects<T>>(
    objects: &'a O,
    make: impl Fn(u64) -> T,
    end: Instant,
    returning: &Receiver<Batch<'a, T, O>>,
    full: &SyncSender<Batch<'a, T, O>>,
) {
    while Instant::now() < end {
        let Some(mut batch) = wait_for(returning) else {
            return;
        };
        let made = (0..BATCH as u64).map_while(|n| objects.insert(make(n)));
        batch.extend(made);
        let complete = batch.len() == BATCH;
        // There is room, since there are no more batches than places.
        if full.try_send(batch).is_err() || !complete {
            return;
        }
    }
}

/// Frees batch after batch until no more will come, and returns how many objects there were.
fn consume<'a, T, O: Objects<T>>(
    objects: &'a O,
    arriving: &Receiver<Batch<'a, T, O>>,
    empty: &SyncSender<Batch<'a, T, O>>,
) -> usize {
    let mut freed = 0;
    while let Some(mut batch) = wait_for(arriving) {
        freed += batch.len();
        batch.drain(..).for_each(|held| objects.remove(held));
        // The producer may have ended.
        let _ = empty.try_send(batch);
    }
    freed
}

/// Takes what comes next, or answers `None` when the other side has ended.
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
    use super::*;

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
