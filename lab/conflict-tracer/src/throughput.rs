//! A model of a machine's throughput, whose result is a band.
//!
//! Every CPU of the [machine](Machine) replays traced operations, each with a clock of its own, and
//! lines move according to the [directory](crate::Directory). A line moves to one CPU at a time.
//! The behaviour of real machines under contention for a line lies between two rules, and differs
//! widely:
//!
//! - *keep*: a CPU that has a line keeps it until the operation's last access to it. The upper end
//!   of the band.
//! - *give up*: a CPU loses a line as soon as another requests it, between any two accesses. The
//!   lower end.
//!
//! Not in the model: an exchange that fails and is tried again, spinning, sleeping; caches that are
//! full, bandwidth, prefetching, siblings on one core, out-of-order execution. So the lower end is
//! no worst case. Operations without a conflict scale by construction: there the traces are the
//! evidence, and the curve an illustration.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::RangeInclusive;

use crate::conflict::LineSize;
use crate::cost::Machine;
use crate::directory::{Directory, Outcome, Transfer};
use crate::trace::{Remark, Trace};

/// Modelled throughput, in operations a second of all CPUs together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// Lines are lost between any two accesses.
    pub low: f64,
    /// Lines are kept until the operation's last access.
    pub high: f64,
}

impl Machine {
    /// Models the throughput of `operations`: each CPU replays its own in their order, `passes`
    /// times, after one pass that is not counted. Returns none if the total time is 0.
    ///
    /// ```
    /// use conflict_tracer::{Access, Kind, LineSize, Machine, Trace};
    ///
    /// # fn main() -> Result<(), conflict_tracer::Error> {
    /// let add = |cpu, address| Trace::from_accesses(cpu, vec![
    ///     Access { address, instruction: 0, step: 0, size: 8, kind: Kind::Locked },
    /// ]);
    /// let own = [add(0, 0)?, add(1, 64)?];           // a counter for each CPU
    /// let one = [add(0, 0)?, add(1, 0)?];            // one for both
    /// let modelled = |adds: &[_]| Machine::CLUSTERS.throughput(adds, 100, LineSize::Bytes64);
    /// assert!(modelled(&own).unwrap().low > 3.0 * modelled(&one).unwrap().high);
    /// # Ok(())
    /// # }
    /// ```
    pub fn throughput(&self, operations: &[Trace], passes: u32, line: LineSize) -> Option<Band> {
        let run = |rule| Replay::new(self, operations, line, rule).run(passes);
        Some(Band {
            low: run(Rule::GiveUp)?,
            high: run(Rule::Keep)?,
        })
    }
}

/// Rule by which a CPU loses a line that another requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// After the last access of the operation.
    Keep,
    /// At once.
    GiveUp,
}

/// No lines.
#[expect(clippy::reversed_empty_ranges, reason = "that is what it is")]
const NONE: RangeInclusive<u64> = 1..=0;

/// Picoseconds. Sums saturate.
type Time = u64;

/// CPUs that replay their operations.
struct Replay<'a> {
    machine: &'a Machine,
    rule: Rule,
    directory: Directory,
    /// Time until which a line is in transfer, or kept.
    busy: HashMap<u64, Time>,
    cpus: Vec<Cpu<'a>>,
}

/// One CPU of a replay.
struct Cpu<'a> {
    operations: Vec<&'a Trace>,
    clock: Time,
    /// Operations that were started.
    begun: usize,
    /// The next access of the operation.
    next: usize,
}

impl<'a> Replay<'a> {
    fn new(machine: &'a Machine, operations: &'a [Trace], line: LineSize, rule: Rule) -> Self {
        let mut cpus: HashMap<usize, Vec<&Trace>> = HashMap::new();
        for operation in operations {
            cpus.entry(operation.cpu()).or_default().push(operation);
        }
        let mut cpus: Vec<_> = cpus.into_values().collect();
        cpus.sort_by_key(|operations| operations.first().map(|operation| operation.cpu()));
        let cpu = |operations| Cpu {
            operations,
            clock: 0,
            begun: 0,
            next: 0,
        };
        Self {
            machine,
            rule,
            directory: Directory::new(line),
            busy: HashMap::new(),
            cpus: cpus.into_iter().map(cpu).collect(),
        }
    }

