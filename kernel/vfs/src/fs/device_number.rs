//! Device numbers: a unique one for each file system.

use crossbeam_utils::atomic::AtomicCell;

fdtable_sync::global! {
    /// The newest device number. Zero is never used.
    pub(super) static NEWEST: AtomicCell<u64> = AtomicCell::new(0);
}

/// Returns a device number that is unique in this host process, at least 1:
/// [`Stat::device`](super::Stat::device) of the inodes of a file system.
pub fn fresh() -> u64 {
    NEWEST.fetch_add(1) + 1
}
