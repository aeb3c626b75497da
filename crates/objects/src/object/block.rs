//! The block of a counted object: how it is laid out, made, released and freed.
//!
//! ```text
//!   | padding | Prefix | object | Header | value | hook |
//!                                      ^ anchor
//! ```
//!
//! All code knows a block by its *anchor*, the address of its value. In front of the anchor is the
//! [`Header`], which is the same for all types. In front of that is the pointer to the object, if
//! it is of a type with wide pointers (`dyn`); and in front of that is the [`Prefix`]: nothing, or
//! the links of the list that the object is on. Code that knows the object's type `T` finds all of
//! these. Only the header's one function, made for this block, knows what `T` does not determine:
//! the sizes of the value and of the hook.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem;
use core::ptr::NonNull;

use crate::memory;
use fdtable_sync::fallible::OutOfMemory;
use fdtable_sync::platform::atomic::AtomicU32;
use fdtable_sync::platform::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
#[cfg(not(loom))]
use fdtable_sync::prefetch::prefetch;
use fdtable_sync::rcu;
use fdtable_sync::refcount::RefCount;
use fdtable_sync::unwind;

use super::ReleaseReason;
use super::revocations::REVOCATIONS;

/// The value of a block, of a type that only the maker of the block knows. Never made; exists only
/// behind pointers.
pub(crate) enum RawObject {}

/// The header, directly in front of every value.
#[repr(C)]
pub(super) struct Header {
    /// First, so that its address is that of the header. Its function takes the next step to the
    /// object's end, as [`destroy_step`] tells.
    rcu: rcu::Head,
    state: State,
    /// Last, so that it shares a cache line with the beginning of most values.
    pub(super) count: RefCount,
}

/// How far an object has come, and the number that its list keeps.
#[derive(Debug)]
pub(super) struct State(AtomicU32);

impl State {
    /// The object was taken from its holders: its hook has run, or is running.
    const REVOKED: u32 = 1;
    /// The last reference has gone, and the hook has run.
    const RELEASED: u32 = 2;
    /// There is no hook and no lead: nothing happens when the last reference goes.
    const QUIET: u32 = 4;
    /// The lowest bit of the number that a [`Prefix`] keeps here.
    const NUMBER: u32 = 3;

    /// The state of a new block.
    const fn at_first<S, H: Hook<S>, L: Prefix>() -> u32 {
        if H::IS_NONE && L::IS_NONE {
            Self::QUIET
        } else {
            0
        }
    }

    /// Returns true if the object was revoked. The block is not read while no object in the process
    /// is revoked: the state stands beside the count, which others write.
    #[inline(always)]
    pub(super) fn is_revoked(&self) -> bool {
        REVOCATIONS.any() && self.says_revoked()
    }

    #[cold]
    fn says_revoked(&self) -> bool {
        // Acquire: pairs with the release in `revoke`, so the count of that revocation is visible
        // too, and a thread that has once found the object revoked finds it so again. A thread that
        // knows that a revocation is over has synchronised with it, and sees the bit in any case.
        self.0.load(Acquire) & Self::REVOKED != 0
    }

    /// Returns true if there is something to do when the last reference goes.
    fn has_end_to_come(&self) -> bool {
        // Acquire: as in `says_revoked`.
        self.0.load(Acquire) & (Self::REVOKED | Self::QUIET) == 0
    }

    /// Returns the number that the lead keeps here, below 2^29.
    pub(crate) fn number(&self) -> u32 {
        // Relaxed: it was written before the block was known to others.
        self.0.load(Relaxed) >> Self::NUMBER
    }

    /// Keeps a number for the lead. For the maker of a block, before any other thread knows the
    /// block.
    fn set_number(&self, number: u32) {
        // Relaxed: whatever makes the block known to others makes this known.
        self.0.store(number << Self::NUMBER, Relaxed);
    }
}

