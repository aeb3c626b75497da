//! The record that a thread keeps, and how many of its sections are elsewhere.

#[cfg(not(any(feature = "std", loom)))]
pub(crate) use kernel::claim;
#[cfg(not(any(feature = "std", loom)))]
pub(crate) use kernel::{
    count_unowned_section, forget_own_record, keep, name, own_or_none, unowned_sections,
};
#[cfg(any(feature = "std", loom))]
pub(crate) use local::{
    count_unowned_section, forget_own_record, keep, lend, name, own_or_none, unowned_sections,
};

/// In a thread local.
#[cfg(any(feature = "std", loom))]
mod local {
    use super::super::{Record, no_record};
    use core::cell::Cell;

    #[cfg(loom)]
    use loom::thread_local;
    #[cfg(not(loom))]
    use std::thread_local;

    #[cfg(not(loom))]
    thread_local! {
        // No destructor, so reading it is one load; `RETURN` takes the record back.
        // A pointer: Rust 1.88 refuses constants with a reference to memory that changes.
        static RECORD: Cell<*const Record> = const { Cell::new(&raw const super::super::NO_RECORD) };
        static UNOWNED: Cell<isize> = const { Cell::new(0) };
        static RETURN: Return = const { Return(Cell::new(None)) };
    }
    #[cfg(loom)]
    thread_local! {
        static RECORD: Cell<*const Record> = Cell::new(no_record());
        static UNOWNED: Cell<isize> = Cell::new(0);
        static RETURN: Return = Return(Cell::new(None));
    }

    /// Releases the thread's record when the thread ends.
    struct Return(Cell<Option<&'static Record>>);

    impl Drop for Return {
        fn drop(&mut self) {
            // A model that failed is gone when its threads are cleared away.
            #[cfg(loom)]
            if std::thread::panicking() {
                return;
            }
            let Some(record) = self.0.take() else {
                return;
            };
            // A thread that still announces something, or leaked a guard, keeps its record.
            if !record.words.are_in_use() {
                // Sections that begin after this one claim a record each.
                forget_own_record();
                record.unclaim();
            }
        }
    }

    #[inline(always)]
    pub(crate) fn own_or_none() -> &'static Record {
        let record = RECORD.try_with(Cell::get).unwrap_or_else(|_| no_record());
        // SAFETY: it comes from a `static` reference: `NO_RECORD` at first, and then what
        // `lend`, `keep` and `forget_own_record` store.
        unsafe { &*record }
    }

    /// Names the calling thread, by a nonzero number that no other living thread has. In a child of
    /// a fork the forking thread keeps its name.
    pub(crate) fn name() -> usize {
        RECORD
            .try_with(|own| core::ptr::from_ref(own).addr())
            .unwrap_or(1)
    }

    /// Makes `record` the thread's own until it is [forgotten](forget_own_record), while the thread
    /// is ending.
    pub(crate) fn lend(record: &'static Record) {
        let _ = RECORD.try_with(|own| own.set(record));
    }

    pub(crate) fn forget_own_record() {
        let _ = RECORD.try_with(|own| own.set(no_record()));
    }

    /// Keeps `record` as the thread's own until the thread ends. Refuses when it is ending.
    pub(crate) fn keep(record: &'static Record) -> bool {
        RETURN
            .try_with(|place| {
                let kept = RECORD.try_with(|own| own.set(record)).is_ok();
                place.0.set(kept.then_some(record));
                kept
            })
            .unwrap_or(false)
    }

    /// How many sections of this thread are not on its own record: those of online quiescent-state
    /// readers, and those that claimed a record each.
    pub(crate) fn unowned_sections() -> isize {
        UNOWNED.try_with(Cell::get).unwrap_or(0)
    }

    pub(crate) fn count_unowned_section(change: isize) {
        let _ = UNOWNED.try_with(|count| count.set(count.get() + change));
    }
}

/// In the word that a kernel keeps for each thread. Where it keeps none, the library knows nothing
/// of its caller, and each section claims a record.
#[cfg(not(any(feature = "std", loom)))]
mod kernel {
    use super::super::{RECORDS, Record, no_record, own_record};
    use crate::platform::atomic::Ordering::Relaxed;
    use crate::platform::{enter_lock, hooks, leave_lock};
    use core::ptr;

    #[inline(always)]
    pub(crate) fn own_or_none() -> &'static Record {
        // SAFETY: null, or what `keep` stored on this thread: records are never freed and only
        // ever shared.
        unsafe { hooks::thread_word().cast::<Record>().as_ref() }.unwrap_or_else(no_record)
    }

    /// Names the calling thread by its record; 0 if it has none.
    pub(crate) fn name() -> usize {
        own_record().map_or(0, |record| ptr::from_ref(record).addr())
    }

    /// Keeps `record` as the thread's own until the thread ends. Refuses where there is no place.
    pub(crate) fn keep(record: &'static Record) -> bool {
        let word = ptr::from_ref(record).cast_mut().cast();
        // SAFETY: the library sets it to a record or to null.
        unsafe { hooks::set_thread_word(word) };
        ptr::eq(hooks::thread_word(), word)
    }

    pub(crate) fn forget_own_record() {
        // SAFETY: as in `keep`.
        unsafe { hooks::set_thread_word(ptr::null_mut()) };
    }

    /// How many sections of this thread are not on its own record: those of online quiescent-state
    /// readers.
    pub(crate) fn unowned_sections() -> isize {
        // Relaxed: a thread sees its own stores.
        own_record().map_or(0, |record| record.words.local.unowned.load(Relaxed))
    }

    /// Counts nothing for a thread without a record.
    pub(crate) fn count_unowned_section(change: isize) {
        if let Some(record) = own_record() {
            // Relaxed, and no exchange: as above.
            let unowned = record.words.local.unowned.load(Relaxed);
            let count = &record.words.local.unowned;
            count.store(unowned + change, Relaxed);
        }
    }

    /// Claims a record for the calling thread, which has none, if it can keep one.
    #[cold]
    pub(crate) fn claim() -> Option<&'static Record> {
        enter_lock();
        // An interrupt handler may have done so before.
        let kept = own_record().or_else(|| {
            let record = RECORDS.claim();
            if keep(record) {
                return Some(record);
            }
            record.unclaim();
            None
        });
        // SAFETY: entered above.
        unsafe { leave_lock() };
        kept
    }
}
