//! A progress bar on the terminal.

use fdtable_bench::experiment::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// Template of the bar: index of the experiment, its current part, and progress.
const SHAPE: &str = "{prefix} {msg:22} {wide_bar} {pos}/{len} {elapsed}";

/// Bar on the standard error, hidden where that is not a terminal.
pub(crate) struct Bar {
    bar: ProgressBar,
    /// Number of experiments.
    all: usize,
}

impl Bar {
    /// Creates a bar for this many experiments.
    pub(crate) fn new(all: usize) -> Self {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template(SHAPE) {
            bar.set_style(style);
        }
        Bar { bar, all }
    }

    /// Begins an experiment, the first of which is 1.
    pub(crate) fn start(&self, nth: usize) {
        self.bar.set_prefix(format!("{nth}/{}:", self.all));
    }

    /// Prints above the bar.
    pub(crate) fn above(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }
}

/// No background thread shows progress, since it would take time from the measurement.
impl Progress for Bar {
    fn begin(&self, part: &str, steps: u64) {
        self.bar.reset();
        self.bar.set_length(steps);
        self.bar.set_message(part.to_owned());
        self.bar.tick();
    }

    fn step(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
