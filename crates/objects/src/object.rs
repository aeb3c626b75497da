//! An object with a reference count, whose memory outlives its readers.
//!
//! The object has two ends. When the last [`Ref`] goes, its *release hook* runs, at once and on
//! that thread (or on one that is dropping a reference at the same time). When the read-side
//! sections that were under way then have ended, the object is dropped and its memory freed: a
//! reader that [borrowed](Borrowed) it without a reference may look at it until then. So the hook
//! takes `&T`, and `Drop` comes later.
//!
//! The first end can also come early: [`Ref::revoke`] runs the hook while references still exist.
//! Their holders can [ask](Ref::is_revoked) whether that happened. Their references still keep the
//! memory, and nothing else happens when the last of them goes.
//!
//! Objects of any type stand behind one thin pointer, also those of types that the reader does not
//! know (`dyn`): [`block`] describes how. If the object's type is sized, a reader that borrows it
//! touches nothing else.
//!
//! # What keeps a block alive
//!
//! A block is freed by its RCU callback. The thread that puts the last reference queues it, once.
//! So an anchor is valid
//! - while a `Ref` to it exists, since then the last reference has not been put; and
//! - inside a read-side section in which it was found published with a reference of its own,
//!   since that reference was put later than the section began, or never.

mod block;
mod revocations;

use alloc::alloc::handle_alloc_error;
use core::fmt;
use core::marker::PhantomData;
use core::mem;
use core::ops::Deref;
use core::ptr::NonNull;

#[cfg(not(loom))]
pub(crate) use block::prefetch_count;
use block::{Header, Hook, NoHook, is_thin, object};
pub(crate) use block::{Prefix, RawObject, abandon, block_of, lead, make, number, set_number};

use fdtable_sync::fallible::OutOfMemory;
use fdtable_sync::rcu::Guard;

/// Why the hook of an object runs: how its use ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// The last reference has gone.
    Released,
    /// The object was taken from threads that still hold references. They may be using it.
    Revoked,
}

/// A counted reference to an object.
pub struct Ref<T: ?Sized> {
    anchor: NonNull<RawObject>,
    owns: PhantomData<T>,
}

/// An object that a reader found inside a read-side section, without a reference.
pub struct Borrowed<'g, T: ?Sized> {
    anchor: NonNull<RawObject>,
    section: PhantomData<&'g T>,
}

// SAFETY: a `Ref` is to its object what an `Arc` is: it shares `&T` between threads, and the last
// one, on any thread, releases and drops the object. `T` and everything else in the block are `Send
// + Sync`, as the constructors demand.
unsafe impl<T: ?Sized + Send + Sync> Send for Ref<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for Ref<T> {}

impl<T: Send + Sync + 'static> Ref<T> {
    /// Makes a counted object and the first reference to it. Allocates.
    #[inline]
    #[must_use]
    pub fn new(value: T) -> Self {
        Self {
            anchor: must_make(value, |value| value, NoHook),
            owns: PhantomData,
        }
    }

    /// Makes a counted object whose `hook` runs when the last reference goes: at once, on the
    /// thread that drops it, or on one that is dropping a reference at the same time. A panic of
    /// the hook propagates there, and the object is still dropped (see [`unwind`](fdtable_sync::unwind)).
    /// Allocates.
    #[must_use]
    pub fn with_release(value: T, hook: impl Fn(&T) + Send + Sync + 'static) -> Self {
        Self {
            anchor: must_make(
                value,
                |value| value,
                move |value: &T, _: ReleaseReason| hook(value),
            ),
            owns: PhantomData,
        }
    }
}

impl<T: Send + Sync + 'static> Ref<T> {
    /// As [`new`](Self::new).
    ///
    /// # Errors
    /// [`OutOfMemory`]; the value is dropped.
    #[inline]
    pub fn try_new(value: T) -> Result<Self, OutOfMemory> {
        Ok(Self {
            anchor: make((), value, |value| value, NoHook)?,
            owns: PhantomData,
        })
    }

    /// As [`with_release`](Self::with_release).
    ///
    /// # Errors
    /// [`OutOfMemory`]; value and hook are dropped, and the hook does not run.
    pub fn try_with_release(
        value: T,
        hook: impl Fn(&T) + Send + Sync + 'static,
    ) -> Result<Self, OutOfMemory> {
        Self::try_with_ends(value, move |value, _| hook(value))
    }

    /// As [`try_with_release`](Self::try_with_release), with a hook that receives the [`ReleaseReason`].
    ///
    /// # Errors
    /// [`OutOfMemory`]; value and hook are dropped, and the hook does not run.
    pub fn try_with_ends(
        value: T,
        hook: impl Fn(&T, ReleaseReason) + Send + Sync + 'static,
    ) -> Result<Self, OutOfMemory> {
        Ok(Self {
            anchor: make((), value, |value| value, hook)?,
            owns: PhantomData,
        })
    }
}

