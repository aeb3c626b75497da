//! How long a thread looks for a wake-up before it sleeps.
//!
//! To be put to sleep and woken costs both threads some microseconds, and more if the CPU has gone
//! idle meanwhile. Two threads that answer each other sooner are many times as fast if they look
//! for the answer instead. But a look that is in vain takes the CPU from others.
//!
//! So each thread learns from its sleeps, as hypervisors do for idle CPUs: one that was shorter
//! than [`MOST`] doubles the time of later looks, and a longer one ends them. So does a sleep that
//! was short after the longest look: the other thread needed this CPU. Then there are no looks for
//! a [while](REST). A thread that waits for long looks no more, and a thread whose looks succeed
//! goes on.

use core::cell::Cell;
use core::hint;
use core::time::Duration;
use std::time::Instant;

/// The longest look, in nanoseconds: as long as a sleep costs both threads and their CPUs.
const MOST: u32 = 20_000;

/// The first look after sleeps that were short, in nanoseconds.
const FIRST: u32 = 5_000;

/// How often the flag is looked at before the clock is.
const LOOKS: u32 = 16;

/// How many sleeps there are without a look after one that was in vain.
const REST: u32 = 100;

/// Experience of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Learned {
    /// How long it looks, in nanoseconds.
    time: u32,
    /// How many sleeps come before it looks again.
    rest: u32,
}

std::thread_local! {
    static LEARNED: Cell<Learned> = const { Cell::new(Learned { time: 0, rest: 0 }) };
}

/// Waits for `is_there`, for as long as the thread has learned to. Returns true if it is there.
pub(super) fn until(is_there: impl Fn() -> bool) -> bool {
    let time = LEARNED.try_with(Cell::get).unwrap_or_default().time;
    // Time is not part of what is modelled.
    if time == 0 || cfg!(loom) {
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
    let begun = Instant::now();
    let result = sleep();
    let slept = begun.elapsed();
    let _ = LEARNED.try_with(|learned| learned.set(learned.get().after(slept)));
    result
}

impl Learned {
    /// Returns what a thread has learned after a sleep, before which it has looked in vain.
    fn after(self, slept: Duration) -> Self {
        let Self { time, rest } = self;
        match slept < Duration::from_nanos(MOST.into()) {
            true if rest > 0 => Self {
                time: 0,
                rest: rest - 1,
            },
            true if time == MOST => Self {
                time: 0,
                rest: REST,
            },
            true => Self {
                time: (2 * time).clamp(FIRST, MOST),
                rest,
            },
            false => Self { time: 0, rest },
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn short_sleeps_lengthen_looks_to_a_limit_and_a_long_one_ends_them() {
        let short = Duration::from_nanos((MOST - 1).into());
        let mut learned = Learned::default();
        for time in [FIRST, 2 * FIRST, MOST] {
            learned = learned.after(short);
            assert_eq!(learned, Learned { time, rest: 0 });
        }
        let long = Duration::from_nanos(MOST.into());
        assert_eq!(learned.after(long), Learned::default());
        // The longest look was in vain, and the sleep short.
        learned = learned.after(short);
        for rest in (0..REST).rev() {
            learned = learned.after(short);
            assert_eq!(learned, Learned { time: 0, rest });
        }
        assert_eq!(learned.after(short).time, FIRST);
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
