//! Makes counted objects, and ends them: the parts that know the types of value and hook.
//!
//! All other code reaches these parts by the function in the header of a [block](super).

use alloc::alloc::handle_alloc_error;
use core::alloc::Layout;
use core::any::TypeId;
use core::marker::PhantomData;
use core::mem::{self, needs_drop};
use core::ptr::NonNull;

use super::header::{
    self, Header, Prefix, REVOCATIONS, RawObject, State, front_distance, is_thin, prefix_distance,
};
use super::kind::{Kind, Late, Prompt, Rcu};
use super::{Ref, ReleaseReason};
use crate::memory;
use fdtable_sync::fallible::OutOfMemory;
use fdtable_sync::platform::atomic::Ordering::Relaxed;
use fdtable_sync::rcu;
use fdtable_sync::refcount::RefCount;
use fdtable_sync::refcount::spread::Spread;
use fdtable_sync::unwind;

impl<T: Send + Sync + 'static> Ref<T> {
    /// Makes a counted object and the first reference to it. Allocates.
    #[inline]
    #[must_use]
    pub fn new(value: T) -> Self {
        Self {
            raw: must_make::<Prompt, T, T>(value, |value| value),
            owns: PhantomData,
        }
    }

    /// As [`new`](Self::new).
    ///
    /// # Errors
    /// [`OutOfMemory`]; the value is dropped.
    #[inline]
    pub fn try_new(value: T) -> Result<Self, OutOfMemory> {
        try_make::<Prompt, T, NoHook>(value, NoHook)
    }
}

impl<T: Send + Sync + 'static> Ref<Rcu<T>> {
    /// Makes a counted object that readers can borrow without a reference, and the first reference
    /// to it. Allocates.
    #[inline]
    #[must_use]
    pub fn new_rcu(value: T) -> Self {
        Self {
            raw: must_make::<Late, T, T>(value, |value| value),
            owns: PhantomData,
        }
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
            raw: must_make::<Prompt, T, S>(value, coerce),
            owns: PhantomData,
        }
    }
}

impl<T: ?Sized + 'static> Ref<Rcu<T>> {
    /// Makes a counted object that readers can borrow without a reference, of one type that is
    /// known by another, as [`coerced`](Self::coerced) does. Allocates.
    #[must_use]
    pub fn coerced_rcu<S: Send + Sync + 'static>(value: S, coerce: fn(&S) -> &T) -> Self {
        const { assert_unsized::<T>() };
        Self {
            raw: must_make::<Late, T, S>(value, coerce),
            owns: PhantomData,
        }
    }
}

/// Makes a counted object of either kind, with a hook or [`NoHook`]. Allocates.
///
/// The hook runs when the last reference goes, or when the object is [revoked](Ref::revoke): at
/// once, on the thread that drops or revokes it, or on one that is dropping a reference at the same
/// time. A panic of the hook propagates there, and the object is still dropped (see [`unwind`]).
///
/// # Errors
/// [`OutOfMemory`]; value and hook are dropped, and the hook does not run.
#[inline]
pub fn try_make<K, S, H>(value: S, hook: H) -> Result<Ref<K::Object<S>>, OutOfMemory>
where
    K: Kind,
    S: Send + Sync + 'static,
    H: Hook<S> + Send + Sync + 'static,
{
    Ok(Ref {
        raw: make::<K, S, S, H, ()>((), value, |value| value, hook)?,
        owns: PhantomData,
    })
}

/// Makes a counted object of either kind and of one type that is known by another, as
/// [`Ref::coerced`] does, with a hook or [`NoHook`]. Allocates.
///
/// # Errors
/// [`OutOfMemory`]; value and hook are dropped, and the hook does not run.
pub fn try_make_dyn<K, T, S, H>(
    value: S,
    coerce: fn(&S) -> &T,
    hook: H,
) -> Result<Ref<K::Object<T>>, OutOfMemory>
where
    K: Kind,
    T: ?Sized + 'static,
    S: Send + Sync + 'static,
    H: Hook<S> + Send + Sync + 'static,
{
    const { assert_unsized::<T>() };
    Ok(Ref {
        raw: make::<K, T, S, H, ()>((), value, coerce, hook)?,
        owns: PhantomData,
    })
}

/// Refuses to compile where a sized type would do.
pub(crate) const fn assert_unsized<T: ?Sized>() {
    assert!(
        !is_thin::<T>(),
        "make counted objects of a sized type with a function for those"
    );
}

