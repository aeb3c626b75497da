//! One touch of memory by one instruction.

use std::ops::RangeInclusive;

/// Load or store that one instruction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Where the first byte is.
    pub address: u64,
    /// The address of the instruction.
    pub instruction: u64,
    /// How many instructions the operation had executed before this one.
    pub step: u32,
    /// How many bytes are touched, at least 1.
    pub size: u16,
    /// What was done to them.
    pub kind: Kind,
}

/// What an instruction does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Reads. A prefetch counts as a load: it brings the line.
    Load,
    /// Writes. A prefetch for writing counts as a store: it takes the line from others.
    Store,
    /// Reads and writes, not as one: `add [m], 1` without `lock`.
    LoadStore,
    /// Reads and writes as one: an instruction with `lock`, or `xchg`. An exchange that fails
    /// counts too, since the processor takes the line for itself before it compares.
    Locked,
}

impl Kind {
    /// Tells whether the instruction takes what is there.
    pub fn reads(self) -> bool {
        self != Kind::Store
    }

    /// Tells whether the instruction takes the line for itself alone.
    pub fn writes(self) -> bool {
        self != Kind::Load
    }
}

impl Access {
    /// Returns the numbers of the lines of `line` bytes that it touches: two where it lies across
    /// their boundary.
    pub(crate) fn lines(&self, line: u64) -> RangeInclusive<u64> {
        self.address / line..=self.last() / line
    }

    /// Returns the address of the last byte.
    pub(crate) fn last(&self) -> u64 {
        self.address.saturating_add(u64::from(self.size.max(1)) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(address: u64, size: u16) -> Access {
        Access {
            address,
            instruction: 0,
            step: 0,
            size,
            kind: Kind::Load,
        }
    }

    #[test]
    fn an_access_across_a_boundary_touches_both_lines() {
        let lines = |a: Access| a.lines(64).collect::<Vec<_>>();
        assert_eq!(lines(access(63, 1)), [0]);
        assert_eq!(lines(access(63, 2)), [0, 1]);
        assert_eq!(lines(access(64, 64)), [1]);
        assert_eq!(lines(access(u64::MAX, 8)), [u64::MAX / 64]);
    }
}
