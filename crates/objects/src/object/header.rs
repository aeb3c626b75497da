//! The header in front of every value: its count, its state, and how a block comes to its end.

use core::mem;
use core::ptr::NonNull;

use crossbeam_utils::CachePadded;

use fdtable_sync::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use fdtable_sync::platform::atomic::{AtomicU32, AtomicUsize};
use fdtable_sync::platform::{const_fn, global};
use fdtable_sync::prefetch::prefetch;
use fdtable_sync::rcu;
use fdtable_sync::refcount::RefCount;
use fdtable_sync::refcount::spread::{Place, Spread};

/// The value of a block, of a type that only the maker of the block knows. Never made; exists only
/// behind pointers.
pub(crate) enum RawObject {}

/// The header, directly in front of every value. Aligned so that an [address](super::raw) has room
/// for tags, also where a pointer has 32 bits.
#[repr(C, align(8))]
pub(crate) struct Header {
    /// First, so that its address is that of the header. Its function takes the next step to the
    /// object's end: see `destroy_step` in [`make`].
    pub(super) rcu: rcu::Head,
    pub(crate) state: State,
    /// The count by CPU, if several CPUs want it.
    pub(crate) spread: Spread,
    /// Last, so that it shares a cache line with the beginning of most values.
    pub(crate) count: RefCount,
}

/// How far the object is on the way to its end, and the word that its list keeps here.
#[derive(Debug)]
pub(crate) struct State(pub(super) AtomicU32);

impl State {
    /// The object was taken from its holders: its hook has run, or is running.
    pub(super) const REVOKED: u32 = 1;
    /// The last reference has gone.
    pub(super) const RELEASED: u32 = 2;
    /// Nothing is left to do before the callback. In a new block: the last put has nothing to do.
    /// The first [weak reference](weak) clears it.
    pub(super) const QUIET: u32 = 4;
    /// The callback drops the value and the hook, and not the last put: the block is of the
    /// [late](Late) kind.
    pub(super) const LATE: u32 = 8;
    /// It is late, and the drop does something.
    pub(super) const DROPS_LATE: u32 = 16;
    /// The value has a size: the byte at its address is in the block.
    pub(super) const HAS_BYTES: u32 = 32;
    /// It is not the state of a block: the function in the header is asked for the value's type.
    pub(super) const ASKS_TYPE: u32 = 64;
    /// The value was moved out: the last put does not drop it.
    pub(super) const TAKEN: u32 = 128;
    /// The lowest bit of the word that a [`Prefix`] keeps here.
    pub(super) const LIST_WORD: u32 = 8;

    /// Makes the state of a new block, of some of the bits above.
    pub(super) fn new(bits: u32) -> Self {
        Self(AtomicU32::new(bits))
    }

    /// Adds bits, for the thread that put the last reference.
    pub(super) fn add(&self, bits: u32) {
        // No exchange: without references no other thread writes it, and the thread that invokes
        // the callback has synchronised with the queue. Release: a thread that reads a revocation
        // from this store sees that it is counted, as from the one in `revoke`, which this thread
        // has synchronised with.
        self.0.store(self.0.load(Relaxed) | bits, Release);
    }

    /// Returns true if the object was revoked. The block is not read while no object in the process
    /// is revoked: the state stands beside the count, which others write.
    #[inline(always)]
    pub(crate) fn is_revoked(&self) -> bool {
        REVOCATIONS.any() && self.says_revoked()
    }

    #[cold]
    pub(super) fn says_revoked(&self) -> bool {
        // Acquire: pairs with the release in `revoke`, so the count of that revocation is visible
        // too, and a thread that has once found the object revoked finds it so again. A thread that
        // knows that a revocation is over has synchronised with it, and sees the bit in any case.
        self.0.load(Acquire) & Self::REVOKED != 0
    }

    /// Returns true if a bit is set that a new block has: after the last put, if it is
    /// [`QUIET`](Self::QUIET).
    pub(super) fn has(&self, bit: u32) -> bool {
        // Relaxed: it was written before the block was known to others, and a thread that made the
        // block less quiet had a reference, whose put comes before the last one.
        self.0.load(Relaxed) & bit != 0
    }

    /// Returns the word that the prefix keeps here, below 2^24.
    pub(crate) fn list_word(&self) -> u32 {
        // Relaxed: it was written before the block was known to others.
        self.0.load(Relaxed) >> Self::LIST_WORD
    }

    /// Stores the word of the prefix, once. For the maker of a block, before any other thread knows
    /// the block.
    pub(crate) fn set_list_word(&self, list_word: u32) {
        // Relaxed, both: no other thread has written it, and whatever makes the block known to
        // others makes this known.
        let bits = self.0.load(Relaxed);
        self.0.store(bits | list_word << Self::LIST_WORD, Relaxed);
    }
}

/// The part in front of a header. For an object that must leave a list before its memory is freed.
///
/// # Safety
/// Its size is a multiple of a header's alignment, and it needs no drop.
pub(crate) unsafe trait Prefix {
    /// True if leaving does nothing.
    const IS_NONE: bool = false;

    /// Leaves. Called once, after the hook.
    ///
    /// # Safety
    /// The block is alive, and `T` is its type.
    unsafe fn leave<T: ?Sized>(raw: NonNull<RawObject>);
}

// SAFETY: it has no size.
unsafe impl Prefix for () {
    const IS_NONE: bool = true;

    unsafe fn leave<T: ?Sized>(_raw: NonNull<RawObject>) {}
}

/// Returns true if a pointer to a `T` is only an address.
pub(crate) const fn is_thin<T: ?Sized>() -> bool {
    size_of::<NonNull<T>>() == size_of::<usize>()
}

