//! How often a test of threads repeats its step.

use std::time::{Duration, Instant};

/// The numbers of the rounds: so many, or as many as fit into `FDTABLE_STRESS_SECONDS`.
pub(crate) fn rounds(count: usize) -> impl Iterator<Item = usize> {
    let asked = std::env::var("FDTABLE_STRESS_SECONDS").ok();
    let seconds = asked.map(|seconds| seconds.parse().expect("a number of seconds"));
    let deadline = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    (0..).take_while(move |&round| match deadline {
        None => round < count,
        Some(deadline) => Instant::now() < deadline,
    })
}
