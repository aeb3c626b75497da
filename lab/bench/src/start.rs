//! A common start for measured threads.

use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use parking_lot::{Mutex, RwLock};

/// Runs `work` with each index below `threads`, on a thread of its own. `prepare` creates the work
/// of an index before the start, and `begin` runs when all threads are ready. Blocks until the last
/// thread is done.
///
/// # Errors
/// The first of the threads; or if one cannot be created or panics.
pub(crate) fn together<W, R: Send, B>(
    threads: usize,
    stack: usize,
    begin: impl FnOnce() -> anyhow::Result<B>,
    prepare: impl Fn(usize) -> W + Sync,
    work: impl Fn(W) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<(B, Vec<R>)> {
    let ready = Mutex::new(0);
    // Locked until the run begins. False if some threads could not be created, and the others must
    // end.
    let go = RwLock::new(false);
    let take_part = |place| {
        let prepared = prepare(place);
        *ready.lock() += 1;
        let goes = *go.read();
        goes.then(|| work(prepared)).transpose()
    };
    let (began, results) = thread::scope(|scope| {
        let mut held = go.write();
        let spawn = |place| {
            let take_part = &take_part;
            let builder = thread::Builder::new().stack_size(stack);
            builder.spawn_scoped(scope, move || take_part(place))
        };
        let running: Result<Vec<_>, _> = (0..threads).map(spawn).collect();
        let running = running.context("starting a thread")?;
        while *ready.lock() < threads {
            thread::sleep(Duration::from_millis(1));
        }
        let began = begin()?;
        *held = true;
        drop(held);
        // All of them, also after one that failed.
        let results: Vec<_> = running.into_iter().map(|thread| thread.join()).collect();
        anyhow::Ok((began, results))
    })?;
    let result = |joined: thread::Result<_>| joined.map_err(|_| anyhow!("a thread panicked"))?;
    let results: anyhow::Result<Vec<Option<R>>> = results.into_iter().map(result).collect();
    Ok((began, results?.into_iter().flatten().collect()))
}
