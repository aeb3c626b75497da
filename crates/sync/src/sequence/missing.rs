//! Stand-in for machines without sequences.

/// There is none: it can never be constructed.
#[derive(Clone, Copy, Debug)]
pub enum Area {}

impl Area {
    /// Returns nothing.
    #[must_use]
    pub fn find() -> Option<Self> {
        None
    }

    pub(crate) fn offset_of_thread() -> isize {
        0
    }

    pub(crate) fn with_offset(_: isize) -> Option<Self> {
        None
    }
}

pub(super) fn resume_address(interrupted: usize) -> usize {
    interrupted
}
