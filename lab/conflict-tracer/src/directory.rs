//! The cache directory of a machine with unlimited caches: which cache holds which line.
//!
//! The protocol is MESI, as a directory sees it. A line is in no cache, or in one cache
//! exclusively, or in several that only read it. Each access either hits in the own cache or moves
//! the line, or invalidates it in others: a *transfer*. There is no time in this. Operations are
//! fed one after the other, so for operations that conflict the count is a lower bound: no CPU
//! loses a line in the middle of an operation. For those that do not conflict it is exact, in any
//! interleaving.
//!
//! The first access to a line comes from memory, and is counted separately.

use std::collections::HashMap;
use std::ops::AddAssign;

use crate::conflict::LineSize;
use crate::trace::Trace;

/// Most CPUs.
pub const MAX_CPUS: usize = 256;

/// Lines, and the caches that hold them.
#[derive(Clone, Debug)]
pub struct Directory {
    line: LineSize,
    lines: HashMap<u64, State>,
}

/// The caches that hold a line.
#[derive(Clone, Copy, Debug)]
enum State {
    /// One cache, which may write it.
    Alone(usize),
    /// All of these caches, for reading.
    Shared(CpuSet),
}

/// Counts of the transfers of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Operations that were fed.
    pub operations: u64,
    /// Lines that came from memory.
    pub cold: u64,
    /// Lines that came from other caches, or were invalidated there.
    pub between_caches: u64,
}

impl Directory {
    /// Creates a directory in which all caches are empty.
    ///
    /// ```
    /// use conflict_tracer::{Access, Directory, Kind, LineSize, Trace};
    ///
    /// # fn main() -> Result<(), conflict_tracer::Error> {
    /// let add = |cpu| Trace::from_accesses(cpu, vec![
    ///     Access { address: 64, instruction: 0, step: 0, size: 8, kind: Kind::Locked },
    /// ]);
    /// let mut directory = Directory::new(LineSize::Bytes64);
    /// directory.feed(&add(0)?);                      // the first touch
    /// let next = directory.feed(&add(1)?);
    /// assert_eq!((next.between_caches, next.per_operation()), (1, 1.0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(line: LineSize) -> Self {
        Self {
            line,
            lines: HashMap::new(),
        }
    }

    /// Feeds a whole operation of the trace's CPU, and returns its transfers.
    pub fn feed(&mut self, trace: &Trace) -> Transfers {
        let mut count = Transfers {
            operations: 1,
            ..Transfers::default()
        };
        for access in trace.accesses() {
            for line in access.lines(self.line.bytes()) {
                let state = self.lines.get(&line).copied();
                let (next, hits) = access_of(state, trace.cpu(), access.kind.writes());
                self.lines.insert(line, next);
                match state {
                    None => count.cold += 1,
                    Some(_) => count.between_caches += u64::from(!hits),
                }
            }
        }
        count
    }
}

/// Returns the caches that hold a line after an access, and whether it hit in the own one.
fn access_of(state: Option<State>, cpu: usize, writes: bool) -> (State, bool) {
    match state {
        Some(State::Alone(owner)) if owner == cpu => (State::Alone(cpu), true),
        Some(State::Alone(owner)) if !writes => {
            (State::Shared(CpuSet::NONE.with(owner).with(cpu)), false)
        }
        Some(State::Shared(readers)) if !writes => {
            (State::Shared(readers.with(cpu)), readers.has(cpu))
        }
        _ => (State::Alone(cpu), false),
    }
}

impl Transfers {
    /// Returns the transfers between caches for one operation, on average; 0 without any.
    pub fn per_operation(&self) -> f64 {
        self.between_caches as f64 / self.operations.max(1) as f64
    }
}

impl AddAssign for Transfers {
    fn add_assign(&mut self, more: Self) {
        self.operations += more.operations;
        self.cold += more.cold;
        self.between_caches += more.between_caches;
    }
}

/// Set of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuSet([u64; MAX_CPUS / 64]);

impl CpuSet {
    pub(crate) const NONE: Self = Self([0; _]);

