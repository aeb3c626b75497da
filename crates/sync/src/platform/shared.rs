//! Services of a program whose processes share the library's memory: the hooks of such a program
//! with `std`.
//!
//! A fork copies memory. A program may instead have one set of objects for all of its processes:
//! it maps the statics of the library shared, which stand in the section `fdt_shared`, has the
//! library allocate shared memory, and [registers](register) a [`SharedMemory`], before the first
//! object is made and before the first fork. So each object has one address in all processes, as
//! code has.
//!
//! The hooks are values and not functions that the linker finds, as for a
//! [kernel](super::kernel): a program decides when it starts, and others that link the same library
//! share nothing. No hook is called in a lookup, an open or a close that finds its memory.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Acquire;
#[cfg(all(feature = "std", target_os = "linux", not(loom)))]
use core::sync::atomic::Ordering::Release;

/// Services of a program whose processes share memory.
#[derive(Debug)]
pub struct SharedMemory {
    /// Has the global allocator return shared memory to the calling thread. Returns what it did
    /// before.
    pub enter: fn() -> usize,
    /// Undoes the call of `enter` that has returned this.
    pub leave: fn(usize),
    /// Maps shared memory of a size, which is a power of two, at a multiple of it. Contents are
    /// arbitrary.
    pub map: fn(usize) -> Option<NonNull<u8>>,
    /// Unmaps what `map` has returned for this size, once.
    pub unmap: unsafe fn(NonNull<u8>, usize),
    /// Returns the name of the calling process: not 0, and that of no other one, living or dead.
    pub process: fn() -> u32,
    /// Gives the calling process, the child of a fork, its own name and its thread its own number.
    pub forked: fn(),
    /// Returns the number of the calling thread: not 0, and below 2^30.
    pub thread: fn() -> u32,
    /// Returns true if the thread with this number has ended. It may be that of another process.
    pub has_ended: fn(u32) -> bool,
    /// Returns true if `heavy_fence` reaches the threads of all processes. The same at each call.
    pub has_heavy_fence: fn() -> bool,
    /// Acts as [`fence::heavy`](crate::fence::heavy), for the threads of all processes.
    pub heavy_fence: fn(),
    /// Acts as [`fence::restart`](crate::fence::restart), for the threads of all processes.
    pub restart: fn() -> Result<(), NotRestarted>,
    /// Called by a thread that is ending, after its last use of the library.
    pub thread_ends: fn(),
}

/// The reason why sequences may go on that had begun before a [restart](crate::fence::restart):
/// processes share memory, and the calling thread may not run on one of the CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRestarted;

/// The hooks, or null.
static REGISTERED: AtomicPtr<SharedMemory> = AtomicPtr::new(ptr::null_mut());

/// True where processes can share memory.
const IS_POSSIBLE: bool = cfg!(all(feature = "std", target_os = "linux", not(loom)));

/// Registers the services of the program. From here on, forks of this process share memory.
///
/// # Safety
/// The process has one thread and has not used the library. The hooks do what they say, none
/// panics, and of the library none calls more than fences and locks of its own. The section
/// `fdt_shared` is mapped shared, and so is what the allocator returns after `enter`. If a guard of
/// a lock of the library is leaked, no reference that it gave out is used after the end of the
/// thread that locked.
#[cfg(all(feature = "std", target_os = "linux", not(loom)))]
pub unsafe fn register(hooks: &'static SharedMemory) {
    // Release: pairs with the acquire in `registered`.
    REGISTERED.store(ptr::from_ref(hooks).cast_mut(), Release);
}

/// Returns the services, if processes share memory.
#[inline]
pub(crate) fn registered() -> Option<&'static SharedMemory> {
    if !IS_POSSIBLE {
        return None;
    }
    // Acquire: pairs with the release in `register`.
    // SAFETY: null, or what `register` has got, which stays.
    unsafe { REGISTERED.load(Acquire).as_ref() }
}

/// Returns true if processes share memory. Neither blocks nor allocates; callable anywhere.
#[must_use]
#[inline]
pub fn is_shared() -> bool {
    registered().is_some()
}

/// Returns the name of this process; 0 if it shares no memory.
pub(crate) fn process() -> u32 {
    registered().map_or(0, |hooks| (hooks.process)())
}

/// Uses the library on a thread that is ending, as in [`allocate`], for the last time.
#[cfg(all(feature = "std", not(loom)))]
pub(crate) fn call_at_end(work: impl FnOnce()) {
    let allocating = allocate();
    work();
    drop(allocating);
    if let Some(hooks) = registered() {
        (hooks.thread_ends)();
    }
}

/// The right to allocate what processes share, until this is dropped.
#[must_use = "the allocator changes back when this is dropped"]
#[derive(Debug)]
pub struct Allocating {
    /// The hooks, and what the thread allocated before.
    before: Option<(&'static SharedMemory, usize)>,
    /// Not `Send`: stays on its thread.
    stays: PhantomData<*const ()>,
}

/// Has the calling thread allocate memory that processes share, if they share any. Nests.
#[inline]
pub fn allocate() -> Allocating {
    Allocating {
        before: registered().map(|hooks| (hooks, (hooks.enter)())),
        stays: PhantomData,
    }
}

impl Drop for Allocating {
    #[inline]
    fn drop(&mut self) {
        if let Some((hooks, before)) = self.before {
            (hooks.leave)(before);
        }
    }
}

/// Maps memory that processes share. `None` if they share none; `Some(None)` if there is no memory.
#[must_use]
pub fn map(size: usize) -> Option<Option<NonNull<u8>>> {
    registered().map(|hooks| (hooks.map)(size))
}

/// Unmaps what [`map`] has returned. Returns false, and does nothing, if processes share no memory.
///
/// # Safety
/// [`map`] has returned it for this size, if processes share memory; it is unmapped once, and no
/// longer used.
pub unsafe fn unmap(place: NonNull<u8>, size: usize) -> bool {
    let hooks = registered();
    if let Some(hooks) = hooks {
        // SAFETY: as the caller promises.
        unsafe { (hooks.unmap)(place, size) };
    }
    hooks.is_some()
}
