//! Races that descriptor tables are known for, each with a test that shows it.
//!
//! Another table has had every one of them: nothing crashed, and the descriptors or the references
//! were wrong a little later. So each test ends with an exact account: which descriptors are taken,
//! and how many references there are to a file that the test itself still holds.
//!
//! - `update_lost_in_close`: two closes change one word, and one of the changes is gone.
//! - `off_by_one_at_the_end`: no open gets the last descriptor, or one gets the descriptor after
//!   it.
//! - `reference_lost`: a copy of a reference is not counted.
//! - `fork_reads_a_row_twice`: a copy with parts of two moments.
//! - `dup2_releases_twice`: two threads replace one file, and both release it.
//! - `pair_half_taken`: a call that needs two descriptors gets one, and keeps it.
//!
//! Threads contend for each for a third of a second, or for `FDTABLE_STRESS_SECONDS`;
//! `cargo xtask loom` explores small programs of the same kind.

// The platform of a library without `std`.
#[cfg(hooks)]
use fdtable_hooks as _;

mod dup2_releases_twice;
mod fork_reads_a_row_twice;
mod off_by_one_at_the_end;
mod pair_half_taken;
mod reference_lost;
mod update_lost_in_close;

#[cfg(loom)]
mod exploration;
#[cfg(not(loom))]
mod hammer;

use fdtable::{Fd, FdFlags, Files, RawFd};

const NONE: FdFlags = FdFlags::empty();

/// The open descriptors of a table that no thread changes; none is reserved.
fn listed<T: Send + Sync>(files: &Files<T>) -> Vec<RawFd> {
    let open: Vec<RawFd> = files.iter().map(|(fd, ..)| fd).map(Fd::raw).collect();
    assert_eq!(files.open_count(), open.len(), "{open:?}");
    open
}