/// Returns how far in front of the value the header begins, or the pointer to the object if there
/// is one.
pub(super) const fn front_distance<T: ?Sized>() -> usize {
    let object = if is_thin::<T>() {
        0
    } else {
        size_of::<NonNull<T>>()
    };
    object + size_of::<Header>()
}

/// Returns how far in front of the value of a `T` its prefix begins.
pub(super) const fn prefix_distance<T: ?Sized, L>() -> usize {
    front_distance::<T>() + size_of::<L>()
}

/// Finds the prefix of a block.
///
/// # Safety
/// The block is one of a `T` with an `L` in front.
pub(crate) unsafe fn prefix<T: ?Sized, L: Prefix>(raw: NonNull<RawObject>) -> NonNull<L> {
    let place = raw.as_ptr().wrapping_byte_sub(prefix_distance::<T, L>());
    // SAFETY: the front of the block is before its value, so that is not at the lowest addresses.
    unsafe { NonNull::new_unchecked(place.cast()) }
}

/// Finds the block of a prefix.
///
/// # Safety
/// The prefix is that of a block of a `T`.
pub(crate) unsafe fn block_of<T: ?Sized, L: Prefix>(prefix: NonNull<L>) -> NonNull<RawObject> {
    let place = prefix.as_ptr().wrapping_byte_add(prefix_distance::<T, L>());
    // SAFETY: the value follows the prefix in its allocation.
    unsafe { NonNull::new_unchecked(place.cast()) }
}

impl Header {
    /// Returns the header in front of a value.
    ///
    /// # Safety
    /// The block is alive for all of `'a`.
    #[inline(always)]
    pub(crate) unsafe fn of<'a>(raw: NonNull<RawObject>) -> &'a Self {
        // SAFETY: a header is in front of every value, in the same allocation.
        let header = unsafe { raw.cast::<Self>().sub(1) };
        // SAFETY: it was written before any other code knew the block; the block is alive.
        unsafe { header.as_ref() }
    }

    /// Takes a reference, unless the last one has gone, and returns where it is counted.
    #[inline(always)]
    pub(super) fn get(&self) -> Option<Place> {
        self.spread.get(&self.count)
    }

    /// Drops a reference that no slot has, for a holder that expects that it is the last.
    #[inline(always)]
    pub(crate) fn put_as_last(&self) -> bool {
        self.count.put_if_last() || self.spread.put(&self.count)
    }

    /// Drops a reference that no slot has if it is the last.
    #[inline(always)]
    pub(crate) fn put_if_last(&self) -> bool {
        self.count.put_if_last()
    }
}

/// Prefetches the line of a block's count, which is right before its value. There does not have to
/// be a block.
#[inline(always)]
pub(crate) fn prefetch_count(raw: *const RawObject) {
    prefetch(raw.wrapping_byte_sub(size_of::<RefCount>()));
}

/// Returns the object of a block.
///
/// # Safety
/// The block is one of a `T`, and its object is alive for all of `'a`: there is a reference, or `T`
/// is an [`Rcu`] that was found in a section.
#[inline(always)]
pub(crate) unsafe fn object<'a, T: ?Sized>(raw: NonNull<RawObject>) -> &'a T {
    let object: NonNull<T> = if is_thin::<T>() {
        // SAFETY: both are thin pointers, so they have the same size. The value of the block is
        // the object: nothing else coerces to a sized type.
        unsafe { mem::transmute_copy(&raw) }
    } else {
        // SAFETY: the front of such a block begins with the pointer.
        let place = unsafe { raw.byte_sub(front_distance::<T>()) };
        // SAFETY: it was written before any other code knew the block, and never changes.
        unsafe { place.cast().read() }
    };
    // SAFETY: the value, or what `coerce` found from it. It stays in place, and only shared, until
    // it is dropped.
    unsafe { object.as_ref() }
}

/// Ends a block that only its maker knows: drops its contents, and runs no hook.
///
/// # Safety
/// The block was just made, and the caller alone knows it.
pub(crate) unsafe fn abandon(raw: NonNull<RawObject>) {
    // SAFETY: as the caller promises.
    let header = unsafe { Header::of(raw) };
    // As if its callback ran, and had to drop everything. Relaxed: no other thread sees it.
    let end = State::RELEASED | State::QUIET | State::LATE;
    header.state.0.store(end, Relaxed);
    let step = header.rcu.invoke();
    // SAFETY: the header is in front of the value, in the same allocation.
    let place = unsafe { raw.cast::<Header>().sub(1) };
    // SAFETY: the function was made for this block, all of which the pointer may reach. No reader
    // waits for a grace period.
    unsafe { step(place.cast()) };
}

global! {
    pub(crate) static REVOCATIONS: Revocations = Revocations::new();
}

/// The count, on its own cache line.
pub(crate) struct Revocations(pub(crate) CachePadded<AtomicUsize>);

impl Revocations {
    const_fn! {
        fn new() -> Self {
            Self(CachePadded::new(AtomicUsize::new(0)))
        }
    }

    /// Returns true if any object may be revoked.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        // Relaxed: for the same reason as the read of the bit in the object's state.
        self.0.load(Relaxed) != 0
    }

    /// Counts an object that was revoked.
    pub(super) fn begin(&self) {
        // Relaxed: whatever orders the bit with threads that know of the revocation orders this
        // too.
        self.0.fetch_add(1, Relaxed);
    }

    /// Uncounts an object whose block is freed.
    pub(super) fn end(&self) {
        // Relaxed: no thread can ask for that object any more.
        self.0.fetch_sub(1, Relaxed);
    }
}
