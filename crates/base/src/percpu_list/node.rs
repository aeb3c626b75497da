//! The links of a list, in front of a member's header or in a mark.

use core::cell::Cell;
use core::ptr::{self, NonNull};

use super::roll::Roll;
use crate::counted::{Anchor, Lead};

/// A place on a part of the list. The links are touched under the lock of the part.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Node {
    pub(super) next: Cell<*mut Node>,
    pub(super) previous: Cell<*mut Node>,
    /// Null in a mark. Never changes.
    roll: *const Roll,
}

impl Node {
    /// Makes the node of a member that has not joined yet.
    pub(super) fn member_of(roll: NonNull<Roll>) -> Self {
        Self {
            next: Cell::new(ptr::null_mut()),
            previous: Cell::new(ptr::null_mut()),
            roll: roll.as_ptr(),
        }
    }

    /// Makes the node of a mark.
    pub(super) fn mark() -> Self {
        Self {
            next: Cell::new(ptr::null_mut()),
            previous: Cell::new(ptr::null_mut()),
            roll: ptr::null(),
        }
    }

    pub(super) fn is_mark(&self) -> bool {
        self.roll.is_null()
    }
}

// SAFETY: three pointers: at least as aligned as a header, and nothing to drop.
unsafe impl Lead for Node {
    unsafe fn leave<T: ?Sized>(anchor: NonNull<Anchor>) {
        // SAFETY: the block is one of a `T`, as the caller promises, with this in front.
        let node = unsafe { super::node_of::<T>(anchor) };
        // SAFETY: the block is alive, as the caller promises, and the field never changes.
        let roll = unsafe { node.as_ref() }.roll.cast_mut();
        // SAFETY: a member of a list, and no mark.
        let roll = unsafe { NonNull::new_unchecked(roll) };
        // SAFETY: the object joined when it was made, and leaves once. As a member it has kept
        // the roll.
        unsafe { Roll::leave::<T>(roll, anchor) };
    }
}
