//! How far a run is, on the terminal.

use fdtable_bench::experiment::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// Shape of the bar: what runs, how far it is, and for how long.
const SHAPE: &str = "{msg:22} {wide_bar} {pos}/{len} {elapsed}";

/// Bar on the standard error, hidden where that is not a terminal.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template(SHAPE) {
            bar.set_style(style);
        }
        Bar(bar)
    }

    /// Prints above the bar.
    pub(crate) fn above(&self, print: impl FnOnce()) {
        self.0.suspend(print);
    }
}

impl Progress for Bar {
    fn begin(&self, part: &str, steps: u64) {
        self.0.reset();
        self.0.set_length(steps);
        self.0.set_message(part.to_owned());
        self.0.tick();
    }

    fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
