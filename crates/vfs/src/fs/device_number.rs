//! Numbers of file systems: each one's own.

use crossbeam_utils::atomic::AtomicCell;

/// The newest number. Zero is no file system.
static NEWEST: AtomicCell<u64> = AtomicCell::new(0);

/// Returns a number that no file system of this process has or had, at least 1: what
/// [`Stat::device`](super::Stat::device) of its inodes says.
pub fn fresh() -> u64 {
    NEWEST.fetch_add(1) + 1
}
