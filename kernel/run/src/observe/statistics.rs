//! Calls by name: number, time, errors, and how many have trapped.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::call::Call;
use super::trace;

/// Numbers of calls that are counted one by one; all others share the last place.
const CALLS: usize = 512;

/// The counts of one call: calls, nanoseconds, errors, and calls that have trapped.
type Count = [AtomicU64; 4];

static COUNTS: [Count; CALLS + 1] = [const { [const { AtomicU64::new(0) }; 4] }; CALLS + 1];

/// Counts a call.
pub(super) fn count(call: &Call, result: i64, nanoseconds: u64) {
    let place = usize::try_from(call.number).unwrap_or(CALLS).min(CALLS);
    let is_error = u64::from((-4095..0).contains(&result));
    let more = [1, nanoseconds, is_error, call.has_trapped.into()];
    for (cell, more) in COUNTS[place].iter().zip(more) {
        // Relaxed: a report may miss the current call.
        cell.fetch_add(more, Relaxed);
    }
}

/// Sets all counts to 0, in the child of a fork.
pub(super) fn clear() {
    for cell in COUNTS.iter().flatten() {
        // Relaxed: the child has one thread.
        cell.store(0, Relaxed);
    }
}

/// The line of a call, or of all calls. `total` is the time of all.
fn line(name: &str, [calls, nanoseconds, errors, trapped]: [u64; 4], total: u64) -> String {
    let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    format!(
        "{:6.2} {:>14} {:>10} {:>10} {:>9} {:>8.2} {name}\n",
        share(nanoseconds, total),
        nanoseconds,
        nanoseconds / calls.max(1),
        calls,
        errors,
        share(trapped, calls),
    )
}

/// Returns the table of all calls, that with the longest time first.
pub(super) fn report() -> String {
    let mut total = [0; 4];
    let mut sums = Vec::new();
    for (number, count) in COUNTS.iter().enumerate() {
        // Relaxed: a report may miss calls that are under way.
        let sum = count.each_ref().map(|cell| cell.load(Relaxed));
        total = std::array::from_fn(|place| total[place] + sum[place]);
        if sum[0] > 0 {
            sums.push((sum, trace::name(number as i64)));
        }
    }
    // The longest time first, then the most calls.
    sums.sort_by_key(|([calls, nanoseconds, ..], _)| Reverse([*nanoseconds, *calls]));
    let mut text = format!(
        "fdtable: system calls of process {}\n{:>6} {:>14} {:>10} {:>10} {:>9} {:>8} call\n",
        std::process::id(),
        "% time",
        "ns",
        "ns/call",
        "calls",
        "errors",
        "% trap"
    );
    for (sum, name) in &sums {
        text += &line(name, *sum, total[1]);
    }
    text += &line("total", total, total[1]);
    text
}
