//! Flags of `fallocate`.

bitflags::bitflags! {
    /// Operation on a range of a file. Without flags, the call allocates memory and extends the
    /// file.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct FallocateFlags: u32 {
        /// Leaves the length of the file as it is.
        const KEEP_SIZE = 0x01;
        /// Makes the range a hole; only with `KEEP_SIZE`.
        const PUNCH_HOLE = 0x02;
        /// Removes the range from the file. No file system here supports it.
        const COLLAPSE_RANGE = 0x08;
        /// Fills the range with zeros, and extends the file to its end. No file system here
        /// supports it.
        const ZERO_RANGE = 0x10;
        /// Inserts a hole, which moves what follows. No file system here supports it.
        const INSERT_RANGE = 0x20;
        /// Unshares the range from other files. No file system here supports it.
        const UNSHARE_RANGE = 0x40;
        /// Fills the range with zeros on the storage. No file system here supports it.
        const WRITE_ZEROES = 0x80;
    }
}

impl FallocateFlags {
    /// Returns true if Linux knows the combination of flags.
    pub(crate) fn is_valid(self) -> bool {
        match self - Self::KEEP_SIZE {
            Self::PUNCH_HOLE => self.contains(Self::KEEP_SIZE),
            Self::COLLAPSE_RANGE | Self::INSERT_RANGE | Self::WRITE_ZEROES => {
                !self.contains(Self::KEEP_SIZE)
            }
            rest => rest.is_empty() || [Self::ZERO_RANGE, Self::UNSHARE_RANGE].contains(&rest),
        }
    }
}
