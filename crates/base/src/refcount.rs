//! A reference count that is taken with one unconditional add.
//!
//! The usual "add one unless it is zero" is a compare-and-swap loop, and under contention each
//! failed round moves the cache line once more: quadratic in the number of threads. An add
//! always succeeds. So the count may only ever be added to, and what the add found tells
//! whether the reference was had (Linux `file_ref_t` and `rcuref_t`; the comment at the head of
//! Linux `lib/rcuref.c` is the model of this one).
//!
//! The word is signed; it holds the number of references less one, and its range has zones:
//!
//! | value | zone | meaning |
//! |---|---|---|
//! | `0 ..= MAX` | live | value + 1 references |
//! | `-1` | none | the last one was just put; somebody must bury it |
//! | around [`DEAD`] | dead | buried; every get fails |
//! | around [`SATURATED`] | saturated | more references than can be counted; never released |
//!
//! *Getting* adds one. If the result is not negative, the reference is had: also when the word
//! was -1, which means that the get came between the last put and its burial, and revived the
//! object. Otherwise the word is in the dead or in the saturated zone, and the slow path puts
//! it back to the middle of its zone, so that no number of further gets can carry it out.
//!
//! *Putting* takes one off. If the result is not negative, others remain. If it is -1, this was
//! the last: one compare-and-swap from -1 to [`DEAD`] buries the object. If that fails,
//! somebody revived it, and it is his to release.
//!
//! The zones are a quarter of the word's range wide. To cross one, about 2^61 threads would
//! have to stand between their add and their repair (2^29 on 32-bit machines).

use crate::sync::atomic::AtomicIsize;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The middle of the dead zone: a quarter of the range below zero.
const DEAD: isize = isize::MIN / 4;

/// The middle of the saturated zone: a quarter of the range above the lowest value, where the
/// word lands when it passes the highest one.
const SATURATED: isize = isize::MIN / 4 * 3;

/// The border of the two zones: dead above, saturated below.
const BORDER: isize = isize::MIN / 2;

/// A reference count. A new one stands for one reference.
///
/// ```
/// use fdtable_base::refcount::RefCount;
///
/// let count = RefCount::new();
/// assert!(count.get());
/// assert!(!count.put());
/// assert!(count.put(), "the last reference");
/// assert!(!count.get(), "the dead are not revived");
/// ```
#[derive(Debug)]
pub struct RefCount(AtomicIsize);

impl RefCount {
    /// Makes a count of one reference.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicIsize::new(0))
    }

    /// Takes a reference, unless the last one has been put. One atomic add; neither blocks nor
    /// allocates.
    ///
    /// The caller must be sure that the count itself still exists, by a reference that it holds
    /// or by a read-side section.
    #[doc(alias = "file_ref_get")]
    #[inline(always)]
    #[must_use = "without a reference the object must not be touched"]
    pub fn get(&self) -> bool {
        // Relaxed: taking a reference publishes nothing. What the holder reads of the object
        // was ordered by the way in which it found the object, and what it wrote is ordered by
        // its put.
        let before = self.0.fetch_add(1, Relaxed);
        // -1 counts as had: the put that left it there will find it revived.
        before >= -1 && before != isize::MAX || self.get_outside_live_zone()
    }

    /// Drops a reference; tells whether it was the last. Then, and only then, the caller
    /// releases the object. One atomic add, and a compare-and-swap for the last one; neither
    /// blocks nor allocates.
    #[doc(alias = "file_ref_put")]
    #[inline(always)]
    #[must_use = "who puts the last reference releases the object"]
    pub fn put(&self) -> bool {
        // Release: what this holder did with the object comes before its release; pairs with
        // the acquire in `bury`.
        let before = self.0.fetch_sub(1, Release);
        before <= 0 && self.put_outside_live_zone()
    }

    /// Returns how many references there are, or nothing once the last has been put. A hint:
    /// it may have changed by the time the caller looks at it. A saturated count answers
    /// `usize::MAX`.
    pub fn references(&self) -> Option<usize> {
        // Relaxed: a hint.
        match self.0.load(Relaxed) {
            live if live >= 0 => Some(live.unsigned_abs() + 1),
            below if below < BORDER => Some(usize::MAX),
            _ => None,
        }
    }

    #[cold]
    fn get_outside_live_zone(&self) -> bool {
        // Relaxed, here and below: moving the word inside its zone tells nobody anything.
        match self.0.load(Relaxed) {
            // A put took the word back from the border of the saturated zone.
            live if live >= 0 => true,
            below if below < BORDER => {
                self.0.store(SATURATED, Relaxed);
                true
            }
            _ => {
                self.0.store(DEAD, Relaxed);
                false
            }
        }
    }

    #[cold]
    fn put_outside_live_zone(&self) -> bool {
        // Relaxed: the value only chooses the case; `bury` decides by itself.
        match self.0.load(Relaxed) {
            below if below < BORDER => {
                self.0.store(SATURATED, Relaxed);
                false
            }
            // A put without a get, caught: the object is dead already.
            below if below < -1 => {
                self.0.store(DEAD, Relaxed);
                false
            }
            _ => self.bury(),
        }
    }

    fn bury(&self) -> bool {
        // Acquire on success: pairs with the release of every earlier put, so that the release
        // of the object comes after all that its holders did.
        // Relaxed on failure: somebody revived the object or buried it; it is his.
        self.0.compare_exchange(-1, DEAD, Acquire, Relaxed).is_ok()
    }
}