impl<T: ?Sized + 'static> Ref<T> {
    /// Makes a counted object of one type that is known by another, an unsized one: most often
    /// a `dyn`. Allocates.
    ///
    /// ```
    /// use fdtable_objects::object::Ref;
    ///
    /// let shown: Ref<dyn core::fmt::Display + Send + Sync> = Ref::coerced(7, |number| number);
    /// assert_eq!(shown.to_string(), "7");
    /// ```
    ///
    /// Where a sized type would do, use [`new`](Self::new). This does not compile:
    ///
    /// ```compile_fail
    /// # use fdtable_objects::object::Ref;
    /// let first: Ref<u8> = Ref::coerced((1, 2), |pair: &(u8, u8)| &pair.0);
    /// ```
    #[must_use]
    pub fn coerced<S: Send + Sync + 'static>(value: S, coerce: fn(&S) -> &T) -> Self {
        const { assert_unsized::<T>() };
        Self {
            anchor: must_make(value, coerce, NoHook),
            owns: PhantomData,
        }
    }

    /// As [`coerced`](Self::coerced).
    ///
    /// # Errors
    /// [`OutOfMemory`]; the value is dropped.
    pub fn try_coerced<S: Send + Sync + 'static>(
        value: S,
        coerce: fn(&S) -> &T,
    ) -> Result<Self, OutOfMemory> {
        const { assert_unsized::<T>() };
        Ok(Self {
            anchor: make((), value, coerce, NoHook)?,
            owns: PhantomData,
        })
    }

    /// As [`coerced`](Self::coerced), with a release hook. Allocates.
    #[must_use]
    pub fn coerced_with_release<S, H>(value: S, coerce: fn(&S) -> &T, hook: H) -> Self
    where
        S: Send + Sync + 'static,
        H: Fn(&S) + Send + Sync + 'static,
    {
        const { assert_unsized::<T>() };
        Self {
            anchor: must_make(value, coerce, move |value: &S, _: ReleaseReason| {
                hook(value);
            }),
            owns: PhantomData,
        }
    }

    /// As [`coerced_with_release`](Self::coerced_with_release).
    ///
    /// # Errors
    /// [`OutOfMemory`]; value and hook are dropped, and the hook does not run.
    pub fn try_coerced_with_release<S, H>(
        value: S,
        coerce: fn(&S) -> &T,
        hook: H,
    ) -> Result<Self, OutOfMemory>
    where
        S: Send + Sync + 'static,
        H: Fn(&S) + Send + Sync + 'static,
    {
        Self::try_coerced_with_ends(value, coerce, move |value, _| hook(value))
    }

    /// As [`try_coerced_with_release`](Self::try_coerced_with_release), with a hook that receives
    /// the [`ReleaseReason`].
    ///
    /// # Errors
    /// [`OutOfMemory`]; value and hook are dropped, and the hook does not run.
    pub fn try_coerced_with_ends<S, H>(
        value: S,
        coerce: fn(&S) -> &T,
        hook: H,
    ) -> Result<Self, OutOfMemory>
    where
        S: Send + Sync + 'static,
        H: Fn(&S, ReleaseReason) + Send + Sync + 'static,
    {
        const { assert_unsized::<T>() };
        Ok(Self {
            anchor: make((), value, coerce, hook)?,
            owns: PhantomData,
        })
    }
}

impl<T: ?Sized> Ref<T> {
    /// Returns true if both refer to the same object.
    #[must_use]
    pub fn ptr_eq(a: &Self, b: &Self) -> bool {
        a.anchor == b.anchor
    }

    /// Returns how many references to the object there are. A hint: others take and drop them
    /// at any time. A saturated count answers `usize::MAX`.
    #[must_use]
    pub fn references(this: &Self) -> usize {
        this.header().count.references().unwrap_or(0)
    }

    /// Takes the object from its holders: runs its hook now, with [`ReleaseReason::Revoked`], and not when
    /// the last reference goes. Returns true if this call did; if not, another has, and its hook
    /// may still be running.
    ///
    /// A thread that holds a reference, or has borrowed the object, may still use it, also while
    /// the hook runs; it is the hook that makes the object useless. May run on any thread, and may
    /// be called inside of sections if the hook may.
    pub fn revoke(this: &Self) -> bool {
        // SAFETY: a reference keeps its block.
        unsafe { block::revoke(this.anchor) }
    }

    /// Returns true if the object was [revoked](Self::revoke).
    #[inline(always)]
    #[must_use]
    pub fn is_revoked(this: &Self) -> bool {
        this.header().is_revoked()
    }