/// The part in front of a header. For an object that must leave a list before its memory is freed.
///
/// # Safety
/// Its size is a multiple of a header's alignment, and it needs no drop.
pub(crate) unsafe trait Prefix {
    /// Whether leaving does nothing.
    const IS_NONE: bool = false;

    /// Leaves. Called once, after the hook.
    ///
    /// # Safety
    /// The block is alive, and `T` is its type.
    unsafe fn leave<T: ?Sized>(anchor: NonNull<RawObject>);
}

// SAFETY: it has no size.
unsafe impl Prefix for () {
    const IS_NONE: bool = true;

    unsafe fn leave<T: ?Sized>(_anchor: NonNull<RawObject>) {}
}

/// Called when the use of an object ends.
pub(crate) trait Hook<S> {
    /// Whether calling it does nothing.
    const IS_NONE: bool = false;

    /// Called once, at the first of the two ends.
    fn tell(&self, value: &S, end: ReleaseReason);
}

impl<S, F: Fn(&S, ReleaseReason)> Hook<S> for F {
    fn tell(&self, value: &S, end: ReleaseReason) {
        self(value, end);
    }
}

/// The hook of an object whose end has no observer.
pub(super) struct NoHook;

impl<S> Hook<S> for NoHook {
    const IS_NONE: bool = true;

    fn tell(&self, _value: &S, _end: ReleaseReason) {}
}

/// Where things are in a block of an `S` and an `H`, with an `L` in front, for a `T`.
struct Shape<T: ?Sized, S, H, L>(PhantomData<T>, PhantomData<(S, H, L)>);

impl<T: ?Sized, S, H, L> Shape<T, S, H, L> {
    /// Bytes in front of the value.
    const FRONT: usize = lead_distance::<T, L>();
    /// Where the value begins.
    const VALUE: usize =
        Self::FRONT.next_multiple_of(larger(align_of::<S>(), align_of::<Header>()));
    /// Where the hook begins.
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

/// Returns true if a pointer to a `T` is only an address.
pub(super) const fn is_thin<T: ?Sized>() -> bool {
    size_of::<NonNull<T>>() == size_of::<usize>()
}

/// Returns how far in front of the anchor the header begins, or the pointer to the object if there
/// is one.
const fn front_distance<T: ?Sized>() -> usize {
    let object = if is_thin::<T>() {
        0
    } else {
        size_of::<NonNull<T>>()
    };
    object + size_of::<Header>()
}

/// Returns how far in front of the anchor of a `T` its lead begins.
const fn lead_distance<T: ?Sized, L>() -> usize {
    front_distance::<T>() + size_of::<L>()
}

/// Finds the lead of a block.
///
/// # Safety
/// The anchor is that of a block of a `T` with an `L` in front.
pub(crate) unsafe fn lead<T: ?Sized, L: Prefix>(anchor: NonNull<RawObject>) -> NonNull<L> {
    let place = anchor.as_ptr().wrapping_byte_sub(lead_distance::<T, L>());
    // SAFETY: the front of the block is before its anchor, so that is not at the lowest addresses.
    unsafe { NonNull::new_unchecked(place.cast()) }
}

/// Finds the block of a lead.
///
/// # Safety
/// The lead is that of a block of a `T`.
pub(crate) unsafe fn block_of<T: ?Sized, L: Prefix>(lead: NonNull<L>) -> NonNull<RawObject> {
    let place = lead.as_ptr().wrapping_byte_add(lead_distance::<T, L>());
    // SAFETY: the anchor follows the lead in its allocation.
    unsafe { NonNull::new_unchecked(place.cast()) }
}

impl Header {
    /// Returns the header in front of an anchor.
    ///
    /// # Safety
    /// The block is alive for all of `'a`.
    #[inline(always)]
    pub(super) unsafe fn of<'a>(anchor: NonNull<RawObject>) -> &'a Self {
        // SAFETY: a header is in front of every value, in the same allocation.
        let header = unsafe { anchor.cast::<Self>().sub(1) };
        // SAFETY: it was written before any other code knew the block; the block is alive.
        unsafe { header.as_ref() }
    }

