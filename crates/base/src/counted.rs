//! An object with a reference count, whose memory outlives its readers.
//!
//! The object has two ends. When the last [`Ref`] goes, its *release hook* runs, at once and on
//! that thread (or on one that is dropping a reference at the same moment). When the read-side sections of that moment have ended, the object is dropped and
//! its memory freed: a reader that [borrowed](Borrowed) it without a reference may look at it
//! until then. So the hook takes `&T`, and `Drop` comes later.
//!
//! # The block
//!
//! Objects of any type stand behind one thin pointer, also those of types that the reader does
//! not know (`dyn`):
//!
//! ```text
//!   | padding | Header | value | hook |
//!                      ^ anchor
//! ```
//!
//! The pointer is to the value, and the [`Header`] is just in front of it. If the object's type
//! is sized, the anchor is its address: a reader that borrows it touches nothing else. If it is
//! not, the header tells the rest. The header also tells how to release and how to free what its
//! readers do not know.
//!
//! # What keeps a block alive
//!
//! A block is freed by its RCU callback, and that is queued once, by whoever puts the last
//! reference. So an anchor is good
//! - while a `Ref` to it exists, since then the last reference has not been put; and
//! - inside a read-side section in which it was found published with a reference of its own,
//!   since that reference was put later than the section began, or never.

use alloc::alloc::{Layout, handle_alloc_error};
use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{self, ManuallyDrop, MaybeUninit, offset_of};
use core::ops::Deref;
use core::ptr::NonNull;

use crate::fallible::{OutOfMemory, try_box};
use crate::rcu::{self, Guard};
use crate::refcount::RefCount;

/// What is in front of every value.
#[repr(C)]
struct Header<T: ?Sized> {
    /// First, so that its address is that of the header.
    rcu: rcu::Head,
    /// Calls the release hook of the block.
    release: unsafe fn(NonNull<Anchor>),
    /// Where the object is, for types whose pointers say more than the anchor.
    object: NonNull<T>,
    /// Last, so that it shares a cache line with the beginning of most values.
    count: RefCount,
}

/// The value of a block, of a type that only the maker of the block knows. Never made, only
/// pointed to.
pub(crate) enum Anchor {}

/// Room for a header that ends where a value of type `S` can begin: as large as a header, rounded
/// up to the alignment of both.
#[repr(C)]
union Front<T: ?Sized, S> {
    header: ManuallyDrop<Header<T>>,
    alignment: [ManuallyDrop<S>; 0],
}

/// A block. The header is at the end of `front`.
#[repr(C)]
struct Block<T: ?Sized, S, H> {
    front: MaybeUninit<Front<T, S>>,
    value: S,
    hook: H,
}

/// A counted reference to an object.
pub struct Ref<T: ?Sized> {
    anchor: NonNull<Anchor>,
    owns: PhantomData<T>,
}

/// An object that a reader found inside a read-side section, without a reference.
pub struct Borrowed<'g, T: ?Sized> {
    anchor: NonNull<Anchor>,
    section: PhantomData<&'g T>,
}

// SAFETY: a `Ref` is to its object what an `Arc` is: it shares `&T` between threads, and the
// last one, on whatever thread, releases and drops the object. `T` and what else is in the
// block are `Send + Sync`, as the constructors demand.
unsafe impl<T: ?Sized + Send + Sync> Send for Ref<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for Ref<T> {}

impl<T: Send + Sync + 'static> Ref<T> {
    /// Makes a counted object and the first reference to it. Allocates.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self::with_release(value, |_| ())
    }

    /// Makes a counted object whose `hook` runs when the last reference goes, at once, on the
    /// thread that drops it, or on one that is dropping a reference at the same moment. Allocates.
    #[must_use]
    pub fn with_release(value: T, hook: impl Fn(&T) + Send + Sync + 'static) -> Self {
        Self {
            anchor: new_block(value, |value| value, hook),
            owns: PhantomData,
        }
    }
}

impl<T: Send + Sync + 'static> Ref<T> {
    /// As [`new`](Self::new).
    ///
    /// # Errors
    /// [`OutOfMemory`]; the value is dropped.
    pub fn try_new(value: T) -> Result<Self, OutOfMemory> {
        Self::try_with_release(value, |_| ())
    }

    /// As [`with_release`](Self::with_release).
    ///
    /// # Errors
    /// [`OutOfMemory`]; value and hook are dropped, and the hook does not run.
    pub fn try_with_release(
        value: T,
        hook: impl Fn(&T) + Send + Sync + 'static,
    ) -> Result<Self, OutOfMemory> {
        Ok(Self {
            anchor: try_new_block(value, |value| value, hook)?,
            owns: PhantomData,
        })
    }
}

