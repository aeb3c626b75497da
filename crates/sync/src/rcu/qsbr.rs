//! Quiescent-state based reclamation: the read side for loops that have a point at which they
//! hold nothing.

use super::WouldDeadlock;
use super::reader::{Guard, Section};
use crate::announce::{RECORDS, Record, count_unowned_section, with_made_state};
use core::marker::PhantomData;

/// A reader whose section lasts from one quiescent state to the next.
///
/// While it is online, everything that it finds stays until it announces the next quiescent
/// state, and so grace periods wait for that: call [`quiescent`](Self::quiescent) often, go
/// [`offline`](Self::offline) before anything that blocks. The borrow checker ensures that
/// no [`Guard`] is alive at either.
///
/// It is for worker loops of kernels and servers: one reader for each worker thread. It belongs
/// to its thread. Leaking it leaves it online: grace periods never end, memory is kept.
///
/// ```
/// use fdtable_sync::rcu::{self, qsbr::Reader};
///
/// let mut reader = Reader::online();
/// for _request in 0..3 {
///     let _guard = reader.guard();      // costs nothing
///     // look things up
/// #   drop(_guard);
///     reader.quiescent();               // one store
/// }
/// reader.offline(|| { /* sleep until there is work */ });
/// ```
#[derive(Debug)]
pub struct Reader {
    record: &'static Record,
    /// The count of online readers is its thread's.
    thread: PhantomData<*const ()>,
}

impl Reader {
    /// Makes a reader that is online. Allocates when there is no record to reuse.
    #[must_use]
    pub fn online() -> Self {
        let record = RECORDS.claim();
        drop(Online(record));
        Self {
            record,
            thread: PhantomData,
        }
    }

    /// Returns a guard for the section that the reader is in. Costs nothing.
    #[inline(always)]
    pub fn guard(&self) -> Guard<'_> {
        // SAFETY: the reader is online whenever it is not borrowed alone, and what ends its section
        // borrows it so.
        unsafe { Guard::of(None) }
    }

    /// Announces that the reader holds nothing that it found before. Never blocks.
    #[doc(alias = "rcu_quiescent_state")]
    #[inline]
    pub fn quiescent(&mut self) {
        // SAFETY: the reader is online, by its own thread. References that were found in its
        // section borrow it.
        unsafe { Section::counted(self.record).renew() };
    }

    /// Runs `f` while no grace period waits for this reader; `f` may block, and has no guard of
    /// this reader.
    pub fn offline<R>(&mut self, f: impl FnOnce() -> R) -> R {
        go_offline(self.record);
        let _online = Online(self.record);
        f()
    }

    /// Waits for a grace period, offline. Blocks.
    ///
    /// # Errors
    /// [`WouldDeadlock`] if the thread is inside another section or has another reader online.
    pub fn synchronize(&mut self) -> Result<(), WouldDeadlock> {
        self.offline(super::synchronize)
    }
}

/// Takes a reader online when it is dropped, also when what ran offline panicked.
struct Online(&'static Record);

impl Drop for Online {
    fn drop(&mut self) {
        // Left by `go_offline`.
        self.0.enter_counted();
        // The count of a thread that has no record would be lost.
        with_made_state(|_| ());
        count_unowned_section(1);
    }
}

/// Ends the section of a reader that is online, and is borrowed alone by its own thread.
fn go_offline(record: &'static Record) {
    // SAFETY: entered by `Online`. References that were found in it borrow the reader.
    unsafe { Section::counted(record).leave() };
    count_unowned_section(-1);
}

impl Drop for Reader {
    fn drop(&mut self) {
        go_offline(self.record);
        self.record.unclaim();
    }
}
