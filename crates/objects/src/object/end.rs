//! How the use of an object ends: by its last reference, by a revocation, or taken out of its
//! block.

use core::mem;
use core::ptr::NonNull;

use fdtable_sync::platform::atomic::Ordering::AcqRel;
use fdtable_sync::rcu::{self, Effect};
use fdtable_sync::unwind;

use super::header::{Header, REVOCATIONS, RawObject, State};
use super::weak;

/// Ends the object, and frees the block after a grace period. A panic of the hook or of `Drop`
/// propagates out of the call, and keeps nothing of this from happening.
///
/// # Safety
/// The last reference to the block was just put, by the caller.
#[cold]
#[inline(never)]
pub(crate) unsafe fn release(raw: NonNull<RawObject>) {
    // SAFETY: the header is in front of the value, in the same allocation.
    let reclaim = Reclaim(unsafe { raw.cast::<Header>().sub(1) });
    // SAFETY: as the caller promises; the callback is queued later.
    unsafe { reclaim.end(State::RELEASED) };
    drop(reclaim);
}

/// Ends the object like [`release`], but moves the value out instead of dropping it. If the hook
/// panics, the value is dropped.
///
/// # Safety
/// The last reference to the block was just put, by the caller. The block is prompt, and its value
/// is a `T`.
#[cold]
pub(crate) unsafe fn take<T>(raw: NonNull<RawObject>) -> T {
    /// A value in its place. Dropping this drops the value.
    struct Value<T>(NonNull<T>);
    impl<T> Drop for Value<T> {
        fn drop(&mut self) {
            // The hook has panicked: another panic is contained, as in a last put.
            // SAFETY: it was not moved out, and the last put does not drop it.
            unwind::run(|| unsafe { self.0.drop_in_place() });
        }
    }
    // SAFETY: the header is in front of the value, in the same allocation.
    let reclaim = Reclaim(unsafe { raw.cast::<Header>().sub(1) });
    let value = Value(raw.cast::<T>());
    // SAFETY: as in `release`; this does not drop the value.
    unsafe { reclaim.end(State::RELEASED | State::TAKEN) };
    // SAFETY: readers without a reference look at the header alone. The value is not dropped.
    let taken = unsafe { value.0.read() };
    mem::forget(value);
    drop(reclaim);
    taken
}

/// Ends the object while references still exist. Returns true if it had not ended before.
///
/// # Safety
/// The caller has a reference to the block.
#[cold]
pub(crate) unsafe fn revoke(raw: NonNull<RawObject>) -> bool {
    // SAFETY: the reference keeps the block.
    let header = unsafe { Header::of(raw) };
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
    // SAFETY: the header is in front of the value, in the same allocation.
    let place = unsafe { raw.cast::<Header>().sub(1) };
    // SAFETY: the function was made for this block, all of which the pointer may reach. It is not
    // released: there is a reference.
    unsafe { step(place.cast()) };
    true
}

/// A block without references. Dropping this queues its callback: also if the hook or `Drop`
/// panics, so that the block does not leak.
pub(super) struct Reclaim(NonNull<Header>);

impl Reclaim {
    /// Takes the step to the end that a block takes without references, unless it is quiet.
    ///
    /// # Safety
    /// The last reference was just put, by the caller, who calls this once.
    #[inline(always)]
    unsafe fn end(&self, bits: u32) {
        // SAFETY: the block is kept until the drop queues its callback.
        let header = unsafe { self.0.as_ref() };
        if header.state.has(State::QUIET) {
            return;
        }
        header.state.add(bits);
        let step = header.rcu.invoke();
        // SAFETY: the function was made for this block, which is alive. It has no references, and
        // has not been quiet.
        let end = || unsafe { step(self.0.cast()) };
        // SAFETY: as the caller promises; the callback is queued later.
        unsafe { weak::detach_and(header, end) };
    }
}

impl Drop for Reclaim {
    fn drop(&mut self) {
        // SAFETY: the block stays until its callback frees it.
        let state = unsafe { &(*self.0.as_ptr()).state };
        state.add(State::RELEASED | State::QUIET);
        let head = self.0.cast();
        let effect = match state.has(State::DROPS_LATE) {
            true => Effect::RunsCode,
            false => Effect::FreesMemory,
        };
        // Late by a bounded time where that can be seen: in a drop. The thread that sees to it has
        // models of its own.
        if effect == Effect::RunsCode && !cfg!(loom) {
            // SAFETY: the block stays until its callback frees it. Without references only readers
            // in sections look at it; they do not touch its RCU head. Everything in it is `Send`,
            // so any thread may drop it.
            unsafe { rcu::call_timely(head) };
        } else {
            // SAFETY: as above; without contents it is memory that no code of others is called for.
            // weaken: block-that-is-freed-by-the-last-put
            unsafe { rcu::call(effect, head) };
        }
    }
}
