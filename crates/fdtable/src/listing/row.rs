//! One line of a listing.

use alloc::sync::Arc;

use super::{Describe, Description};
use crate::{Fd, FdFlags, FileRef, PrivateFd};

/// An open file at one moment, and the descriptor that it was found under.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// Whose it is, as who took the listing [says](super::Listing::labelled).
    pub label: Option<Arc<str>>,
    /// The descriptor; none in the listing of a superblock.
    pub descriptor: Option<Descriptor>,
    /// How many references there were beside that of the listing itself: those of descriptors, and
    /// of those who were using the file. A hint, as [`FileRef::references`]; `usize::MAX` for more
    /// than can be counted.
    pub references: usize,
    /// Whether the file was [revoked](FileRef::revoke).
    pub revoked: bool,
    /// What the object told.
    pub description: Description,
}

/// A descriptor in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Descriptor {
    /// One of [`Files`](crate::Files).
    Fd {
        /// The number.
        fd: Fd,
        /// Its flags.
        flags: FdFlags,
    },
    /// One of [`PrivateFiles`](crate::PrivateFiles).
    Private(PrivateFd),
}

impl Row {
    /// Returns whose it is: the label, or else the owner that the object told.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        let label = self.label.as_deref();
        label.or(self.description.owner.as_deref())
    }

    /// Makes the row of a file, which is looked at through a reference of its own.
    pub(super) fn new<T>(descriptor: Option<Descriptor>, file: &FileRef<T>) -> Self
    where
        T: ?Sized + Describe,
    {
        Self {
            label: None,
            descriptor,
            references: others(FileRef::references(file)),
            revoked: FileRef::is_revoked(file),
            description: T::describe(file),
        }
    }
}

/// Takes off the reference of the listing, where references can be counted.
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
