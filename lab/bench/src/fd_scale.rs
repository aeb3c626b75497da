//! `fd-scale` (S2): the cost of an `open` while N other descriptors are open.
//!
//! The experiment of Ingo Molnar's `fd-scale-bench.c` (2007). With N descriptors open, the one in
//! the middle of the range is closed, and one `open`, which must return that descriptor, is timed;
//! then the same with the last one of the range. *Hot*: again and again. *Cold*: the whole cache is
//! overwritten before each `open`. N grows by a quarter from step to step.
//!
//! # How so short a time is measured
//!
//! The clock is the standard library's, which does not read the counter before the `open` is done;
//! but it costs about 20 ns and its resolution may be no better than 10 ns. So a *hot* sample is
//! the mean of a batch of single opens, each timed alone (the error of the resolution averages
//! out), and an empty batch is measured with every other: the clock's own cost. Rows hold the
//! clock's reading, and beside it the cost without the clock. Growth is computed *without* the
//! clock, since a constant on both sides would make it look smaller. A *pair* is a close
//! and an open in the middle, in batches without a clock inside.
//!
//! In the last step each table with N = 1 runs again, in the same rounds as the largest, so that
//! growth compares samples that were taken side by side. Only the host's table has no twin.

use anyhow::Context;
use serde::Serialize;
use serde_json::json;

use crate::affinity;
use crate::cache::Cache;
use crate::experiment::{Effort, Experiment, Progress};
use crate::machine::Machine;
use crate::report::Report;
use crate::stats::{Summary, order};

mod growth;
mod plots;
mod range;
mod ranges;
mod summary;

use range::{Measured, Place};

/// Experiment that measures `open` as the table grows.
#[derive(Clone, Debug, Serialize)]
pub struct FdScale {
    /// Most descriptors that are open, at least 1.
    pub most: u32,
    /// Percentage by which their number grows from step to step, at least 1.
    pub growth_percent: u32,
    /// Hot samples at each step, at least 1.
    pub hot_rounds: usize,
    /// Opens of each hot sample, at least 1.
    pub batch: u32,
    /// Cold samples at each step, at least 1.
    pub cold_rounds: usize,
    /// Factor by which the last step takes more samples, at least 1: growth is computed there.
    pub last_step_times: usize,
}

/// How many pairs are timed together, for each open of a batch.
const PAIRS: u32 = 16;

/// State of the cache before an `open`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Hot,
    Cold,
    /// Hot, and a close is timed too.
    Pair,
}

/// The times of one subject at one place of one step.
#[derive(Clone, Debug, Serialize)]
struct Row {
    subject: &'static str,
    /// Open descriptors.
    open: u32,
    /// Open descriptors of the largest table that was measured in the same rounds.
    step: u32,
    state: State,
    place: Place,
    /// Nanoseconds as read from the clock.
    ns: Summary,
    /// Nanoseconds of the clock alone, the median of the same rounds.
    clock_ns: f64,
    /// Nanoseconds of one `open` without the clock: the difference.
    open_ns: f64,
}

/// One table with its descriptors, and its samples of a step.
struct Entry<'a> {
    range: &'a mut dyn Measured,
    open: u32,
    /// Samples of the middle and the end.
    hot: [Vec<f64>; 2],
    /// Samples of the middle and the end.
    cold: [Vec<f64>; 2],
    pairs: Vec<f64>,
}

impl FdScale {
    /// Returns the configuration for one of the two lengths of a run.
    pub fn new(effort: Effort) -> Self {
        // Eviction of the cache takes nearly all of the time, up to 30 ms for one open where the
        // cache is large. Growth is computed at the last step, which has more rounds.
        FdScale {
            most: 1_000_000,
            growth_percent: effort.pick(900, 25),
            hot_rounds: effort.rounds(9, 15),
            batch: 256,
            cold_rounds: effort.rounds(5, 9),
            last_step_times: 5,
        }
    }

    /// Lists how many descriptors are open at each step: from 1 to the most, and as many as the
    /// host allows, so that the host too is measured at its largest.
    fn steps(&self, host_most: u32) -> Vec<u32> {
        let next = |&open: &u32| {
            let grown = u64::from(open) * u64::from(100 + self.growth_percent) / 100;
            let grown = u32::try_from(grown).unwrap_or(u32::MAX).max(open + 1);
            (open < self.most).then_some(grown.min(self.most))
        };
        let mut steps: Vec<u32> = std::iter::successors(Some(1), next).collect();
        steps.push(host_most.min(self.most));
        steps.sort_unstable();
        steps.dedup();
        steps
    }

