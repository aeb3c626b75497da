//! A counted box in the general caches, like the standard library's `Arc` in the heap.
//!
//! For short-lived values that are wide or widely aligned, which heaps allocate slowly. Like the
//! value of a `Ref<T>` of `fdtable-objects`, and unlike that of a `Ref<Rcu<T>>`, the value is
//! dropped with its last reference, on the thread that drops it, without a grace period.
//!
//! There are two [counts](fdtable_sync::refcount). One counts the users of the value. The other
//! counts the references that keep the memory: one for each weak reference, and one for all users
//! together.

use alloc::alloc::handle_alloc_error;
use core::alloc::Layout;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

use super::general;
use fdtable_sync::fallible::OutOfMemory;
use fdtable_sync::refcount::RefCount;

/// A counted reference to a value in memory of the general caches. The value is dropped with the
/// last one.
///
/// ```
/// use fdtable_slab::SlabArc;
///
/// let one = SlabArc::new([7; 100]);
/// let other = one.clone();
/// let weak = SlabArc::downgrade(&one);
/// drop(one);
/// assert_eq!(weak.upgrade().map(|value| value[99]), Some(7));
/// drop(other);
/// assert!(weak.upgrade().is_none());
/// ```
pub struct SlabArc<T> {
    block: NonNull<Block<T>>,
    owns: PhantomData<T>,
}

/// A weak reference: it keeps the memory of a [`SlabArc`], but not its value.
pub struct SlabWeak<T> {
    block: NonNull<Block<T>>,
}

/// The counts come first, so that they can be accessed without the value.
#[repr(C)]
struct Block<T> {
    counts: Counts,
    value: T,
}

#[derive(Default)]
struct Counts {
    /// The users of the value.
    users: RefCount,
    /// The references that keep the memory.
    keepers: RefCount,
}

// SAFETY: as for an `Arc`: it shares `&T` between threads, and the last one, on any thread, drops
// the value.
unsafe impl<T: Send + Sync> Send for SlabArc<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for SlabArc<T> {}
// SAFETY: as above; it may be upgraded to one.
unsafe impl<T: Send + Sync> Send for SlabWeak<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for SlabWeak<T> {}

impl<T> SlabArc<T> {
    /// Allocates a value. Aborts the process if there is no memory, as boxes do.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self::try_new(value)
            .unwrap_or_else(|OutOfMemory| handle_alloc_error(Layout::new::<Block<T>>()))
    }

    /// Allocates a value.
    ///
    /// # Errors
    /// [`OutOfMemory`]; the value is dropped.
    pub fn try_new(value: T) -> Result<Self, OutOfMemory> {
        let place = general::alloc(Layout::new::<Block<T>>()).ok_or(OutOfMemory)?;
        let block = place.cast::<Block<T>>();
        // SAFETY: no other thread has the memory, and it begins with the counts.
        unsafe { place.cast().write(Counts::default()) };
        // SAFETY: the memory is as large and aligned as a block asks for.
        let there = unsafe { &raw mut (*block.as_ptr()).value };
        // A separate statement, so that the value is moved once.
        // SAFETY: as above.
        unsafe { there.write(value) };
        Ok(Self {
            block,
            owns: PhantomData,
        })
    }

    /// Allocates a value, and passes it to `init` in its place, before anything else has it.
    ///
    /// # Errors
    /// [`OutOfMemory`], or the error of `init`; the value is dropped.
    pub fn try_new_with<E: From<OutOfMemory>>(
        value: T,
        init: impl FnOnce(&mut T) -> Result<(), E>,
    ) -> Result<Self, E> {
        let this = Self::try_new(value)?;
        // SAFETY: allocated above, and `this` is the only reference; it keeps the value.
        init(unsafe { &mut (*this.block.as_ptr()).value })?;
        Ok(this)
    }

    /// Makes a weak reference. Neither blocks nor allocates.
    #[must_use]
    pub fn downgrade(this: &Self) -> SlabWeak<T> {
        this.block().counts.keep();
        SlabWeak { block: this.block }
    }

    fn block(&self) -> &Block<T> {
        // SAFETY: a user keeps the memory, and the value in it.
        unsafe { self.block.as_ref() }
    }
}

impl Counts {
    /// Adds one keeper. The caller is a keeper itself.
    fn keep(&self) {
        let had = self.keepers.get();
        debug_assert!(had, "a keeper keeps the memory");
    }
}

impl<T> Deref for SlabArc<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: a user keeps the memory, and the value in it.
        let block = unsafe { self.block.as_ref() };
        &block.value
    }
}

