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

use crate::access::Access;
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
    /// One cache, which may write it; it has written it, or has not.
    Alone { cpu: usize, dirty: bool },
    /// All of these caches, for reading.
    Shared(CpuSet),
}

/// Result of one access to one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The own cache holds it.
    Hit,
    /// No cache holds it: it comes from memory.
    Cold,
    /// Other caches hold it: the line comes from the nearest of them, or is invalidated in all.
    Moved(Transfer, CpuSet),
}

/// Kind of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Transfer {
    /// Reads a line that another CPU has written.
    ReadDirty,
    /// Reads a line that others hold, unwritten.
    ReadClean,
    /// Acquires a line that another CPU has written.
    WriteDirty,
    /// Acquires a line that only others hold, unwritten.
    WriteClean,
    /// Holds a line with others, and acquires it exclusively.
    Upgrade,
}

/// Counts of the transfers of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Operations that were fed.
    pub operations: u64,
    /// Lines that came from memory.
    pub cold: u64,
    /// Reads of lines that another CPU had written.
    pub read_dirty: u64,
    /// Reads of lines that others held, unwritten.
    pub read_clean: u64,
    /// Writes to lines that another CPU had written.
    pub write_dirty: u64,
    /// Writes to lines that only others held, unwritten.
    pub write_clean: u64,
    /// Writes to lines that this CPU held together with others.
    pub upgrades: u64,
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
    /// assert_eq!((next.write_dirty, next.per_operation()), (1, 1.0));
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
                count.add(self.access(trace.cpu(), line, access));
            }
        }
        count
    }

    /// Does one access to the line with this index.
    pub(crate) fn access(&mut self, cpu: usize, line: u64, access: &Access) -> Outcome {
        let state = self.lines.get(&line).copied();
        let (next, outcome) = match access.kind.writes() {
            true => write(state, cpu),
            false => read(state, cpu),
        };
        self.lines.insert(line, next);
        outcome
    }

    pub(crate) fn line(&self) -> LineSize {
        self.line
    }
}

fn read(state: Option<State>, cpu: usize) -> (State, Outcome) {
    match state {
        None => (State::Alone { cpu, dirty: false }, Outcome::Cold),
        Some(own @ State::Alone { cpu: owner, .. }) if owner == cpu => (own, Outcome::Hit),
        Some(State::Alone { cpu: owner, dirty }) => {
            let transfer = if dirty {
                Transfer::ReadDirty
            } else {
                Transfer::ReadClean
            };
            let both = CpuSet::of(owner).with(cpu);
            (
                State::Shared(both),
                Outcome::Moved(transfer, CpuSet::of(owner)),
            )
        }
        Some(State::Shared(readers)) if readers.has(cpu) => (State::Shared(readers), Outcome::Hit),
        Some(State::Shared(readers)) => (
            State::Shared(readers.with(cpu)),
            Outcome::Moved(Transfer::ReadClean, readers),
        ),
    }
}

fn write(state: Option<State>, cpu: usize) -> (State, Outcome) {
    let outcome = match state {
        None => Outcome::Cold,
        Some(State::Alone { cpu: owner, .. }) if owner == cpu => Outcome::Hit,
        Some(State::Alone { cpu: owner, dirty }) => {
            let transfer = if dirty {
                Transfer::WriteDirty
            } else {
                Transfer::WriteClean
            };
            Outcome::Moved(transfer, CpuSet::of(owner))
        }
        Some(State::Shared(readers)) if readers.has(cpu) => {
            Outcome::Moved(Transfer::Upgrade, readers.without(cpu))
        }
        Some(State::Shared(readers)) => Outcome::Moved(Transfer::WriteClean, readers),
    };
    (State::Alone { cpu, dirty: true }, outcome)
}

impl Transfers {
    /// Returns the transfers between caches, of all kinds.
    pub fn between_caches(&self) -> u64 {
        self.read_dirty + self.read_clean + self.write_dirty + self.write_clean + self.upgrades
    }

    /// Returns the transfers between caches for one operation, on average; 0 without any.
    pub fn per_operation(&self) -> f64 {
        self.between_caches() as f64 / self.operations.max(1) as f64
    }

    fn add(&mut self, outcome: Outcome) {
        let count = match outcome {
            Outcome::Hit => return,
            Outcome::Cold => &mut self.cold,
            Outcome::Moved(Transfer::ReadDirty, _) => &mut self.read_dirty,
            Outcome::Moved(Transfer::ReadClean, _) => &mut self.read_clean,
            Outcome::Moved(Transfer::WriteDirty, _) => &mut self.write_dirty,
            Outcome::Moved(Transfer::WriteClean, _) => &mut self.write_clean,
            Outcome::Moved(Transfer::Upgrade, _) => &mut self.upgrades,
        };
        *count += 1;
    }
}

impl AddAssign for Transfers {
    fn add_assign(&mut self, more: Self) {
        self.operations += more.operations;
        self.cold += more.cold;
        self.read_dirty += more.read_dirty;
        self.read_clean += more.read_clean;
        self.write_dirty += more.write_dirty;
        self.write_clean += more.write_clean;
        self.upgrades += more.upgrades;
    }
}

/// Set of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuSet([u64; MAX_CPUS / 64]);

impl CpuSet {
    pub(crate) const NONE: Self = Self([0; _]);

    fn of(cpu: usize) -> Self {
        Self::NONE.with(cpu)
    }

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

    /// Iterates over the CPUs in it, from the lowest.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        (0..MAX_CPUS).filter(|cpu| self.has(*cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    fn one(set: impl FnOnce(&mut Transfers)) -> Transfers {
        let mut count = Transfers {
            operations: 1,
            ..Transfers::default()
        };
        set(&mut count);
        count
    }

    #[test]
    fn the_first_touch_comes_from_memory_and_the_next_of_the_same_hits() {
        assert_eq!(last(&[(0, &[Load])]), one(|count| count.cold = 1));
        assert_eq!(last(&[(0, &[Load]), (0, &[Load, Store])]), one(|_| ()));
        assert_eq!(last(&[(0, &[Store]), (0, &[Load])]), one(|_| ()));
    }

    #[test]
    fn each_kind_of_transfer_is_counted_separately() {
        assert_eq!(
            last(&[(0, &[Store]), (1, &[Load])]),
            one(|count| count.read_dirty = 1)
        );
        assert_eq!(
            last(&[(0, &[Load]), (1, &[Load])]),
            one(|count| count.read_clean = 1)
        );
        assert_eq!(
            last(&[(0, &[Store]), (1, &[Locked])]),
            one(|count| count.write_dirty = 1)
        );
        assert_eq!(
            last(&[(0, &[Load]), (1, &[Store])]),
            one(|count| count.write_clean = 1)
        );
        assert_eq!(
            last(&[(0, &[Load]), (1, &[Load]), (1, &[Store])]),
            one(|count| count.upgrades = 1)
        );
    }

    #[test]
    fn a_third_reader_gets_what_is_clean_by_now() {
        let third = last(&[(0, &[Store]), (1, &[Load]), (255, &[Load])]);
        assert_eq!(third, one(|count| count.read_clean = 1));
    }

    #[test]
    fn a_cache_whose_line_was_taken_has_nothing() {
        let robbed = last(&[(0, &[Load]), (1, &[Load]), (2, &[Store]), (0, &[Load])]);
        assert_eq!(robbed, one(|count| count.read_dirty = 1));
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
        assert_eq!((steady.operations, steady.between_caches()), (512, 0));
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
