//! How often members joined and left, and how far from each other.

/// Counts of a list since it was made. Each join and each leave takes one local lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Members that joined.
    pub joined: u64,
    /// Members that left.
    pub left: u64,
    /// Members that left on the CPU on which they joined.
    pub left_same_cpu: u64,
    /// Members that left on the memory node on which they joined.
    pub left_same_node: u64,
}

impl Statistics {
    /// Adds the counts of another part.
    pub(super) fn add(&mut self, other: &Self) {
        self.joined += other.joined;
        self.left += other.left;
        self.left_same_cpu += other.left_same_cpu;
        self.left_same_node += other.left_same_node;
    }
}