/// Makes a block with one reference and no hook, and ends the process if there is no memory, as
/// boxes do.
#[inline(always)]
fn must_make<K, T, S>(value: S, coerce: impl FnOnce(&S) -> &T) -> NonNull<RawObject>
where
    K: Kind,
    T: ?Sized,
    S: 'static,
{
    make::<K, T, S, NoHook, ()>((), value, coerce, NoHook)
        .unwrap_or_else(|OutOfMemory| handle_alloc_error(layout::<K::Object<T>, S, NoHook, ()>()))
}

/// Called when the use of an object ends.
pub trait Hook<S> {
    /// True if calling it does nothing.
    const IS_NONE: bool = false;

    /// Called once: when the last reference goes, or when the object is revoked before.
    fn call(&self, value: &S, reason: ReleaseReason);
}

impl<S, F: Fn(&S, ReleaseReason)> Hook<S> for F {
    fn call(&self, value: &S, reason: ReleaseReason) {
        self(value, reason);
    }
}

/// The hook of an object whose end has no observer.
#[derive(Debug)]
pub struct NoHook;

impl<S> Hook<S> for NoHook {
    const IS_NONE: bool = true;

    fn call(&self, _value: &S, _reason: ReleaseReason) {}
}

/// Where things are in a block of an `S` and an `H`, with an `L` in front, for a `T`.
struct Shape<T: ?Sized, S, H, L>(PhantomData<T>, PhantomData<(S, H, L)>);

impl<T: ?Sized, S, H, L> Shape<T, S, H, L> {
    /// Bytes in front of the value.
    const FRONT: usize = prefix_distance::<T, L>();
    /// Offset of the value.
    const VALUE: usize =
        Self::FRONT.next_multiple_of(larger(align_of::<S>(), align_of::<Header>()));
    /// Offset of the hook.
    const HOOK: usize = (Self::VALUE + size_of::<S>()).next_multiple_of(align_of::<H>());
    const ALIGN: usize = larger(
        larger(align_of::<S>(), align_of::<H>()),
        align_of::<Header>(),
    );

    const LAYOUT: Layout = match Layout::from_size_align(Self::HOOK + size_of::<H>(), Self::ALIGN) {
        Ok(layout) => layout.pad_to_align(),
        Err(_) => panic!("the object is larger than memory can be"),
    };
}

const fn larger(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

/// Memory of a block. Dropping this frees it. Its layout is in its type, so that the compiler finds
/// the size class to free it to.
struct Memory<T: ?Sized, S, H, L> {
    place: NonNull<u8>,
    shape: PhantomData<Shape<T, S, H, L>>,
}

impl<T: ?Sized, S, H, L> Memory<T, S, H, L> {
    #[inline(always)]
    fn try_new() -> Result<Self, OutOfMemory> {
        let place = memory::alloc(Shape::<T, S, H, L>::LAYOUT).ok_or(OutOfMemory)?;
        Ok(Self::at(place))
    }

    #[inline(always)]
    fn at(place: NonNull<u8>) -> Self {
        Self {
            place,
            shape: PhantomData,
        }
    }
}

impl<T: ?Sized, S, H, L> Drop for Memory<T, S, H, L> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: `try_new` took it with this layout, and nothing uses it any more.
        unsafe { memory::free(self.place, Shape::<T, S, H, L>::LAYOUT) };
    }
}

/// A value in its place. Dropping this drops the value, and frees the memory.
struct Unfinished<T: ?Sized, S, H, L> {
    value: NonNull<S>,
    _memory: Memory<T, S, H, L>,
}

impl<T: ?Sized, S, H, L> Drop for Unfinished<T, S, H, L> {
    fn drop(&mut self) {
        // SAFETY: the value was written there, and no other code knows it yet. The memory is freed
        // after it, also if its drop panics.
        unsafe { self.value.drop_in_place() };
    }
}

/// Returns the layout of such a block.
pub(super) const fn layout<T: ?Sized, S, H, L>() -> Layout {
    Shape::<T, S, H, L>::LAYOUT
}