impl Default for RefCount {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn holding(word: isize) -> RefCount {
        RefCount(AtomicIsize::new(word))
    }

    fn word(count: &RefCount) -> isize {
        count.0.load(Relaxed)
    }

    #[test]
    fn the_last_put_and_no_other_is_told() {
        let count = RefCount::new();
        assert!(count.get());
        assert!(count.get());
        assert_eq!(count.references(), Some(3));
        assert!(!count.put());
        assert!(!count.put());
        assert!(count.put());
        assert_eq!(count.references(), None);
    }

    #[test]
    fn gets_of_the_dead_fail_and_do_not_wear_the_zone_out() {
        let count = RefCount::new();
        assert!(count.put());
        for _ in 0..1000 {
            assert!(!count.get());
            assert_eq!(word(&count), DEAD);
        }
    }

    #[test]
    fn a_put_too_many_is_never_the_last() {
        let count = RefCount::new();
        assert!(count.put());
        for _ in 0..1000 {
            assert!(!count.put());
            assert_eq!(word(&count), DEAD);
        }
    }

    #[test]
    fn the_count_saturates_instead_of_wrapping() {
        let count = holding(isize::MAX);
        assert!(count.get());
        assert_eq!(word(&count), SATURATED);
        assert_eq!(count.references(), Some(usize::MAX));
        for _ in 0..1000 {
            assert!(count.get());
            assert!(!count.put());
            assert!(!count.put());
            assert_eq!(word(&count), SATURATED);
        }
    }

    #[test]
    fn the_highest_count_is_still_counted() {
        let count = holding(isize::MAX - 1);
        assert!(count.get());
        assert_eq!(word(&count), isize::MAX);
        assert!(!count.put());
        assert_eq!(word(&count), isize::MAX - 1);
    }

    #[test]
    fn a_put_that_meets_the_border_unrepaired_leaves_a_true_count() {
        // One get stands between its add and its repair.
        let count = holding(isize::MIN);
        assert!(!count.put());
        assert_eq!(word(&count), isize::MAX);
        // The repair of that get.
        assert!(count.get_outside_live_zone());
        assert_eq!(word(&count), isize::MAX);
    }

    #[test]
    fn a_get_before_the_burial_revives() {
        // The last put stands between its subtraction and its burial.
        let count = holding(-1);
        assert!(count.get());
        assert!(!count.bury());
        assert_eq!(count.references(), Some(1));
        assert!(count.put());
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::Arc;
    use crate::sync::atomic::AtomicUsize;

    /// Two holders put while a third party tries to get: exactly one put is the last, and a
    /// reference that was had keeps the object from its release.
    #[test]
    fn one_put_is_the_last() {
        loom::model(|| {
            let count = Arc::new(RefCount::new());
            let last = Arc::new(AtomicUsize::new(0));
            assert!(count.get());
            let put = |count: Arc<RefCount>, last: Arc<AtomicUsize>| {
                move || {
                    if count.put() {
                        last.fetch_add(1, Relaxed);
                    }
                }
            };
            let one = loom::thread::spawn(put(count.clone(), last.clone()));
            let two = loom::thread::spawn(put(count.clone(), last.clone()));
            if count.get() {
                put(count.clone(), last.clone())();
            }
            one.join().expect("the model ends");
            two.join().expect("the model ends");
            assert_eq!(last.load(Relaxed), 1);
            assert!(!count.get());
        });
    }

    /// What a holder wrote before its put is seen by whoever puts last.
    #[test]
    fn the_last_put_sees_what_every_holder_did() {
        loom::model(|| {
            let shared = Arc::new((RefCount::new(), loom::cell::UnsafeCell::new(0)));
            assert!(shared.0.get());
            let holder = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    shared.1.with(|place| {
                        // SAFETY: nobody writes before the last put.
                        unsafe { *place }
                    });
                    release_if_last(&shared);
                })
            };
            release_if_last(&shared);
            holder.join().expect("the model ends");
        });
    }

    fn release_if_last(shared: &(RefCount, loom::cell::UnsafeCell<u32>)) {
        if shared.0.put() {
            shared.1.with_mut(|place| {
                // SAFETY: this was the last reference; loom checks that no read runs beside.
                unsafe { *place = 1 }
            });
        }
    }
}