    /// Returns operations a second.
    fn run(mut self, passes: u32) -> Option<f64> {
        self.replay(1);
        self.busy.clear();
        for cpu in &mut self.cpus {
            cpu.clock = 0;
        }
        self.replay(passes);
        let end = self.cpus.iter().map(|cpu| cpu.clock).max()?;
        let done: usize = self.cpus.iter().map(|cpu| cpu.operations.len()).sum();
        let done = done as f64 * f64::from(passes);
        (end > 0).then(|| done / (end as f64 * 1e-12))
    }

    /// Always continues with the CPU whose clock is least, the lowest of them.
    fn replay(&mut self, passes: u32) {
        let mut clocks: BinaryHeap<_> = (0..self.cpus.len()).map(|cpu| Reverse((0, cpu))).collect();
        for cpu in &mut self.cpus {
            cpu.begun = 0;
        }
        while let Some(Reverse((_, index))) = clocks.pop() {
            let cpu = &self.cpus[index];
            if cpu.next == 0 && cpu.begun == cpu.operations.len() * passes as usize {
                continue;
            }
            match self.rule {
                Rule::Keep => self.whole_operation(index),
                Rule::GiveUp => {
                    self.one_access(index);
                }
            }
            clocks.push(Reverse((self.cpus[index].clock, index)));
        }
    }

    /// Replays one operation from its first access to its last.
    fn whole_operation(&mut self, index: usize) {
        let accesses = self.cpus[index].operation().accesses().len();
        let mut touched = HashMap::new();
        for _ in 0..=accesses {
            let lines = self.one_access(index);
            touched.extend(lines.map(|line| (line, self.cpus[index].clock)));
        }
        for (line, last) in touched {
            let busy = self.busy.entry(line).or_default();
            *busy = last.max(*busy);
        }
    }

    /// Replays one access, or the end after the last one. Returns the accessed lines.
    fn one_access(&mut self, index: usize) -> RangeInclusive<u64> {
        let cpu = &self.cpus[index];
        let operation = cpu.operation();
        let Some(access) = operation.accesses().get(cpu.next) else {
            self.end(index);
            return NONE;
        };
        let before = cpu.next.checked_sub(1);
        let step = before.map_or(0, |before| operation.accesses()[before].step);
        let instructions = self.instructions(access.step.saturating_sub(step));
        let mut clock = cpu.clock.saturating_add(instructions);
        let (number, lines) = (operation.cpu(), access.lines(self.directory.line().bytes()));
        for line in lines.clone() {
            let outcome = self.directory.access(number, line, access);
            clock = self.line_arrives(line, number, clock, outcome);
        }
        if access.kind == crate::Kind::Locked {
            clock = clock.saturating_add(picoseconds(self.machine.costs.locked_ns));
        }
        self.cpus[index].clock = clock;
        self.cpus[index].next += 1;
        lines
    }

    /// Ends the operation: the instructions after its last access, and its fences.
    fn end(&mut self, index: usize) {
        let cpu = &self.cpus[index];
        let operation = cpu.operation();
        let last = operation.accesses().last().map_or(0, |last| last.step);
        let fences = operation.remarks().iter();
        let fences = fences
            .filter(|(_, remark)| *remark == Remark::Fence)
            .count();
        let fence = picoseconds(self.machine.costs.locked_ns);
        let instructions = operation.instructions().saturating_sub(last);
        let time = (fences as u64)
            .saturating_mul(fence)
            .saturating_add(self.instructions(instructions));
        let cpu = &mut self.cpus[index];
        cpu.clock = cpu.clock.saturating_add(time);
        cpu.next = 0;
        cpu.begun += 1;
    }

    fn instructions(&self, count: u32) -> Time {
        picoseconds(f64::from(count) * self.machine.costs.instruction_ns)
    }

