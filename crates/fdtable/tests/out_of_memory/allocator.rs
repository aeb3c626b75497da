//! An allocator that runs out of memory on request, for one thread alone.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Which allocations of a thread fail.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan {
    /// After that many, one fails.
    OneFails(usize),
    /// After that many, all fail.
    AllFail(usize),
}

thread_local! {
    // Constant and without a destructor, so that reading it does not allocate.
    static PLAN: Cell<Option<Plan>> = const { Cell::new(None) };
    static FAILED: Cell<usize> = const { Cell::new(0) };
}

/// Acts according to the plan, and returns how many allocations failed.
pub(crate) fn under<A>(plan: Plan, act: impl FnOnce() -> A) -> (A, usize) {
    FAILED.set(0);
    PLAN.set(Some(plan));
    let outcome = act();
    PLAN.set(None);
    (outcome, FAILED.get())
}

/// Counts an allocation of this thread. Returns true if it is to fail.
fn fails() -> bool {
    let (fails, rest) = match PLAN.get() {
        None => return false,
        Some(Plan::OneFails(0)) => (true, None),
        Some(Plan::AllFail(0)) => (true, Some(Plan::AllFail(0))),
        Some(Plan::OneFails(after)) => (false, Some(Plan::OneFails(after - 1))),
        Some(Plan::AllFail(after)) => (false, Some(Plan::AllFail(after - 1))),
    };
    PLAN.set(rest);
    FAILED.set(FAILED.get() + usize::from(fails));
    fails
}

struct Allocator;

// SAFETY: all is done by the allocator of the system, or nothing is done and null says so. The
// methods that are not here call these.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of the method, which is the same there.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as in `alloc`; the memory of this allocator comes from the system's.
        unsafe { System.dealloc(place, layout) }
    }
}
