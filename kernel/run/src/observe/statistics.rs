//! Calls by name: number, time, errors, and how many have trapped.
//!
//! Each thread of the runner counts in a table of its own. A table lives forever; that of a thread
//! that has ended is used by the next one.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Call, trace};
use crate::guarded::Guarded;

/// Numbers of calls that are counted one by one; all others share the last place.
const CALLS: usize = 512;

/// The counts of one call. One thread writes them, so an addition is a load and a store.
#[derive(Default)]
struct Count {
    calls: AtomicU64,
    nanoseconds: AtomicU64,
    errors: AtomicU64,
    trapped: AtomicU64,
}

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
            let counts: &'static Counts = Box::leak(Box::new([const { empty() }; CALLS + 1]));
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

const fn empty() -> Count {
    Count {
        calls: AtomicU64::new(0),
        nanoseconds: AtomicU64::new(0),
        errors: AtomicU64::new(0),
        trapped: AtomicU64::new(0),
    }
}

std::thread_local! {
    static OWN: Owned = Owned::new();
}

/// Counts a call of the calling thread.
pub(super) fn count(call: &Call, result: i64, nanoseconds: u64) {
    let place = usize::try_from(call.number).unwrap_or(CALLS).min(CALLS);
    // Relaxed: the thread is the only writer, and a report may miss the call that is under way.
    let add = |cell: &AtomicU64, more: u64| cell.store(cell.load(Relaxed) + more, Relaxed);
    // The table is gone while the thread ends, and then nothing is left to count.
    let _ = OWN.try_with(|own| {
        let count = &own.0[place];
        add(&count.calls, 1);
        add(&count.nanoseconds, nanoseconds);
        add(&count.errors, u64::from((-4095..0).contains(&result)));
        add(&count.trapped, u64::from(call.has_trapped));
    });
}

/// Sets all counts to 0, in the child of a fork.
pub(super) fn clear() {
    for counts in &TABLES.lock().all {
        for count in counts.iter() {
            for cell in [
                &count.calls,
                &count.nanoseconds,
                &count.errors,
                &count.trapped,
            ] {
                // Relaxed: the child has one thread.
                cell.store(0, Relaxed);
            }
        }
    }
}

/// The sum over all threads.
#[derive(Default, Clone)]
struct Sum {
    name: String,
    calls: u64,
    nanoseconds: u64,
    errors: u64,
    trapped: u64,
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        self.calls += other.calls;
        self.nanoseconds += other.nanoseconds;
        self.errors += other.errors;
        self.trapped += other.trapped;
    }

    fn line(&self, total: u64) -> String {
        let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        format!(
            "{:6.2} {:>14} {:>10} {:>10} {:>9} {:>8.2} {}\n",
            share(self.nanoseconds, total),
            self.nanoseconds,
            self.nanoseconds / self.calls.max(1),
            self.calls,
            self.errors,
            share(self.trapped, self.calls),
            self.name
        )
    }
}

/// Returns the table of all calls, that with the longest time first.
pub(super) fn report() -> String {
    let tables = TABLES.lock();
    let mut sums = Vec::new();
    let mut total = Sum {
        name: "total".to_owned(),
        ..Sum::default()
    };
    for number in 0..=CALLS {
        let mut sum = Sum::default();
        for count in tables.all.iter().map(|counts| &counts[number]) {
            // Relaxed: a report may miss calls that are under way.
            sum.add(&Sum {
                name: String::new(),
                calls: count.calls.load(Relaxed),
                nanoseconds: count.nanoseconds.load(Relaxed),
                errors: count.errors.load(Relaxed),
                trapped: count.trapped.load(Relaxed),
            });
        }
        if sum.calls > 0 {
            sum.name = trace::name(number as i64);
            total.add(&sum);
            sums.push(sum);
        }
    }
    drop(tables);
    sums.sort_by(|a, b| {
        b.nanoseconds
            .cmp(&a.nanoseconds)
            .then(b.calls.cmp(&a.calls))
    });
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
    for sum in &sums {
        text += &sum.line(total.nanoseconds);
    }
    let _ = write!(text, "{}", total.line(total.nanoseconds));
    text
}
