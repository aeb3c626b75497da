//! Runs named steps one after the other, with the time of each, and sums them up in a table.

use std::fs;
use std::time::{Duration, Instant};

use crate::Result;

/// Choice of what follows a step that fails.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    /// The steps that follow are not run.
    Stop,
    /// The steps that follow are run all the same.
    GoOn,
}

/// Finding of a step, unless it failed.
pub(crate) enum Verdict {
    /// Everything was checked and holds.
    Passed,
    /// Nothing failed, but not everything was explored in the time that there is: the reason.
    NotFinished(String),
    /// The step cannot run on this machine: the reason.
    Skipped(String),
}

impl Verdict {
    /// Fails unless everything was checked.
    pub(crate) fn required(self) -> Result {
        match self {
            Verdict::Passed => Ok(()),
            Verdict::NotFinished(why) | Verdict::Skipped(why) => Err(why.into()),
        }
    }

    /// Prints what was not checked.
    pub(crate) fn show(self) {
        if let Err(why) = self.required() {
            println!("not finished: {why}");
        }
    }
}

/// Sums up the parts of a step, each with its name. It is skipped if all are.
pub(crate) fn judge_all<'a>(
    parts: impl IntoIterator<Item = (&'a str, Result<Verdict>)>,
) -> Result<Verdict> {
    let (mut failed, mut missing, mut passed) = (Vec::new(), Vec::new(), 0);
    for (name, verdict) in parts {
        match verdict {
            Ok(Verdict::Passed) => passed += 1,
            Ok(Verdict::NotFinished(why) | Verdict::Skipped(why)) => missing.push(why),
            Err(error) => {
                println!("FAILED: {name}: {error}");
                failed.push(format!("{name}: {error}"));
            }
        }
    }
    match sum_up(&failed, &missing)? {
        Verdict::NotFinished(why) if passed == 0 => Ok(Verdict::Skipped(why)),
        verdict => Ok(verdict),
    }
}

/// Sums up parts of a step: those that failed, and those that could not run.
pub(crate) fn sum_up(failed: &[String], missing: &[String]) -> Result<Verdict> {
    if !failed.is_empty() {
        Err(failed.join("; ").into())
    } else if !missing.is_empty() {
        Ok(Verdict::NotFinished(missing.join("; ")))
    } else {
        Ok(Verdict::Passed)
    }
}

/// A sequence of steps, and what has become of those that ran.
pub(crate) struct Steps {
    after_failure: AfterFailure,
    /// True if the CPU time of a step is measured: it is that of all children of this process.
    with_cpu: bool,
    done: Vec<Done>,
}

struct Done {
    name: String,
    result: Result<Verdict>,
    wall: Duration,
    cpu: Option<Duration>,
}

impl Steps {
    pub(crate) fn new(after_failure: AfterFailure) -> Self {
        Self {
            after_failure,
            with_cpu: true,
            done: Vec::new(),
        }
    }

    /// A sequence that runs beside another one and goes on after a failure. The CPU time of its
    /// steps is not known.
    pub(crate) fn lane() -> Self {
        Self {
            with_cpu: false,
            ..Self::new(AfterFailure::GoOn)
        }
    }

    /// Adds what has become of the steps of another lane; sorts all by the `position` of a name.
    pub(crate) fn merge(&mut self, other: Self, position: impl Fn(&str) -> Option<usize>) {
        self.done.extend(other.done);
        self.done.sort_by_key(|done| position(&done.name));
    }

    /// Runs a step that passes or fails; see [`Steps::judge`].
    pub(crate) fn step(&mut self, name: &str, run: impl FnOnce() -> Result) -> Result {
        self.judge(name, || run().map(|()| Verdict::Passed))
    }