    /// Takes the samples of one step.
    fn measure_step(
        &self,
        entries: &mut [Entry<'_>],
        times: usize,
        cache: &mut Cache,
        progress: &dyn Progress,
    ) -> anyhow::Result<()> {
        for round in 0..self.hot_rounds * times {
            for place in order(entries.len(), round) {
                entries[place].take_hot(self.batch)?;
            }
        }
        for round in 0..self.cold_rounds * times {
            for place in order(entries.len(), round) {
                entries[place].take_cold(cache)?;
            }
            progress.step();
        }
        Ok(())
    }

    /// Measures every step, and adds the twins with one descriptor to the last.
    fn measure_steps(
        &self,
        ranges: &mut [Box<dyn Measured>],
        twins: &mut [Box<dyn Measured>],
        progress: &dyn Progress,
    ) -> anyhow::Result<Vec<Row>> {
        let host_most = ranges.iter().map(|range| range.most()).min();
        let steps = self.steps(host_most.unwrap_or(self.most));
        let rounds = (steps.len() + self.last_step_times - 1) * self.cold_rounds;
        progress.begin("fd-scale", rounds as u64);
        let mut cache = Cache::new();
        let mut rows = Vec::new();
        for open in steps {
            grow(ranges, open)?;
            let able = ranges.iter_mut().filter(|range| range.most() >= open);
            let mut entries: Vec<_> = able.map(|range| Entry::new(range, open)).collect();
            let last = open == self.most;
            if last {
                entries.extend(twins.iter_mut().map(|range| Entry::new(range, 1)));
            }
            let times = if last { self.last_step_times } else { 1 };
            self.measure_step(&mut entries, times, &mut cache, progress)?;
            rows.extend(summary::rows(open, &entries));
        }
        Ok(rows)
    }
}

impl Experiment for FdScale {
    fn name(&self) -> &'static str {
        "fd-scale"
    }

    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report> {
        let mut ranges = ranges::all(self.most).context("making the tables")?;
        let host = ranges::host().context("raising the limit of the host's descriptors")?;
        let host_most = host.most().min(self.most);
        ranges.push(host);
        let mut twins = ranges::all(1).context("making the tables")?;
        grow(&mut twins, 1)?;
        let rows = affinity::on_one_cpu(|| self.measure_steps(&mut ranges, &mut twins, progress))?;
        let config = json!({
            "most": self.most, "growth_percent": self.growth_percent,
            "hot_rounds": self.hot_rounds, "batch": self.batch,
            "cold_rounds": self.cold_rounds, "last_step_times": self.last_step_times,
            "trash_bytes": Cache::bytes_to_overwrite(), "host_most": host_most,
        });
        let title = "the cost of one open while N descriptors are open";
        let mut report = Report::new(self, title, config, &rows, machine)?;
        growth::figures(&rows, &mut report);
        for plot in plots::plots(&rows) {
            report.curves(plot);
        }
        report.tables.push(summary::growths(&rows, self.most));
        report.remarks = summary::remarks(self.most, host_most);
        Ok(report)
    }
}

impl<'a> Entry<'a> {
    fn new(range: &'a mut Box<dyn Measured>, open: u32) -> Self {
        Entry {
            range: &mut **range,
            open,
            hot: Default::default(),
            cold: Default::default(),
            pairs: Vec::new(),
        }
    }

    fn take_hot(&mut self, batch: u32) -> anyhow::Result<()> {
        for (samples, ns) in self.hot.iter_mut().zip(self.range.hot(batch)?) {
            samples.push(ns);
        }
        self.pairs.push(self.range.pairs(PAIRS * batch)?);
        Ok(())
    }

    fn take_cold(&mut self, cache: &mut Cache) -> anyhow::Result<()> {
        for (samples, place) in self.cold.iter_mut().zip([Place::Middle, Place::End]) {
            samples.push(self.range.cold(place, cache)?);
        }
        Ok(())
    }
}

/// Opens descriptors in each range until `open` are open, or the range is full.
fn grow(ranges: &mut [Box<dyn Measured>], open: u32) -> anyhow::Result<()> {
    for range in ranges {
        let most = range.most();
        range
            .grow(open.min(most))
            .with_context(|| format!("{}: {open} open", range.name()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny(most: u32, growth_percent: u32) -> FdScale {
        FdScale {
            most,
            growth_percent,
            hot_rounds: 1,
            batch: 2,
            cold_rounds: 1,
            last_step_times: 1,
        }
    }

    #[test]
    fn steps_grow_by_a_quarter_from_one_to_the_most() {
        assert_eq!(tiny(10, 25).steps(9), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(tiny(1, 25).steps(20_000), [1]);
        let steps = FdScale::new(Effort::default()).steps(1_000_000);
        assert_eq!(steps.last(), Some(&1_000_000));
        assert!(
            steps
                .windows(2)
                .all(|pair| pair[1] <= (pair[0] * 5 / 4).max(pair[0] + 1))
        );
    }
}
