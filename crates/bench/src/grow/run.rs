//! One run: a thread that opens, and one that looks up.

use std::hint::black_box;
use std::os::fd::RawFd;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::affinity;

/// Longest duration that is told apart: 10 s.
const LONGEST_NS: u64 = 10_000_000_000;

/// Significant digits of a duration.
const DIGITS: u8 = 3;

/// Longest time for which the reader stands idle after a lookup.
const LONGEST_IDLE: Duration = Duration::from_micros(1);

/// What a step takes at least, also where the clock does not tell.
const CLOCK: Duration = Duration::from_nanos(10);

/// Opens after which the reader learns of more descriptors. For each it would disturb the opener.
const ANNOUNCED: u32 = 64;

/// What grows.
pub(super) trait Growing: Sync {
    /// What an open needs and has ready before the clock starts.
    type Ready: Send;

    fn prepare(&self) -> Self::Ready;
    fn open(&self, ready: Self::Ready) -> anyhow::Result<RawFd>;
    /// Tells whether `fd` was found.
    fn look_up(&self, fd: RawFd) -> bool;
}

/// Durations of one run, in nanoseconds with the clock.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Tail {
    pub(super) median_ns: u64,
    /// The 99.99th percentile.
    pub(super) p9999_ns: u64,
    pub(super) max_ns: u64,
    /// How many there were.
    pub(super) count: u64,
}

/// What one run took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) open: Tail,
    pub(super) look_up: Tail,
    pub(super) idle: Tail,
}

/// What the two threads share beside the table.
struct Announced {
    numbers: Vec<AtomicI32>,
    /// How many of them are open.
    count: AtomicU32,
    done: AtomicBool,
    start: Barrier,
}

/// Opens `most` descriptors, at least 1, while another thread looks them up.
pub(super) fn grow<G: Growing>(growing: &G, most: u32) -> anyhow::Result<Run> {
    let announced = Announced {
        numbers: (0..most).map(|_| AtomicI32::new(0)).collect(),
        count: AtomicU32::new(0),
        done: AtomicBool::new(false),
        start: Barrier::new(2),
    };
    let ready: Vec<_> = (0..most).map(|_| growing.prepare()).collect();
    let (opened, looked_up) = thread::scope(|scope| {
        let reader = scope.spawn(|| announced.look_up_all(growing));
        let opener = scope.spawn(|| announced.open_all(growing, ready));
        (opener.join(), reader.join())
    });
    let panicked = |_| anyhow!("a thread panicked");
    let open = opened.map_err(panicked)??;
    let [look_up, idle] = looked_up.map_err(panicked)??;
    Ok(Run {
        open,
        look_up,
        idle,
    })
}

impl Announced {
    fn open_all<G: Growing>(&self, growing: &G, ready: Vec<G::Ready>) -> anyhow::Result<Tail> {
        affinity::pin(0);
        self.start.wait();
        let opened = self.open_each(growing, ready);
        // Also after an error: the reader must not go on forever.
        self.done.store(true, Ordering::Release);
        opened
    }

    fn open_each<G: Growing>(&self, growing: &G, ready: Vec<G::Ready>) -> anyhow::Result<Tail> {
        let mut durations = histogram()?;
        let mut count = 0;
        for ready in ready {
            let ready = black_box(ready);
            let began = Instant::now();
            let opened = growing.open(ready);
            let took = began.elapsed();
            self.numbers[count as usize].store(opened?, Ordering::Relaxed);
            count += 1;
            durations.saturating_record(nanoseconds(took));
            // The first at once, so that there is something to look up.
            if count == 1 || count % ANNOUNCED == 0 {
                // Pairs with the load of the reader, which then sees the numbers below.
                self.count.store(count, Ordering::Release);
            }
        }
        Ok(Tail::of(&durations))
    }

    /// Looks up until everything is open. After each lookup it stands idle for as long as that
    /// took, so that the machine interrupts the one as often as the other.
    fn look_up_all<G: Growing>(&self, growing: &G) -> anyhow::Result<[Tail; 2]> {
        affinity::pin(1);
        let (mut idle, mut look_ups) = (histogram()?, histogram()?);
        let mut random = fastrand::Rng::with_seed(1);
        let mut missing = 0;
        self.start.wait();
        while !self.done.load(Ordering::Acquire) || look_ups.is_empty() {
            let count = self.count.load(Ordering::Acquire);
            if count == 0 {
                ensure!(!self.done.load(Ordering::Acquire), "nothing was opened");
                continue;
            }
            let number = &self.numbers[random.u32(0..count) as usize];
            let fd = number.load(Ordering::Relaxed);
            let began = Instant::now();
            let found = growing.look_up(black_box(fd));
            let ended = Instant::now();
            missing += u64::from(!found);
            look_ups.saturating_record(nanoseconds(ended - began));
            stand_idle((ended - began).min(LONGEST_IDLE), &mut idle);
        }
        ensure!(missing == 0, "{missing} open descriptors were not found");
        Ok([Tail::of(&look_ups), Tail::of(&idle)])
    }
}

/// Reads the clock again and again for about `duration`, and notes how long each step took.
fn stand_idle(duration: Duration, steps: &mut Histogram<u64>) {
    let mut left = duration;
    while left > Duration::ZERO {
        let began = Instant::now();
        let step = began.elapsed();
        steps.saturating_record(nanoseconds(step));
        left = left.saturating_sub(step.max(CLOCK));
    }
}

impl Tail {
    fn of(durations: &Histogram<u64>) -> Self {
        Tail {
            median_ns: durations.value_at_quantile(0.5),
            p9999_ns: durations.value_at_quantile(0.9999),
            max_ns: durations.max(),
            count: durations.len(),
        }
    }
}

fn histogram() -> anyhow::Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)?)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Table that opens a number in each slow step, and finds what it opened unless it forgets.
    struct Slow {
        open: Mutex<Vec<RawFd>>,
        forgets: RawFd,
        refuses_from: RawFd,
    }

    impl Growing for Slow {
        type Ready = ();

        fn prepare(&self) {}

        fn open(&self, (): ()) -> anyhow::Result<RawFd> {
            let mut open = self.open.lock().unwrap();
            let fd = open.len() as RawFd;
            ensure!(fd < self.refuses_from, "as expected");
            if fd == 3 {
                thread::sleep(Duration::from_millis(50));
            }
            open.push(fd);
            Ok(fd)
        }

        fn look_up(&self, fd: RawFd) -> bool {
            fd != self.forgets && self.open.lock().unwrap().contains(&fd)
        }
    }

    fn slow(forgets: RawFd, refuses_from: RawFd) -> Slow {
        Slow {
            open: Mutex::default(),
            forgets,
            refuses_from,
        }
    }

    #[test]
    fn one_slow_open_is_the_maximum_and_locks_out_a_reader() {
        let run = grow(&slow(-1, 100), 100).unwrap();
        assert_eq!(run.open.count, 100);
        assert!(run.open.max_ns >= 50_000_000, "{run:?}");
        assert!(run.open.median_ns < 50_000_000, "{run:?}");
        assert!(run.look_up.max_ns >= 1_000_000, "{run:?}");
        assert!(run.idle.count >= run.look_up.count, "{run:?}");
    }

    #[test]
    fn a_descriptor_that_is_not_found_is_an_error() {
        let error = grow(&slow(0, 100), 100).unwrap_err().to_string();
        assert!(error.contains("not found"), "{error}");
    }

    #[test]
    fn an_open_that_fails_ends_the_run() {
        for refuses_from in [0, 10] {
            assert!(grow(&slow(-1, refuses_from), 100).is_err());
        }
    }
}