    /// Runs a step, and prints its name before and its time after it.
    ///
    /// # Errors
    ///
    /// If the step fails and no others are to run after that; the table has the error too.
    pub(crate) fn judge(&mut self, name: &str, run: impl FnOnce() -> Result<Verdict>) -> Result {
        println!("\n== {name}");
        let start = Instant::now();
        let cpu_before = cpu_of_children();
        let result = run();
        let wall = start.elapsed();
        let cpu = self
            .with_cpu
            .then(|| cpu_of_children().saturating_sub(cpu_before));
        let done = Done {
            name: name.to_owned(),
            result,
            wall,
            cpu,
        };
        println!("-- {}", done.line());
        let failed = done.result.is_err();
        self.done.push(done);
        if failed && self.after_failure == AfterFailure::Stop {
            print!("{}", self.table());
            return Err(format!("failed: {name}").into());
        }
        Ok(())
    }

    /// A line for each step that ran.
    pub(crate) fn table(&self) -> String {
        let mut text = String::from("\n== summary\n");
        for done in &self.done {
            text += &done.line();
            text += "\n";
        }
        text
    }

    /// Fails if a step failed.
    pub(crate) fn finish(&self) -> Result {
        let failed = self.done.iter().filter(|done| done.result.is_err());
        let names: Vec<&str> = failed.map(|done| done.name.as_str()).collect();
        if names.is_empty() {
            Ok(())
        } else {
            Err(format!("failed: {}", names.join(", ")).into())
        }
    }
}

impl Done {
    fn line(&self) -> String {
        let (word, why) = match &self.result {
            Ok(Verdict::Passed) => ("passed", String::new()),
            Ok(Verdict::NotFinished(why)) => ("not finished", format!(": {why}")),
            Ok(Verdict::Skipped(why)) => ("skipped", format!(": {why}")),
            Err(error) => ("FAILED", format!(": {error}")),
        };
        let wall = self.wall.as_secs_f64();
        let cpu = self
            .cpu
            .map(|cpu| format!(" {:>7.1} s of CPU", cpu.as_secs_f64()));
        let cpu = cpu.unwrap_or_default();
        format!("{:<40} {wall:>7.1} s{cpu}  {word}{why}", self.name)
    }
}

/// The CPU time of all children that have ended, user and system; zero where the machine has no
/// `/proc`.
fn cpu_of_children() -> Duration {
    let ticks = || {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The second field is the program's name, in parentheses, which can contain spaces.
        let (_, rest) = stat.rsplit_once(')')?;
        let field = |index: usize| rest.split_whitespace().nth(index)?.parse::<u64>().ok();
        // cutime and cstime: fields 16 and 17 of proc_pid_stat(5); `rest` begins with field 3.
        Some(field(13)? + field(14)?)
    };
    // The kernel shows a hundredth of a second to programs, whatever its own tick is.
    Duration::from_millis(ticks().unwrap_or(0) * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_go_on_after_a_failure_if_they_should() {
        let mut steps = Steps::new(AfterFailure::GoOn);
        steps.step("first", || Err("broken".into())).unwrap();
        steps.step("second", || Ok(())).unwrap();
        assert_eq!(steps.finish().unwrap_err().to_string(), "failed: first");
        assert!(steps.table().contains("FAILED: broken"));
    }

    #[test]
    fn steps_stop_at_a_failure_if_they_should() {
        let mut steps = Steps::new(AfterFailure::Stop);
        assert!(steps.step("first", || Err("broken".into())).is_err());
    }

    #[test]
    fn lanes_are_one_table_in_the_order_asked_for_and_know_no_cpu_time() {
        let (mut steps, mut beside) = (Steps::lane(), Steps::lane());
        steps.step("b", || Ok(())).unwrap();
        steps.step("c", || Ok(())).unwrap();
        beside.step("a", || Err("broken".into())).unwrap();
        steps.merge(beside, |name| {
            ["a", "b", "c"].iter().position(|&other| other == name)
        });
        let table = steps.table();
        let names: Vec<&str> = table
            .lines()
            .skip(2)
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(!table.contains("CPU"));
        assert_eq!(steps.finish().unwrap_err().to_string(), "failed: a");
    }

    #[test]
    fn what_is_not_finished_is_not_a_failure_and_is_said() {
        let mut steps = Steps::new(AfterFailure::Stop);
        steps
            .judge("models", || Ok(Verdict::NotFinished("1 of 2".to_owned())))
            .unwrap();
        steps.finish().unwrap();
        assert!(steps.table().contains("not finished: 1 of 2"));
    }
}
