//! The sum of the results of several test binaries.

use std::fmt;
use std::ops::AddAssign;

/// Counts of tests. Its display is the line that a run of all tests ends with.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Tally {
    /// Adds the results in what `cargo test` has printed: a line for each binary.
    pub(crate) fn add(&mut self, output: &str) {
        for line in output
            .lines()
            .filter(|line| line.starts_with("test result:"))
        {
            let words: Vec<&str> = line.split_whitespace().collect();
            // The number comes before its name.
            let of = |name: &str| {
                let named = words
                    .windows(2)
                    .find(|pair| pair[1].trim_end_matches(';') == name);
                named
                    .and_then(|pair| pair[0].parse::<u64>().ok())
                    .unwrap_or(0)
            };
            self.passed += of("passed");
            self.failed += of("failed");
            self.skipped += of("ignored");
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_all_binaries_are_added() {
        let mut tally = Tally::default();
        tally.add(
            "running 2 tests\ntest result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; \
             5 filtered out; finished in 0.00s\n\n\
             test result: FAILED. 3 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; \
             finished in 0.10s\n",
        );
        assert_eq!(tally.to_string(), "5 passed, 4 failed, 1 skipped");
    }
}