impl<T: ?Sized + 'static> Ref<T> {
    /// Makes a counted object of one type that is known by another, an unsized one: most often
    /// a `dyn`. Allocates.
    ///
    /// ```
    /// use fdtable_base::counted::Ref;
    ///
    /// let shown: Ref<dyn core::fmt::Display + Send + Sync> = Ref::coerced(7, |number| number);
    /// assert_eq!(shown.to_string(), "7");
    /// ```
    ///
    /// Where a sized type would do, [`new`](Self::new) is meant, and this does not compile:
    ///
    /// ```compile_fail
    /// # use fdtable_base::counted::Ref;
    /// let first: Ref<u8> = Ref::coerced((1, 2), |pair: &(u8, u8)| &pair.0);
    /// ```
    #[must_use]
    pub fn coerced<S: Send + Sync + 'static>(value: S, coerce: fn(&S) -> &T) -> Self {
        Self::coerced_with_release(value, coerce, |_| ())
    }

    /// As [`coerced`](Self::coerced), with a release hook. Allocates.
    #[must_use]
    pub fn coerced_with_release<S, H>(value: S, coerce: fn(&S) -> &T, hook: H) -> Self
    where
        S: Send + Sync + 'static,
        H: Fn(&S) + Send + Sync + 'static,
    {
        const {
            assert!(
                !is_thin::<T>(),
                "make counted objects of a sized type with `new`"
            );
        }
        Self {
            anchor: new_block(value, coerce, hook),
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
        const {
            assert!(
                !is_thin::<T>(),
                "make counted objects of a sized type with `try_new`"
            );
        }
        Ok(Self {
            anchor: try_new_block(value, coerce, hook)?,
            owns: PhantomData,
        })
    }
}

impl<T: ?Sized> Ref<T> {
    /// Tells whether both refer to the same object.
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

    /// Hands the reference over to a raw pointer.
    pub(crate) fn into_raw(self) -> NonNull<Anchor> {
        let anchor = self.anchor;
        mem::forget(self);
        anchor
    }

    /// Takes a reference back from a raw pointer.
    ///
    /// # Safety
    /// `anchor` came from [`into_raw`](Self::into_raw) of this type, and is taken back once.
    pub(crate) unsafe fn from_raw(anchor: NonNull<Anchor>) -> Self {
        Self {
            anchor,
            owns: PhantomData,
        }
    }

    fn header(&self) -> &Header<T> {
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
            // SAFETY: this was the last reference, and it is told to one holder only.
            unsafe { release::<T>(self.anchor) };
        }
    }
}