    /// Returns when a line arrives that is requested now.
    fn line_arrives(&mut self, line: u64, cpu: usize, now: Time, outcome: Outcome) -> Time {
        let Outcome::Moved(transfer, holders) = outcome else {
            let way = match outcome {
                Outcome::Cold => self.machine.costs.memory_ns,
                _ => 0.0,
            };
            return now.saturating_add(picoseconds(way));
        };
        let busy = self.busy.entry(line).or_default();
        let start = now.max(*busy);
        let ways = holders
            .iter()
            .map(|holder| self.machine.latency_ns(holder, cpu));
        let costs = &self.machine.costs;
        let (way, taken) = match transfer {
            Transfer::ReadClean => (ways.fold(f64::INFINITY, f64::min), costs.clean_copy_ns),
            Transfer::ReadDirty => {
                let way = ways.fold(0.0, f64::max);
                (way, way)
            }
            Transfer::WriteDirty | Transfer::WriteClean | Transfer::Upgrade => {
                let further = holders.iter().skip(1).count() as f64 * costs.further_sharer_ns;
                let way = ways.fold(0.0, f64::max) + further;
                (way, way)
            }
        };
        *busy = start.saturating_add(picoseconds(taken));
        start.saturating_add(picoseconds(way))
    }
}

impl<'a> Cpu<'a> {
    fn operation(&self) -> &'a Trace {
        self.operations[self.begun % self.operations.len()]
    }
}

fn picoseconds(nanoseconds: f64) -> Time {
    (nanoseconds * 1e3) as Time
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Access, Kind};

    fn operation(cpu: usize, accesses: &[(u64, Kind)]) -> Trace {
        let accesses = accesses.iter().enumerate();
        let accesses = accesses.map(|(step, &(address, kind))| Access {
            address,
            instruction: 0,
            step: step as u32,
            size: 8,
            kind,
        });
        Trace::from_accesses(cpu, accesses.collect()).unwrap()
    }

    fn modelled(cpus: usize, accesses: impl Fn(usize) -> Vec<(u64, Kind)>) -> Band {
        let operations: Vec<_> = (0..cpus)
            .map(|cpu| operation(cpu, &accesses(cpu)))
            .collect();
        Machine::CLUSTERS
            .throughput(&operations, 50, LineSize::Bytes64)
            .unwrap()
    }

    #[test]
    fn operations_that_share_nothing_scale_in_proportion() {
        let own = |cpu| vec![(cpu as u64 * 64, Kind::Locked)];
        let one = modelled(1, own);
        assert_eq!(one.low, one.high);
        for cpus in [2, 64, 256] {
            let many = modelled(cpus, own);
            let ratio = many.low / one.low / cpus as f64;
            assert!((0.999..1.001).contains(&ratio), "{cpus} CPUs: {ratio}");
            assert_eq!(many.low, many.high);
        }
    }

    #[test]
    fn readers_of_one_line_scale_too() {
        let read = |_| vec![(0, Kind::Load)];
        assert!(modelled(128, read).low > 127.0 * modelled(1, read).low);
    }

    #[test]
    fn one_line_that_all_write_limits_them_to_its_transfers() {
        let all = modelled(64, |_| vec![(0, Kind::Locked)]);
        let (fastest, slowest) = (1e9 / 25.0, 1e9 / 200.0);
        assert!(all.low > slowest && all.high < fastest, "{all:?}");
    }

    #[test]
    fn a_line_that_is_touched_often_is_where_the_rules_differ() {
        // One way and four locked instructions, or four ways.
        let often = modelled(64, |_| vec![(0, Kind::Locked); 4]);
        assert!(often.high > 1.5 * often.low, "{often:?}");
    }

    #[test]
    fn an_infinite_time_is_no_error() {
        let mut machine = Machine::FLAT;
        machine.costs.same_socket_ns = f64::INFINITY;
        machine.costs.locked_ns = f64::INFINITY;
        let adds = [0, 1].map(|cpu| operation(cpu, &[(0, Kind::Locked)]));
        let band = machine.throughput(&adds, 10, LineSize::Bytes64).unwrap();
        assert!(band.high < 1e-3, "{band:?}");
    }

    #[test]
    fn without_operations_there_is_no_figure() {
        assert_eq!(Machine::FLAT.throughput(&[], 1, LineSize::Bytes64), None);
    }
}
