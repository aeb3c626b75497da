//! Read-side sections: lookups without a reference of this library, and calls that wait for them.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use fdtable::rcu::{self, Effect, Head};
use fdtable_sync::fence;

use super::{box_ref, fdt_table, handles, with_errno, without_freezer};
use crate::environment::enter;
use crate::errno::Errno;
use crate::memory::check;

/// Read-side section of a thread: returned by [`fdt_read_lock`], passed to [`fdt_read_unlock`].
#[repr(C)]
pub struct fdt_section {
    /// Opaque to the caller.
    pub(super) opaque: [MaybeUninit<usize>; 2],
}

/// Function of `fdt_table_acquire`: takes a reference to the object, in a count that the object has
/// itself. Returns 0 if it cannot, because the last reference is gone.
pub type fdt_take =
    Option<unsafe extern "C" fn(object: *mut c_void, argument: *mut c_void) -> c_int>;

/// Call that waits for sections. It is usually in the object that the call frees.
#[repr(C)]
pub struct fdt_deferred {
    /// Opaque to the caller.
    opaque: [MaybeUninit<usize>; 3],
}

/// Function of `fdt_defer`.
pub type fdt_deferred_call = Option<unsafe extern "C" fn(deferred: *mut fdt_deferred)>;

/// Content of an [`fdt_deferred`] that is queued.
#[repr(C)]
struct Deferred {
    head: Head,
    call: unsafe extern "C" fn(deferred: *mut fdt_deferred),
}

const _: () = assert!(size_of::<Deferred>() <= size_of::<fdt_deferred>());
const _: () = assert!(align_of::<Deferred>() <= align_of::<fdt_deferred>());

/// Begins a read-side section of the calling thread. It must be short, and must not block. Sections
/// nest. A fork of the host process waits for its end.
#[unsafe(no_mangle)]
pub extern "C" fn fdt_read_lock() -> fdt_section {
    handles::begin_section()
}

/// Ends a section, on the thread that began it. Nested sections end in reverse order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_read_unlock(section: fdt_section) {
    handles::begin_call(&fdt_read_unlock);
    // SAFETY: `fdt_read_lock` returned it on this thread, and the caller passes it in once.
    unsafe { handles::end_section(&section) };
}

/// Returns the object of a descriptor, valid until the section of this thread ends, or null with
/// `EBADF`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_borrow(
    table: *const fdt_table,
    fd: c_int,
    section: *const fdt_section,
) -> *mut c_void {
    without_freezer(|| {
        // SAFETY: `fdt_read_lock` returned it, and the section lasts, as the caller promises.
        let guard = unsafe { handles::section_guard(section) }?;
        // SAFETY: as the caller promises.
        let table = unsafe { box_ref(table) }?;
        Ok(table.files.get_rcu(fd, guard)?.pointer)
    })
}

/// Takes a reference to the object of a descriptor in the object's own count, by calling
/// `take(object, argument)` inside a section. This library counts no reference then, and the caller
/// drops the one that it got without this library.
///
/// `take` must be as short as a section. `release` and `free` of the table are called as for other
/// lookups, so there are two ways to keep the count:
/// - The table's own reference is dropped in `free`. Until then the count is not 0, so `take` is an
///   increment, and always returns 1.
/// - It is dropped in `release`. `take` does not increment a count of 0, and returns 0. The memory
///   of an object whose count has become 0 is freed by `fdt_defer`.
///
/// Returns the object, or null with `EBADF` if the descriptor is not open, or `take` has returned 0
/// twice for the same object. After the first time the descriptor is looked up again, because
/// another file may have been opened there meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_table_acquire(
    table: *const fdt_table,
    fd: c_int,
    take: fdt_take,
    argument: *mut c_void,
) -> *mut c_void {
    without_freezer(|| {
        // SAFETY: as the caller promises.
        let files = &unsafe { box_ref(table) }?.files;
        let take = take.ok_or(Errno::EFAULT)?;
        // A fork of the host process waits for the end of the section.
        let _inside = enter();
        let section = rcu::read_lock();
        let mut refused = ptr::null_mut();
        loop {
            let object = files.get_rcu(fd, &section)?.pointer;
            // SAFETY: the object is one that `free` was not called for, as the section lasts.
            if unsafe { take(object, argument) } != 0 {
                return Ok(object);
            }
            if object == refused {
                return Err(Errno::EBADF);
            }
            refused = object;
            // The slot was emptied before the table's reference to the object was dropped: the next
            // look finds that.
            fence::full();
        }
    })
}

/// Calls `call(deferred)` when no section that is under way now can see what the caller has made
/// unreachable: `call_rcu` of Linux. Needs no memory but `*deferred`, which belongs to this library
/// until the call.
///
/// The call comes when `free` would for an object that is released now, on the same threads, and
/// with the same rules for locks. `fdt_barrier` waits for it. Returns 0, or -1 with `EFAULT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdt_defer(deferred: *mut fdt_deferred, call: fdt_deferred_call) -> c_int {
    with_errno(|| {
        check(deferred)?;
        let call = call.ok_or(Errno::EFAULT)?;
        let head = Head::new(run_deferred);
        // SAFETY: as the caller promises, there is room, which no other code uses.
        unsafe { deferred.cast::<Deferred>().write(Deferred { head, call }) };
        let head = NonNull::new(deferred.cast()).ok_or(Errno::EFAULT)?;
        // SAFETY: the head is the first field, stays until the call, as the caller promises, and
        // may be used by any thread.
        unsafe { rcu::call(Effect::RunsCode, head) };
        Ok(0)
    })
}

/// Runs the call of a head.
unsafe fn run_deferred(head: NonNull<Head>) {
    let deferred = head.cast::<Deferred>().as_ptr();
    // SAFETY: `fdt_defer` queued it, and this is its one call. The function may free it.
    unsafe { ((*deferred).call)(deferred.cast()) };
}
