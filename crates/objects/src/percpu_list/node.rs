//! The links of a list, in front of a member's header or in a mark.

use core::cell::Cell;
use core::ptr::{self, NonNull};

use super::list_head::ListHead;
use crate::object::{Prefix, RawObject};

/// A place on a part of the list. The links are touched under the lock of the part.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Node {
    pub(super) next: Cell<*mut Node>,
    pub(super) previous: Cell<*mut Node>,
    /// Null in a mark. Never changes.
    head: *const ListHead,
}

impl Node {
    /// Makes the node of a member that has not joined yet.
    pub(super) fn member_of(head: NonNull<ListHead>) -> Self {
        Self {
            next: Cell::new(ptr::null_mut()),
            previous: Cell::new(ptr::null_mut()),
            head: head.as_ptr(),
        }
    }

    /// Makes the node of a mark.
    pub(super) fn mark() -> Self {
        Self {
            next: Cell::new(ptr::null_mut()),
            previous: Cell::new(ptr::null_mut()),
            head: ptr::null(),
        }
    }

    pub(super) fn is_mark(&self) -> bool {
        self.head.is_null()
    }
}

// SAFETY: three pointers: at least as aligned as a header, and nothing to drop.
unsafe impl Prefix for Node {
    unsafe fn leave<T: ?Sized>(anchor: NonNull<RawObject>) {
        // SAFETY: the block is one of a `T`, as the caller promises, with this in front.
        let node = unsafe { super::node_of::<T>(anchor) };
        // SAFETY: the block is alive, as the caller promises, and the field never changes.
        let head = unsafe { node.as_ref() }.head.cast_mut();
        // SAFETY: a member of a list, and no mark.
        let head = unsafe { NonNull::new_unchecked(head) };
        // SAFETY: the object joined when it was made, and leaves once. As a member it has kept
        // the list head.
        unsafe { ListHead::leave::<T>(head, anchor) };
    }
}