impl<'g, T: ?Sized> Borrowed<'g, T> {
    /// Stands for what was found in a section.
    ///
    /// # Safety
    /// `anchor` was published, with a reference to a `T` of its own, inside the section of the
    /// guard.
    #[inline(always)]
    pub(crate) unsafe fn new(anchor: NonNull<Anchor>, _guard: &'g Guard<'_>) -> Self {
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
        let header = unsafe { Header::<T>::of(self.anchor) };
        // A reference is made only if it was had: one that is dropped gives one back.
        if header.count.get() {
            Some(Ref {
                anchor: self.anchor,
                owns: PhantomData,
            })
        } else {
            None
        }
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

impl<T: ?Sized> Header<T> {
    /// Returns the header in front of an anchor.
    ///
    /// # Safety
    /// The block is one of a `T`, and alive for all of `'a`.
    #[inline(always)]
    unsafe fn of<'a>(anchor: NonNull<Anchor>) -> &'a Self {
        // SAFETY: a header is in front of every value, in the same allocation.
        let header = unsafe { anchor.cast::<Self>().sub(1) };
        // SAFETY: it was written before anybody else knew the block; the block is alive.
        unsafe { header.as_ref() }
    }
}

/// Tells whether a pointer to a `T` is an address and no more.
const fn is_thin<T: ?Sized>() -> bool {
    size_of::<NonNull<T>>() == size_of::<usize>()
}

/// Returns the object of a block.
///
/// # Safety
/// The block is one of a `T`, and alive for all of `'a`.
#[inline(always)]
unsafe fn object<'a, T: ?Sized>(anchor: NonNull<Anchor>) -> &'a T {
    let object: NonNull<T> = if is_thin::<T>() {
        // SAFETY: both are thin pointers, so they have the same size. The value of the block is
        // the object: blocks of a sized type are made by `with_release` alone.
        unsafe { mem::transmute_copy(&anchor) }
    } else {
        // SAFETY: as the caller promises.
        unsafe { Header::<T>::of(anchor) }.object
    };
    // SAFETY: the value, or what `coerce` found from it. It stays in place, and only shared,
    // until the block is freed.
    unsafe { object.as_ref() }
}

/// Makes a block with one reference, and ends the process if there is no memory, as boxes do.
fn new_block<T, S, H>(value: S, coerce: impl FnOnce(&S) -> &T, hook: H) -> NonNull<Anchor>
where
    T: ?Sized,
    H: Fn(&S),
{
    try_new_block(value, coerce, hook)
        .unwrap_or_else(|OutOfMemory| handle_alloc_error(Layout::new::<Block<T, S, H>>()))
}

/// Makes a block with one reference. Allocates.
fn try_new_block<T, S, H>(
    value: S,
    coerce: impl FnOnce(&S) -> &T,
    hook: H,
) -> Result<NonNull<Anchor>, OutOfMemory>
where
    T: ?Sized,
    H: Fn(&S),
{
    // A value must be able to begin where a header ends.
    const { assert!(size_of::<Header<T>>().is_multiple_of(align_of::<Header<T>>())) }
    let block = try_box(Block {
        front: MaybeUninit::<Front<T, S>>::uninit(),
        value,
        hook,
    })?;
    let block = Unfinished(NonNull::from(Box::leak(block)));
    let whole = block.0.cast::<u8>();
    // SAFETY: the value is at this offset of the block.
    let anchor = unsafe { whole.add(offset_of!(Block<T, S, H>, value)) };
    // SAFETY: the value is there, and neither moved nor mutably borrowed until it is dropped with
    // the block. So where `coerce` leads from there stays good too.
    let value = unsafe { anchor.cast::<S>().as_ref() };
    let header = Header {
        rcu: rcu::Head::new(free_block::<T, S, H>),
        count: RefCount::new(),
        release: call_hook::<T, S, H>,
        object: NonNull::from(coerce(value)),
    };
    // SAFETY: `front` is as large as a header, or larger.
    let place = unsafe { anchor.cast::<Header<T>>().sub(1) };
    // SAFETY: the place is in `front`, which is uninitialised and nobody's yet. It is aligned:
    // `front` ends at a multiple of a header's alignment.
    unsafe { place.write(header) };
    mem::forget(block);
    Ok(anchor.cast())
}

/// A block whose header is not written yet. Dropping it frees it: `coerce` may panic.
struct Unfinished<B>(NonNull<B>);

impl<B> Drop for Unfinished<B> {
    fn drop(&mut self) {
        // SAFETY: `new_block` leaked this box, and nobody else knows it yet.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Runs the hook and has the block freed after a grace period.
///
/// # Safety
/// The block is one of a `T`, and its last reference was just put, by the caller.
#[cold]
#[inline(never)]
unsafe fn release<T: ?Sized>(anchor: NonNull<Anchor>) {
    // SAFETY: the header is in front of the anchor, in the same allocation.
    let header = unsafe { anchor.cast::<Header<T>>().sub(1) };
    let reclaim = Reclaim(header.cast());
    // SAFETY: the block is kept until `reclaim` queues its callback.
    let hook = unsafe { header.as_ref() }.release;
    // SAFETY: `hook` was made for this block.
    unsafe { hook(anchor) };
    drop(reclaim);
}

/// A block without references. Dropping this queues its callback: also if the hook panics, so
/// that the block does not leak.
struct Reclaim(NonNull<rcu::Head>);

impl Drop for Reclaim {
    fn drop(&mut self) {
        // SAFETY: the block stays until its callback frees it, and without references nobody
        // but readers in sections looks at it; they do not touch its RCU head. What is in it
        // is `Send`, so any thread may drop it.
        unsafe { rcu::call(self.0) };
    }
}

/// Calls the hook of a block that was made of an `S` and an `H` for a `T`.
///
/// # Safety
/// `anchor` is that of such a block, and the block is alive.
unsafe fn call_hook<T: ?Sized, S, H: Fn(&S)>(anchor: NonNull<Anchor>) {
    // SAFETY: the value is at the anchor.
    let value = unsafe { anchor.cast::<S>().as_ref() };
    let distance = offset_of!(Block<T, S, H>, hook) - offset_of!(Block<T, S, H>, value);
    // SAFETY: the hook follows the value at this distance.
    let hook = unsafe { anchor.byte_add(distance) }.cast::<H>();
    // SAFETY: as the caller promises.
    let hook = unsafe { hook.as_ref() };
    hook(value);
}

/// Drops and frees a block that was made of an `S` and an `H` for a `T`.
///
/// # Safety
/// `head` is in the header of such a block, and nobody uses the block after this call.
unsafe fn free_block<T: ?Sized, S, H>(head: NonNull<rcu::Head>) {
    let header = head.cast::<Header<T>>();
    // SAFETY: the head is the first field of the header, which nobody uses any more.
    unsafe { header.drop_in_place() };
    // SAFETY: the value follows the header.
    let anchor = unsafe { header.add(1) };
    // SAFETY: the value is at this offset of the block.
    let block = unsafe { anchor.byte_sub(offset_of!(Block<T, S, H>, value)) };
    // SAFETY: `new_block` leaked a box of this type there.
    drop(unsafe { Box::from_raw(block.cast::<Block<T, S, H>>().as_ptr()) });
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
pub(crate) mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    /// Counts how often it is dropped.
    struct Probe(Arc<AtomicUsize>);

    impl Drop for Probe {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn the_hook_runs_at_the_last_put_and_drop_after_a_grace_period() {
        let (released, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let hook = {
            let released = released.clone();
            move |_: &Probe| {
                released.fetch_add(1, SeqCst);
            }
        };
        let one = Ref::with_release(Probe(dropped.clone()), hook);
        let two = one.clone();
        assert_eq!(Ref::references(&one), 2);
        drop(one);
        assert_eq!(released.load(SeqCst), 0);
        let guard = rcu::read_lock();
        drop(two);
        assert_eq!((released.load(SeqCst), dropped.load(SeqCst)), (1, 0));
        drop(guard);
        rcu::barrier().expect("outside of sections");
        assert_eq!((released.load(SeqCst), dropped.load(SeqCst)), (1, 1));
    }

    #[test]
    fn objects_of_any_alignment_and_size_are_where_they_should_be() {
        #[repr(align(256))]
        struct Wide([u8; 300]);
        fn check<T: Send + Sync + 'static>(value: T) {
            let object = Ref::new(value);
            assert!(
                core::ptr::from_ref(&*object)
                    .addr()
                    .is_multiple_of(align_of::<T>())
            );
            assert_eq!(Ref::references(&object), 1);
        }
        check(());
        check(1_u8);
        check([2_u16; 3]);
        check(3_u128);
        let wide = Ref::new(Wide([7; 300]));
        assert!(wide.0.iter().all(|&byte| byte == 7));
        check(Wide([7; 300]));
    }

    #[test]
    fn a_dyn_object_is_found_through_its_header() {
        trait Named: Send + Sync {
            fn name(&self) -> String;
        }
        #[repr(align(64))]
        struct Aligned(u8);
        impl Named for Aligned {
            fn name(&self) -> String {
                format!("aligned {}", self.0)
            }
        }
        impl Named for u8 {
            fn name(&self) -> String {
                format!("byte {self}")
            }
        }
        let released = Arc::new(AtomicUsize::new(0));
        let hook = {
            let released = released.clone();
            move |aligned: &Aligned| {
                released.fetch_add(usize::from(aligned.0), SeqCst);
            }
        };
        let one: Ref<dyn Named> = Ref::coerced_with_release(Aligned(5), |value| value, hook);
        let two: Ref<dyn Named> = Ref::coerced(9_u8, |value| value);
        assert_eq!(
            (one.name(), two.name()),
            ("aligned 5".into(), "byte 9".into())
        );
        assert!(!Ref::ptr_eq(&one, &two));
        drop(one);
        assert_eq!(released.load(SeqCst), 5);
    }

    #[test]
    fn a_hook_that_panics_leaks_nothing() {
        let dropped = Arc::new(AtomicUsize::new(0));
        let object = Ref::with_release(Probe(dropped.clone()), |_| panic!("on purpose"));
        let outcome = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| drop(object)));
        assert!(outcome.is_err());
        rcu::barrier().expect("outside of sections");
        assert_eq!(dropped.load(SeqCst), 1);
    }

    #[test]
    fn a_coercion_that_panics_leaks_nothing() {
        let dropped = Arc::new(AtomicUsize::new(0));
        let probe = Probe(dropped.clone());
        let outcome = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            Ref::<dyn Send + Sync>::coerced(probe, |_| panic!("on purpose"))
        }));
        assert!(outcome.is_err());
        assert_eq!(dropped.load(SeqCst), 1);
    }
}
