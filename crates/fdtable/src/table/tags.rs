//! Owner tags: which callers may close a descriptor.
//!
//! A leaf has tags once one of its descriptors has one. A newly opened descriptor has no tag: its
//! tag is 0.

use alloc::boxed::Box;

use fdtable_base::bitmap::BITS;
use fdtable_base::fallible::{OutOfMemory, try_box};

use super::{FdTable, LeafGuard, Notes, index_of, place_of};
use crate::{Error, RawFd};

/// The tags of one leaf.
pub(super) type Tags = Box<[u64; BITS]>;

impl Notes {
    pub(super) fn copy_tags(&self) -> Result<Option<Tags>, OutOfMemory> {
        self.tags.as_deref().map(|tags| try_box(*tags)).transpose()
    }

    /// Returns the tag of a descriptor.
    #[inline(always)]
    pub(super) fn tag(&self, bit: usize) -> u64 {
        self.tags.as_ref().map_or(0, |tags| tags[bit])
    }

    /// Clears the tag of a freed descriptor.
    #[inline(always)]
    pub(super) fn clear_tag(&mut self, bit: usize) {
        if let Some(tags) = &mut self.tags {
            tags[bit] = 0;
        }
    }

    /// Sets the tag of a descriptor. The leaf takes the tags of `new` if it has none.
    fn set_tag(&mut self, bit: usize, tag: u64, new: &mut Option<Tags>) {
        if self.tags.is_none() && tag != 0 {
            self.tags = new.take();
        }
        if let Some(tags) = &mut self.tags {
            tags[bit] = tag;
        }
    }
}

impl<T: ?Sized + Send + Sync> FdTable<T> {
    /// Returns the tag of an open descriptor.
    pub(crate) fn tag(&self, fd: RawFd) -> Result<u64, Error> {
        let (_, bit) = place_of(index_of(fd));
        self.with_leaf(fd, |leaf| {
            if leaf.has(bit) {
                Ok(leaf.state().tag(bit))
            } else {
                Err(Error::BadFd)
            }
        })?
    }

    /// Changes the tag of an open descriptor, if it is the expected one.
    pub(crate) fn exchange_tag(&self, fd: RawFd, expected: u64, new: u64) -> Result<(), Error> {
        let (_, bit) = place_of(index_of(fd));
        // Made before the leaf is locked, and dropped after it if it was not needed.
        let mut tags = (new != 0).then(|| try_box([0; BITS])).transpose()?;
        self.with_leaf(fd, |leaf| {
            if !leaf.has(bit) {
                return Err(Error::BadFd);
            }
            check(leaf, bit, expected)?;
            leaf.state_mut().set_tag(bit, new, &mut tags);
            Ok(())
        })?
    }
}

/// Returns an error if the tag is not the descriptor's.
#[inline(always)]
pub(super) fn check<T: ?Sized>(leaf: &LeafGuard<'_, T>, bit: usize, tag: u64) -> Result<(), Error> {
    if leaf.state().tag(bit) == tag {
        Ok(())
    } else {
        Err(Error::NotOwner)
    }
}
