//! The `Experiment` trait, and how an experiment is run.

use crate::machine::Machine;
use crate::report::Report;
use crate::stats::{Samples, order};

/// Measurement of something that `fdtable` does, beside rivals that do the same.
pub trait Experiment {
    /// Returns the name on the command line and in the report.
    fn name(&self) -> &'static str;

    /// Runs everything and reports it. Blocks until done, with both CPUs busy.
    ///
    /// # Errors
    /// If the system refuses threads, or a table returns a wrong result.
    fn measure(&self, machine: Machine, progress: &dyn Progress) -> anyhow::Result<Report>;
}

/// How long a run may take.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effort {
    /// True for seconds: a first look. Otherwise it takes minutes, for figures to cite.
    pub quick: bool,
    /// Number of turns of each subject, if it is not that of the length.
    pub rounds: Option<usize>,
}

impl Effort {
    /// Returns the value for the length of this run.
    pub(crate) fn pick<T>(self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Returns the number of turns of each subject.
    pub(crate) fn rounds(self, quick: usize, full: usize) -> usize {
        self.rounds.unwrap_or(self.pick(quick, full))
    }
}

/// Listener to the progress of a run.
pub trait Progress: Sync {
    /// Begins a part of `steps` steps.
    fn begin(&self, part: &str, steps: u64);

    /// Ends one step of the part.
    fn step(&self);
}

/// Listener that ignores all progress.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _part: &str, _steps: u64) {}
    fn step(&self) {}
}

/// Runs one experiment, and observes the machine before and after it.
///
/// # Errors
/// Errors of [`Experiment::measure`].
pub fn run(experiment: &dyn Experiment, progress: &dyn Progress) -> anyhow::Result<Report> {
    let mut report = experiment.measure(Machine::observe(), progress)?;
    report.machine.observe_again();
    Ok(report)
}

/// Takes a sample of each subject in each round, in an order that differs from round to round.
pub(crate) fn alternate(
    subjects: usize,
    rounds: usize,
    progress: &dyn Progress,
    mut sample: impl FnMut(usize, usize) -> anyhow::Result<f64>,
) -> anyhow::Result<Vec<Samples>> {
    let mut samples = vec![Vec::with_capacity(rounds); subjects];
    for round in 0..rounds {
        for place in order(subjects, round) {
            samples[place].push(sample(place, round)?);
        }
        progress.step();
    }
    Ok(samples.into_iter().map(Samples::from).collect())
}
