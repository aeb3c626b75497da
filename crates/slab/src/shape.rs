//! The shape of a cache's slabs: where the objects are in a chunk, and how many.
//!
//! ```text
//!   | header | bits | colour | object 0 | object 1 | ... | what is left |
//! ```
//!
//! The remaining bytes are spent on *colours*: distances by which the objects of one slab are moved
//! against those of another, in steps of a cache line. All chunks begin at the same place of a
//! CPU's cache, as far as its sets are chosen by the lower bits of an address, and without colours
//! so would the objects of the same index in all slabs. If less than 1/32 of the chunk remains,
//! there are fewer small objects, so that there are 32 colours or more. That costs 3.1 % of the
//! memory; the header and the bits of 64-byte objects 0.3 %.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::chunk::CHUNK;

/// Distances of the first objects from the beginnings of a cache's slabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colouring {
    /// They differ, so that objects of the same index do not compete for the same lines of a CPU's
    /// cache. Costs up to 1/32 of the memory.
    On,
    /// They do not.
    Off,
}

/// The CPU cache line that colours are counted in.
const LINE: usize = 64;

/// Bytes reserved for colours if fewer remain.
const RESERVE: usize = CHUNK / 32;

/// Objects above this size do not make room for colours: it would cost too much.
const SMALL: usize = CHUNK / 64;

/// The smallest stride of an object, so that the bits of a slab stay few.
const SMALLEST: usize = 8;

/// The largest size of an object.
pub(super) const MAX_SIZE: usize = CHUNK / 2;

/// The largest alignment of an object.
pub(super) const MAX_ALIGN: usize = CHUNK / 16;

/// Parameters of a cache.
pub(super) struct Plan {
    pub(super) name: &'static str,
    /// Of an object: at most [`MAX_SIZE`] and [`MAX_ALIGN`].
    pub(super) layout: Layout,
    pub(super) colouring: Colouring,
    /// Each operation takes the lock of the slabs and [checks](super::check) the object. An error
    /// panics.
    pub(super) is_checked: bool,
}

/// The shape of all slabs of a cache. Sizes and offsets are in bytes.
#[derive(Debug)]
pub(super) struct Shape {
    /// Size of an object for its user.
    pub(super) size: usize,
    /// From one object to the next.
    pub(super) stride: usize,
    /// In front of each object, for a red zone.
    pub(super) zone: usize,
    /// How many objects a slab has.
    pub(super) count: usize,
    /// How many colours there are.
    pub(super) colours: usize,
    /// From one colour to the next.
    step: usize,
    /// Offset of object 0 of a slab of colour 0.
    first: usize,
    /// 2^32 divided by the stride, rounded up.
    reciprocal: u64,
}

impl Shape {
    /// Finds the shape for the objects of a cache, in slabs with a header of so many bytes.
    pub(super) fn new(plan: &Plan, header: usize) -> Self {
        let (size, align) = (plan.layout.size(), plan.layout.align());
        let (zone, behind) = match plan.is_checked {
            false => (0, 0),
            true => (align.max(16), 8),
        };
        let stride = (zone + size.max(SMALLEST) + behind).next_multiple_of(align);
        let reserve = match plan.colouring {
            Colouring::On if stride <= SMALL => RESERVE,
            _ => 0,
        };
        let first = |count: usize| (header + size_of_bits(count) + zone).next_multiple_of(align);
        let fits = |count: &usize| first(*count) + *count * stride + reserve <= CHUNK;
        let most = if cfg!(loom) { 2 } else { CHUNK / stride };
        let count = (1..=most).rev().find(fits).unwrap_or(1);
        let first = first(count);
        let step = align.max(LINE);
        let colours = match plan.colouring {
            Colouring::On => (CHUNK - first - count * stride) / step + 1,
            Colouring::Off => 1,
        };
        Self {
            size,
            stride,
            zone,
            count,
            colours,
            step,
            first,
            reciprocal: (1_u64 << 32).div_ceil(stride as u64),
        }
    }

