//! Uses of an object that do not change its count: hazard pointers.
//!
//! A call that finds an object in a slot *pins* it for as long as it uses it. Each thread has a few
//! words for that, on a cache line of its own. With letters that stand at the same steps in the
//! code:
//!
//! | | pin | | unpin | | last put |
//! |---|---|---|---|---|---|
//! | | enter a section | (K) | enter a section; *check* names the object | (P) | the slot is cleared |
//! | (L) | load the slot | (U) | exchange the pin for 0 | (C) | exchange: the count is dead |
//! | (X) | exchange the object into a pin | (R) | load the count | (S) | look at all pins |
//! | (M) | load the slot again: if it has changed, unpin and begin again | (S) | if it is dead, look at all pins | | |
//! | | leave the section | | leave the section | | |
//!
//! (X), (U) and (C) are locked instructions: full fences. They are in one order.
//!
//! - (X) before (C): the scan of the put sees the pin, or a later word of it. If it sees the pin,
//!   it leaves the release to the unpin: its (U) comes after (C), so (R) finds the count dead.
//! - (C) before (X): (P) comes before both, so (M) finds another object or none in the slot, and
//!   the pin ends as an unpin. The object is not used.
//! - Two unpins: the one whose (U) is later sees the other's pin gone in its scan. Both may find no
//!   pin, and then one of them [claims](crate::release) the object.
//!
//! A slot that has the object again at (M) means that the object lives: each slot that has it is a
//! reference, and a dead count never lives again. The section keeps the memory from (L) until the
//! pin does, so another object cannot be there instead. And it keeps the memory after (U), for (R).
//!
//! A thread that dies with a pin has it until its burial, which is an unpin in its name.

use crate::count::Count;
use crate::death::die_here;
use crate::platform::Ordering::{Acquire, Relaxed, Release};
use crate::platform::{AtomicU64, object, program_order, swap};
use crate::records::{Record, Thread};

/// A pinned object: a use that this thread has to [end](Self::unpin).
#[derive(Debug)]
#[must_use = "the object is never released while it is pinned"]
pub struct Pin<'t> {
    thread: &'t Thread<'t>,
    pin: &'t AtomicU64,
    object: u64,
}

impl Thread<'_> {
    /// Pins the object whose count is at the address in `slot`. Returns none if the slot has 0.
    ///
    /// It may have pinned another object for an instant. If that has lost its last reference
    /// meanwhile, this thread has to [release](Self::release_all) it.
    ///
    /// # Panics
    /// If this thread has pinned [`PINS`](crate::records::PINS) objects already.
    ///
    /// # Safety
    /// A `slot` other than 0 has the address of a [`Count`], and is one of its references.
    #[inline]
    pub unsafe fn pin<'t>(&'t self, slot: &AtomicU64) -> Option<Pin<'t>> {
        let mut pins = self.pins.0.iter();
        // Relaxed: only this thread writes them.
        let pin = pins
            .find(|pin| pin.load(Relaxed) == 0)
            .expect("a thread has too many pins");
        let outside = self.enter();
        let found = loop {
            // (L) Acquire: pairs with the release of the get that filled the slot, for the object.
            let found = slot.load(Acquire);
            if found == 0 {
                break None;
            }
            // (X) Relaxed: only its fence matters.
            swap(pin, found, Relaxed);
            die_here!(32);
            // (M) Relaxed: (L) has acquired the object, and the fence of (X) orders this.
            if slot.load(Relaxed) == found {
                break Some(Pin {
                    thread: self,
                    pin,
                    object: found,
                });
            }
            if unpin(self.record, pin, found) {
                self.check();
            }
        };
        self.leave(outside);
        die_here!(33);
        found
    }
}

impl<'t> Pin<'t> {
    /// The count of the object.
    #[must_use]
    pub fn count(&self) -> &Count {
        // SAFETY: no thread claims the object before the pin is given up, and `unpin` takes `self`.
        unsafe { object(self.object) }
    }

    /// Ends the use. If the object has lost its last reference meanwhile, this thread has to
    /// [release](Thread::release_all) it, unless another thread has pinned it too.
    #[inline]
    pub fn unpin(self) {
        let outside = self.thread.enter();
        if unpin(self.thread.record, self.pin, self.object) {
            self.thread.check();
        }
        self.thread.leave(outside);
    }
}

/// Gives up a pin, which has the object `pinned`, of a record that is in a section. Returns true if
/// the object has no reference: then it has to be [checked](crate::release).
#[inline(always)]
#[must_use]
pub(crate) fn unpin(record: &Record, pin: &AtomicU64, pinned: u64) -> bool {
    // (K)
    record.check.store(pinned, Relaxed);
    program_order();
    die_here!(34);
    // (U) Release: pairs with the acquire of a scan, so this use comes before the release.
    swap(pin, 0, Release);
    die_here!(35);
    // (R)
    // SAFETY: the section of the record keeps its memory.
    if unsafe { object::<Count>(pinned) }.is_live() {
        record.check.store(0, Relaxed);
        program_order();
        die_here!(36);
        return false;
    }
    true
}
