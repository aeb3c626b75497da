//! Weak references: they find an object while it has references, and keep nothing of it.
//!
//! A [`Weak`] is a reference to a *node*, a small counted object of its own. The node has one
//! pointer, to the block of the object, or null once the object has ended. All weak references to
//! an object share one node. The block has one reference to it too, from the first
//! [`Ref::downgrade`] to the object's end.
//!
//! The node also has the [identity](Ref::id) of the object, drawn when it is first asked for. So an
//! object whose identity is not asked for pays nothing for it, and weak references have it after
//! the object's end.
//!
//! *The place of a block's node.* It is in the link of the RCU head, which the queue does not use
//! before the block is released (see [`rcu::Head::owner_word`]). So blocks are no larger. Making
//! the first weak reference clears the bit [`State::QUIET`], so `release` looks for a node. The
//! release of an object that has no hook, no prefix and no weak reference tests that bit alone.
//!
//! # When an upgrade begins to fail
//!
//! At the burial of the count, which is the last step of the last put: before the hook runs. An
//! upgrade takes a reference as any reader does, by an add to the count, and that fails once the
//! count is dead. Between the last put and its burial it revives the object, as a lookup can. So
//! the hook of a release runs when there is no reference, and there will be none.
//!
//! A revoked object is upgraded like others: revocation ends its use, not its references. So the
//! hook of a revocation can upgrade: the thread that revokes has a reference until the hook
//! returns. If the count is saturated, the object is never released, and every upgrade succeeds.
//!
//! # Why an upgrade never touches a freed block
//!
//! The thread that buries the count stores null in the node, and queues the block's callback after
//! that. An upgrade reads the node's pointer inside a read-side section. If it reads the block's
//! address, then the grace period of the callback has not begun without it: a section that begins
//! after a grace period has begun sees what was stored before its callback was queued (see
//! [`rcu`]). So the block is freed after the section. No ordering of the pointer itself is needed,
//! in either direction. The thread that stored the address had a reference, and everything in the
//! block is older than that. A thread that has a weak reference has synchronised with the maker of
//! the node, by what gave it the reference, or by the acquire in [`node_of`].
//!
//! # The order at the end
//!
//! `release` takes the node from the link and stores null before it calls the hook, so a hook that
//! panics changes nothing. It puts the block's reference to the node after the hook: that can be
//! the last one, and queues the node's own callback then.

use alloc::alloc::handle_alloc_error;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::num::NonZeroU64;
use core::ptr::{self, NonNull};

use fdtable_sync::fallible::OutOfMemory;
use fdtable_sync::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use fdtable_sync::platform::atomic::{AtomicPtr, AtomicU64};
use fdtable_sync::platform::global;
use fdtable_sync::rcu;

use super::Ref;
use super::header::{Header, RawObject, State, abandon};
use super::make::{NoHook, layout};

/// A reference that does not keep its object.
///
/// Cloning and dropping it is one atomic add each. Dropping the last one of an object that has
/// ended frees their common node after a grace period, and may run RCU callbacks as
/// [`rcu::call`] does.
pub struct Weak<T: ?Sized> {
    /// Absent in a weak reference that was made without an object.
    node: Option<Ref<Node>>,
    /// It gives out references, and is `Send`, `Sync` and covariant as they are.
    object: PhantomData<Ref<T>>,
}

/// State that the weak references to an object share.
pub(super) struct Node {
    /// The block, or null after the end of its object.
    block: AtomicPtr<RawObject>,
    /// The identity of the object, or 0 before it is asked for.
    id: AtomicU64,
}

global! {
    /// How many identities were drawn.
    pub(super) static IDS: AtomicU64 = AtomicU64::new(0);
}

impl Node {
    /// Returns the identity of the object. Draws it if this is the first call.
    fn id(&self) -> NonZeroU64 {
        // Relaxed, all: identities only have to differ. They do not run out: 2^64 objects.
        if let Some(id) = NonZeroU64::new(self.id.load(Relaxed)) {
            return id;
        }
        let new = NonZeroU64::MIN.saturating_add(IDS.fetch_add(1, Relaxed));
        let first = self.id.compare_exchange(0, new.get(), Relaxed, Relaxed);
        // weaken: identity-that-two-threads-draw
        first.err().and_then(NonZeroU64::new).unwrap_or(new)
    }
}

