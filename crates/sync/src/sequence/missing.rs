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
}

/// Returns the address: there are no sequences.
#[must_use]
pub fn resume_address(interrupted: usize) -> usize {
    interrupted
}
