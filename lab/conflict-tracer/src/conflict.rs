//! The lines that one operation writes and another accesses.
//!
//! For each line, each side has a mask of the bytes that it reads and one of those that it writes.
//! There is a conflict if a side wrote anything in a line that the other accessed at all. If the
//! bytes overlap, the operations share data (*true sharing*); else they only share the line (*false
//! sharing*), which a change of layout would remove.

use std::collections::BTreeMap;
use std::fmt;

use crate::access::Access;
use crate::error::Error;
use crate::location::Location;
use crate::trace::{Remark, Trace};

/// Bytes that move between caches together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineSize {
    /// The line of x86-64 and of most aarch64 CPUs.
    Bytes64,
    /// Two lines, which some CPUs fetch together.
    Bytes128,
}

impl LineSize {
    /// Returns the size in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            LineSize::Bytes64 => 64,
            LineSize::Bytes128 => 128,
        }
    }
}

/// Kind of sharing of two operations in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// Bytes that one writes and the other accesses.
    True,
    /// Only the line.
    False,
}

/// A line that one operation writes and the other accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    address: u64,
    sharing: Sharing,
    sides: [Side; 2],
}

/// The accesses of one operation to a line in conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    cpu: usize,
    access: Access,
    callers: Vec<u64>,
    writes: bool,
}

/// Outcome of a comparison of two traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    conflicts: Vec<Conflict>,
    blind_spots: Vec<(usize, Remark)>,
}

/// Compares the traces of two operations on different CPUs.
///
/// # Errors
/// [`Error::SameCpu`] if both are of one CPU.
pub fn conflicts(one: &Trace, other: &Trace, line: LineSize) -> Result<Report, Error> {
    if one.cpu() == other.cpu() {
        return Err(Error::SameCpu(one.cpu()));
    }
    let (left, right) = (footprint(one, line), footprint(other, line));
    let common = left.iter().filter_map(|(number, left)| {
        let right = right.get(number)?;
        let address = number * line.bytes();
        conflict(address, (one, left), (other, right))
    });
    Ok(Report {
        conflicts: common.collect(),
        blind_spots: blind_spots(one).chain(blind_spots(other)).collect(),
    })
}

fn blind_spots(trace: &Trace) -> impl Iterator<Item = (usize, Remark)> {
    let remarks = trace
        .remarks()
        .iter()
        .map(|(_, remark)| (trace.cpu(), *remark));
    remarks.filter(|(_, remark)| remark.blinds())
}

/// The accesses of an operation to one line.
#[derive(Default)]
struct Touched {
    read: u128,
    written: u128,
    accesses: Vec<(Access, u128)>,
}

fn footprint(trace: &Trace, line: LineSize) -> BTreeMap<u64, Touched> {
    let mut lines: BTreeMap<u64, Touched> = BTreeMap::new();
    for access in trace.accesses() {
        for number in access.lines(line.bytes()) {
            let bytes = bytes_in(access, number, line);
            let touched = lines.entry(number).or_default();
            touched.read |= if access.kind.reads() { bytes } else { 0 };
            touched.written |= if access.kind.writes() { bytes } else { 0 };
            touched.accesses.push((*access, bytes));
        }
    }
    lines
}

/// Returns a bit for each accessed byte of the line.
fn bytes_in(access: &Access, number: u64, line: LineSize) -> u128 {
    let start = number * line.bytes();
    let first = access.address.max(start) - start;
    let last = access.last().min(start + (line.bytes() - 1)) - start;
    (u128::MAX >> (127 - (last - first))) << first
}

fn conflict(
    address: u64,
    (one, left): (&Trace, &Touched),
    (other, right): (&Trace, &Touched),
) -> Option<Conflict> {
    if left.written == 0 && right.written == 0 {
        return None;
    }
    let overlap = left.written & (right.read | right.written) | right.written & left.read;
    let (sharing, bytes) = match overlap {
        0 => (Sharing::False, u128::MAX),
        bytes => (Sharing::True, bytes),
    };
    let sides = [(one, left), (other, right)].map(|(trace, touched)| {
        let access = touched.culprit(bytes);
        Side {
            cpu: trace.cpu(),
            access,
            callers: trace.calls.active_at(access.step),
            writes: touched.written & bytes != 0,
        }
    });
    Some(Conflict {
        address,
        sharing,
        sides,
    })
}

impl Touched {
    /// Returns the access to report: the first that writes one of these bytes, or else the first
    /// that accesses one.
    fn culprit(&self, bytes: u128) -> Access {
        let among = || self.accesses.iter().filter(|(_, own)| own & bytes != 0);
        let writes = among().find(|(access, _)| access.kind.writes());
        let named = writes.or_else(|| among().next());
        named.expect("a line in conflict is touched by both").0
    }
}

impl Report {
    /// Returns true if the operations certainly do not conflict: no common line is written, and no
    /// access may have been missed.
    pub fn is_free(&self) -> bool {
        self.conflicts.is_empty() && self.blind_spots.is_empty()
    }

    /// Returns the lines in conflict, by their addresses.
    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }

    /// Returns the remarks of both traces that [blind](Remark::blinds) them, each with its CPU.
    pub fn blind_spots(&self) -> &[(usize, Remark)] {
        &self.blind_spots
    }
}

