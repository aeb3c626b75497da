//! Time: the counter of each CPU, measured against the machine's timer.

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU64, Ordering};

use x86_64::instructions::port::Port;

/// Counts of a millisecond.
static PER_MILLISECOND: AtomicU64 = AtomicU64::new(1);
static BEGIN: AtomicU64 = AtomicU64::new(0);

/// Returns the nanoseconds since the start.
pub fn nanoseconds() -> u64 {
    let spent = counter().saturating_sub(BEGIN.load(Ordering::Relaxed));
    let product = u128::from(spent) * 1_000_000;
    (product / u128::from(PER_MILLISECOND.load(Ordering::Relaxed))) as u64
}

fn counter() -> u64 {
    // SAFETY: reads a register.
    unsafe { _rdtsc() }
}

/// Measures the counter. Once, on the first CPU.
pub fn prepare() {
    let begin = counter();
    BEGIN.store(begin, Ordering::Relaxed);
    wait_by_timer(|| ());
    PER_MILLISECOND.store((counter() - begin) / MILLISECONDS, Ordering::Relaxed);
}

/// How long the timer runs.
pub const MILLISECONDS: u64 = 10;

/// Starts the machine's timer, calls `begin`, and returns when the timer has run.
pub fn wait_by_timer(begin: impl FnOnce()) {
    const COUNT: u16 = (1_193_182 * MILLISECONDS / 1000) as u16;
    let mut gate = Port::<u8>::new(0x61);
    // SAFETY: channel 2 of the timer drives nothing but the loudspeaker, which stays off.
    unsafe {
        let off = gate.read() & !3;
        gate.write(off);
        // Channel 2, both bytes, one shot.
        Port::<u8>::new(0x43).write(0xB0);
        let [low, high] = COUNT.to_le_bytes();
        Port::<u8>::new(0x42).write(low);
        Port::<u8>::new(0x42).write(high);
        gate.write(off | 1);
    }
    begin();
    // SAFETY: as above.
    while unsafe { gate.read() } & 0x20 == 0 {
        core::hint::spin_loop();
    }
}

/// Spins for so many microseconds.
pub fn spin(microseconds: u64) {
    let end = nanoseconds() + microseconds * 1000;
    while nanoseconds() < end {
        core::hint::spin_loop();
    }
}
