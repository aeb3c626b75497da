//! A reference count that is taken with one unconditional add.
//!
//! The usual "add one unless it is zero" is a compare-and-swap loop, and under contention each
//! failed round moves the cache line once more: quadratic in the number of threads. An add always
//! succeeds. So references are only ever taken by adds, and the old value shows whether the add
//! took a reference (Linux `file_ref_t` and `rcuref_t`; the comment at the head of Linux
//! `lib/rcuref.c` is the model of this one).
//!
//! The word is signed; it holds the number of references less one, and its range has zones:
//!
//! | value | zone | meaning |
//! |---|---|---|
//! | `0 ..= MAX` | live | value + 1 references; [`HOLD`] more while a burier is still leaving; a count that is [spread] has 2^62 more |
//! | `-1` | none | the last one was just put; the thread that put it must bury the object |
//! | around -[`HOLD`] | live | value + [`HOLD`] + 1 references; the burier left first |
//! | around [`DEAD`] | dead | buried; every get fails |
//! | around [`SATURATED`] | saturated | more references than can be counted; never released |
//!
//! *Getting* adds one. If the word was live, the get took a reference. It also did if the word was
//! -1: then the get came between the last put and its burial, and revived the object. Otherwise the
//! word is in the dead or in the saturated zone, and the slow path puts it back to the middle of
//! its zone, so that no number of further gets can carry it out.
//!
//! *Putting* takes one off. If the result is not negative, others remain. If it is -1, this was the
//! last: one compare-and-swap from -1 to [`DEAD`] buries the object. If that fails, another thread
//! has revived it.
//!
//! A thread that expects to put the last reference may try one compare-and-swap from 0, one
//! reference, to [`DEAD`]: both steps at once, with no instant between them in which the object can
//! be revived.
//!
//! *Revival.* The burier has no reference any more, and still looks at the word. The reviver could
//! put its reference, bury the object, and free it while the burier still looks. So the reviver
//! also adds a [`HOLD`] for the burier, which keeps the word from falling to -1. The burier takes
//! the hold off when it finds the object revived; it does not look again, unless that took the word
//! to -1: then it buries once more. The two may come in either order. If the burier is first, the
//! word is briefly around -[`HOLD`], and the reviver has its reference meanwhile. (In Linux the
//! burier disables preemption, a read-side section, from before its put.)
//!
//! The narrowest distance from the middle of a zone to its border is a sixteenth of the range above
//! zero: 2^59, and 2^27 on 32-bit machines. To cross it, that many threads would have to stand
//! between their add and their repair, or that many references would have to leak while a reviver
//! stands between its add and its hold.

use crate::platform::atomic::AtomicIsize;
use crate::platform::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

pub mod spread;

/// The middle of the dead zone: a quarter of the range below zero.
const DEAD: isize = isize::MIN / 4;

/// The middle of the saturated zone: a quarter of the range above the lowest value, where the
/// word lands when it passes the highest one.
const SATURATED: isize = isize::MIN / 4 * 3;

/// The border of the two zones: dead above, saturated below.
const BORDER: isize = isize::MIN / 2;

/// Amount that a reviver adds for the burier: an eighth of the range above zero.
const HOLD: isize = -(isize::MIN / 8);

/// The lowest word with a hold in it: one that is left with nothing else.
const HOLD_IN: isize = HOLD - 1;

/// The border between the dead zone, below, and the words around -[`HOLD`].
const DEAD_END: isize = -HOLD - HOLD / 2;

/// Amount that is added to the word of a count that is [spread]: half of the range above zero.
const BIAS: isize = -(isize::MIN / 2);

/// The border between the words without a bias, below, and those with one.
const BIASED: isize = BIAS / 2;

/// A bias is added to lower words alone: so it is never mistaken for a count, nor a count for it.
const SMALL: isize = HOLD / 2;

