//! The slabs of a cache, by how full they are. The lock of the cache is around them.
//!
//! Objects are taken from slabs that are in use already, so that the others may become empty. A
//! slab in which an object was freed goes to the end of the list: it then has the longest time to
//! become empty.

use core::ptr::NonNull;

use super::header::Slab;
use super::list::List;
use super::shape::Shape;

/// How many empty slabs are kept. A cache whose use fluctuates then does not ask for memory each
/// time.
const KEPT: usize = if cfg!(loom) { 0 } else { 16 };

/// The slabs of a cache.
#[derive(Default)]
pub(super) struct Slabs {
    /// Some objects are free.
    partial: List<Slab>,
    /// No object is free.
    full: List<Slab>,
    /// All objects are free.
    empty: List<Slab>,
    /// How many objects are free in all of them.
    free: usize,
    /// The colour of the next one.
    colour: usize,
}

// SAFETY: slabs belong to no thread, and the holder of the lock may use their headers.
unsafe impl Send for Slabs {}

impl Slabs {
    /// Returns how many slabs there are.
    pub(super) fn len(&self) -> usize {
        self.partial.len() + self.full.len() + self.empty.len()
    }

    /// Returns how many objects are free in the slabs.
    pub(super) fn free(&self) -> usize {
        self.free
    }

    /// Returns the colour of the next slab. It wraps.
    pub(super) fn next_colour(&mut self) -> usize {
        let colour = self.colour;
        self.colour = colour.wrapping_add(1);
        colour
    }

    /// Adds a slab, of which all objects are free.
    pub(super) fn add(&mut self, slab: Slab) {
        self.free += slab.free();
        self.empty.push(slab);
    }

    /// Takes free objects, at most `most`, and passes them to `push`. Returns how many.
    pub(super) fn take(
        &mut self,
        shape: &Shape,
        most: usize,
        mut push: impl FnMut(NonNull<u8>),
    ) -> usize {
        let mut taken = 0;
        while taken < most
            && let Some(slab) = self.first_with_room()
        {
            taken += slab.take(shape, most - taken, &mut push);
            if slab.free() == 0 {
                self.partial.remove(slab);
                self.full.push(slab);
            }
        }
        self.free -= taken;
        taken
    }

    fn first_with_room(&mut self) -> Option<Slab> {
        if let Some(slab) = self.partial.first() {
            return Some(slab);
        }
        let slab = self.empty.pop()?;
        self.partial.push(slab);
        Some(slab)
    }

    /// Returns an object to its slab.
    ///
    /// # Safety
    /// It was taken from one of these slabs, and not freed since.
    pub(super) unsafe fn put_back(&mut self, shape: &Shape, object: NonNull<u8>) {
        // SAFETY: as the caller promises; it has the lock, or no other thread knows the cache.
        let slab = unsafe { Slab::of(object) };
        if slab.free() == 0 {
            self.full.remove(slab);
            self.partial.push_back(slab);
        }
        slab.put_back(shape, object);
        self.free += 1;
        if slab.is_empty() {
            self.partial.remove(slab);
            self.empty.push(slab);
        }
    }

    /// Removes surplus empty slabs.
    pub(super) fn take_surplus(&mut self) -> List<Slab> {
        self.take_empty(KEPT)
    }

    /// Removes all empty slabs except `kept` of them.
    pub(super) fn take_empty(&mut self, kept: usize) -> List<Slab> {
        let mut taken = List::new();
        while self.empty.len() > kept
            && let Some(slab) = self.empty.pop()
        {
            self.free -= slab.free();
            taken.push(slab);
        }
        taken
    }

    /// Iterates over all slabs.
    pub(super) fn iter(&self) -> impl Iterator<Item = Slab> {
        let lists = [&self.partial, &self.full, &self.empty];
        lists.into_iter().flat_map(List::iter)
    }
}
