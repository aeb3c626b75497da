//! One line of a listing.

use alloc::sync::Arc;

use super::{Describe, Description};
use fdtable::{Fd, FdFlags, FileRef, PrivateFd};

/// An open file at one point in time, and its descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The label that the caller [added](super::Listing::labelled).
    pub label: Option<Arc<str>>,
    /// The descriptor; none in the listing of a superblock.
    pub descriptor: Option<Descriptor>,
    /// The number of references besides that of the listing itself: those of descriptors, and of
    /// threads that were using the file. It is a hint, like [`FileRef::strong_count`]; `usize::MAX`
    /// if the count is saturated.
    pub references: usize,
    /// True if the file was [revoked](FileRef::revoke).
    pub revoked: bool,
    /// The description by the object.
    pub description: Description,
}

/// A descriptor in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Descriptor {
    /// A descriptor of [`Files`](fdtable::Files).
    #[non_exhaustive]
    Fd {
        /// The descriptor.
        fd: Fd,
        /// Its flags.
        flags: FdFlags,
    },
    /// A descriptor of [`PrivateFiles`](fdtable::PrivateFiles).
    Private(PrivateFd),
}

impl Row {
    /// Returns the owner: the label, or without one the owner from the description.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        let label = self.label.as_deref();
        label.or(self.description.owner.as_deref())
    }

    /// Makes the row of a file, through a reference of the listing.
    pub(super) fn new<T>(descriptor: Option<Descriptor>, file: &FileRef<T>) -> Self
    where
        T: ?Sized + Describe,
    {
        Self {
            label: None,
            descriptor,
            references: others(FileRef::strong_count(file)),
            revoked: FileRef::is_revoked(file),
            description: T::describe(file),
        }
    }
}

/// Subtracts the reference of the listing, unless the count is saturated.
fn others(references: usize) -> usize {
    match references {
        usize::MAX => usize::MAX,
        counted => counted.saturating_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_references_than_can_be_counted_stay_so() {
        assert_eq!(others(3), 2);
        assert_eq!(others(usize::MAX), usize::MAX);
    }
}
