//! Calls by name: number, time, errors, and how many have trapped.
//!
//! Each thread of the runner counts in a table of its own. A table lives forever; that of a thread
//! that has ended is used by the next one.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::observers::Call;
use super::trace;
use crate::guarded::Guarded;

/// Numbers of calls that are counted one by one; all others share the last place.
const CALLS: usize = 512;

/// The counts of one call: calls, nanoseconds, errors, and calls that have trapped. One thread
/// writes them, so an addition is a load and a store.
type Count = [AtomicU64; 4];

type Counts = [Count; CALLS + 1];

/// All tables, and those that no thread uses.
static TABLES: Guarded<Tables> = Guarded::new(Tables {
    all: Vec::new(),
    free: Vec::new(),
});

struct Tables {
    all: Vec<&'static Counts>,
    free: Vec<&'static Counts>,
}

/// The table of a thread.
struct Owned(&'static Counts);

impl Owned {
    fn new() -> Self {
        let mut tables = TABLES.lock();
        let counts = tables.free.pop().unwrap_or_else(|| {
            let counts: &'static Counts = Box::leak(Box::new(
                [const { [const { AtomicU64::new(0) }; 4] }; CALLS + 1],
            ));
            tables.all.push(counts);
            counts
        });
        Self(counts)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        TABLES.lock().free.push(self.0);
    }
}

std::thread_local! {
    static OWN: Owned = Owned::new();
}

/// Counts a call of the calling thread.
pub(super) fn count(call: &Call, result: i64, nanoseconds: u64) {
    let place = usize::try_from(call.number).unwrap_or(CALLS).min(CALLS);
    let is_error = u64::from((-4095..0).contains(&result));
    let more = [1, nanoseconds, is_error, call.has_trapped.into()];
    // The table is gone while the thread ends, and then nothing is left to count.
    let _ = OWN.try_with(|own| {
        for (cell, more) in own.0[place].iter().zip(more) {
            // Relaxed: the thread is the only writer, and a report may miss the current call.
            cell.store(cell.load(Relaxed) + more, Relaxed);
        }
    });
}

/// Sets all counts to 0, in the child of a fork.
pub(super) fn clear() {
    for cell in TABLES.lock().all.iter().copied().flatten().flatten() {
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
    let tables = TABLES.lock();
    let mut total = [0; 4];
    let mut sums = Vec::new();
    for number in 0..=CALLS {
        let mut sum = [0; 4];
        for count in tables.all.iter().map(|counts| &counts[number]) {
            for (place, cell) in count.iter().enumerate() {
                // Relaxed: a report may miss calls that are under way.
                let value = cell.load(Relaxed);
                sum[place] += value;
                total[place] += value;
            }
        }
        if sum[0] > 0 {
            sums.push((sum, trace::name(number as i64)));
        }
    }
    drop(tables);
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