/// Makes a block of a `K::Object<T>` with one reference. Allocates. Inlined, so that the value is
/// made in its final place.
#[inline(always)]
pub(crate) fn make<K, T, S, H, L>(
    prefix: L,
    value: S,
    coerce: impl FnOnce(&S) -> &T,
    hook: H,
) -> Result<NonNull<RawObject>, OutOfMemory>
where
    K: Kind,
    T: ?Sized,
    S: 'static,
    H: Hook<S>,
    L: Prefix,
{
    let memory = Memory::<K::Object<T>, S, H, L>::try_new()?;
    let start = memory.place;
    // SAFETY: the shape puts the value there.
    let raw = unsafe { start.add(Shape::<K::Object<T>, S, H, L>::VALUE) };
    let place = raw.cast::<S>();
    // SAFETY: the place is in fresh memory, and aligned as the shape has it.
    unsafe { place.write(value) };
    let unfinished = Unfinished {
        value: place,
        _memory: memory,
    };
    // SAFETY: the value is there, and neither moved nor mutably borrowed until it is dropped with
    // the block, or before. So where `coerce` leads from there stays good too.
    let object = coerce(unsafe { place.as_ref() });
    // SAFETY: the block is of this kind, and the result is its object.
    let object = NonNull::from(unsafe { K::object(object) });
    if !is_thin::<K::Object<T>>() {
        // SAFETY: the front has room for it here, as `object` expects.
        let place = unsafe { raw.byte_sub(front_distance::<K::Object<T>>()) }.cast();
        // SAFETY: fresh memory, as far from an aligned place as its own size is.
        unsafe { place.write(object) };
    }
    let has_contents = needs_drop::<S>() || needs_drop::<H>();
    let is_quiet = H::IS_NONE && L::IS_NONE && (K::IS_LATE || !has_contents);
    let bit = |holds, bit| if holds { bit } else { 0 };
    let bits = bit(is_quiet, State::QUIET)
        | bit(K::IS_LATE, State::LATE)
        | bit(K::IS_LATE && has_contents, State::DROPS_LATE)
        | bit(size_of::<S>() > 0, State::HAS_BYTES);
    let header = Header {
        rcu: rcu::Head::new(destroy_step::<K::Object<T>, S, H, L>),
        state: State::new(bits),
        spread: Spread::new(),
        count: RefCount::new(),
    };
    // SAFETY: the front has room for a header there.
    let place = unsafe { raw.cast::<Header>().sub(1) };
    // SAFETY: fresh memory; what is in front of a value ends at a header's alignment.
    unsafe { place.write(header) };
    // SAFETY: the shape has put an `L` in front.
    let place = unsafe { header::prefix::<K::Object<T>, L>(raw.cast()) };
    // SAFETY: the front has room for the prefix there, aligned as the trait demands.
    unsafe { place.write(prefix) };
    // SAFETY: the shape puts the hook there.
    let place = unsafe { start.add(Shape::<K::Object<T>, S, H, L>::HOOK) }.cast::<H>();
    // SAFETY: fresh memory, aligned as the shape has it.
    unsafe { place.write(hook) };
    // The block owns them now.
    mem::forget(unfinished);
    Ok(raw.cast())
}

/// Takes the next step to a block's end, as its state says:
///
/// | state | from | step |
/// |---|---|---|
/// | not released | [`revoke`](super::revoke) | call the hook |
/// | released, not quiet | [`release`](super::release) | call the hook unless it was called before; drop the contents unless the block is late |
/// | released, quiet | the callback | drop the contents if the block is late; free the memory |
/// | a question | [`value_type`] | answer it, and touch no block |
///
/// # Safety
/// `head` is that of a [`TypeQuestion`], which the caller may write, or is in the header of a block
/// that was made of an `S`, an `H` and an `L` for a `T`, and that is alive. The caller is the one
/// that the table names, and each step is taken once. In the second step there are no references;
/// after the third one nothing uses the block.
unsafe fn destroy_step<T, S, H, L>(head: NonNull<rcu::Head>)
where
    T: ?Sized,
    S: 'static,
    H: Hook<S>,
    L: Prefix,
{
    // SAFETY: the value follows the header, of which the head is the first field.
    let raw = unsafe { head.cast::<Header>().add(1) }.cast::<RawObject>();
    // SAFETY: as the caller promises. Relaxed: the caller has just written it, or has synchronised
    // with the thread that did.
    let state = unsafe { Header::of(raw) }.state.0.load(Relaxed);
    if state & State::ASKS_TYPE != 0 {
        // SAFETY: only a question has this state, and its answer is where a value would be.
        return unsafe { raw.cast::<Option<TypeId>>().write(Some(TypeId::of::<S>())) };
    }
    if state & State::RELEASED == 0 {
        // SAFETY: as the caller promises.
        return unsafe { call_hook::<T, S, H, L>(raw, ReleaseReason::Revoked) };
    }
    if state & State::QUIET != 0 {
        // SAFETY: as the caller promises.
        // weaken: prompt-object-that-is-dropped-again
        return unsafe { free::<T, S, H, L>(raw, state & State::LATE != 0) };
    }
    let release = || {
        // weaken: revoked-object-that-ends-again
        if state & State::REVOKED == 0 {
            // SAFETY: as the caller promises.
            unsafe { call_hook::<T, S, H, L>(raw, ReleaseReason::Released) };
        }
    };
    // weaken: late-object-that-is-dropped-by-the-last-put
    if state & State::LATE != 0 {
        return release();
    }
    let is_taken = state & State::TAKEN != 0;
    // SAFETY: without references only readers in sections know the block, and they look at its
    // header alone.
    let drop_contents = || unsafe { drop_contents::<T, S, H, L>(raw, is_taken) };
    if H::IS_NONE && L::IS_NONE {
        return drop_contents();
    }
    unwind::both(release, drop_contents);
}

