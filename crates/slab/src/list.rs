//! Doubly linked lists through their elements: slabs, regions and caches. A lock guards each list,
//! with the links of its elements.

use core::cell::Cell;

/// The place of an element on a list.
pub(super) struct Links<E> {
    next: Cell<Option<E>>,
    before: Cell<Option<E>>,
}

/// A pointer to an element, for the thread that makes it, or for the holder of the lock.
pub(super) trait Element: Copy {
    fn links(&self) -> &Links<Self>;
}

/// A list. The elements on it stay where they are.
pub(super) struct List<E> {
    first: Option<E>,
    last: Option<E>,
    len: usize,
}

impl<E> Links<E> {
    pub(super) const fn new() -> Self {
        Self {
            next: Cell::new(None),
            before: Cell::new(None),
        }
    }
}

impl<E> List<E> {
    pub(super) const fn new() -> Self {
        Self {
            first: None,
            last: None,
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl<E> Default for List<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Element> List<E> {
    #[inline]
    pub(super) fn first(&self) -> Option<E> {
        self.first
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = E> {
        core::iter::successors(self.first, |element| element.links().next.get())
    }

    /// Puts an element at the front.
    pub(super) fn push(&mut self, element: E) {
        let links = element.links();
        links.before.set(None);
        links.next.set(self.first);
        match self.first {
            Some(first) => first.links().before.set(Some(element)),
            None => self.last = Some(element),
        }
        self.first = Some(element);
        self.len += 1;
    }

    /// Puts an element at the end.
    pub(super) fn push_back(&mut self, element: E) {
        let links = element.links();
        links.next.set(None);
        links.before.set(self.last);
        match self.last {
            Some(last) => last.links().next.set(Some(element)),
            None => self.first = Some(element),
        }
        self.last = Some(element);
        self.len += 1;
    }

    /// Removes an element that is on this list.
    pub(super) fn remove(&mut self, element: E) {
        let (next, before) = (element.links().next.get(), element.links().before.get());
        match next {
            Some(next) => next.links().before.set(before),
            None => self.last = before,
        }
        match before {
            Some(before) => before.links().next.set(next),
            None => self.first = next,
        }
        self.len -= 1;
    }

    pub(super) fn pop(&mut self) -> Option<E> {
        let first = self.first?;
        self.remove(first);
        Some(first)
    }
}
