//! `programs`: programs that others wrote, on fdtable.
//!
//! Each is a script in `scripts/programs`, which fetches, builds and runs it; arguments after its
//! name go to the script.

use crate::Result;
use crate::process::Process;
use crate::steps::{AfterFailure, Steps};

const PROGRAMS: &[&str] = &["hackbench", "dbench", "fsx", "sqlite"];

pub(crate) fn run(arguments: &[String]) -> Result {
    let Some((name, rest)) = arguments.split_first() else {
        let mut steps = Steps::new(AfterFailure::GoOn);
        for name in PROGRAMS {
            steps.step(name, || script(name).run())?;
        }
        print!("{}", steps.table());
        return steps.finish();
    };
    if !PROGRAMS.contains(&name.as_str()) {
        return Err(format!("it knows {}, but not {name}", PROGRAMS.join(", ")).into());
    }
    script(name).args(rest).run()
}

/// All programs, each with the arguments that its script has by itself.
pub(crate) fn all() -> Vec<Process> {
    PROGRAMS.iter().map(|name| script(name)).collect()
}

fn script(name: &str) -> Process {
    Process::new(crate::root().join("scripts/programs").join(name))
}