/// A reference count. A new one stands for one reference.
///
/// ```
/// use fdtable_sync::refcount::RefCount;
///
/// let count = RefCount::new();
/// assert!(count.get());
/// assert!(!count.put());
/// assert!(count.put(), "the last reference");
/// assert!(!count.get(), "the dead are not revived");
/// ```
#[derive(Debug, Default)]
#[repr(transparent)]
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
    /// A caller that reaches the count by a raw pointer must be sure that it still exists, by a
    /// reference or by a read-side section. The count guards no memory of its own.
    #[doc(alias = "file_ref_get")]
    #[inline(always)]
    #[must_use = "without a reference the object must not be touched"]
    pub fn get(&self) -> bool {
        let before = self.add();
        Self::is_plainly_live(before) || self.get_outside_live_zone(before)
    }

    /// Adds one, and returns the word before, which tells the caller whether it has a reference.
    #[inline(always)]
    fn add(&self) -> isize {
        // Relaxed: taking a reference publishes nothing. The holder's reads of the object were
        // ordered by the way in which it found the object, and its put orders its writes.
        self.0.fetch_add(1, Relaxed)
    }

    /// Returns true if an [`add`](Self::add) that found this word took a reference, and nothing is
    /// left to do.
    #[inline(always)]
    fn is_plainly_live(before: isize) -> bool {
        before >= 0 && before != isize::MAX
    }

    /// Returns true if an [`add`](Self::add) that found this word took a reference beside at least
    /// one other than that of a slot, and the count is not [spread]. A hint.
    #[inline(always)]
    fn has_others(before: isize) -> bool {
        // One comparison, of unsigned numbers: neither 0, nor large, nor that of an open part.
        (before as usize).wrapping_sub(1) < SMALL.unsigned_abs()
    }

    /// Drops a reference. Returns true if it was the last: then, and only then, the caller releases
    /// the object. A put without a reference makes the count wrong, and no more: code that frees
    /// memory by the answer is unsafe, and has to prevent that. One atomic add, and a
    /// compare-and-swap for the last one; neither blocks nor allocates.
    #[doc(alias = "file_ref_put")]
    #[inline(always)]
    #[must_use = "the thread that puts the last reference releases the object"]
    pub fn put(&self) -> bool {
        // Release: what this holder did with the object comes before its release; pairs with
        // the acquire in `bury`.
        let before = self.0.fetch_sub(1, Release);
        before <= 0 && self.put_outside_live_zone(before)
    }

    /// Drops a reference as [`put`](Self::put), for a holder that expects that it is the last: then
    /// one compare-and-swap suffices. If it is not, a load nearly always shows that first.
    #[inline(always)]
    #[must_use = "the thread that puts the last reference releases the object"]
    pub fn put_as_last(&self) -> bool {
        self.put_if_last() || self.put()
    }

    /// Drops a reference if it is the last one, and returns true then. It may return false for the
    /// last one while another thread is still leaving.
    #[inline(always)]
    #[must_use = "the thread that puts the last reference releases the object"]
    pub fn put_if_last(&self) -> bool {
        // A word of 0 is one reference, this one, and no burier that is still leaving. No thread
        // revives the object in between, so it goes from there to the dead zone in one step.
        // Relaxed: only a look, since a compare-and-swap that fails costs as much as one that
        // succeeds.
        // Acquire on success: as in `bury`. Relaxed on failure: nothing is read by it.
        self.0.load(Relaxed) == 0 && self.0.compare_exchange(0, DEAD, Acquire, Relaxed).is_ok()
    }

    /// Drops a reference, and returns true if it was the last, like [`put`](Self::put). Returns
    /// `None` if the word has a bias: with one it was not the last.
    fn put_noting_bias(&self) -> Option<bool> {
        // Release: as in `put`; and that the slot of the reference was emptied. Pairs with the
        // acquire in `pass`.
        // Acquire: pairs with the release in `pass`, so the mark of a spread count is visible.
        match self.0.fetch_sub(1, AcqRel) {
            // weaken: spread-count-without-a-bias
            BIASED.. => None,
            1.. => Some(false),
            before => Some(self.put_outside_live_zone(before)),
        }
    }

    /// Returns true if the word has a bias, for a holder that has emptied the slot of its
    /// reference.
    fn is_biased_now(&self) -> bool {
        self.pass() >= BIASED
    }

    /// Passes what other threads did before they changed the word, and what this one did, on to
    /// those that change it later. Returns the word.
    fn pass(&self) -> isize {
        // An atomic operation on the word, in one order with those of all others. It acquires and
        // releases: pairs with itself, and with `put_noting_bias`.
        // SeqCst, for the compiler: it may know that the word stays as it is, and keep nothing but
        // the ordering. On x86-64 that of an acquire and release is no instruction at all, and then
        // this thread's earlier store may come after its later loads.
        self.0.fetch_add(0, SeqCst)
    }

    /// Adds the bias, if the word is a small live count. Returns true if it did: then the caller
    /// alone [removes](Self::unbias) it, or the thread that it lets.
    fn bias(&self) -> bool {
        // Each failure means that another thread has changed the word.
        const ATTEMPTS: usize = 8;
        // Relaxed, also on failure: the word is only compared.
        let mut word = self.0.load(Relaxed);
        for _ in 0..ATTEMPTS {
            if !(0..SMALL).contains(&word) {
                return false;
            }
            // Acquire: pairs with the release in `unbias`, so that what was done to the parts
            // before it comes before what this thread does to them.
            // weaken: spread-count-without-a-bias
            let biased = self.0.compare_exchange(word, word + BIAS, Acquire, Relaxed);
            match biased {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Removes the bias, and adds the references that were counted elsewhere. Returns true if there
    /// is none: then the caller releases the object.
    fn unbias(&self, elsewhere: isize) -> bool {
        // weaken: spread-count-without-a-bias
        let change = elsewhere - BIAS;
        // Release: pairs with the acquire in `bias`, and with that of the thread that buries the
        // object: it passes on what the puts elsewhere have released.
        let before = self.0.fetch_add(change, Release);
        // weaken: last-put-that-is-not-buried-by-the-gatherer
        before + change == -1 && self.bury()
    }

    /// Returns how many references there are, or nothing once the last has been put. A hint:
    /// it may have changed by the time the caller looks at it. A saturated count answers
    /// `usize::MAX`.
    pub fn references(&self) -> Option<usize> {
        // Relaxed: a hint.
        Self::references_in(self.0.load(Relaxed))
    }

    /// Returns how many references there are at one moment, or nothing if some may be counted
    /// elsewhere: if the count is [spread], or is just being spread or gathered. A count that is
    /// dead has none.
    pub fn all_references(&self) -> Option<usize> {
        // Relaxed: the word is all that is looked at.
        let word = self.0.load(Relaxed);
        // weaken: count-at-one-moment-without-its-parts
        (word < BIASED).then(|| Self::references_in(word).unwrap_or(0))
    }

    fn references_in(word: isize) -> Option<usize> {
        let live = match word {
            ..BORDER => return Some(usize::MAX),
            BORDER..DEAD_END => return None,
            DEAD_END..-1 => word + HOLD,
            -1..HOLD_IN => word,
            HOLD_IN..BIASED => word - HOLD,
            BIASED.. => word - BIAS,
        };
        (live >= 0).then(|| live.unsigned_abs() + 1)
    }

    #[cold]
    fn get_outside_live_zone(&self, before: isize) -> bool {
        match before {
            // Relaxed: as the add in `get`; the put of this reference orders it.
            -1 => {
                // weaken: revival-without-a-hold
                self.0.fetch_add(HOLD, Relaxed);
                true
            }
            // The reviver has not added its hold yet.
            DEAD_END..-1 => true,
            BORDER..DEAD_END => {
                // Relaxed, here and below: moving the word inside its zone publishes nothing.
                self.0.store(DEAD, Relaxed);
                false
            }
            _ => {
                // Unless a put took the word back from the border of the saturated zone.
                if self.0.load(Relaxed) < 0 {
                    self.0.store(SATURATED, Relaxed);
                }
                true
            }
        }
    }

    #[cold]
    fn put_outside_live_zone(&self, before: isize) -> bool {
        match before {
            // weaken: drop-before-the-burial
            0 => return self.bury(),
            // The reviver has its reference.
            DEAD_END..0 => {}
            // A put without a get, detected: the object is dead already.
            BORDER..DEAD_END => self.0.store(DEAD, Relaxed),
            // Unless this put took the word back from the border of the saturated zone.
            _ if before == isize::MIN => {}
            _ => self.0.store(SATURATED, Relaxed),
        }
        false
    }

    /// Releases the object, unless another thread revived it since this thread took the word to -1.
    fn bury(&self) -> bool {
        loop {
            // Acquire on success: pairs with the release of every earlier put, so that the
            // release of the object comes after all that its holders did.
            // Relaxed on failure: the object is not this thread's to release.
            if self.0.compare_exchange(-1, DEAD, Acquire, Relaxed).is_ok() {
                return true;
            }
            // Release: the thread that releases the object also frees the word, after this last
            // look.
            // weaken: revival-without-a-hold
            if self.0.fetch_sub(HOLD, Release) != HOLD_IN {
                return false;
            }
        }
    }
}

/// Tells the model checker that no thread may touch the count any more.
#[cfg(loom)]
impl Drop for RefCount {
    fn drop(&mut self) {
        self.0.with_mut(|_| ());
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
    fn a_reference_that_is_put_as_the_last_is_or_is_not() {
        let count = RefCount::new();
        assert!(count.get());
        assert!(!count.put_as_last());
        assert_eq!(word(&count), 0);
        assert!(count.put_as_last());
        assert_eq!(word(&count), DEAD);
        assert!(!count.get());
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
        assert!(count.get_outside_live_zone(isize::MAX));
        assert_eq!(word(&count), isize::MAX);
    }

    #[test]
    fn a_get_before_the_burial_revives() {
        // The last put stands between its subtraction and its burial.
        let count = holding(-1);
        assert!(count.get());
        assert_eq!(count.references(), Some(1));
        assert!(!count.bury());
        assert_eq!(word(&count), 0);
        assert!(count.put());
    }

    #[test]
    fn a_reviver_leaves_the_burial_to_the_burier_that_is_still_there() {
        let count = holding(-1);
        assert!(count.get());
        assert!(!count.put(), "the burier still looks at the word");
        assert_eq!(count.references(), None);
        assert!(count.bury());
        assert_eq!(word(&count), DEAD);
    }

    #[test]
    fn a_burier_may_leave_before_he_is_held() {
        // The reviver stands between its add and its hold.
        let count = holding(0);
        assert!(!count.bury());
        assert_eq!(count.references(), Some(1));
        assert!(count.get());
        assert_eq!(count.references(), Some(2));
        assert!(!count.put());
        // The hold of the reviver.
        assert!(count.get_outside_live_zone(-1));
        assert_eq!(word(&count), 0);
        assert!(count.put());
    }
}

#[cfg(all(test, loom))]
mod loom {
    use super::*;
    use crate::model::Preemptions::{Any, AtMost};
    use crate::model::{Ends, JoinHandle, Watched, explore, join, spawn};
    use crate::platform::Arc;

    /// An object that the last put ends.
    struct Object {
        count: RefCount,
        watched: Watched,
    }

    impl Object {
        fn new(ends: &Ends) -> Arc<Self> {
            Arc::new(Self {
                count: RefCount::new(),
                watched: Watched::new(ends),
            })
        }

        fn put(&self) {
            if self.count.put() {
                self.watched.end();
            }
        }

        fn get_look_put(&self) {
            if self.count.get() {
                self.watched.look();
                self.put();
            }
        }
    }

    fn thread(object: &Arc<Object>, act: fn(&Object)) -> JoinHandle<()> {
        let object = object.clone();
        spawn(move || act(&object))
    }

    /// The last put does not see what another holder did before its own put.
    #[test]
    fn the_last_put_sees_what_every_holder_did() {
        explore(Any, || {
            let ends = Ends::default();
            let object = Object::new(&ends);
            assert!(object.count.get());
            let holder = thread(&object, |object| {
                object.watched.look();
                object.put();
            });
            object.put();
            join(holder);
            assert_eq!(ends.count(), 1);
        });
    }

    /// Two last puts, or none, or one while a reference is still held.
    #[test]
    fn one_put_is_the_last() {
        explore(Any, || {
            let ends = Ends::default();
            let object = Object::new(&ends);
            let getters = [Object::get_look_put; 2].map(|act| thread(&object, act));
            object.put();
            getters.into_iter().for_each(join);
            assert_eq!(ends.count(), 1);
            assert!(!object.count.get(), "the dead are not revived");
        });
    }

    /// Puts that expect to be the last, beside ordinary puts, revivals and holds.
    #[test]
    fn put_as_last_among_revivals_and_holds() {
        explore(AtMost(4), || {
            let ends = Ends::default();
            let object = Object::new(&ends);
            let expects = thread(&object, |object| {
                if object.count.get() {
                    object.watched.look();
                    if object.count.put_as_last() {
                        object.watched.end();
                    }
                }
            });
            let other = thread(&object, |object| {
                object.get_look_put();
                if object.count.get() {
                    object.watched.look();
                    if object.count.put_as_last() {
                        object.watched.end();
                    }
                }
            });
            object.put();
            join(expects);
            join(other);
            assert_eq!(ends.count(), 1);
            assert!(!object.count.get(), "the dead are not revived");
        });
    }

    /// The last put sees what every holder did: the acquire of `put_as_last`.
    #[test]
    fn a_put_as_the_last_sees_what_every_holder_did() {
        explore(Any, || {
            let ends = Ends::default();
            let object = Object::new(&ends);
            assert!(object.count.get());
            let holder = thread(&object, |object| {
                object.watched.look();
                object.put();
            });
            if object.count.put_as_last() {
                object.watched.end();
            }
            join(holder);
            assert_eq!(ends.count(), 1);
        });
    }
}
