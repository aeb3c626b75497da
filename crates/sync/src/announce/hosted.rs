//! Records of threads that end or do not exist, and of processes that share them.

use super::thread::lend;
use super::{FENCED, RECORDS, Record, Records, forget_own_record, keep, name, own_record};
use crate::platform::atomic::Ordering::{Acquire, Relaxed};

impl Record {
    /// Returns true if the record is that of a thread of the process with this name. Where
    /// processes do not share them, all records are: each has the name 0.
    pub(crate) fn is_of(&self, process: u32) -> bool {
        // Acquire: pairs with the release in `unclaim`, so that what the thread has done inside
        // comes before, if this finds its record released.
        self.process.load(Acquire) == process
    }

    /// Returns the calling thread's record, claimed now if it had none; and true if the thread only
    /// borrows it, as it is ending. It is then to be [returned](Self::return_lent).
    pub(crate) fn own_or_lent() -> (&'static Self, bool) {
        if let Some(record) = own_record() {
            return (record, false);
        }
        let record = RECORDS.claim();
        let is_lent = !keep(record);
        if is_lent {
            lend(record);
        }
        (record, is_lent)
    }

    /// Lends a record to the calling thread, which has none, as if it were ending.
    #[cfg(any(test, not(loom)))]
    pub(crate) fn lent() -> &'static Self {
        let record = RECORDS.claim();
        lend(record);
        record
    }

    /// Releases the record that a thread borrowed while it was ending. If the thread still
    /// announces something, it keeps the record.
    pub(crate) fn return_lent(&self) {
        let words = &self.words;
        let is_inside = !matches!(words.plain.get(), 0 | FENCED) || words.counted.get() != 0;
        if !is_inside && words.further.freezer.get() == 0 {
            forget_own_record();
            self.unclaim();
        }
    }

    /// Withdraws all that a thread had announced which does not exist any more.
    fn forget(&self) {
        let words = &self.words;
        words.plain.set(0);
        words.counted.set(0);
        words.brlock.set(0);
        words.further.freezer.set(0);
        words.further.put_off.store(0, Relaxed);
        self.unclaim();
    }
}

impl Records {
    /// Releases all records but those of the calling thread. They say then that no thread is inside
    /// of anything.
    ///
    /// # Safety
    /// The threads that claimed them do not exist.
    pub(crate) unsafe fn forget_others(&self) {
        let own = name();
        // Relaxed: there is one thread, and it starts the others.
        self.iter()
            .filter(|record| record.owner.load(Relaxed) != own)
            .for_each(Record::forget);
    }

    /// Releases the records of a process that shares them. They say then that no thread is inside
    /// of anything.
    ///
    /// # Safety
    /// The process has ended.
    pub(crate) unsafe fn forget_process(&self, process: u32) {
        // Relaxed: the threads are dead, and the caller has learned of that from the system.
        self.iter()
            .filter(|record| record.claimed.load(Relaxed))
            .filter(|record| record.process.load(Relaxed) == process)
            .for_each(Record::forget);
    }

    /// Leaves the record of the calling thread to the parent of its process, and claims another
    /// one.
    pub(crate) fn leave_to_parent(&self) {
        forget_own_record();
        let record = self.claim();
        if !keep(record) {
            record.unclaim();
        }
    }
}
