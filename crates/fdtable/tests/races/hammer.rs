//! Threads that do the same thing over and over.

use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

pub(crate) const THREADS: usize = 4;

/// Runs `step` in every thread until the time is over. Each thread has a number, from 0 on, and
/// random numbers of its own.
pub(crate) fn hammer(step: impl Fn(usize, &mut Rng) + Sync) {
    let asked = std::env::var("FDTABLE_STRESS_SECONDS").ok();
    let seconds = asked.map(|seconds| seconds.parse().expect("a number of seconds"));
    let time = seconds.map_or(Duration::from_millis(300), Duration::from_secs);
    let deadline = Instant::now() + time;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let step = &step;
            scope.spawn(move || {
                let mut rng = Rng::with_seed(thread as u64);
                while Instant::now() < deadline {
                    (0..20).for_each(|_| step(thread, &mut rng));
                }
            });
        }
    });
}