impl<T: ?Sized> Ref<T> {
    /// Makes a weak reference. The first one of an object allocates, and ends the process if there
    /// is no memory. Never blocks.
    #[must_use]
    pub fn downgrade(this: &Self) -> Weak<T> {
        Self::try_downgrade(this).unwrap_or_else(|OutOfMemory| no_memory())
    }

    /// Makes a weak reference. The first one of an object allocates. Never blocks.
    ///
    /// # Errors
    /// [`OutOfMemory`]; an object that has a weak reference, or had one, needs no memory.
    pub fn try_downgrade(this: &Self) -> Result<Weak<T>, OutOfMemory> {
        Ok(Weak {
            node: Some(Self::node(this)?),
            object: PhantomData,
        })
    }

    /// Returns the identity of the object, which no other object of the process has or will have.
    /// Allocates like [`downgrade`](Self::downgrade). Never blocks.
    #[must_use]
    pub fn id(this: &Self) -> NonZeroU64 {
        Self::node(this).map_or_else(|OutOfMemory| no_memory(), |node| node.id())
    }

    /// Returns the node of the object. Makes it if there is none.
    fn node(this: &Self) -> Result<Ref<Node>, OutOfMemory> {
        // SAFETY: the caller's reference lasts for the call.
        match unsafe { node_of(this.header()) } {
            Some(node) => Ok(node),
            // SAFETY: as above.
            None => unsafe { make_node(this.block()) },
        }
    }
}

/// Ends the process, as boxes do.
#[cold]
fn no_memory() -> ! {
    handle_alloc_error(layout::<Node, Node, NoHook, ()>());
}

/// Returns the node of a block, if it has one.
///
/// # Safety
/// The caller has a reference to the block of the header.
unsafe fn node_of(header: &Header) -> Option<Ref<Node>> {
    // Acquire: pairs with the release in `make_node`, so the node is whole here.
    let node = NonNull::new(header.rcu.owner_word().load(Acquire))?;
    // SAFETY: the word of a block that is not released is null or a reference to a node, which the
    // block owns until its last reference is put. The caller has one.
    let owned = ManuallyDrop::new(unsafe { Ref::<Node>::from_raw(node.cast()) });
    Some(Ref::clone(&owned))
}

/// Gives a block a node, unless another thread is first. Returns the node that it has then.
///
/// # Safety
/// The caller has a reference to the block.
#[cold]
unsafe fn make_node(raw: NonNull<RawObject>) -> Result<Ref<Node>, OutOfMemory> {
    // SAFETY: as the caller promises.
    let header = unsafe { Header::of(raw) };
    let node = Ref::try_new(Node {
        block: AtomicPtr::new(raw.as_ptr()),
        id: AtomicU64::new(0),
    })?;
    let node = node.into_raw();
    // Release: pairs with the acquire in `node_of`, so the node is whole there.
    // Acquire on failure: as in `node_of`.
    // weaken: first-weak-reference-of-two-threads
    let made = header.rcu.owner_word().compare_exchange(
        ptr::null_mut(),
        node.as_ptr().cast(),
        Release,
        Acquire,
    );
    let node = if let Err(first) = made {
        // SAFETY: made above, and known to this thread alone.
        unsafe { abandon(node) };
        // SAFETY: the exchange found a pointer that is not null.
        unsafe { NonNull::new_unchecked(first) }.cast()
    } else {
        // weaken: first-weak-reference-of-a-quiet-object
        header.state.end_quiet();
        node
    };
    // SAFETY: as in `node_of`.
    let owned = ManuallyDrop::new(unsafe { Ref::<Node>::from_raw(node) });
    Ok(Ref::clone(&owned))
}

