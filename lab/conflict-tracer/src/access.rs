//! A memory access by one instruction.

use std::ops::RangeInclusive;

/// Load or store by one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Address of the first byte.
    pub address: u64,
    /// The address of the instruction.
    pub instruction: u64,
    /// Number of instructions that the operation had executed before this one.
    pub step: u32,
    /// Number of accessed bytes, at least 1.
    pub size: u16,
    /// Kind of the access.
    pub kind: Kind,
}

/// Kind of an access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Reads. A prefetch counts as a load: it fetches the line.
    Load,
    /// Writes. A prefetch for writing counts as a store: it invalidates the line in other caches.
    Store,
    /// Reads and writes, not atomically: `add [m], 1` without `lock`.
    LoadStore,
    /// Reads and writes atomically: an instruction with `lock`, or `xchg`. A failed exchange counts
    /// too, since the CPU acquires the line exclusively before it compares.
    Locked,
}

impl Kind {
    /// Returns true if the instruction reads the memory.
    pub fn reads(self) -> bool {
        self != Kind::Store
    }

    /// Returns true if the instruction acquires the line exclusively.
    pub fn writes(self) -> bool {
        self != Kind::Load
    }
}

impl Access {
    /// Returns the indices of the accessed lines of `line` bytes: two if the access crosses their
    /// boundary.
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