    /// Returns where object 0 is in a slab of that colour.
    pub(super) fn first(&self, colour: usize) -> usize {
        self.first + colour % self.colours * self.step
    }

    /// Returns the index of the object at a distance from object 0.
    #[inline]
    pub(super) fn index(&self, distance: usize) -> usize {
        // Exact, as both the distance and the stride are at most 2^16.
        ((distance as u64 * self.reciprocal) >> 32) as usize
    }

    /// Returns the address of an object of the slab whose object 0 is at `first`.
    ///
    /// # Safety
    /// `first` is that address, and the index is below the count.
    #[inline]
    pub(super) unsafe fn object(&self, first: NonNull<u8>, index: usize) -> NonNull<u8> {
        // SAFETY: all objects of a slab are in its chunk.
        unsafe { first.add(index * self.stride) }
    }
}

/// Returns how many bytes the bits of so many objects have.
fn size_of_bits(count: usize) -> usize {
    count.div_ceil(64) * size_of::<u64>()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The size of the header of a slab, which is a line on targets with 64 bits.
    const HEADER: usize = 64;

    fn shape(layout: Layout, colouring: Colouring, is_checked: bool) -> Shape {
        let plan = Plan {
            name: "shape",
            layout,
            colouring,
            is_checked,
        };
        Shape::new(&plan, HEADER)
    }

    /// Each with its layout, and whether it is for checked objects.
    fn shapes() -> impl Iterator<Item = (Layout, bool, Shape)> {
        let sizes = (0..2100).chain([4096, 5000, 10_000, MAX_SIZE - 1, MAX_SIZE]);
        let aligns = [1, 8, 16, 64, 128, MAX_ALIGN];
        sizes.flat_map(move |size| {
            aligns.into_iter().flat_map(move |align| {
                [false, true].map(|is_checked| {
                    let layout = Layout::from_size_align(size, align).expect("a layout");
                    let shape = shape(layout, Colouring::On, is_checked);
                    (layout, is_checked, shape)
                })
            })
        })
    }

    #[test]
    fn all_objects_of_all_colours_are_in_the_chunk_and_aligned() {
        for (layout, _, shape) in shapes() {
            assert!(shape.count >= 1 && shape.colours >= 1);
            for colour in [0, shape.colours - 1] {
                let first = shape.first(colour);
                assert!(first >= HEADER + size_of_bits(shape.count) + shape.zone);
                assert!(first + shape.count * shape.stride <= CHUNK);
                assert!(first.is_multiple_of(layout.align()));
            }
            assert!(shape.stride.is_multiple_of(layout.align()));
            assert!(shape.stride >= layout.size() + shape.zone);
        }
    }

    #[test]
    fn the_index_of_every_address_is_exact() {
        for (_, _, shape) in shapes().filter(|(layout, ..)| layout.align() <= 8) {
            for index in 0..shape.count {
                let object = index * shape.stride;
                assert_eq!(shape.index(object), index);
                assert_eq!(shape.index(object + shape.stride - 1), index);
            }
        }
    }

    #[test]
    fn small_objects_have_32_colours_for_a_thirty_second_of_the_memory() {
        for (layout, is_checked, shape) in shapes() {
            if !is_checked && layout.align() <= 8 && shape.stride <= SMALL {
                assert!(shape.colours >= 32, "{layout:?}");
            }
            if (64..=256).contains(&layout.size()) && layout.align() == 8 {
                let used = shape.count * shape.stride;
                assert!(CHUNK as f64 / used as f64 <= 1.045, "{layout:?} {shape:?}");
            }
        }
    }

    #[test]
    fn without_colouring_all_slabs_are_alike() {
        let shape = shape(Layout::new::<[u64; 8]>(), Colouring::Off, false);
        assert_eq!(shape.colours, 1);
        assert_eq!(shape.first(0), shape.first(1));
    }
}
