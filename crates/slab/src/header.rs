//! One slab: a chunk with a header, a bit for each object, and the objects.
//!
//! The header is at the beginning of the chunk, where it is found from the address of any object. A
//! set bit means that the object is free *in the slab*: neither with a user, nor in a magazine. The
//! state of free objects is kept outside of them, so that checks can detect a write to one.
//!
//! # Life
//!
//! A slab is made by one thread, and no other thread knows it before it is on a list of its cache.
//! From then on its header belongs to the holder of the lock of the [lists](super::slabs). It is
//! permanently removed when its objects are all free, and then its chunk is freed.

use core::cell::Cell;
use core::ops::Deref;
use core::ptr::NonNull;

use super::chunk::chunk_of;
use super::list::{Element, Links};
use super::region::Chunk;
use super::shape::Shape;

/// The header of a slab. The first line has all that taking and freeing objects needs.
#[repr(C, align(64))]
pub(super) struct Header {
    links: Links<Slab>,
    /// How many bits are set.
    free: Cell<u32>,
    /// No word of bits before this one has a bit set.
    lowest: Cell<u32>,
    /// Object 0.
    first: NonNull<u8>,
    count: u32,
    chunk: Chunk,
}

// The tests of the shapes expect this.
#[cfg(all(target_pointer_width = "64", not(loom)))]
const _: () = assert!(size_of::<Header>() == 64);

/// A slab, with access to its header: for the thread that makes it, or the holder of the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Slab(NonNull<Header>);

impl Deref for Slab {
    type Target = Header;

    #[inline]
    fn deref(&self) -> &Header {
        // SAFETY: a slab is made where the header was written, and used until it is freed, by one
        // thread at a time.
        unsafe { self.0.as_ref() }
    }
}

impl Element for Slab {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

impl Header {
    pub(super) fn free(&self) -> usize {
        self.free.get() as usize
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.get() == self.count
    }

    pub(super) fn first(&self) -> NonNull<u8> {
        self.first
    }

    fn count(&self) -> usize {
        self.count as usize
    }

    /// Returns the word of the bits of objects `64 * index` and on.
    #[inline]
    fn word(&self, index: usize) -> &Cell<u64> {
        debug_assert!(index < self.count().div_ceil(64));
        // SAFETY: the bits follow the header, in the same chunk.
        let words = unsafe { self.chunk.start.add(size_of::<Self>()) }.cast::<Cell<u64>>();
        // SAFETY: the index is below the number of words.
        let word = unsafe { words.add(index) };
        // SAFETY: the words were written when the slab was made, and belong to the user of the
        // header.
        unsafe { word.as_ref() }
    }
}

impl Slab {
    /// Makes a slab in a chunk, all objects free.
    pub(super) fn new(chunk: Chunk, shape: &Shape, colour: usize) -> Self {
        // SAFETY: the first object is in the chunk.
        let first = unsafe { chunk.start.add(shape.first(colour)) };
        let header = Header {
            links: Links::new(),
            free: Cell::new(shape.count as u32),
            lowest: Cell::new(0),
            first,
            count: shape.count as u32,
            chunk,
        };
        let place = chunk.start.cast::<Header>();
        // SAFETY: the chunk is the caller's, large enough, and aligned.
        unsafe { place.write(header) };
        // SAFETY: the bits follow the header, and are as many as the shape has left room for.
        let words = unsafe { place.add(1) }.cast::<u64>();
        let mut left = shape.count;
        for number in 0..shape.count.div_ceil(64) {
            let bits = u64::MAX >> (64 - left.min(64));
            // SAFETY: as above; the index is below the number of words.
            let word = unsafe { words.add(number) };
            // SAFETY: as above.
            unsafe { word.write(bits) };
            left -= left.min(64);
        }
        Self(place)
    }

    /// Finds the slab of an object.
    ///
    /// # Safety
    /// The address is that of an object of a slab, and the caller may use its header.
    #[inline]
    pub(super) unsafe fn of(object: NonNull<u8>) -> Self {
        // SAFETY: chunks do not begin at address zero.
        Self(unsafe { NonNull::new_unchecked(chunk_of(object)) }.cast())
    }

    /// Returns where the header is.
    pub(super) fn address(self) -> usize {
        self.0.addr().get()
    }

    /// Takes free objects out of one word of bits, at most `most`. Passes them to `push`, the
    /// lowest last, so that a stack has it on top. Returns how many.
    #[inline]
    pub(super) fn take(
        self,
        shape: &Shape,
        most: usize,
        mut push: impl FnMut(NonNull<u8>),
    ) -> usize {
        debug_assert!(self.free() > 0);
        let mut number = self.lowest.get() as usize;
        while self.word(number).get() == 0 {
            number += 1;
        }
        self.lowest.set(number as u32);
        let word = self.word(number);
        let free = word.get();
        let count = (free.count_ones() as usize).min(most);
        let left = without_lowest(free, count);
        let mut taken = free & !left;
        word.set(left);
        self.free.set(self.free.get() - count as u32);
        while taken != 0 {
            let bit = taken.ilog2() as usize;
            taken &= !(1 << bit);
            // SAFETY: a bit that was set is that of an object.
            push(unsafe { shape.object(self.first, number * 64 + bit) });
        }
        count
    }

    /// Frees an object.
    #[inline]
    pub(super) fn put_back(self, shape: &Shape, object: NonNull<u8>) {
        let index = shape.index(object.addr().get() - self.first.addr().get());
        let (number, bit) = (index / 64, index % 64);
        let word = self.word(number);
        debug_assert!(word.get() & (1 << bit) == 0, "an object is freed once");
        word.set(word.get() | 1 << bit);
        self.free.set(self.free.get() + 1);
        self.lowest.set(self.lowest.get().min(number as u32));
    }

    /// Returns true if an object is free.
    pub(super) fn is_free(self, index: usize) -> bool {
        self.word(index / 64).get() & (1 << (index % 64)) != 0
    }

    /// Frees the chunk of the slab.
    ///
    /// # Safety
    /// The slab and its objects are no longer used.
    pub(super) unsafe fn free_chunk(self) {
        let chunk = self.chunk;
        // SAFETY: the slab was made in this chunk, and is no longer used.
        unsafe { chunk.free() };
    }
}

/// Clears the `count` lowest bits that are set.
#[inline]
fn without_lowest(mut bits: u64, count: usize) -> u64 {
    if count == bits.count_ones() as usize {
        return 0;
    }
    for _ in 0..count {
        bits &= bits - 1;
    }
    bits
}
