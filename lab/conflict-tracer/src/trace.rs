//! The trace of one operation on one simulated CPU.
//!
//! A trace holds every load and store in program order. In addition it has *remarks*: events that
//! loads and stores do not show. A remark that [blinds](Remark::blinds) the trace means that memory
//! may have been accessed without a record. Check these before the conclusion that the operation
//! accessed nothing else.

use std::fmt;

use crate::access::Access;
use crate::calls::Calls;
use crate::directory::MAX_CPUS;
use crate::error::Error;
use crate::location::Location;

/// Record of one operation, from its first instruction to its last.
#[derive(Clone, PartialEq, Eq)]
pub struct Trace {
    pub(crate) cpu: usize,
    pub(crate) accesses: Vec<Access>,
    pub(crate) remarks: Vec<(u64, Remark)>,
    pub(crate) calls: Calls,
    pub(crate) instructions: u32,
    pub(crate) dependent_loads: u32,
}

/// Event of an operation besides loads and stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Remark {
    /// The operation made the system call with this number. The kernel's accesses are not recorded.
    SystemCall(u64),
    /// `mfence`: as expensive as a locked instruction, without a line.
    Fence,
    /// `pause`: the operation waits for another thread, or yields to a sibling.
    Pause,
    /// An instruction whose operands are unknown.
    UnknownOperand,
    /// An instruction that the decoder does not know.
    UnknownInstruction,
    /// One instruction after a `clone`, `fork` or `sigreturn` was not traced.
    SkippedInstruction,
    /// The operation was longer than the recorder's limit. The rest is missing.
    CutOff,
    /// The operation disabled stepping. The rest is missing.
    SteppingLost,
}

impl Remark {
    /// Returns true if there may be memory accesses that the trace lacks.
    pub fn blinds(self) -> bool {
        !matches!(self, Remark::Fence | Remark::Pause)
    }
}

impl Trace {
    /// Makes a trace of accesses from another source: another tracer, or a test.
    ///
    /// ```
    /// use conflict_tracer::{Access, Kind, Trace};
    ///
    /// # fn main() -> Result<(), conflict_tracer::Error> {
    /// let load = Access { address: 0x1000, instruction: 0, step: 0, size: 8, kind: Kind::Load };
    /// assert_eq!(Trace::from_accesses(3, vec![load])?.instructions(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] from [`MAX_CPUS`] on.
    pub fn from_accesses(cpu: usize, accesses: Vec<Access>) -> Result<Self, Error> {
        if cpu >= MAX_CPUS {
            return Err(Error::NoSuchCpu(cpu));
        }
        let instructions = accesses
            .last()
            .map_or(0, |last| last.step.saturating_add(1));
        Ok(Self {
            cpu,
            accesses,
            remarks: Vec::new(),
            calls: Calls::default(),
            instructions,
            dependent_loads: 0,
        })
    }

    /// Returns the index of the simulated CPU, from 0.
    pub fn cpu(&self) -> usize {
        self.cpu
    }

    /// Returns all accesses, in program order.
    pub fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// Returns all other events, each with the address of the instruction, in order.
    pub fn remarks(&self) -> &[(u64, Remark)] {
        &self.remarks
    }

    /// Looks up an access in the source, with its callers. Reads debug information: slow at the
    /// first call.
    pub fn location(&self, access: &Access) -> Location {
        Location::with_callers(access.instruction, &self.calls.active_at(access.step))
    }

    /// Returns the number of executed instructions. Each iteration of a repeated string instruction
    /// counts.
    pub fn instructions(&self) -> u32 {
        self.instructions
    }

    /// Returns the length of the longest chain of loads each of which needs for its address what
    /// the one before has loaded: the cache misses that no CPU overlaps. A load of what the
    /// operation itself has stored before counts as what was stored. It is 0 for accesses [from
    /// another source](Self::from_accesses).
    pub fn dependent_loads(&self) -> u32 {
        self.dependent_loads
    }

    /// Returns true if the trace has every load and store of the operation.
    pub fn is_whole(&self) -> bool {
        !self.remarks.iter().any(|(_, remark)| remark.blinds())
    }
}

impl fmt::Debug for Trace {
    /// Writes only the counts: a trace may have a million accesses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("cpu", &self.cpu)
            .field("instructions", &self.instructions)
            .field("accesses", &self.accesses.len())
            .field("remarks", &self.remarks.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Kind;

    #[test]
    fn the_last_step_that_can_be_named_is_no_error() {
        let last = Access {
            address: 0,
            instruction: 0,
            step: u32::MAX,
            size: 1,
            kind: Kind::Load,
        };
        let trace = Trace::from_accesses(0, vec![last]).unwrap();
        assert_eq!(trace.instructions(), u32::MAX);
    }
}