    #[inline(always)]
    pub(super) fn is_revoked(&self) -> bool {
        self.state.is_revoked()
    }
}

/// Returns the number that the block's lead keeps in its header.
///
/// # Safety
/// The block is alive.
pub(crate) unsafe fn number(anchor: NonNull<RawObject>) -> u32 {
    // SAFETY: as the caller promises.
    unsafe { Header::of(anchor) }.state.number()
}

/// Prefetches the line of a block's count, which is right before its anchor. There does not have to
/// be a block.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn prefetch_count(anchor: *const RawObject) {
    prefetch(anchor.wrapping_byte_sub(size_of::<RefCount>()));
}

/// Keeps a number, below 2^29, in the block's header.
///
/// # Safety
/// The block is alive, and only the caller knows it.
pub(crate) unsafe fn set_number(anchor: NonNull<RawObject>, number: u32) {
    // SAFETY: as the caller promises.
    unsafe { Header::of(anchor) }.state.set_number(number);
}

/// Returns the object of a block.
///
/// # Safety
/// The block is one of a `T`, and alive for all of `'a`.
#[inline(always)]
pub(super) unsafe fn object<'a, T: ?Sized>(anchor: NonNull<RawObject>) -> &'a T {
    let object: NonNull<T> = if is_thin::<T>() {
        // SAFETY: both are thin pointers, so they have the same size. The value of the block is
        // the object: nothing else coerces to a sized type.
        unsafe { mem::transmute_copy(&anchor) }
    } else {
        // SAFETY: the front of such a block begins with the pointer.
        let place = unsafe { anchor.byte_sub(front_distance::<T>()) };
        // SAFETY: it was written before any other code knew the block, and never changes.
        unsafe { place.cast().read() }
    };
    // SAFETY: the value, or what `coerce` found from it. It stays in place, and only shared,
    // until the block is freed.
    unsafe { object.as_ref() }
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

/// Makes a block with one reference. Allocates. Inlined, so that the value is made in its final
/// place.
#[inline(always)]
pub(crate) fn make<T, S, H, L>(
    lead: L,
    value: S,
    coerce: impl FnOnce(&S) -> &T,
    hook: H,
) -> Result<NonNull<RawObject>, OutOfMemory>
where
    T: ?Sized,
    H: Hook<S>,
    L: Prefix,
{
    let memory = Memory::<T, S, H, L>::try_new()?;
    let start = memory.place;
    // SAFETY: the shape puts the value there.
    let anchor = unsafe { start.add(Shape::<T, S, H, L>::VALUE) };
    let place = anchor.cast::<S>();
    // SAFETY: the place is in fresh memory, and aligned as the shape has it.
    unsafe { place.write(value) };
    let unfinished = Unfinished {
        value: place,
        _memory: memory,
    };
    // SAFETY: the value is there, and neither moved nor mutably borrowed until it is dropped with
    // the block. So where `coerce` leads from there stays good too.
    let object = NonNull::from(coerce(unsafe { place.as_ref() }));
    if !is_thin::<T>() {
        // SAFETY: the front has room for it here, as `object` expects.
        let place = unsafe { anchor.byte_sub(front_distance::<T>()) }.cast();
        // SAFETY: fresh memory, as far from an aligned place as its own size is.
        unsafe { place.write(object) };
    }
    let header = Header {
        rcu: rcu::Head::new(destroy_step::<T, S, H, L>),
        state: State(AtomicU32::new(State::at_first::<S, H, L>())),
        count: RefCount::new(),
    };
    // SAFETY: the front has room for a header there.
    let place = unsafe { anchor.cast::<Header>().sub(1) };
    // SAFETY: fresh memory; what is in front of a value ends at a header's alignment.
    unsafe { place.write(header) };
    // SAFETY: the shape has put an `L` in front.
    let place = unsafe { self::lead::<T, L>(anchor.cast()) };
    // SAFETY: the front has room for the lead there, aligned as the trait demands.
    unsafe { place.write(lead) };
    // SAFETY: the shape puts the hook there.
    let place = unsafe { start.add(Shape::<T, S, H, L>::HOOK) }.cast::<H>();
    // SAFETY: fresh memory, aligned as the shape has it.
    unsafe { place.write(hook) };
    // The block owns them now.
    mem::forget(unfinished);
    Ok(anchor.cast())
}

/// Ends a block that only its maker knows: drops its contents, and runs no hook.
///
/// # Safety
/// The block was just made, and the caller alone knows it.
pub(crate) unsafe fn abandon(anchor: NonNull<RawObject>) {
    // SAFETY: as the caller promises.
    let header = unsafe { Header::of(anchor) };
    // Relaxed: no other thread sees it.
    header.state.0.store(State::RELEASED, Relaxed);
    let step = header.rcu.invoke();
    // SAFETY: the header is in front of the anchor, in the same allocation.
    let place = unsafe { anchor.cast::<Header>().sub(1) };
    // SAFETY: the function was made for this block, all of which the pointer may reach. No reader
    // waits for a grace period.
    unsafe { step(place.cast()) };
}

/// Ends the object and frees the block after a grace period.
///
/// # Safety
/// The last reference to the block was just put, by the caller.
#[cold]
#[inline(never)]
pub(super) unsafe fn release(anchor: NonNull<RawObject>) {
    // SAFETY: the header is in front of the anchor, in the same allocation.
    let header = unsafe { anchor.cast::<Header>().sub(1) };
    let reclaim = Reclaim(header);
    // SAFETY: the block is kept until `reclaim` queues its callback.
    let header = unsafe { header.as_ref() };
    if header.state.has_end_to_come() {
        let step = header.rcu.invoke();
        // SAFETY: the function was made for this block, which is alive and has had no step.
        unsafe { step(reclaim.0.cast()) };
    }
    drop(reclaim);
}

/// Ends the object while references still exist. Returns true if it had not ended before.
///
/// # Safety
/// The caller has a reference to the block.
#[cold]
pub(super) unsafe fn revoke(anchor: NonNull<RawObject>) -> bool {
    // SAFETY: the reference keeps the block.
    let header = unsafe { Header::of(anchor) };
    // Before the bit, so that a thread that sees the bit also sees the count.
    REVOCATIONS.begin();
    // Release: pairs with the acquire of `says_revoked`, and with this one's: of two revoking
    // threads, the second sees that the first has counted. The reference that the caller has yet to
    // put orders this with the last put.
    if header.state.0.fetch_or(State::REVOKED, AcqRel) & State::REVOKED != 0 {
        REVOCATIONS.end();
        return false;
    }
    let step = header.rcu.invoke();
    // SAFETY: the header is in front of the anchor, in the same allocation.
    let place = unsafe { anchor.cast::<Header>().sub(1) };
    // SAFETY: the function was made for this block, all of which the pointer may reach. It is not
    // released: there is a reference.
    unsafe { step(place.cast()) };
    true
}

/// A block without references. Dropping this queues its callback: also if the hook panics, so
/// that the block does not leak.
struct Reclaim(NonNull<Header>);

impl Drop for Reclaim {
    fn drop(&mut self) {
        // SAFETY: the block stays until its callback frees it.
        let state = unsafe { &(*self.0.as_ptr()).state };
        // No exchange: without references no other thread writes it, and the thread that invokes
        // the callback has synchronised with the queue. Release: a thread that reads a revocation
        // from this store sees that it is counted, as from the one in `revoke`, which this thread
        // has synchronised with.
        state
            .0
            .store(state.0.load(Relaxed) | State::RELEASED, Release);
        // SAFETY: the block stays until its callback frees it. Without references only readers in
        // sections look at it; they do not touch its RCU head. Everything in it is `Send`, so any
        // thread may drop it.
        unsafe { rcu::call(self.0.cast()) };
    }
}

/// Takes the next step to a block's end: first its hook, in one of its two forms, then its memory.
///
/// # Safety
/// `head` is in the header of a block that was made of an `S`, an `H` and an `L` for a `T`, and
/// that is alive. If it is released, nothing uses it after this call; if not, the object has not
/// ended before.
unsafe fn destroy_step<T, S, H, L>(head: NonNull<rcu::Head>)
where
    T: ?Sized,
    H: Hook<S>,
    L: Prefix,
{
    // SAFETY: the value follows the header, of which the head is the first field.
    let anchor = unsafe { head.cast::<Header>().add(1) }.cast::<RawObject>();
    // SAFETY: as the caller promises. Relaxed: the caller has just written it, or has synchronised
    // with the thread that did.
    let state = unsafe { Header::of(anchor) }.state.0.load(Relaxed);
    if state & State::RELEASED != 0 {
        // SAFETY: as the caller promises.
        unsafe { free::<T, S, H, L>(anchor) }
    } else {
        let end = if state & State::REVOKED == 0 {
            ReleaseReason::Released
        } else {
            ReleaseReason::Revoked
        };
        // SAFETY: as the caller promises.
        unsafe { call_hook::<T, S, H, L>(anchor, end) }
    }
}

/// Calls the hook of a block, and makes it leave its list, also if the hook panics. While the
/// thread unwinds, a panic is contained: so any reference may be the last one of an object whose
/// hook panics.
///
/// # Safety
/// As [`destroy_step`], for a block that is not released.
unsafe fn call_hook<T: ?Sized, S, H: Hook<S>, L: Prefix>(
    anchor: NonNull<RawObject>,
    end: ReleaseReason,
) {
    // SAFETY: the value is at the anchor.
    let value = unsafe { anchor.cast::<S>().as_ref() };
    let distance = Shape::<T, S, H, L>::HOOK - Shape::<T, S, H, L>::VALUE;
    // SAFETY: the hook follows the value at this distance.
    let hook = unsafe { anchor.byte_add(distance) }.cast::<H>();
    // SAFETY: it is there until the block is freed, and shared.
    let hook = unsafe { hook.as_ref() };
    unwind::both(
        || hook.tell(value, end),
        // SAFETY: the block is alive, as the caller promises.
        || unsafe { L::leave::<T>(anchor) },
    );
}

/// Drops and frees a block.
///
/// # Safety
/// As [`destroy_step`], for a block that is released.
unsafe fn free<T: ?Sized, S, H, L>(anchor: NonNull<RawObject>) {
    let value = anchor.cast::<S>();
    // SAFETY: the block begins at this distance.
    let place = unsafe { anchor.cast::<u8>().sub(Shape::<T, S, H, L>::VALUE) };
    // SAFETY: the hook is at this distance.
    let hook = unsafe { place.add(Shape::<T, S, H, L>::HOOK) }.cast::<H>();
    // SAFETY: a header is in front of every value.
    let header = unsafe { anchor.cast::<Header>().sub(1) };
    let memory = Memory::<T, S, H, L>::at(place);
    // Dropped after the value, and also if the value's drop panics.
    let hook = Owned(hook);
    // SAFETY: it is there until the next line.
    if unsafe { header.as_ref() }.state.says_revoked() {
        REVOCATIONS.end();
    }
    // SAFETY: nothing uses the header any more.
    unsafe { header.drop_in_place() };
    unwind::both(|| drop(Owned(value)), || drop(hook));
    drop(memory);
}

/// A value in its place that nothing else uses any more. Dropping this drops it.
struct Owned<V>(NonNull<V>);

impl<V> Drop for Owned<V> {
    fn drop(&mut self) {
        // SAFETY: `free` is the last user of what is in the block.
        unsafe { self.0.drop_in_place() };
    }
}