    #[cfg(test)]
    pub(crate) fn of_all_but(cpu: usize) -> Self {
        Self([u64::MAX; _]).without(cpu)
    }

    #[must_use]
    pub(crate) fn with(mut self, cpu: usize) -> Self {
        self.0[cpu / 64] |= 1 << (cpu % 64);
        self
    }

    #[must_use]
    pub(crate) fn without(mut self, cpu: usize) -> Self {
        self.0[cpu / 64] &= !(1 << (cpu % 64));
        self
    }

    /// Returns true if `cpu` is in it.
    pub(crate) fn has(&self, cpu: usize) -> bool {
        self.0
            .get(cpu / 64)
            .is_some_and(|word| word >> (cpu % 64) & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use crate::access::Kind::{self, Load, Locked, Store};

    fn operation(cpu: usize, kinds: &[Kind]) -> Trace {
        let accesses = kinds.iter().map(|&kind| Access {
            address: 4096,
            instruction: 0,
            step: 0,
            size: 8,
            kind,
        });
        Trace::from_accesses(cpu, accesses.collect()).unwrap()
    }

    /// Feeds operations on one line and returns the transfers of the last one.
    fn last(operations: &[(usize, &[Kind])]) -> Transfers {
        let mut directory = Directory::new(LineSize::Bytes64);
        let fed = operations
            .iter()
            .map(|(cpu, kinds)| directory.feed(&operation(*cpu, kinds)));
        fed.last().unwrap()
    }

    fn counted(cold: u64, between_caches: u64) -> Transfers {
        Transfers {
            operations: 1,
            cold,
            between_caches,
        }
    }

    #[test]
    fn the_first_touch_comes_from_memory_and_the_next_of_the_same_hits() {
        assert_eq!(last(&[(0, &[Load])]), counted(1, 0));
        assert_eq!(last(&[(0, &[Load]), (0, &[Load, Store])]), counted(0, 0));
        assert_eq!(last(&[(0, &[Store]), (0, &[Load])]), counted(0, 0));
    }

    #[test]
    fn a_line_of_another_cache_is_transferred_to_be_read_or_written() {
        let clean: &[Kind] = &[Load];
        let dirty: &[Kind] = &[Store];
        for before in [clean, dirty] {
            for kind in [Load, Store, Locked] {
                assert_eq!(
                    last(&[(0, before), (1, &[kind])]),
                    counted(0, 1),
                    "{kind:?}"
                );
            }
        }
        let upgrade = last(&[(0, &[Load]), (1, &[Load]), (1, &[Store])]);
        assert_eq!(upgrade, counted(0, 1));
    }

    #[test]
    fn a_third_reader_gets_what_is_clean_by_now() {
        let third = last(&[(0, &[Store]), (1, &[Load]), (255, &[Load])]);
        assert_eq!(third, counted(0, 1));
    }

    #[test]
    fn a_cache_whose_line_was_taken_has_nothing() {
        let robbed = last(&[(0, &[Load]), (1, &[Load]), (2, &[Store]), (0, &[Load])]);
        assert_eq!(robbed, counted(0, 1));
    }

    #[test]
    fn readers_of_one_line_transfer_nothing_once_they_have_it() {
        let mut directory = Directory::new(LineSize::Bytes64);
        let mut steady = Transfers::default();
        for round in 0..3 {
            for cpu in 0..MAX_CPUS {
                let count = directory.feed(&operation(cpu, &[Load]));
                if round > 0 {
                    steady += count;
                }
            }
        }
        assert_eq!((steady.operations, steady.between_caches), (512, 0));
    }

    #[test]
    fn writers_of_one_line_transfer_it_each_time_on_any_number_of_cpus() {
        for cpus in [2, 16, 256] {
            let mut directory = Directory::new(LineSize::Bytes64);
            let mut steady = Transfers::default();
            for round in 0..3 {
                for cpu in 0..cpus {
                    let count = directory.feed(&operation(cpu, &[Locked]));
                    if round > 0 {
                        steady += count;
                    }
                }
            }
            assert!((steady.per_operation() - 1.0).abs() < f64::EPSILON);
        }
    }
}
