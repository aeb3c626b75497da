//! Lower bounds for the cost of a lookup in any table.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use super::subject::{Padded, SLOTS};

/// Plain two-level array of pointers, without locks, counts, or empty slots.
pub(super) struct TwoLevelArray {
    leaves: Box<[Box<[Box<Padded>; SLOTS]>]>,
}

impl TwoLevelArray {
    /// Makes an array for descriptors below `live`, rounded up to whole leaves.
    pub(super) fn new(live: u32) -> Self {
        let leaf = |leaf| {
            Box::new(std::array::from_fn(|slot| {
                Box::new(Padded::new(leaf * SLOTS + slot))
            }))
        };
        TwoLevelArray {
            leaves: (0..(live as usize).div_ceil(SLOTS)).map(leaf).collect(),
        }
    }

    /// Reads the field of each object: three loads and one comparison.
    #[inline(never)]
    pub(super) fn sum(&self, fds: &[RawFd]) -> u64 {
        fds.iter().fold(0, |sum: u64, &fd| {
            let index = fd as usize;
            sum.wrapping_add(self.leaves[index / SLOTS][index % SLOTS].value)
        })
    }
}

/// Objects with a count of their own, in an array.
pub(super) struct CountedObjects {
    objects: Box<[Box<Counted>]>,
}

/// An object as large as [`Padded`] with its count in front, as in an `Arc`.
struct Counted {
    count: AtomicU64,
    object: Padded,
}

impl CountedObjects {
    /// Makes objects for descriptors below `live`.
    pub(super) fn new(live: u32) -> Self {
        let object = |number| {
            Box::new(Counted {
                count: AtomicU64::new(1),
                object: Padded::new(number as usize),
            })
        };
        CountedObjects {
            objects: (0..live).map(object).collect(),
        }
    }

    /// Increments the count of each object, reads its field, and decrements the count. This is the
    /// least that a counted lookup does, with the orderings of an `Arc`.
    #[inline(never)]
    pub(super) fn sum(&self, fds: &[RawFd]) -> u64 {
        fds.iter().fold(0, |sum: u64, &fd| {
            let counted = &*self.objects[fd as usize];
            counted.count.fetch_add(1, Ordering::Relaxed);
            let sum = sum.wrapping_add(counted.object.value);
            counted.count.fetch_sub(1, Ordering::Release);
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_two_level_array_reads_the_object_of_each_number() {
        assert_eq!(TwoLevelArray::new(130).sum(&[0, 63, 64, 129]), 256);
    }

    #[test]
    fn counts_are_as_before_when_the_adds_are_done() {
        let objects = CountedObjects::new(3);
        assert_eq!(objects.sum(&[1, 2, 2]), 5);
        assert!(
            objects
                .objects
                .iter()
                .all(|it| it.count.load(Ordering::Relaxed) == 1)
        );
    }
}