impl<T> Clone for SlabArc<T> {
    fn clone(&self) -> Self {
        let had = self.block().counts.users.get();
        debug_assert!(had, "a user keeps the value");
        Self {
            block: self.block,
            owns: PhantomData,
        }
    }
}

impl<T> Drop for SlabArc<T> {
    #[inline]
    fn drop(&mut self) {
        // Most values have one user.
        if !self.block().counts.users.put_as_last() {
            return;
        }
        // The keeper of all users is released when the value is dropped, even if that panics.
        let _keeper = SlabWeak { block: self.block };
        let value = self.block.as_ptr();
        // SAFETY: the keeper keeps the memory.
        let value = unsafe { &raw mut (*value).value };
        // SAFETY: written when it was made. The last user is gone, and no other can come: the count
        // is dead. So the value is no longer used, and it is dropped once.
        unsafe { value.drop_in_place() };
    }
}

impl<T> SlabWeak<T> {
    /// Upgrades to a reference that keeps the value, unless the last one is gone. Neither blocks
    /// nor allocates.
    #[must_use]
    pub fn upgrade(&self) -> Option<SlabArc<T>> {
        // Constructed only after the increment succeeded: dropping it decrements.
        // weaken: upgrade-of-what-is-gone
        if !self.counts().users.get() {
            return None;
        }
        Some(SlabArc {
            block: self.block,
            owns: PhantomData,
        })
    }

    /// Returns only the counts: the value may be gone.
    fn counts(&self) -> &Counts {
        // SAFETY: a keeper keeps the memory, and the counts at its beginning.
        unsafe { self.block.cast().as_ref() }
    }
}

impl<T> Clone for SlabWeak<T> {
    fn clone(&self) -> Self {
        self.counts().keep();
        Self { block: self.block }
    }
}

impl<T> Drop for SlabWeak<T> {
    #[inline]
    fn drop(&mut self) {
        if !self.counts().keepers.put_as_last() {
            return;
        }
        // SAFETY: the last keeper is gone; no thread reads the counts any more.
        unsafe { self.block.cast::<Counts>().drop_in_place() };
        // SAFETY: `try_new` took it with this layout, and it is no longer used.
        unsafe { general::free(self.block.cast(), Layout::new::<Block<T>>()) };
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;

    /// Counts its drops.
    struct Probe(Rc<Cell<u32>>);

    impl Drop for Probe {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn the_value_is_dropped_with_its_last_user_and_not_before() {
        let drops = Rc::default();
        let one = SlabArc::new(Probe(Rc::clone(&drops)));
        let other = one.clone();
        let weak = SlabArc::downgrade(&one);
        drop(one);
        let again = weak.upgrade().expect("there is a user");
        drop(other);
        assert_eq!(drops.get(), 0);
        drop(again);
        assert_eq!(drops.get(), 1);
        assert!(weak.clone().upgrade().is_none());
        drop(weak);
        assert_eq!(drops.get(), 1);
    }

    #[test]
    fn a_value_that_could_not_be_prepared_is_dropped() {
        let drops = Rc::default();
        let prepared = SlabArc::try_new_with((0, Probe(Rc::clone(&drops))), |value| {
            value.0 = 7;
            Ok::<(), OutOfMemory>(())
        });
        assert_eq!(prepared.map(|value| value.0), Ok(7));
        assert_eq!(drops.get(), 1);
        let failed = SlabArc::try_new_with(Probe(Rc::clone(&drops)), |_| Err(OutOfMemory));
        assert_eq!(failed.map(drop), Err(OutOfMemory));
        assert_eq!(drops.get(), 2);
    }

    #[test]
    fn a_panic_while_it_is_dropped_leaves_nothing_behind() {
        struct Panics(#[expect(dead_code, reason = "dropped")] Probe);
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("in the drop");
            }
        }
        let drops = Rc::default();
        let probe = || Probe(Rc::clone(&drops));
        let value = SlabArc::new(Panics(probe()));
        let weak = SlabArc::downgrade(&value);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(value))).is_err());
        assert_eq!(drops.get(), 1);
        assert!(weak.upgrade().is_none());
        assert_eq!(weak.counts().keepers.references(), Some(1));
    }

    #[test]
    fn wide_alignments_are_kept() {
        #[repr(align(64))]
        struct Line(u8);
        let lines: Vec<_> = (0..100).map(|byte| SlabArc::new(Line(byte))).collect();
        for (byte, line) in lines.iter().enumerate() {
            assert!(core::ptr::from_ref(&**line).addr().is_multiple_of(64));
            assert_eq!(usize::from(line.0), byte);
        }
    }
}
