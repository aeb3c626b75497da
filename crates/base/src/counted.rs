//! An object with a reference count, whose memory outlives its readers.
//!
//! The object has two ends. When the last [`Ref`] goes, its *release hook* runs, at once and on
//! that thread. When the read-side sections of that moment have ended, the object is dropped and
//! its memory freed: a reader that [borrowed](Borrowed) it without a reference may look at it
//! until then. So the hook takes `&T`, and `Drop` comes later.
//!
//! Objects of any type stand behind one thin pointer, also those of types that the reader does
//! not know (`dyn`): an object is in a block of memory that begins with a [`Header`], which
//! tells where the object is, how to release it and how to free it.
//!
//! # What keeps a block alive
//!
//! A block is freed by its RCU callback, and that is queued once, by whoever puts the last
//! reference. So a pointer to a block is good
//! - while a `Ref` to it exists, since then the last reference has not been put; and
//! - inside a read-side section in which it was found published with a reference of its own,
//!   since that reference was put later than the section began, or never.

use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::Deref;
use core::ptr::NonNull;

use crate::rcu::{self, Guard};
use crate::refcount::RefCount;

/// The head of a block. What follows in the block is known to its maker alone.
#[repr(C)]
pub(crate) struct Header<T: ?Sized> {
    /// First, so that its address is that of the block.
    rcu: rcu::Head,
    count: RefCount,
    /// Calls the release hook of the block.
    release: unsafe fn(NonNull<Header<T>>),
    /// The object: in this block, or owned by what is in it. Written before anybody else knows
    /// the block.
    object: MaybeUninit<NonNull<T>>,
}

/// A block: the head, the object as its maker knows it, and the hook.
#[repr(C)]
struct Block<T: ?Sized, S, H> {
    header: Header<T>,
    value: S,
    hook: H,
}

/// A counted reference to an object.
pub struct Ref<T: ?Sized> {
    block: NonNull<Header<T>>,
    owns: PhantomData<T>,
}

/// An object that a reader found inside a read-side section, without a reference.
pub struct Borrowed<'g, T: ?Sized> {
    block: NonNull<Header<T>>,
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
        Self::coerced(value, |value| value)
    }

    /// Makes a counted object whose `hook` runs when the last reference goes, at once, on the
    /// thread that drops it. Allocates.
    #[must_use]
    pub fn with_release(value: T, hook: impl Fn(&T) + Send + Sync + 'static) -> Self {
        Self::coerced_with_release(value, |value| value, hook)
    }
}

impl<T: ?Sized + 'static> Ref<T> {
    /// Makes a counted object of one type that is known by another, most often a `dyn` one.
    /// Allocates.
    ///
    /// ```
    /// use fdtable_base::counted::Ref;
    ///
    /// let shown: Ref<dyn core::fmt::Display + Send + Sync> = Ref::coerced(7, |number| number);
    /// assert_eq!(shown.to_string(), "7");
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
        let mut block = Box::new(Block {
            header: Header::new::<S, H>(),
            value,
            hook,
        });
        // The value has its final address now. Where `coerce` leads from there stays good: the
        // value is neither moved nor mutably borrowed until it is dropped with the block.
        block
            .header
            .object
            .write(NonNull::from(coerce(&block.value)));
        let block = NonNull::from(Box::leak(block));
        Self {
            block: block.cast(),
            owns: PhantomData,
        }
    }
}

impl<T: ?Sized> Ref<T> {
    /// Tells whether both refer to the same object.
    #[must_use]
    pub fn ptr_eq(a: &Self, b: &Self) -> bool {
        a.block == b.block
    }

    /// Returns how many references to the object there are. A hint: others take and drop them
    /// at any time. A saturated count answers `usize::MAX`.
    #[must_use]
    pub fn references(this: &Self) -> usize {
        this.header().count.references().unwrap_or(0)
    }

    /// Hands the reference over to a raw pointer.
    pub(crate) fn into_raw(self) -> NonNull<Header<T>> {
        let block = self.block;
        core::mem::forget(self);
        block
    }

    /// Takes a reference back from a raw pointer.
    ///
    /// # Safety
    /// `block` came from [`into_raw`](Self::into_raw), and is taken back once.
    pub(crate) unsafe fn from_raw(block: NonNull<Header<T>>) -> Self {
        Self {
            block,
            owns: PhantomData,
        }
    }

