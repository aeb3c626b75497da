//! One run: a thread that opens, and one that looks up.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::affinity;
use crate::opener::Opener;
use crate::tail::Durations;

/// Longest idle time of the reader after a lookup.
const LONGEST_IDLE: Duration = Duration::from_micros(1);

/// Least duration of a step, for clocks of a coarse resolution.
const CLOCK: Duration = Duration::from_nanos(10);

/// Opens between two announcements to the reader. An announcement of each open would disturb the
/// opener.
const ANNOUNCED: u32 = 64;

/// The durations of each step of one run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) opens: Durations,
    pub(super) look_ups: Durations,
    pub(super) idle: Durations,
}

/// State that the two threads share beside the table.
struct Announced {
    numbers: Vec<AtomicI32>,
    /// Number of open descriptors.
    count: AtomicU32,
    done: AtomicBool,
}

/// Opens `most` descriptors, at least 1, while another thread looks them up.
pub(super) fn grow<G: Opener>(growing: &G, most: u32) -> anyhow::Result<Run> {
    let announced = Announced {
        numbers: (0..most).map(|_| AtomicI32::new(0)).collect(),
        count: AtomicU32::new(0),
        done: AtomicBool::new(false),
    };
    let ready: Vec<_> = (0..most).map(|_| growing.prepare()).collect();
    let (opened, looked_up) = affinity::on_two_cpus(
        || announced.open_all(growing, ready),
        || announced.look_up_all(growing),
    )?;
    let (opens, [look_ups, idle]) = (opened?, looked_up?);
    Ok(Run {
        opens,
        look_ups,
        idle,
    })
}

impl Announced {
    fn open_all<G: Opener>(&self, growing: &G, ready: Vec<G::Ready>) -> anyhow::Result<Durations> {
        let opened = self.open_each(growing, ready);
        // Also after an error: the reader must not run forever.
        self.done.store(true, Ordering::Release);
        opened
    }

    fn open_each<G: Opener>(&self, growing: &G, ready: Vec<G::Ready>) -> anyhow::Result<Durations> {
        let mut durations = Durations::new()?;
        let mut count = 0;
        for ready in ready {
            let ready = black_box(ready);
            let began = Instant::now();
            let opened = growing.open(ready);
            let took = began.elapsed();
            self.numbers[count as usize].store(opened?, Ordering::Relaxed);
            count += 1;
            durations.record(took);
            // The first at once, so that there is something to look up.
            if count == 1 || count % ANNOUNCED == 0 {
                // Pairs with the load of the reader, which then sees all descriptors below.
                self.count.store(count, Ordering::Release);
            }
        }
        Ok(durations)
    }

    /// Looks up until everything is open. After each lookup it is idle for as long as that took, so
    /// that the machine interrupts both equally often.
    fn look_up_all<G: Opener>(&self, growing: &G) -> anyhow::Result<[Durations; 2]> {
        let (mut idle, mut look_ups) = (Durations::new()?, Durations::new()?);
        let mut random = fastrand::Rng::with_seed(1);
        let mut missing = 0;
        loop {
            // Before the count: the end comes after the last count.
            let is_done = self.done.load(Ordering::Acquire);
            if is_done && !look_ups.is_empty() {
                break;
            }
            let count = self.count.load(Ordering::Acquire);
            if count == 0 {
                ensure!(!is_done, "nothing was opened");
                continue;
            }
            let number = &self.numbers[random.u32(0..count) as usize];
            let fd = number.load(Ordering::Relaxed);
            let began = Instant::now();
            let found = growing.look_up(black_box(fd));
            let ended = Instant::now();
            missing += u64::from(!found);
            look_ups.record(ended - began);
            stand_idle((ended - began).min(LONGEST_IDLE), &mut idle);
        }
        ensure!(missing == 0, "{missing} open descriptors were not found");
        Ok([look_ups, idle])
    }
}

/// Reads the clock in a loop for about `duration`, and records the duration of each step.
fn stand_idle(duration: Duration, steps: &mut Durations) {
    let mut left = duration;
    while left > Duration::ZERO {
        let began = Instant::now();
        let step = began.elapsed();
        steps.record(step);
        left = left.saturating_sub(step.max(CLOCK));
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::RawFd;
    use std::sync::Mutex;
    use std::thread;

    use super::*;

    /// Table that opens a descriptor in each slow step, and finds the open ones unless it forgets.
    struct Slow {
        open: Mutex<Vec<RawFd>>,
        forgets: RawFd,
        refuses_from: RawFd,
    }

    impl Opener for Slow {
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
        let [open, look_up, idle] = [&run.opens, &run.look_ups, &run.idle].map(Durations::tail);
        assert_eq!(open.count, 100);
        assert!(open.max_ns >= 50_000_000, "{open:?}");
        assert!(open.median_ns < 50_000_000, "{open:?}");
        assert!(look_up.max_ns >= 1_000_000, "{look_up:?}");
        assert!(idle.count >= look_up.count, "{idle:?}, {look_up:?}");
    }

    #[test]
    fn a_descriptor_that_is_not_found_is_an_error() {
        let error = grow(&slow(0, 1), 1).unwrap_err().to_string();
        assert!(error.contains("not found"), "{error}");
    }

    #[test]
    fn an_open_that_fails_ends_the_run() {
        for refuses_from in [0, 10] {
            assert!(grow(&slow(-1, refuses_from), 100).is_err());
        }
    }
}
