//! What a thread knows of itself: its id, and the side that it is on.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::mapping::is_shared;

thread_local! {
    // Neither has a destructor, so both can be read wherever memory is allocated.
    static ID: Cell<u32> = const { Cell::new(0) };
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The side on which a thread is, until this is dropped. Then it is where it was before.
#[derive(Debug)]
#[must_use = "the thread goes back when this is dropped"]
pub struct Side {
    before: bool,
    /// Not `Send`: stays on its thread.
    stays: PhantomData<*const ()>,
}

/// Has the calling thread allocate shared memory, if there is some. Nests. Callable anywhere.
#[inline]
pub fn enter() -> Side {
    go(is_shared())
}

/// Has the calling thread allocate private memory. Nests. Callable anywhere.
#[inline]
pub fn leave() -> Side {
    go(false)
}

#[inline]
fn go(inside: bool) -> Side {
    Side {
        before: IS_INSIDE.replace(inside),
        stays: PhantomData,
    }
}

impl Drop for Side {
    #[inline]
    fn drop(&mut self) {
        IS_INSIDE.set(self.before);
    }
}

/// Returns true if the calling thread allocates shared memory.
#[inline]
pub(crate) fn is_inside() -> bool {
    IS_INSIDE.get()
}

/// Returns the id of the calling thread: `gettid(2)`.
#[inline]
pub(crate) fn id() -> u32 {
    match ID.get() {
        0 => first_id(),
        id => id,
    }
}

#[cold]
fn first_id() -> u32 {
    // SAFETY: it takes nothing.
    let id = unsafe { libc::gettid() }.cast_unsigned();
    ID.set(id);
    id
}

/// Forgets the id of the calling thread. The child of a fork calls it before it takes a lock: it
/// has the memory of its parent's thread, and an id of its own.
pub fn forget_thread() {
    ID.set(0);
}

/// Returns true if the thread has died. A thread that takes its id later is taken for it.
pub(crate) fn has_died(id: u32) -> bool {
    // The lock of the shared heap may be the one that is waited for.
    let _private = leave();
    let path = format!("/proc/{id}/stat");
    match std::fs::read_to_string(path) {
        // The state follows the name, which may have spaces and parentheses.
        Ok(text) => text
            .rsplit_once(')')
            .is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X'])),
        Err(error) => matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)),
    }
}
