//! Ticks of a kernel, which stand for the thread that there is with `std`.

use crate::platform::atomic::AtomicBool;
use crate::platform::atomic::Ordering::Relaxed;
use crate::platform::system;

/// A tick was asked for, and has not begun yet.
static WANTED: AtomicBool = AtomicBool::new(false);

/// Bounds the time until what was queued last is run, as [`call_timely`](super::call_timely) does:
/// for callers of [`call_later`](super::call_later).
#[inline]
pub fn bound_wait() {
    // Relaxed, both: the locks of the queues order what the tick finds. An exchange that comes
    // before the one of `begin_tick` is of a callback that was queued before that tick looks.
    if !WANTED.load(Relaxed) && !WANTED.swap(true, Relaxed) {
        system::want_tick();
    }
}

/// Notes that a tick begins: what is queued from now on asks for another one.
pub(super) fn begin_tick() {
    WANTED.swap(false, Relaxed);
}