impl Conflict {
    /// Returns the address of the line.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns the kind of sharing.
    pub fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// Returns the accesses of each operation, in the order of the traces.
    pub fn sides(&self) -> &[Side; 2] {
        &self.sides
    }
}

impl Side {
    /// Returns the simulated CPU.
    pub fn cpu(&self) -> usize {
        self.cpu
    }

    /// Returns the first access that makes the conflict; a write, if the side writes.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Returns true if it writes; with true sharing, bytes that the other accesses.
    pub fn writes(&self) -> bool {
        self.writes
    }

    /// Looks up the access in the source, with its callers. Reads debug information: slow at the
    /// first call.
    pub fn location(&self) -> Location {
        Location::with_callers(self.access.instruction, &self.callers)
    }
}

impl fmt::Display for Report {
    /// Writes a line for each conflict, and one for each blind spot.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for conflict in &self.conflicts {
            writeln!(f, "{conflict}")?;
        }
        for (cpu, remark) in &self.blind_spots {
            writeln!(f, "CPU {cpu} has an incomplete trace: {remark:?}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sharing = match self.sharing {
            Sharing::True => "true",
            Sharing::False => "false",
        };
        write!(f, "{sharing} sharing of {:#x}", self.address)?;
        for side in &self.sides {
            let does = if side.writes { "writes" } else { "reads" };
            write!(f, " | CPU {} {does} in {}", side.cpu, side.location())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Kind;

    fn trace(cpu: usize, accesses: &[(u64, u16, Kind)]) -> Trace {
        let accesses = accesses.iter().map(|&(address, size, kind)| Access {
            address,
            instruction: 0,
            step: 0,
            size,
            kind,
        });
        Trace::from_accesses(cpu, accesses.collect()).unwrap()
    }

    fn sharing(
        left: &[(u64, u16, Kind)],
        right: &[(u64, u16, Kind)],
        line: LineSize,
    ) -> Vec<(u64, Sharing)> {
        let both = [
            conflicts(&trace(0, left), &trace(1, right), line),
            conflicts(&trace(1, right), &trace(0, left), line),
        ];
        let both = both.map(|report| {
            let report = report.unwrap();
            let named = report.conflicts().iter();
            named
                .map(|c| (c.address(), c.sharing()))
                .collect::<Vec<_>>()
        });
        assert_eq!(both[0], both[1], "the order of the traces does not matter");
        both[0].clone()
    }

    use Kind::{Load, Locked, Store};
    use LineSize::{Bytes64, Bytes128};

    #[test]
    fn two_that_read_a_line_do_not_conflict() {
        assert_eq!(sharing(&[(0, 8, Load)], &[(0, 8, Load)], Bytes64), []);
    }

    #[test]
    fn a_write_to_bytes_that_the_other_accesses_is_true_sharing() {
        for other in [Load, Store, Locked] {
            let found = sharing(&[(64, 8, Store)], &[(71, 1, other)], Bytes64);
            assert_eq!(found, [(64, Sharing::True)]);
        }
    }

    #[test]
    fn writes_beside_each_other_are_false_sharing_within_the_line() {
        let both = |at, line| sharing(&[(64, 8, Store)], &[(at, 1, Load)], line);
        assert_eq!(both(72, Bytes64), [(64, Sharing::False)]);
        assert_eq!(both(127, Bytes64), [(64, Sharing::False)]);
        assert_eq!(both(128, Bytes64), []);
        assert_eq!(both(63, Bytes64), []);
        assert_eq!(both(63, Bytes128), [(0, Sharing::False)]);
        assert_eq!(both(128, Bytes128), []);
    }

    #[test]
    fn an_access_across_a_boundary_conflicts_in_both_lines() {
        let found = sharing(&[(124, 8, Store)], &[(64, 128, Load)], Bytes64);
        assert_eq!(found, [(64, Sharing::True), (128, Sharing::True)]);
    }

    #[test]
    fn a_conflict_names_the_write() {
        let left = trace(0, &[(0, 8, Load), (0, 8, Locked)]);
        let right = trace(1, &[(8, 8, Store), (0, 8, Load)]);
        let report = conflicts(&left, &right, Bytes64).unwrap();
        let [conflict] = report.conflicts() else {
            panic!("one line: {report:?}");
        };
        let named = conflict.sides().iter();
        let named = named.map(|side| (side.cpu(), side.access().kind, side.writes()));
        assert_eq!(
            named.collect::<Vec<_>>(),
            [(0, Locked, true), (1, Load, false)]
        );
    }

    #[test]
    fn an_incomplete_trace_is_never_free() {
        let mut left = trace(0, &[]);
        left.remarks.push((0, Remark::Fence));
        let right = trace(1, &[]);
        assert!(conflicts(&left, &right, Bytes64).unwrap().is_free());
        left.remarks.push((0, Remark::SystemCall(39)));
        let report = conflicts(&left, &right, Bytes64).unwrap();
        assert!(!report.is_free());
        assert_eq!(report.blind_spots(), [(0, Remark::SystemCall(39))]);
    }

    #[test]
    fn traces_of_one_cpu_are_an_error() {
        let one = trace(3, &[]);
        assert!(matches!(
            conflicts(&one, &one, Bytes64),
            Err(Error::SameCpu(3))
        ));
    }
}
