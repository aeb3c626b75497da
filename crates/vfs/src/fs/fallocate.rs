//! How to get memory for a part of a file.

bitflags::bitflags! {
    /// Set of what to do with a part of a file; the empty set makes the file reach its end.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct FallocateFlags: u32 {
        /// Leaves the length as it is.
        const KEEP_SIZE = 0x01;
        /// Fills the part with zeros; only with `KEEP_SIZE`.
        const PUNCH_HOLE = 0x02;
        /// Takes the part out of the file. No file system here knows how.
        const COLLAPSE_RANGE = 0x08;
        /// Fills the part with zeros, and lets the file reach its end. No file system here knows
        /// how.
        const ZERO_RANGE = 0x10;
        /// Moves what is behind the beginning of the part to its end. No file system here knows
        /// how.
        const INSERT_RANGE = 0x20;
        /// Makes the part the file's own. No file system here knows how.
        const UNSHARE_RANGE = 0x40;
    }
}
