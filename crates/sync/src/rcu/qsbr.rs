//! Quiescent-state based reclamation: the read side for loops that have a point at which they
//! hold nothing.

use super::WouldDeadlock;
use super::reader::Guard;
use crate::announce::Record;
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
        Self {
            record: Record::claim_online(),
            thread: PhantomData,
        }
    }

    /// Returns a guard for the section that the reader is in. Costs nothing.
    #[inline(always)]
    pub fn guard(&self) -> Guard<'_> {
        // SAFETY: the reader is its thread's. It is online whenever it is not borrowed alone, and
        // what ends a section borrows it so.
        unsafe { self.record.borrow_online() }
    }

    /// Announces that the reader holds nothing that it found before. Never blocks.
    #[doc(alias = "rcu_quiescent_state")]
    #[inline]
    pub fn quiescent(&mut self) {
        // SAFETY: this reader's own record, which is online. References that were found in the
        // section borrow the reader.
        unsafe { self.record.quiesce() };
    }

    /// Runs `f` while no grace period waits for this reader; `f` may block, and has no guard of
    /// this reader.
    pub fn offline<R>(&mut self, f: impl FnOnce() -> R) -> R {
        // SAFETY: as in `quiescent`.
        unsafe { self.record.go_offline() };
        let online = Online(self.record);
        let answer = f();
        drop(online);
        answer
    }

    /// Waits for a grace period, offline. Blocks.
    ///
    /// # Errors
    /// [`WouldDeadlock`] if the thread is inside another section or has another reader online.
    pub fn synchronize(&mut self) -> Result<(), WouldDeadlock> {
        self.offline(super::synchronize)
    }
}

/// Takes the reader online again, also when what ran offline panicked.
struct Online(&'static Record);

impl Drop for Online {
    fn drop(&mut self) {
        self.0.go_online();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: as in `quiescent`.
        unsafe { self.record.go_offline() };
        // SAFETY: offline, and the reader ends here.
        unsafe { self.record.retire() };
    }
}