impl State {
    /// Notes that something happens when the last reference goes.
    fn end_quiet(&self) {
        // Relaxed: the thread that releases the block has synchronised with the put of this
        // thread's reference, which comes later.
        self.0.fetch_and(!Self::QUIET, Relaxed);
    }
}

/// Takes a block from its node, if it has one, and then calls `end`, which may panic. No thread
/// finds the block by the node from then on.
///
/// # Safety
/// The last reference to the block of the header was just put, by the caller, who calls this once,
/// and queues the block's callback later.
#[inline(always)]
pub(super) unsafe fn detach_and(header: &Header, end: impl FnOnce()) {
    // Relaxed: a thread that gave the block a node had a reference, and its put comes before.
    match NonNull::new(header.rcu.owner_word().load(Relaxed)) {
        None => end(),
        // SAFETY: the word is a reference that the block owns, as in `node_of`. No thread takes it
        // from there any more: a thread that does has a reference to the block.
        Some(node) => unsafe { detach_from(node.cast(), end) },
    }
}

/// Does the same for a block with a node.
///
/// # Safety
/// As [`detach_and`]; the block owns a reference to the node, and no longer after this call.
#[cold]
#[inline(never)]
unsafe fn detach_from(node: NonNull<RawObject>, end: impl FnOnce()) {
    // Dropped after `end`, also if that panics: the drop may run callbacks.
    // SAFETY: as the caller promises.
    let node = unsafe { Ref::<Node>::from_raw(node) };
    // Relaxed: the grace period of the block, whose callback is queued later, orders it.
    // weaken: node-that-still-leads-to-an-ended-block
    node.block.store(ptr::null_mut(), Relaxed);
    end();
}

impl<T: ?Sized> Weak<T> {
    /// Makes a weak reference to no object: every upgrade fails. Neither blocks nor allocates.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            node: None,
            object: PhantomData,
        }
    }

    /// Takes a reference, unless the last one has gone: it fails once the last put has buried the
    /// count, before the hook of a release runs. The hook of a revocation can upgrade. Costs a
    /// read-side section and an atomic add. Never blocks, and may be called inside of sections.
    /// Allocates only where the thread's first section does.
    #[must_use]
    pub fn upgrade(&self) -> Option<Ref<T>> {
        let node = self.node.as_ref()?;
        // weaken: pointer-of-a-node-read-before-the-section
        // weaken: upgrade-outside-of-a-section
        let _section = rcu::read_lock();
        // Relaxed: it was stored before the node was known to others, and null comes only once. The
        // section is entered before this load.
        // weaken: pointer-of-a-node-read-before-the-section
        let raw = NonNull::new(node.block.load(Relaxed))?;
        // SAFETY: the node is that of a block of a `T`, as `try_downgrade` made it. The block is
        // freed after this section, since its address was found in it: see the head of this file.
        unsafe { Ref::try_from_raw(raw) }
    }

    /// Returns true if there is no object, or no more: no upgrade succeeds from now on. Neither
    /// blocks nor allocates.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        // Relaxed: null comes only once, and nothing is read that it publishes.
        (self.node.as_ref()).is_none_or(|node| node.block.load(Relaxed).is_null())
    }

    /// Returns the [identity](Ref::id) of the object, also if it has ended, or nothing if the weak
    /// reference was made without one. Neither blocks nor allocates.
    #[must_use]
    pub fn id(&self) -> Option<NonZeroU64> {
        self.node.as_ref().map(|node| node.id())
    }

    /// Returns true if both refer to the same object, also if it has ended, or if neither refers to
    /// one.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.node.as_ref().map(Ref::as_ptr) == other.node.as_ref().map(Ref::as_ptr)
    }
}

impl<T: ?Sized> Clone for Weak<T> {
    fn clone(&self) -> Self {
        Self {
            node: self.node.clone(),
            object: PhantomData,
        }
    }
}

impl<T: ?Sized> Default for Weak<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: ?Sized> fmt::Debug for Weak<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(Weak)")
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(loom)))]
mod tests;
