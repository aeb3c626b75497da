//! The meter: traces an operation, and reduces the traces to counts.

#![expect(unsafe_code, reason = "the tracer requires a promise")]

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::ops::Range;

use conflict_tracer::{Access, CpuId, Kind, Recorder, Remark, Trace, numbers};
use fdtable_sync::percpu::{current_node, expect_cpus};

use crate::Result;

const LINE: u64 = 64;
const PAGE: u64 = 4096;
/// Half of the stack around the operation. It is in the caches of any program, and which lines of
/// it an operation uses depends on the depth of the caller.
const STACK: u64 = 128 << 10;

/// The cost of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost([u32; Cost::NAMES.len()]);

impl Cost {
    /// The counts, in their order. `lines` are accessed, `written` those of them that are written;
    /// `chain` is the longest chain of loads each of which needs what the one before has loaded.
    pub(crate) const NAMES: [&str; 7] = [
        "instructions",
        "locked",
        "fences",
        "lines",
        "written",
        "pages",
        "chain",
    ];

    fn of(trace: &Trace, constants: &[Range<u64>]) -> Self {
        let data: Vec<&Access> = data(trace, constants).collect();
        let distinct = |unit: u64, counts: fn(Kind) -> bool| {
            let units = data
                .iter()
                .filter(|access| counts(access.kind))
                .flat_map(|access| {
                    let last = access.address + u64::from(access.size) - 1;
                    access.address / unit..=last / unit
                });
            units.collect::<HashSet<_>>().len() as u32
        };
        let locked = |access: &&Access| access.kind == Kind::Locked;
        let fence = |(_, remark): &&(u64, Remark)| *remark == Remark::Fence;
        Cost([
            trace.instructions(),
            trace.accesses().iter().filter(locked).count() as u32,
            trace.remarks().iter().filter(fence).count() as u32,
            distinct(LINE, |_| true),
            distinct(LINE, Kind::writes),
            distinct(PAGE, |_| true),
            trace.dependent_loads(),
        ])
    }

    /// Returns the median of each count.
    fn median(costs: &[Cost]) -> Option<Cost> {
        let mut median = Cost::default();
        for (nth, count) in median.0.iter_mut().enumerate() {
            let mut counts: Vec<u32> = costs.iter().map(|cost| cost.0[nth]).collect();
            counts.sort_unstable();
            *count = *counts.get(counts.len() / 2)?;
        }
        Some(median)
    }
}

/// Returns the accesses that are neither on the stack nor to constants, whose lines depend on the
/// rest of the program.
fn data<'a>(trace: &'a Trace, constants: &'a [Range<u64>]) -> impl Iterator<Item = &'a Access> {
    // A place on the stack, as in the operation.
    let here = &raw const trace as u64;
    trace.accesses().iter().filter(move |access| {
        let is_constant = || constants.iter().any(|it| it.contains(&access.address));
        access.address.abs_diff(here) > STACK && !is_constant()
    })
}

/// Returns the memory that the process cannot write: constants, and the addresses of symbols.
fn constants() -> Result<Vec<Range<u64>>> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let range = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        (!rest.starts_with("rw")).then_some(number(start)?..number(end)?)
    };
    Ok(maps.lines().filter_map(range).collect())
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&counts.join(" "))
    }
}

/// Performs operations, and traces them or not.
pub(crate) struct Meter(Option<Tracer>);

struct Tracer {
    recorder: Recorder,
    cpu: CpuId,
    constants: Vec<Range<u64>>,
    costs: Vec<Cost>,
    last: Option<Trace>,
    /// The first failure.
    failure: Option<String>,
    /// The instructions of an operation that does nothing.
    around: u32,
}

impl Meter {
    /// Makes a meter that traces nothing.
    pub(crate) fn none() -> Self {
        Meter(None)
    }

    /// Makes a meter that traces.
    pub(crate) fn tracing() -> Result<Self> {
        if !expect_cpus(numbers(1)?) {
            return Err("there are copies for fewer CPUs".into());
        }
        let mut recorder = Recorder::new()?;
        // SAFETY: this is the only thread that uses tables. A grace period restarts no sequence,
        // nothing shrinks a slab, and the only handler of a signal is the tracer's.
        let cpu = unsafe { CpuId::claim() }?;
        // Reads the memory node, which outside of a trace is that of the real CPU.
        recorder.record(&cpu, current_node)?;
        let ((), nothing) = recorder.record(&cpu, || ())?;
        Ok(Meter(Some(Tracer {
            recorder,
            cpu,
            constants: constants()?,
            costs: Vec::new(),
            last: None,
            failure: None,
            around: nothing.instructions(),
        })))
    }

    /// Performs an operation.
    #[inline]
    pub(crate) fn measure<R>(&mut self, operation: impl FnOnce() -> R) -> R {
        match &mut self.0 {
            None => operation(),
            Some(tracer) => tracer.record(operation),
        }
    }

    /// Returns the median of the operations since the last call.
    pub(crate) fn take_median(&mut self) -> Result<Cost> {
        let tracer = self.0.as_mut().ok_or("nothing was traced")?;
        if let Some(failure) = tracer.failure.take() {
            return Err(failure.into());
        }
        let costs = std::mem::take(&mut tracer.costs);
        Ok(Cost::median(&costs).ok_or("nothing was traced")?)
    }

    /// Prints the accesses of the last operation.
    pub(crate) fn show_last(&self) -> Result {
        let tracer = self.0.as_ref().ok_or("nothing was traced")?;
        let last = tracer.last.as_ref().ok_or("nothing was traced")?;
        for access in data(last, &tracer.constants) {
            let (step, line) = (access.step, access.address / LINE);
            let offset = access.address % LINE;
            let place = last.location(access);
            println!("{step:5} {line:#x}+{offset:<2} {:?} {place}", access.kind);
        }
        Ok(())
    }
}

impl Tracer {
    fn record<R>(&mut self, operation: impl FnOnce() -> R) -> R {
        let (result, trace) = self
            .recorder
            .record(&self.cpu, operation)
            .expect("a trace is not within another");
        // The kernel's accesses are not in a trace, and the median has no system call.
        let is_cut = |(_, remark): &(u64, Remark)| {
            remark.blinds() && !matches!(remark, Remark::SystemCall(_))
        };
        if let Some((_, remark)) = trace.remarks().iter().find(|it| is_cut(it)) {
            self.failure
                .get_or_insert(format!("a trace has {remark:?}"));
        }
        let mut cost = Cost::of(&trace, &self.constants);
        cost.0[0] -= self.around;
        self.costs.push(cost);
        self.last = Some(trace);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_add_is_one_locked_instruction_on_one_line() -> Result {
        let mut meter = Meter::tracing()?;
        let count = Box::new(std::sync::atomic::AtomicU64::new(0));
        meter.measure(|| count.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        let [_, locked, fences, _, written, ..] = meter.take_median()?.0;
        assert_eq!([locked, fences, written], [1, 0, 1]);
        Ok(())
    }

    #[test]
    fn a_list_of_five_is_a_chain_of_five_loads() -> Result {
        struct Node(Option<Box<Node>>);
        let list = |length| (0..length).fold(None, |next, _| Some(Box::new(Node(next))));
        let mut meter = Meter::tracing()?;
        let mut chain = |list: Option<Box<Node>>| -> Result<u32> {
            meter.measure(|| {
                let mut at = &list;
                while let Some(node) = std::hint::black_box(at) {
                    at = &node.0;
                }
            });
            Ok(meter.take_median()?.0[6])
        };
        assert_eq!(chain(list(9))? - chain(list(4))?, 5);
        Ok(())
    }
}
