//! Parts of experiments that need a process of their own: the program runs itself.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, anyhow};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{from_str, to_string};

use crate::chat::profile;
use crate::child::Program;
#[cfg(feature = "conflicts")]
use crate::conflicts::transfers;
#[cfg(feature = "experiments")]
use crate::lmbench::{configuration::Configuration, subject};
use crate::slab;

/// Internal command that runs a part, which is its argument. Only the program itself uses it.
pub const COMMAND: &str = "part";

/// Time limit for an answer: a hundred times the usual duration.
const LIMIT: Duration = Duration::from_secs(600);

/// The work of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// Fills an allocator, and prints the [`Footprint`](slab::Footprint) if the system reports it.
    Footprint {
        /// Name of the allocator in reports.
        subject: String,
        /// Size of an object.
        bytes: usize,
        /// Live objects.
        live: usize,
    },
    /// Walks over the objects of many slabs, and prints nothing.
    Walk {
        /// True if slabs have colours.
        has_colours: bool,
        /// Number of laps.
        rounds: usize,
    },
    /// Prints a profile of a chat.
    Chat(profile::Request),
    /// Traces tables on 256 simulated CPUs, and prints the transfers between their caches.
    #[cfg(feature = "conflicts")]
    Transfers,
    /// Serves one configuration of `lmbench`, turn by turn.
    #[cfg(feature = "experiments")]
    Lmbench(Configuration),
}

/// Runs a part in this process, and returns the text to print.
///
/// # Errors
/// If there is no such part, or it fails.
pub fn run(part: &str) -> anyhow::Result<String> {
    let answer = match from_str(part).context("there is no such part")? {
        Part::Footprint {
            subject,
            bytes,
            live,
        } => to_string(&slab::footprint(&subject, bytes, live)?),
        Part::Walk {
            has_colours,
            rounds,
        } => return slab::walk(has_colours, rounds).map(|()| String::new()),
        Part::Chat(request) => to_string(&profile::run(&request)?),
        #[cfg(feature = "conflicts")]
        Part::Transfers => to_string(&transfers::run()?),
        #[cfg(feature = "experiments")]
        Part::Lmbench(configuration) => {
            return subject::serve(configuration).map(|()| String::new());
        }
    };
    Ok(answer?)
}

impl Part {
    /// Returns the arguments of the program.
    pub(crate) fn arguments(&self) -> serde_json::Result<[String; 2]> {
        Ok([COMMAND.to_owned(), to_string(self)?])
    }

    /// Starts a process of `program`, with `name` for error messages.
    pub(crate) fn start(&self, name: &'static str, program: &Path) -> anyhow::Result<Program> {
        Program::start(name, Command::new(program).args(self.arguments()?))
    }

    /// Runs in a process of `program`, and returns what that prints. Blocks for seconds.
    ///
    /// # Errors
    /// If the process fails, or does not end.
    pub(crate) fn ask<A: DeserializeOwned>(
        &self,
        name: &'static str,
        program: &Path,
    ) -> anyhow::Result<A> {
        let printed = printed_by(&mut self.start(name, program)?)?;
        from_str(&printed).with_context(|| format!("{name}: what its process printed"))
    }
}

/// Waits for the answer of a process. Its error has no stack trace.
fn printed_by(program: &mut Program) -> anyhow::Result<String> {
    program.ask("", LIMIT).map_err(|error| {
        let said = error.to_string();
        let reason = said.split("Stack backtrace:").next().unwrap_or(&said);
        anyhow!("{}", reason.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_process_that_fails_is_its_reason_without_a_stack_trace() {
        let script = "echo 'Error: no timer' >&2; echo 'Stack backtrace: main' >&2; exit 1";
        let mut program =
            Program::start("the fake", Command::new("sh").args(["-c", script])).unwrap();
        let error = printed_by(&mut program).unwrap_err();
        assert!(error.to_string().ends_with("Error: no timer"), "{error}");
    }
}