/// Argument with which [`value_type`] calls the function of a block, in place of its header.
#[repr(C)]
struct TypeQuestion {
    header: Header,
    /// Right behind the header, as a value is.
    answer: Option<TypeId>,
}

const _: () = assert!(mem::offset_of!(TypeQuestion, answer) == size_of::<Header>());

/// Returns the type of a block's value, which the function in its header alone knows.
#[cold]
pub(super) fn value_type(header: &Header) -> Option<TypeId> {
    let step = header.rcu.invoke();
    let mut question = TypeQuestion {
        header: Header {
            rcu: rcu::Head::new(step),
            state: State::new(State::ASKS_TYPE),
            spread: Spread::new(),
            count: RefCount::new(),
        },
        answer: None,
    };
    // SAFETY: the head is the first field of a question, which is borrowed mutably here.
    unsafe { step(NonNull::from(&mut question).cast()) };
    question.answer
}

/// Calls the hook of a block, and makes it leave its list, also if the hook panics. While the
/// thread unwinds, a panic is contained: so any reference may be the last one of an object whose
/// hook panics.
///
/// # Safety
/// As [`destroy_step`], for a block whose hook was not called.
unsafe fn call_hook<T: ?Sized, S, H: Hook<S>, L: Prefix>(
    raw: NonNull<RawObject>,
    reason: ReleaseReason,
) {
    // SAFETY: the raw pointer is that of the value.
    let value = unsafe { raw.cast::<S>().as_ref() };
    let distance = Shape::<T, S, H, L>::HOOK - Shape::<T, S, H, L>::VALUE;
    // SAFETY: the hook follows the value at this distance.
    let hook = unsafe { raw.byte_add(distance) }.cast::<H>();
    // SAFETY: it is there until the block is freed, and shared.
    let hook = unsafe { hook.as_ref() };
    unwind::both(
        || hook.call(value, reason),
        // SAFETY: the block is alive, as the caller promises.
        || unsafe { L::leave::<T>(raw) },
    );
}

/// Drops the value of a block, unless it `is_taken`, and then its hook, also if the first drop
/// panics. While the thread unwinds, a panic is contained.
///
/// # Safety
/// As [`destroy_step`], and nothing uses the value and the hook any more.
unsafe fn drop_contents<T: ?Sized, S, H, L>(raw: NonNull<RawObject>, is_taken: bool) {
    let distance = Shape::<T, S, H, L>::HOOK - Shape::<T, S, H, L>::VALUE;
    // SAFETY: the hook follows the value at this distance.
    let hook = unsafe { raw.byte_add(distance) }.cast::<H>();
    let value = raw.cast::<S>();
    unwind::both(
        || {
            if !is_taken {
                // SAFETY: as the caller promises.
                unsafe { value.drop_in_place() };
            }
        },
        // SAFETY: as the caller promises.
        || unsafe { hook.drop_in_place() },
    );
}

/// Frees a block, and drops its contents before if it still `has_contents`.
///
/// # Safety
/// As [`destroy_step`], for a block that nothing uses any more.
unsafe fn free<T: ?Sized, S, H, L>(raw: NonNull<RawObject>, has_contents: bool) {
    // SAFETY: the block begins at this distance.
    let place = unsafe { raw.cast::<u8>().sub(Shape::<T, S, H, L>::VALUE) };
    // SAFETY: a header is in front of every value.
    let header = unsafe { raw.cast::<Header>().sub(1) };
    // Freed at the end, and also if a drop panics.
    let memory = Memory::<T, S, H, L>::at(place);
    // SAFETY: it is there until it is dropped below.
    if unsafe { header.as_ref() }.state.says_revoked() {
        REVOCATIONS.end();
    }
    // SAFETY: nothing uses the header any more.
    unsafe { header.drop_in_place() };
    if has_contents {
        // SAFETY: as the caller promises.
        unsafe { drop_contents::<T, S, H, L>(raw, false) };
    }
    drop(memory);
}
