//! Iteration without stopping the world.
//!
//! A mark on the list shows where the iteration is. It is moved behind the next member under the
//! local lock, which is released before the caller sees the member. Members that leave unlink
//! themselves from beside the mark as from beside each other. Members that join do so at the front,
//! and the mark moves to the back: members that it has passed do not come again.

use alloc::boxed::Box;
use core::marker::PhantomData;
use core::ptr::NonNull;

use super::list_head::{ListHead, Node, Part, reference};
use crate::object::Ref;
use fdtable_sync::fallible::{OutOfMemory, try_box};

/// Iterator over the members of a list. Holds no lock between two of them.
pub struct Iter<'l, T: ?Sized> {
    head: &'l ListHead,
    /// A leaked box. On the list of the part `cpu` if `is_linked`.
    mark: NonNull<Node>,
    cpu: usize,
    is_linked: bool,
    /// As the list, invariant in `T`.
    members: PhantomData<fn(Ref<T>) -> Ref<T>>,
}

// SAFETY: the mark is touched under the locks of the parts it is on, and by this iterator alone
// when it is on none; the rest may be sent.
unsafe impl<T: ?Sized + Send + Sync> Send for Iter<'_, T> {}

impl<'l, T: ?Sized> Iter<'l, T> {
    /// Makes an iterator that is before the first member. Allocates.
    ///
    /// # Safety
    /// The members of the list are blocks of a `T`.
    pub(super) unsafe fn try_new(head: &'l ListHead) -> Result<Self, OutOfMemory> {
        let mark = NonNull::from(Box::leak(try_box(Node::mark())?));
        Ok(Self {
            head,
            mark,
            cpu: 0,
            is_linked: false,
            members: PhantomData,
        })
    }

    /// Finds the next member of a part, and puts the mark behind it. At the end, takes the mark
    /// off.
    fn advance(&mut self, part: &mut Part) -> Option<Ref<T>> {
        let mut next = self.take_mark(part);
        while let Some(node) = NonNull::new(next) {
            // SAFETY: on this list, which is locked.
            let links = unsafe { node.as_ref() };
            next = links.next.get();
            if links.is_mark() {
                continue;
            }
            // SAFETY: members of this list are blocks of a `T`, as `try_new` was promised; it is
            // locked.
            if let Some(member) = unsafe { reference(node) } {
                // SAFETY: the mark is on no list, and stays until this iterator takes it off.
                unsafe { part.link_behind(node, self.mark) };
                self.is_linked = true;
                return Some(member);
            }
        }
        None
    }

    /// Takes the mark off; returns the node behind it, or the first one if it was not on.
    fn take_mark(&mut self, part: &mut Part) -> *mut Node {
        if !self.is_linked {
            return part.first;
        }
        self.is_linked = false;
        // SAFETY: this iterator owns the box.
        let next = unsafe { self.mark.as_ref() }.next.get();
        // SAFETY: it is on the list of this part, since it is linked.
        unsafe { part.unlink(self.mark) };
        next
    }
}

impl<T: ?Sized> Iterator for Iter<'_, T> {
    type Item = Ref<T>;

    fn next(&mut self) -> Option<Ref<T>> {
        let parts = self.head.parts();
        while self.cpu < parts.parts() {
            let member = self.advance(&mut parts.lock_local_of(self.cpu));
            if member.is_some() {
                return member;
            }
            self.cpu += 1;
        }
        None
    }
}

impl<T: ?Sized> Drop for Iter<'_, T> {
    fn drop(&mut self) {
        if self.is_linked {
            let mut part = self.head.parts().lock_local_of(self.cpu);
            self.take_mark(&mut part);
        }
        // SAFETY: leaked in `try_new`, and on no list any more.
        drop(unsafe { Box::from_raw(self.mark.as_ptr()) });
    }
}
