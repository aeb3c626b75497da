//! How long a thread looks for a wake-up before it sleeps.
//!
//! To be put to sleep and woken costs both threads some microseconds, and more if the CPU has gone
//! idle meanwhile. Two threads that answer each other sooner are many times as fast if they look
//! for the answer instead. But a look that is in vain takes the CPU from others.
//!
//! So each thread learns from its sleeps, as hypervisors do for idle CPUs: one that was shorter
//! than [`MOST`] doubles the time of later looks, and a longer one ends them. A thread that waits
//! for long looks no more, and a thread whose looks succeed goes on.

use core::cell::Cell;
use core::hint;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::time::Instant;

/// The longest look, in nanoseconds: as long as a sleep costs both threads and their CPUs.
const MOST: u32 = 20_000;

/// The first look after sleeps that were short, in nanoseconds.
const FIRST: u32 = 5_000;

/// How often the flag is looked at before the clock is.
const LOOKS: u32 = 16;

std::thread_local! {
    /// How long the thread looks, in nanoseconds.
    static TIME: Cell<u32> = const { Cell::new(0) };
}

/// Waits for `is_there`, for as long as the thread has learned to. Returns true if it is there.
pub(super) fn until(is_there: impl Fn() -> bool) -> bool {
    let time = TIME.try_with(Cell::get).unwrap_or(0);
    if time == 0 {
        return is_there();
    }
    let (begun, time) = (Instant::now(), Duration::from_nanos(time.into()));
    loop {
        for _ in 0..LOOKS {
            if is_there() {
                return true;
            }
            hint::spin_loop();
        }
        if begun.elapsed() >= time {
            return false;
        }
    }
}

/// Sleeps by `sleep`, and learns from the time that this takes.
pub(super) fn noted<R>(sleep: impl FnOnce() -> R) -> R {
    if cpus() == 1 {
        return sleep();
    }
    let begun = Instant::now();
    let result = sleep();
    let slept = begun.elapsed();
    let _ = TIME.try_with(|time| time.set(next(time.get(), slept)));
    result
}

/// Returns how long a thread looks that has looked for `time` nanoseconds, and then slept.
fn next(time: u32, slept: Duration) -> u32 {
    match slept < Duration::from_nanos(MOST.into()) {
        true => (2 * time).clamp(FIRST, MOST),
        false => 0,
    }
}

/// Returns the number of CPUs on which the process may run: at its first sleep.
fn cpus() -> usize {
    /// 0 until it is known.
    static CPUS: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: the number stands for itself.
    match CPUS.load(Relaxed) {
        0 => {
            let mut set = [0_u64; 128];
            let (size, set_at) = (size_of_val(&set), set.as_mut_ptr());
            // SAFETY: there is room for so many bytes.
            unsafe { libc::sched_getaffinity(0, size, set_at.cast()) };
            let count: u32 = set.iter().map(|word| word.count_ones()).sum();
            let count = (count as usize).max(1);
            CPUS.store(count, Relaxed);
            count
        }
        count => count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_sleeps_lengthen_looks_to_a_limit_and_a_long_one_ends_them() {
        let short = Duration::from_nanos((MOST - 1).into());
        let mut time = 0;
        for expected in [FIRST, 2 * FIRST, MOST, MOST] {
            time = next(time, short);
            assert_eq!(time, expected);
        }
        assert_eq!(next(time, Duration::from_nanos(MOST.into())), 0);
    }

    #[test]
    fn a_thread_that_has_learned_nothing_looks_once() {
        let looks = Cell::new(0);
        std::thread::spawn(move || {
            let looked = until(|| {
                looks.set(looks.get() + 1);
                false
            });
            assert!(!looked);
            assert_eq!(looks.get(), 1);
        })
        .join()
        .expect("no assertion fails");
    }
}