    fn header(&self) -> &Header<T> {
        // SAFETY: a reference keeps its block.
        unsafe { self.block.as_ref() }
    }
}

impl<T: ?Sized> Deref for Ref<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: a reference keeps its block.
        unsafe { Header::object(self.block) }
    }
}

impl<T: ?Sized> Clone for Ref<T> {
    #[inline]
    fn clone(&self) -> Self {
        let had = self.header().count.get();
        debug_assert!(had, "a holder's object cannot be dead");
        Self {
            block: self.block,
            owns: PhantomData,
        }
    }
}

impl<T: ?Sized> Drop for Ref<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.header().count.put() {
            // SAFETY: this was the last reference, and it is told to one holder only.
            unsafe { release(self.block) };
        }
    }
}

impl<'g, T: ?Sized> Borrowed<'g, T> {
    /// Stands for what was found in a section.
    ///
    /// # Safety
    /// `block` was published, with a reference of its own, inside the section of the guard.
    #[inline(always)]
    pub(crate) unsafe fn new(block: NonNull<Header<T>>, _guard: &'g Guard<'_>) -> Self {
        Self {
            block,
            section: PhantomData,
        }
    }

    /// Takes a reference, which outlives the section, unless the last one has gone. One atomic
    /// add; neither blocks nor allocates.
    #[inline(always)]
    #[must_use]
    pub fn upgrade(self) -> Option<Ref<T>> {
        // SAFETY: the section, which lasts for 'g, keeps the block.
        let had = unsafe { self.block.as_ref() }.count.get();
        had.then_some(Ref {
            block: self.block,
            owns: PhantomData,
        })
    }

    /// Returns the object, for as long as the section lasts.
    #[inline(always)]
    #[must_use]
    pub fn object(self) -> &'g T {
        // SAFETY: the section, which lasts for 'g, keeps the block.
        unsafe { Header::object(self.block) }
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
    fn new<S, H: Fn(&S)>() -> Self {
        Self {
            rcu: rcu::Head::new(free_block::<T, S, H>),
            count: RefCount::new(),
            release: call_hook::<T, S, H>,
            object: MaybeUninit::uninit(),
        }
    }

    /// Returns the object of a block.
    ///
    /// # Safety
    /// The block is alive for all of `'a`.
    #[inline(always)]
    unsafe fn object<'a>(block: NonNull<Self>) -> &'a T {
        // SAFETY: the caller keeps the block alive.
        let header = unsafe { block.as_ref() };
        // SAFETY: written before anybody else knew the block.
        let object = unsafe { header.object.assume_init() };
        // SAFETY: `coerce` made it from a reference to the block's own value, which stays in
        // place, and only shared, until the block is freed.
        unsafe { object.as_ref() }
    }
}

/// Runs the hook and has the block freed after a grace period.
///
/// # Safety
/// The last reference of the block was just put, by the caller.
#[cold]
#[inline(never)]
unsafe fn release<T: ?Sized>(block: NonNull<Header<T>>) {
    let reclaim = Reclaim(block.cast());
    // SAFETY: the block is kept until `reclaim` queues its callback.
    let hook = unsafe { block.as_ref() }.release;
    // SAFETY: `hook` was made for this block.
    unsafe { hook(block) };
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

/// Calls the hook of a block that was made as a `Block<T, S, H>`.
///
/// # Safety
/// `header` is the address of such a block, and the block is alive.
unsafe fn call_hook<T: ?Sized, S, H: Fn(&S)>(header: NonNull<Header<T>>) {
    // SAFETY: as the caller promises; the header is the first field of the block.
    let block = unsafe { header.cast::<Block<T, S, H>>().as_ref() };
    (block.hook)(&block.value);
}

/// Drops and frees a block that was made as a `Block<T, S, H>`.
///
/// # Safety
/// `head` is the address of such a block, and nobody uses it after this call.
unsafe fn free_block<T: ?Sized, S, H>(head: NonNull<rcu::Head>) {
    // SAFETY: the block came from a `Box` of this type; its first field's first field is the
    // head.
    drop(unsafe { Box::from_raw(head.cast::<Block<T, S, H>>().as_ptr()) });
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