    /// Drops the reference, for a holder that expects that it is the last one. Costs one
    /// compare-and-swap then, and one atomic add more if it is not.
    #[inline(always)]
    pub fn put_as_last(this: Self) {
        let anchor = this.into_raw();
        // SAFETY: the reference, which is put below, keeps the block.
        if unsafe { Header::of(anchor) }.count.put_as_last() {
            // SAFETY: this was the last reference, and only one holder learns that.
            unsafe { block::release(anchor) };
        }
    }

    /// Converts the reference into a raw pointer.
    pub(crate) fn into_raw(self) -> NonNull<RawObject> {
        let anchor = self.anchor;
        mem::forget(self);
        anchor
    }

    /// Converts a raw pointer back into the reference.
    ///
    /// # Safety
    /// `anchor` came from [`into_raw`](Self::into_raw) of this type, and is taken back once.
    pub(crate) unsafe fn from_raw(anchor: NonNull<RawObject>) -> Self {
        Self {
            anchor,
            owns: PhantomData,
        }
    }

    /// Takes a reference to a block, unless its last one has gone.
    ///
    /// # Safety
    /// The block is one of a `T`, and alive for the duration of the call.
    pub(crate) unsafe fn try_from_anchor(anchor: NonNull<RawObject>) -> Option<Self> {
        // SAFETY: as the caller promises.
        let had = unsafe { Header::of(anchor) }.count.get();
        // Made only after the increment succeeded: dropping a reference decrements.
        had.then(|| Self {
            anchor,
            owns: PhantomData,
        })
    }

    fn header(&self) -> &Header {
        // SAFETY: a reference keeps its block.
        unsafe { Header::of(self.anchor) }
    }
}

impl<T: ?Sized> Deref for Ref<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: a reference keeps its block.
        unsafe { object(self.anchor) }
    }
}

impl<T: ?Sized> Clone for Ref<T> {
    #[inline]
    fn clone(&self) -> Self {
        let had = self.header().count.get();
        debug_assert!(had, "a holder's object cannot be dead");
        Self {
            anchor: self.anchor,
            owns: PhantomData,
        }
    }
}

impl<T: ?Sized> Drop for Ref<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.header().count.put() {
            // SAFETY: this was the last reference, and only one holder learns that.
            unsafe { block::release(self.anchor) };
        }
    }
}

impl<'g, T: ?Sized> Borrowed<'g, T> {
    /// Represents an object that was found in a section.
    ///
    /// # Safety
    /// `anchor` was published, with a reference to a `T` of its own, inside the section of the
    /// guard.
    #[inline(always)]
    pub(crate) unsafe fn new(anchor: NonNull<RawObject>, _guard: &'g Guard<'_>) -> Self {
        Self {
            anchor,
            section: PhantomData,
        }
    }

    /// Takes a reference, which outlives the section, unless the last one has gone. One atomic
    /// add; neither blocks nor allocates.
    #[inline(always)]
    #[must_use]
    pub fn upgrade(self) -> Option<Ref<T>> {
        // SAFETY: the section, which lasts for 'g, keeps the block.
        let header = unsafe { Header::of(self.anchor) };
        // Made only after the increment succeeded: dropping a reference decrements.
        if header.count.get() {
            Some(Ref {
                anchor: self.anchor,
                owns: PhantomData,
            })
        } else {
            None
        }
    }

    /// Returns true if the object was [revoked](Ref::revoke).
    #[inline(always)]
    #[must_use]
    pub fn is_revoked(self) -> bool {
        // SAFETY: the section, which lasts for 'g, keeps the block.
        unsafe { Header::of(self.anchor) }.is_revoked()
    }

    /// Returns the object, for as long as the section lasts.
    #[inline(always)]
    #[must_use]
    pub fn object(self) -> &'g T {
        // SAFETY: the section, which lasts for 'g, keeps the block.
        unsafe { object(self.anchor) }
    }
}

impl<T: ?Sized> Clone for Borrowed<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Borrowed<'_, T> {}

impl<T: ?Sized> Deref for Borrowed<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.object()
    }
}

/// Refuses to compile where a sized type would do.
const fn assert_unsized<T: ?Sized>() {
    assert!(
        !is_thin::<T>(),
        "make counted objects of a sized type with `new` or `try_new`"
    );
}

/// Makes a block with one reference, and ends the process if there is no memory, as boxes do.
#[inline(always)]
fn must_make<T, S, H>(value: S, coerce: impl FnOnce(&S) -> &T, hook: H) -> NonNull<RawObject>
where
    T: ?Sized,
    H: Hook<S>,
{
    make((), value, coerce, hook)
        .unwrap_or_else(|OutOfMemory| handle_alloc_error(block::layout::<T, S, H, ()>()))
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Borrowed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(all(test, loom))]
pub(crate) mod loom;

#[cfg(all(test, not(loom)))]
mod tests;
