//! Several stores that all take place or none, if no other thread looks in between.
//!
//! A thread that holds the lock of a structure writes a list of (place, value) to its record, marks
//! it as valid, makes the stores, and clears the mark.
//!
//! - It dies before the mark: no store was made.
//! - It dies between: the burial makes all stores again. They are values and not changes, so a
//!   store that is made twice is made once. No other thread has stored to these places, since the
//!   lock is still held: locks are freed after all journals are done.
//! - It dies after: all stores were made.
//!
//! A second burial, after the first one died, repeats the same.

use crate::death::die_here;
use crate::platform::Ordering::{Relaxed, Release};
use crate::platform::{AtomicU64, object, program_order};
use crate::records::{Record, STORES, Thread};

impl Thread<'_> {
    /// Makes all stores, or none of them if the thread dies. Readers without the lock may see the
    /// first ones before the last ones.
    ///
    /// # Panics
    /// If there are more than [`STORES`].
    ///
    /// # Safety
    /// The places are in shared memory. They are guarded by locks that this thread holds, or are
    /// its own.
    #[doc(alias = "journal")]
    pub unsafe fn store_together(&self, stores: &[(&AtomicU64, u64)]) {
        assert!(stores.len() <= STORES, "more stores than a journal has");
        let journal = &self.record.stores;
        for ((place, value), (to, new)) in journal.stores.iter().zip(stores) {
            place.store(self.records.address(*to), Relaxed);
            value.store(*new, Relaxed);
            program_order();
            die_here!(4);
        }
        journal.count.store(stores.len() as u64, Relaxed);
        program_order();
        die_here!(5);
        complete(self.record);
    }
}

/// Makes the stores of a journal that is valid, and clears it.
pub(crate) fn complete(record: &Record) {
    let journal = &record.stores;
    let count = journal.count.load(Relaxed);
    for (place, value) in &journal.stores[..count as usize] {
        // SAFETY: a place lives as long as what guards it, and the thread of the record, alive or
        // dead, still holds that.
        let place: &AtomicU64 = unsafe { object(place.load(Relaxed)) };
        // Release: a reader without the lock sees what was written before.
        place.store(value.load(Relaxed), Release);
        die_here!(6);
    }
    program_order();
    journal.count.store(0, Relaxed);
    program_order();
    die_here!(7);
}
