//! `programs`: programs that others wrote, on fdtable.
//!
//! Each is a script in `scripts/programs`, which fetches, builds and runs it, or runs what is
//! installed; arguments after its name go to the script.

use crate::Result;
use crate::process::{End, Process};
use crate::steps::{AfterFailure, Steps, Verdict};

/// All programs.
pub(crate) const PROGRAMS: &[&str] = &["sqlite", "python", "binaries", "trees"];

/// The status of a script whose program the mirror does not have (`scripts/programs/sources.sh`).
const NO_SOURCE: i32 = 77;

/// A line with this says which one it is.
const REASON: &str = "the mirror has no source";

pub(crate) fn run(arguments: &[String]) -> Result {
    let Some((name, rest)) = arguments.split_first() else {
        let mut steps = Steps::new(AfterFailure::GoOn);
        for name in PROGRAMS {
            steps.judge(name, || judge(script(name)))?;
        }
        print!("{}", steps.table());
        return steps.finish();
    };
    if !PROGRAMS.contains(&name.as_str()) {
        return Err(format!("it knows {}, but not {name}", PROGRAMS.join(", ")).into());
    }
    script(name).args(rest).run()
}

/// Runs a script to its end. A program whose source the mirror lists but does not have is not
/// finished: that is no failure of fdtable.
///
/// # Errors
///
/// If the script fails for any other reason.
pub(crate) fn judge(script: Process) -> Result<Verdict> {
    let line = script.line();
    let finished = script.finish()?;
    match finished.end {
        End::Success => Ok(Verdict::Passed),
        End::Failure(status) if status.code() == Some(NO_SOURCE) => {
            let why = finished.output.lines().rfind(|line| line.contains(REASON));
            Ok(Verdict::NotFinished(why.unwrap_or(REASON).to_owned()))
        }
        End::Failure(status) => Err(format!("{line}: {status}").into()),
        End::TimedOut => Err(format!("{line}: not finished in time").into()),
    }
}

/// The program of that name, with the arguments that its script has by itself.
pub(crate) fn script(name: &str) -> Process {
    Process::new(crate::root().join("scripts/programs").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(script: &str) -> Result<Verdict> {
        judge(Process::new("sh").args(["-c", script]).quiet())
    }

    #[test]
    fn a_source_that_the_mirror_lacks_is_no_failure_and_all_else_is() {
        assert!(matches!(judged("exit 0"), Ok(Verdict::Passed)));
        let missing = judged("echo the mirror has no source of it >&2; echo hint; exit 77");
        let Ok(Verdict::NotFinished(why)) = missing else {
            panic!("it is a failure, or none of a mirror");
        };
        assert_eq!(why, "the mirror has no source of it");
        assert!(judged("echo the mirror has no source of it; exit 1").is_err());
    }
}
