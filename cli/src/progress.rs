//! A progress bar on the terminal.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fdtable_bench::experiment::Progress;
use indicatif::{FormattedDuration, ProgressBar, ProgressStyle};

use crate::time_left::TimeLeft;

/// Template of the bar: index of the experiment, its current part, progress, and the time left for
/// all of them.
const SHAPE: &str = "{prefix} {msg:22} {wide_bar} {pos}/{len} {elapsed}";

/// Bar on the standard error, hidden where that is not a terminal.
pub(crate) struct Bar {
    bar: ProgressBar,
    run: Mutex<Run>,
}

/// Experiments of a run.
struct Run {
    time_left: TimeLeft,
    /// Experiments that have started.
    begun: usize,
    /// Number of experiments.
    all: usize,
    /// Start of the current one.
    since: Instant,
}

impl Bar {
    /// Creates a bar for experiments with these expected durations.
    pub(crate) fn new(expected: Vec<Duration>) -> Self {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template(SHAPE) {
            bar.set_style(style);
        }
        let run = Run {
            begun: 0,
            all: expected.len(),
            since: Instant::now(),
            time_left: TimeLeft::new(expected),
        };
        Bar {
            bar,
            run: Mutex::new(run),
        }
    }

    /// Begins the next experiment.
    pub(crate) fn next(&self) {
        self.with_run(|run| {
            if run.begun > 0 {
                run.time_left.end(run.since.elapsed());
            }
            run.begun += 1;
            run.since = Instant::now();
        });
    }

    /// Prints above the bar.
    pub(crate) fn above(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    fn with_run<R>(&self, look: impl FnOnce(&mut Run) -> R) -> R {
        look(&mut self.run.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Shows the position in the run. No background thread does so, since it would take time from
    /// the measurement.
    fn show(&self) {
        let place = self.with_run(|run| {
            let left = run.time_left.after(run.since.elapsed());
            format!(
                "{}/{}, {} left:",
                run.begun,
                run.all,
                FormattedDuration(left)
            )
        });
        self.bar.set_prefix(place);
    }
}

impl Progress for Bar {
    fn begin(&self, part: &str, steps: u64) {
        self.bar.reset();
        self.bar.set_length(steps);
        self.bar.set_message(part.to_owned());
        self.show();
        self.bar.tick();
    }

    fn step(&self) {
        self.show();
        self.bar.inc(1);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
