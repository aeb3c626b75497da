//! `check`: the program under observation, and the process beside it that prints findings.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use fdtable_run::{Choice, Descriptors, Findings, Options, Owners, start_beside};

use crate::arguments::{Check, Leaks};

mod message;
mod report;
mod reporter;
mod suppressions;
mod symbols;

use reporter::Reporter;
use suppressions::Suppressions;

/// Settings of the process beside the program.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) json: bool,
    pub(crate) output: Option<PathBuf>,
    pub(crate) suppressions: Vec<PathBuf>,
    pub(crate) leaks: Option<Leaks>,
    /// The exit code of the first process if there are findings.
    pub(crate) exit_code: Option<u8>,
    /// True to print a summary also where there are no findings.
    pub(crate) always_ends: bool,
}

impl Settings {
    /// Starts the process, and returns what the runner sends its findings to.
    pub(crate) fn start(self) -> anyhow::Result<Findings> {
        let mut suppressions = Suppressions::common();
        for path in &self.suppressions {
            suppressions
                .read(path)
                .with_context(|| path.display().to_string())?;
        }
        let create = |path: &PathBuf| {
            let file = File::create(path);
            file.with_context(|| path.display().to_string())
        };
        let output = self.output.as_ref().map(create).transpose()?;
        // The process closes all descriptors of this one, and opens the file again.
        drop(output);
        let leaks = self.leaks.is_some_and(|leaks| leaks != Leaks::No);
        let receiver = start_beside(move |socket| {
            Reporter::new(self, suppressions).serve(File::from(socket));
        });
        let receiver = receiver.context("cannot start the process that reports")?;
        Ok(Findings {
            receiver: Arc::new(receiver),
            leaks,
        })
    }
}

/// Becomes the program. If that fails, ends with the exit code of a shell.
pub(crate) fn run(chosen: Check) -> ! {
    crate::run::prepare();
    let settings = Settings {
        json: chosen.json,
        output: chosen.output,
        suppressions: chosen.suppressions,
        leaks: Some(chosen.leaks),
        exit_code: chosen.error_exitcode,
        always_ends: true,
    };
    let options = Options {
        descriptors: Descriptors {
            quarantine: chosen.quarantine,
            choice: Choice::Lowest,
            limit: None,
        },
        owners: Owners::Recorded,
        findings: Some(started(settings)),
        ..Options::default()
    };
    crate::run::run_guest(chosen.guest, options)
}

/// Starts the process that prints findings, or ends this one.
pub(crate) fn started(settings: Settings) -> Findings {
    settings.start().unwrap_or_else(|error| {
        eprintln!("fdtable: {error:#}");
        std::process::exit(125)
    })
}
